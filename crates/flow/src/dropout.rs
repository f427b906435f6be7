//! Dropout masks keyed by what they mask, so that every form of the network draws the same.

use dunnart_elementwise::Real;
use dunnart_random::{Key, Purpose};

/// The key of one epoch's dropout masks.
///
/// The mask of one row and layer follows from (seed, stage, epoch, layer, sample index) alone:
/// neither the batch a row is in nor the number of threads or workers matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropout {
    key: Key,
}

impl Dropout {
    /// Masks of an epoch of a stage.
    pub fn new(seed: u64, stage: u32, epoch: u32) -> Self {
        Self {
            key: Key::new(seed, Purpose::Dropout).stage(stage).epoch(epoch),
        }
    }

    /// Writes the mask of one row: 0 with probability `probability`, else `1 / (1 - probability)`.
    ///
    /// The stream index holds the layer in its upper 24 bits and the sample in its lower 40.
    ///
    /// # Shapes
    /// `mask`: `[H]`, the features of dropout layer `layer` for sample `sample`.
    pub fn mask<T: Real>(&self, layer: usize, sample: u64, probability: f64, mask: &mut [T]) {
        let mut stream = self
            .key
            .stream(((layer as u64) << 40) | (sample & ((1 << 40) - 1)));
        let keep = T::from_f64(1.0 / (1.0 - probability));
        let zero = T::from_f64(0.0);
        for element in mask {
            *element = if stream.uniform() < probability {
                zero
            } else {
                keep
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_probability_and_depend_on_every_part_of_the_key() {
        let draw = |dropout: Dropout, layer, sample| {
            let mut mask = vec![0.0_f64; 4000];
            dropout.mask(layer, sample, 0.25, &mut mask);
            mask
        };
        let base = Dropout::new(1, 0, 0);
        let mask = draw(base, 3, 7);
        let dropped = mask.iter().filter(|&&m| m == 0.0).count();
        assert!(
            (900..1100).contains(&dropped),
            "{dropped} of 4000 dropped, expected about 1000"
        );
        assert!(mask.iter().all(|&m| m == 0.0 || m == 1.0 / 0.75));
        assert_eq!(mask, draw(base, 3, 7));
        for other in [
            draw(base, 4, 7),
            draw(base, 3, 8),
            draw(Dropout::new(2, 0, 0), 3, 7),
            draw(Dropout::new(1, 1, 0), 3, 7),
            draw(Dropout::new(1, 0, 1), 3, 7),
        ] {
            assert_ne!(mask, other);
        }
    }
}
