//! Residual networks: the conditioners of coupling steps, and the embedding's second half.

use tch::Tensor;

use super::pass::{BlockStyle, Pass};
use crate::Result;
use crate::structure::{Conditioner, DenseResidualNetwork, ResidualBlock, ResidualNetwork};

impl Pass<'_> {
    /// `x + gate(c) * (W1 dropout(act(norm1(W0 act(norm0(x))))))`.
    fn block(
        &self,
        block: &ResidualBlock,
        style: BlockStyle,
        x: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<Tensor> {
        let t = self.activation(style.activation, &self.norm(&block.norms[0], x)?)?;
        let t = self.linear(&block.linears[0], &t)?;
        let t = self.activation(style.activation, &self.norm(&block.norms[1], &t)?)?;
        let t = self.dropout(block.dropout, style.dropout, &t)?;
        let mut t = self.linear(&block.linears[1], &t)?;
        if let (Some(layer), Some(context)) = (&block.context, context) {
            t = t.f_mul(&self.linear(layer, context)?.f_sigmoid()?)?;
        }
        Ok(x.f_add(&t)?)
    }

    fn residual(
        &self,
        network: &ResidualNetwork,
        style: BlockStyle,
        identity: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<Tensor> {
        let joined = match context {
            Some(context) => Tensor::f_cat(&[identity, context], 1)?,
            None => identity.shallow_clone(),
        };
        let mut x = self.linear(&network.initial, &joined)?;
        for block in &network.blocks {
            x = self.block(block, style, &x, context)?;
        }
        self.linear(&network.last, &x)
    }

    /// Blocks of several widths with linear layers between them.
    pub(super) fn dense_residual(
        &self,
        network: &DenseResidualNetwork,
        style: BlockStyle,
        x: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<Tensor> {
        let mut x = self.linear(&network.initial, x)?;
        for (block, resize) in network.blocks.iter().zip(&network.resizes) {
            x = self.block(block, style, &x, context)?;
            if let Some(resize) = resize {
                x = self.linear(resize, &x)?;
            }
        }
        Ok(x)
    }

    /// Logits of the spline, in the network's own precision.
    ///
    /// # Shapes
    /// `x`: identity features `[B, D_id]`, for autoregressive steps all of `[B, D]`; the result is
    /// `[B, D_tr, 3K - 1]`.
    pub(super) fn conditioner(
        &self,
        conditioner: &Conditioner,
        x: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<Tensor> {
        let coupling = self.architecture.coupling();
        let style = BlockStyle {
            activation: coupling.activation,
            dropout: coupling.dropout,
        };
        let logits = {
            let _autocast = self.autocast()?;
            match conditioner {
                Conditioner::Residual(network) => self.residual(network, style, x, context)?,
                Conditioner::Dense(network) => self.dense_residual(network, style, x, context)?,
                Conditioner::Masked(network) => self.masked(network, style, x, context)?,
            }
        };
        let per_element = 3 * self.architecture.spline().num_bins as i64 - 1;
        let logits = self.full_precision(&logits)?;
        Ok(logits.f_reshape([logits.size()[0], -1, per_element])?)
    }
}
