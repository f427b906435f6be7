//! Where a batch's rows come from: a function of global sample indices and the key of the draws.
//!
//! Simulation sets give back the same rows every epoch; a source that draws noise or extrinsic
//! parameters takes its numbers from the key and the sample's index, so that a row depends neither on
//! its batch nor on who assembles it.

use dunnart_data::RowSource;
use dunnart_flow::Batch;

/// The key of what a source draws for the samples of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the run.
    pub seed: u64,
    /// Stage.
    pub stage: u32,
    /// Epoch in the stage, from 0.
    pub epoch: u32,
}

/// Rows in host memory, standardised, in single precision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostBatch {
    /// Parameters, `[B, D]`.
    pub theta: Vec<f32>,
    /// Observations, `[B, ...]`; empty if unconditional.
    pub observation: Vec<f32>,
    /// Context parameters, `[B, P]`; empty if there are none.
    pub context_parameters: Vec<f32>,
    /// Global sample indices, `[B]`.
    pub samples: Vec<u64>,
}

impl HostBatch {
    /// The same rows, borrowed.
    pub fn view(&self) -> Batch<'_, f32> {
        Batch {
            theta: &self.theta,
            observation: &self.observation,
            context_parameters: &self.context_parameters,
            samples: &self.samples,
        }
    }
}

/// A source of training and test rows.
pub trait Samples: Send + Sync {
    /// Replaces what `batch` holds by the rows of `samples`, in that order.
    ///
    /// # Errors
    /// Whatever keeps the source from reading them.
    fn fill(
        &self,
        samples: &[u64],
        draw: Draw,
        batch: &mut HostBatch,
    ) -> Result<(), dunnart_data::Error>;
}

impl Samples for RowSource {
    fn fill(
        &self,
        samples: &[u64],
        _: Draw,
        batch: &mut HostBatch,
    ) -> Result<(), dunnart_data::Error> {
        self.gather(samples, &mut batch.theta, &mut batch.observation)?;
        batch.context_parameters.clear();
        batch.samples.clear();
        batch.samples.extend_from_slice(samples);
        Ok(())
    }
}
