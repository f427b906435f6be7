//! The steps of an epoch: batches grouped into windows whose gradients one step takes together.
//!
//! Which samples a batch holds follows from the key, see [`dunnart_data::epoch_batches`].

use dunnart_data::{TrailingRow, epoch_batches};
use dunnart_random::{Key, Purpose};

use crate::Result;

/// The micro-batches whose gradients one optimiser step takes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows of each micro-batch.
    pub rows: Vec<usize>,
}

impl Window {
    /// Rows of the window.
    pub fn total(&self) -> usize {
        self.rows.iter().sum()
    }

    /// Weight of one micro-batch: its rows over the window's rows.
    ///
    /// A micro-batch's loss is the mean over its rows, so the weighted sum over the window is the
    /// mean over all rows of the window, whatever the size of its last batch and whether or not it
    /// has all its batches. In full windows the weight is 1 / number of batches, as in dingo.
    pub fn weight(&self, batch: usize) -> f64 {
        self.rows[batch] as f64 / self.total() as f64
    }
}

/// The training part of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Global sample indices, batch by batch.
    pub batches: Vec<Vec<u64>>,
    /// One optimiser step each; together the batches in order.
    pub windows: Vec<Window>,
    /// The sample that is left out, since it would be alone in a batch that needs two rows.
    pub dropped: Option<u64>,
}

impl Epoch {
    /// Batches of `batch_size` in an order of the key (seed, stage, epoch), windows of
    /// `accumulation` batches. The last of each may be smaller.
    ///
    /// # Domain
    /// `accumulation` at least 1.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when no batch is left.
    pub fn new(
        samples: &[u64],
        (seed, stage, epoch): (u64, u32, u32),
        (batch_size, accumulation): (usize, usize),
        trailing: TrailingRow,
    ) -> Result<Self> {
        let key = Key::new(seed, Purpose::Shuffle).stage(stage).epoch(epoch);
        let lists = epoch_batches(&key, samples, batch_size, trailing)?;
        let windows = lists
            .batches
            .chunks(accumulation)
            .map(|batches| Window {
                rows: batches.iter().map(Vec::len).collect(),
            })
            .collect();
        Ok(Self {
            batches: lists.batches,
            windows,
            dropped: lists.dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 24 of the reference's faults: the last, incomplete window was thrown away.
    #[test]
    fn point_24_a_trailing_window_keeps_its_true_weight() {
        let samples: Vec<u64> = (0..100).collect();
        let epoch = Epoch::new(&samples, (7, 0, 3), (16, 4), TrailingRow::Drop).unwrap();
        let rows: Vec<&[usize]> = epoch.windows.iter().map(|w| w.rows.as_slice()).collect();
        assert_eq!(rows, [&[16; 4][..], &[16, 16, 4]]);
        assert_eq!(epoch.windows[0].weight(2), 0.25);
        let weights: Vec<f64> = (0..3).map(|b| epoch.windows[1].weight(b)).collect();
        assert_eq!(weights, [16.0 / 36.0, 16.0 / 36.0, 4.0 / 36.0]);
        let total: usize = epoch.windows.iter().map(Window::total).sum();
        assert_eq!(total, 100);
    }

    /// Case 18: the sizes from the field report.
    #[test]
    fn case_18_a_last_batch_of_one_row_is_left_out_where_two_are_needed() {
        for (n, batch) in [(3, 2), (4097, 4096), (1000, 333)] {
            let samples: Vec<u64> = (0..n).collect();
            let epoch = |trailing| Epoch::new(&samples, (1, 0, 0), (batch, 1), trailing).unwrap();
            let (dropped, kept) = (epoch(TrailingRow::Drop), epoch(TrailingRow::Keep));
            assert!(dropped.dropped.is_some());
            assert_eq!(dropped.windows.len() + 1, kept.windows.len());
            assert_eq!(kept.windows.last().unwrap().rows, [1]);
        }
    }
}
