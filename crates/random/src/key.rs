//! What a draw is for, and the 64-bit generator key made of it.

use crate::stream::Stream;

/// What a draw is for.
///
/// The numbers are part of the file format: a checkpoint is resumed from its key, so a number, once
/// given away, keeps its meaning and is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Purpose {
    /// Initial values of parameters and permutations; the stream index is the entry in the layout.
    Initialisation = 1,
    /// The order of the training samples of an epoch.
    Shuffle = 2,
    /// Dropout masks; the stream index names sample and layer.
    Dropout = 3,
    /// Detector noise added to a training sample.
    DataNoise = 4,
    /// Extrinsic parameters of a training sample.
    ExtrinsicParameters = 5,
    /// The choice of an amplitude spectral density for a training sample.
    AsdChoice = 6,
    /// The blur of group-equivariant proxies.
    GnpeKernel = 7,
    /// Base noise of posterior samples.
    Sampling = 8,
    /// The classifier two-sample test: initial weights, folds, epochs.
    Classifier = 9,
    /// Resampling for error bars.
    Bootstrap = 10,
    /// Inputs of benchmarks and of generated test data.
    Benchmark = 11,
    /// Moments of a prior that have no closed form, and of parameters derived from drawn ones.
    Standardisation = 12,
    /// The first guess of a randomised decomposition.
    ReducedBasis = 13,
}

impl Purpose {
    /// Every purpose, in the order of its number.
    pub const ALL: [Purpose; 13] = [
        Purpose::Initialisation,
        Purpose::Shuffle,
        Purpose::Dropout,
        Purpose::DataNoise,
        Purpose::ExtrinsicParameters,
        Purpose::AsdChoice,
        Purpose::GnpeKernel,
        Purpose::Sampling,
        Purpose::Classifier,
        Purpose::Bootstrap,
        Purpose::Benchmark,
        Purpose::Standardisation,
        Purpose::ReducedBasis,
    ];

    /// The fixed number of this purpose.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// Names a family of independent streams by (seed, purpose, stage, epoch).
///
/// The generator's 64-bit key is `m(m(m(seed) ^ purpose) ^ (stage << 32 | epoch))`, where `m` is
/// the SplitMix64 step (add the golden-ratio constant, then finalise). `m` is a bijection, so for
/// one seed and purpose no two (stage, epoch) share a key; across seeds and purposes two given keys
/// coincide with probability 2^-64. The test `golden_keys` freezes this mixing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The seed the user chose.
    pub seed: u64,
    /// What the draws are for.
    pub purpose: Purpose,
    /// Training stage, 0 where there is none.
    pub stage: u32,
    /// Epoch in the stage, 0 where there is none.
    pub epoch: u32,
}

impl Key {
    /// A key at stage 0 and epoch 0.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self {
            seed,
            purpose,
            stage: 0,
            epoch: 0,
        }
    }

    /// The same key at another stage.
    #[must_use]
    pub fn stage(self, stage: u32) -> Self {
        Self { stage, ..self }
    }

    /// The same key at another epoch.
    #[must_use]
    pub fn epoch(self, epoch: u32) -> Self {
        Self { epoch, ..self }
    }

    /// The sequence of draws that belongs to `index` (a sample, a parameter, a layer).
    pub fn stream(&self, index: u64) -> Stream {
        Stream::new(self.philox_key(), index, 0)
    }

    /// [`Key::stream`] from its block number `block` on; a block is two words, a pair of normals or two
    /// complex numbers in single precision.
    pub fn stream_at(&self, index: u64, block: u64) -> Stream {
        Stream::new(self.philox_key(), index, block)
    }

    /// The generator's key, low word first.
    pub(crate) fn philox_key(&self) -> [u32; 2] {
        let purposed = mix(mix(self.seed) ^ u64::from(self.purpose.number()));
        let key = mix(purposed ^ (u64::from(self.stage) << 32 | u64::from(self.epoch)));
        [key as u32, (key >> 32) as u32]
    }
}

/// One SplitMix64 step, a bijection of 64-bit words.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn mix_is_splitmix64() {
        // The first output of SplitMix64 seeded with 0 is published with the generator.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }

    /// Changing any of these changes every run ever made: it needs a changelog line.
    #[test]
    fn golden_keys() {
        let key = Key::new(42, Purpose::Shuffle);
        assert_eq!(key.philox_key(), GOLDEN_PLAIN);
        assert_eq!(key.stage(1).epoch(7).philox_key(), GOLDEN_STAGED);
        for (position, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose.number() as usize, position + 1);
        }
    }

    const GOLDEN_PLAIN: [u32; 2] = [1_701_149_742, 109_357_541];
    const GOLDEN_STAGED: [u32; 2] = [125_004_953, 451_752_760];

    #[test]
    fn every_part_of_the_key_matters() {
        let mut seen = HashSet::new();
        let mut count = 0;
        for seed in [0, 1, 2, u64::MAX, 1 << 32] {
            for purpose in Purpose::ALL {
                for stage in 0..4 {
                    for epoch in 0..50 {
                        let key = Key::new(seed, purpose).stage(stage).epoch(epoch);
                        seen.insert(key.philox_key());
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(seen.len(), count);
    }
}
