//! From an observation to the context of the flow.

use tch::Tensor;

use super::EagerBatch;
use super::pass::{BlockStyle, Pass};
use crate::structure::Network;
use crate::{Error, Result};

impl Pass<'_> {
    /// Context of each row: `[embedding(observation) | context parameters]`, or the observation.
    ///
    /// # Shapes
    /// The result is `[B, C]`; `None` for an unconditional flow.
    pub(super) fn context(&self, network: &Network, batch: &EagerBatch) -> Result<Option<Tensor>> {
        let (Some(embedding), Some(settings)) = (&network.embedding, self.architecture.embedding())
        else {
            return Ok(batch.observation.as_ref().map(Tensor::shallow_clone));
        };
        let observation = batch.observation.as_ref().ok_or_else(|| Error::Shape {
            name: "observation".into(),
            expected: vec![settings.detectors, settings.channels, settings.bins],
            found: vec![],
        })?;
        let embedded = {
            let _autocast = self.autocast()?;
            let projected: Result<Vec<Tensor>> = embedding
                .reduced_basis
                .iter()
                .enumerate()
                .map(|(detector, layer)| {
                    let strain = observation.f_select(1, detector as i64)?.f_flatten(1, -1)?;
                    self.linear(layer, &strain)
                })
                .collect();
            let projected = Tensor::f_cat(&projected?, 1)?;
            let style = BlockStyle {
                activation: settings.activation,
                dropout: settings.dropout,
            };
            self.dense_residual(&embedding.network, style, &projected, None)?
        };
        let embedded = self.full_precision(&embedded)?;
        Ok(Some(match &batch.context_parameters {
            Some(parameters) => Tensor::f_cat(&[&embedded, parameters], 1)?,
            None => embedded,
        }))
    }
}
