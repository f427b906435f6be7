//! The key of what is drawn for a sample.

use dunnart_random::{Key, Purpose};

/// Names the draws of one pass over the samples by (seed, stage, epoch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the run.
    pub seed: u64,
    /// Stage.
    pub stage: u32,
    /// Epoch in the stage.
    pub epoch: u32,
}

impl Draw {
    /// The key of one kind of draws.
    pub(crate) fn key(self, purpose: Purpose) -> Key {
        Key::new(self.seed, purpose)
            .stage(self.stage)
            .epoch(self.epoch)
    }
}
