//! The masked autoregressive conditioner.

use tch::Tensor;

use super::pass::{BlockStyle, Pass};
use crate::structure::{MaskedBlock, MaskedLinear, MaskedNetwork};
use crate::{Error, Result};

impl Pass<'_> {
    /// `(W * mask) x + b`.
    fn masked_linear(&self, layer: &MaskedLinear, x: &Tensor) -> Result<Tensor> {
        let mask = self
            .weights
            .buffer(layer.mask)
            .ok_or_else(|| Error::UnknownTensor {
                name: "mask of a masked layer".into(),
            })?;
        let weight = self.weights.parameter(layer.linear.weight).f_mul(mask)?;
        Ok(x.f_linear(&weight, Some(self.weights.parameter(layer.linear.bias)))?)
    }

    /// `x + W1 dropout(act(norm1(W0 act(norm0(x)) + context(c))))`.
    fn masked_block(
        &self,
        block: &MaskedBlock,
        style: BlockStyle,
        x: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<Tensor> {
        let t = self.activation(style.activation, &self.norm(&block.norms[0], x)?)?;
        let mut t = self.masked_linear(&block.linears[0], &t)?;
        if let (Some(layer), Some(context)) = (&block.context, context) {
            t = t.f_add(&self.linear(layer, context)?)?;
        }
        let t = self.activation(style.activation, &self.norm(&block.norms[1], &t)?)?;
        let t = self.dropout(block.dropout, style.dropout, &t)?;
        Ok(x.f_add(&self.masked_linear(&block.linears[1], &t)?)?)
    }

    /// `last(blocks(initial(x) + act(context(c))))`: the logits of parameter d see x_1 .. x_(d-1) only.
    pub(super) fn masked(
        &self,
        network: &MaskedNetwork,
        style: BlockStyle,
        x: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<Tensor> {
        let mut t = self.masked_linear(&network.initial, x)?;
        if let (Some(layer), Some(context)) = (&network.context, context) {
            let context = self.linear(layer, context)?;
            t = t.f_add(&self.activation(style.activation, &context)?)?;
        }
        for block in &network.blocks {
            t = self.masked_block(block, style, &t, context)?;
        }
        self.masked_linear(&network.last, &t)
    }
}
