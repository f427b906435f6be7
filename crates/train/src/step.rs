//! One optimiser step: the micro-batches of a window, clipping, the optimiser.
//!
//! The training loop and the golden trajectories of `verify` both step through here.

use dunnart_flow::Dropout;
use dunnart_flow::eager::{EagerBatch, StepOptions};
use tch::{Kind, Tensor};

use crate::Result;
use crate::engine::StepEngine;
use crate::optimizer::Optimizer;
use crate::storage::Storage;

/// What a stage steps with.
pub struct Stepper {
    /// Computes losses and gradients.
    pub engine: Box<dyn StepEngine>,
    /// Moves the parameters.
    pub optimizer: Optimizer,
    /// Largest norm of the gradient over all trainable parameters.
    pub clip_grad_norm: Option<f64>,
    /// Precision of matrix products under autocast, where that is on.
    pub autocast: Option<Kind>,
}

impl Stepper {
    /// Adds one micro-batch of a window to the gradients: `weight` times the gradient of its mean loss.
    ///
    /// The first micro-batch of a window replaces what the gradients held. Returns the micro-batch's
    /// loss, unweighted.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn accumulate(
        &mut self,
        storage: &mut Storage,
        batch: &EagerBatch,
        dropout: Dropout,
        weight: f64,
        first: bool,
    ) -> Result<Tensor> {
        let options = StepOptions {
            dropout,
            weight,
            autocast: self.autocast,
            accumulate: !first,
        };
        self.engine
            .loss_and_gradients(storage, batch, &options, &mut |_| {})
    }

    /// Clips the gradients, where asked for, and takes the optimiser's step.
    ///
    /// Returns the gradient's norm before clipping, where it was computed.
    ///
    /// # Errors
    /// Those of the optimiser.
    pub fn step(&mut self, storage: &mut Storage, learning_rate: f64) -> Result<Option<Tensor>> {
        let norm = match self.clip_grad_norm {
            Some(max) => Some(self.optimizer.clip(&storage.gradients, max)?),
            None => None,
        };
        self.optimizer.step(
            &storage.network.parameters,
            &storage.gradients,
            learning_rate,
        )?;
        Ok(norm)
    }

    /// A whole window of micro-batches, each weighted by its rows over the window's rows.
    ///
    /// Returns each micro-batch's loss and the gradient's norm before clipping.
    ///
    /// # Errors
    /// Those of the engine and the optimiser.
    pub fn window(
        &mut self,
        storage: &mut Storage,
        batches: &[EagerBatch],
        dropout: Dropout,
        learning_rate: f64,
    ) -> Result<(Vec<f64>, Option<f64>)> {
        let rows = |batch: &EagerBatch| batch.theta.size()[0] as f64;
        let total: f64 = batches.iter().map(rows).sum();
        let mut losses = Vec::with_capacity(batches.len());
        for (index, batch) in batches.iter().enumerate() {
            let loss = self.accumulate(storage, batch, dropout, rows(batch) / total, index == 0)?;
            losses.push(f64::try_from(&loss)?);
        }
        let norm = self.step(storage, learning_rate)?;
        let norm = norm.map(|norm| f64::try_from(&norm)).transpose()?;
        Ok((losses, norm))
    }
}
