//! Densities, noise and samples in evaluation mode: running statistics, no dropout, no graph.

use std::sync::Arc;

use tch::{Tensor, no_grad_guard};

use super::EagerBatch;
use super::network::Shared;
use super::storage::check_tensor;
use super::weights::Weights;
use crate::Result;

/// A network with its numbers, in evaluation mode.
pub struct Evaluation {
    shared: Arc<Shared>,
    weights: Weights,
}

impl std::fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluation")
            .field("architecture", &self.shared.architecture)
            .finish_non_exhaustive()
    }
}

impl Evaluation {
    pub(super) fn new(shared: Arc<Shared>, weights: Weights) -> Self {
        Self { shared, weights }
    }

    /// Context of each row: `[embedding(observation) | context parameters]`, or the observation
    /// itself. The batch's parameters are not looked at.
    ///
    /// # Shapes
    /// `[B, C]`; `None` for an unconditional flow.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the batch does not fit, [`crate::Error::Torch`].
    pub fn embed(&self, batch: &EagerBatch) -> Result<Option<Tensor>> {
        let _guard = no_grad_guard();
        let rows = match &batch.observation {
            Some(observation) => observation.size().first().copied().unwrap_or(0),
            None => batch.theta.size().first().copied().unwrap_or(0),
        };
        batch.check_context(&self.shared.architecture, rows, self.weights.kind())?;
        let pass = self.shared.pass(&self.weights);
        pass.context(self.shared.layout.network(), batch)
    }

    /// Noise of each row's parameters and `log |d noise / d theta|`.
    ///
    /// # Shapes
    /// `[B, D]` and `[B]`.
    ///
    /// # Errors
    /// As [`Evaluation::embed`].
    pub fn noise(&self, batch: &EagerBatch) -> Result<(Tensor, Tensor)> {
        let _guard = no_grad_guard();
        batch.rows(&self.shared.architecture, self.weights.kind())?;
        let pass = self.shared.pass(&self.weights);
        let network = self.shared.layout.network();
        let context = pass.context(network, batch)?;
        pass.forward(network, &batch.theta, context.as_ref())
    }

    /// `log q(theta | observation)` of each row.
    ///
    /// # Shapes
    /// `[B]`.
    ///
    /// # Errors
    /// As [`Evaluation::embed`].
    pub fn log_prob(&self, batch: &EagerBatch) -> Result<Tensor> {
        let (noise, log_det) = self.noise(batch)?;
        let _guard = no_grad_guard();
        let pass = self.shared.pass(&self.weights);
        Ok(pass.base_log_density(&noise)?.f_add(&log_det)?)
    }

    /// Parameters made from given noise, and their `log q`.
    ///
    /// # Shapes
    /// `noise` and the parameters `[S, D]`, `context` `[S, C]` (one row a sample), `log q` `[S]`.
    ///
    /// # Errors
    /// As [`Evaluation::embed`].
    pub fn sample(&self, noise: &Tensor, context: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let _guard = no_grad_guard();
        let architecture = &self.shared.architecture;
        let kind = self.weights.kind();
        let samples = noise.size().first().copied().unwrap_or(0);
        check_tensor(
            "noise",
            noise,
            &[samples, architecture.parameters() as i64],
            kind,
        )?;
        match (context, architecture.context() as i64) {
            (None, 0) => {}
            (Some(context), width) => check_tensor("context", context, &[samples, width], kind)?,
            (None, width) => {
                return Err(crate::Error::Shape {
                    name: "context".into(),
                    expected: vec![samples as usize, width as usize],
                    found: vec![],
                });
            }
        }
        let pass = self.shared.pass(&self.weights);
        let (theta, log_det) = pass.inverse(self.shared.layout.network(), noise, context)?;
        Ok((theta, pass.base_log_density(noise)?.f_sub(&log_det)?))
    }
}
