//! Batches as lists of global sample indices.
//!
//! A batch belongs to the run, not to a worker: every worker makes the same lists from the key and
//! takes its slice.

use dunnart_random::{Key, permutation};

use crate::error::Error;

/// What becomes of a last training batch of a single sample, which batch norm cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailingRow {
    /// It is a batch like any other.
    Keep,
    /// It is left out of the epoch; another epoch shuffles another sample there.
    Drop,
}

/// The training batches of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochBatches {
    /// Global sample indices, batch by batch; all batches but the last have the full size.
    pub batches: Vec<Vec<u64>>,
    /// The sample that was left out, see [`TrailingRow::Drop`].
    pub dropped: Option<u64>,
}

/// Shuffles the training samples by the key and cuts them into batches.
///
/// # Domain
/// `key` has purpose [`dunnart_random::Purpose::Shuffle`] and carries stage and epoch; it alone
/// decides the order.
///
/// # Errors
/// A batch size of 0, no training samples, or a single one that is to be dropped.
pub fn epoch_batches(
    key: &Key,
    train: &[u64],
    batch_size: usize,
    trailing: TrailingRow,
) -> Result<EpochBatches, Error> {
    check(train, batch_size, "the training part")?;
    let mut order: Vec<u64> = permutation(key, train.len())
        .into_iter()
        .map(|position| train[position])
        .collect();
    let single = order.len() % batch_size == 1 && batch_size > 1;
    let dropped = if single && trailing == TrailingRow::Drop {
        order.pop()
    } else {
        None
    };
    if order.is_empty() {
        return Err(Error::Empty {
            what: "the training part without its single sample".into(),
        });
    }
    Ok(EpochBatches {
        batches: order.chunks(batch_size).map(<[u64]>::to_vec).collect(),
        dropped,
    })
}

/// The test batches: the test samples in order, the last batch included whatever its size.
///
/// # Errors
/// A batch size of 0, no test samples.
pub fn test_batches(test: &[u64], batch_size: usize) -> Result<Vec<Vec<u64>>, Error> {
    check(test, batch_size, "the test part")?;
    Ok(test.chunks(batch_size).map(<[u64]>::to_vec).collect())
}

fn check(indices: &[u64], batch_size: usize, what: &str) -> Result<(), Error> {
    if batch_size == 0 {
        return Err(Error::Setting {
            what: "batch_size",
            expected: "at least 1".into(),
            actual: "0".into(),
        });
    }
    if indices.is_empty() {
        return Err(Error::Empty { what: what.into() });
    }
    Ok(())
}

/// The part of a batch that one worker computes: contiguous, sizes differing by one at most,
/// together the batch.
///
/// # Domain
/// `worker` below `workers`; otherwise the slice is empty.
pub fn worker_slice(batch: &[u64], worker: usize, workers: usize) -> &[u64] {
    if worker >= workers {
        return &[];
    }
    let (size, larger) = (batch.len() / workers, batch.len() % workers);
    let start = worker * size + worker.min(larger);
    &batch[start..start + size + usize::from(worker < larger)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use dunnart_random::Purpose;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new(1, Purpose::Shuffle)
    }

    #[test]
    fn the_key_alone_decides() {
        let train: Vec<u64> = (100..200).collect();
        let batches = |key| epoch_batches(&key, &train, 32, TrailingRow::Keep).unwrap();
        assert_eq!(batches(key()), batches(key()));
        assert_ne!(batches(key()), batches(key().epoch(1)));
        assert_ne!(batches(key()), batches(key().stage(1)));
        let sizes: Vec<_> = batches(key()).batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [32, 32, 32, 4]);
    }

    /// The sizes of case 18: 3 rows in batches of 2, 4,097 in 4,096, 1,000 in 333.
    #[test]
    fn a_single_trailing_sample() {
        for (rows, size) in [(3, 2), (4097, 4096), (1000, 333)] {
            let train: Vec<u64> = (0..rows).collect();
            let kept = epoch_batches(&key(), &train, size, TrailingRow::Keep).unwrap();
            assert_eq!(kept.batches.last().map(Vec::len), Some(1));
            let cut = epoch_batches(&key(), &train, size, TrailingRow::Drop).unwrap();
            assert_eq!(cut.batches[..], kept.batches[..kept.batches.len() - 1]);
            assert_eq!(
                cut.dropped.as_ref(),
                kept.batches.last().and_then(|last| last.first())
            );
        }
        // Batches of one are no trailing samples; a last batch of two stays.
        let one = epoch_batches(&key(), &[4, 5], 1, TrailingRow::Drop).unwrap();
        assert_eq!((one.batches.len(), one.dropped), (2, None));
        let two = epoch_batches(&key(), &[1, 2, 3, 4, 5], 3, TrailingRow::Drop).unwrap();
        assert_eq!(two.dropped, None);
        assert!(epoch_batches(&key(), &[1], 4, TrailingRow::Drop).is_err());
    }

    #[test]
    fn refusals() {
        assert!(matches!(
            epoch_batches(&key(), &[1], 0, TrailingRow::Keep),
            Err(Error::Setting {
                what: "batch_size",
                ..
            })
        ));
        assert!(matches!(test_batches(&[], 2), Err(Error::Empty { .. })));
        assert_eq!(test_batches(&[5, 3, 4], 2).unwrap(), [vec![5, 3], vec![4]]);
        assert!(worker_slice(&[1, 2], 2, 2).is_empty());
    }

    proptest! {
        #[test]
        fn every_sample_once(rows in 1usize..300, size in 1usize..64, epoch in 0u32..5) {
            let train: Vec<u64> = (0..rows as u64).map(|row| row * 3).collect();
            let epoch = epoch_batches(&key().epoch(epoch), &train, size, TrailingRow::Drop);
            prop_assume!(epoch.is_ok());
            let epoch = epoch.unwrap();
            let mut seen: Vec<u64> = epoch.batches.concat();
            seen.extend(epoch.dropped);
            seen.sort_unstable();
            prop_assert_eq!(seen, train);
        }

        #[test]
        fn slices_make_up_the_batch(length in 0u64..100, workers in 1usize..9) {
            let batch: Vec<u64> = (0..length).collect();
            let slices: Vec<_> = (0..workers).map(|w| worker_slice(&batch, w, workers)).collect();
            prop_assert_eq!(slices.concat(), batch.clone());
            let sizes = slices.iter().map(|slice| slice.len());
            prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }
}
