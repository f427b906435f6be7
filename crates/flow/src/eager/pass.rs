//! One pass through the network: its views, its mode, and the layers every part uses.

use std::sync::Arc;

use dunnart_torch_shim::Autocast;
use rayon::prelude::*;
use tch::{Kind, Tensor};

use super::batch_norm::{BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, synchronised_batch_norm};
use super::spline::EagerSpline;
use super::storage::TensorReal;
use super::weights::Weights;
use crate::reduction::BatchReduction;
use crate::structure::{Linear, NormLayer};
use crate::{Activation, Architecture, Dropout, Result};

/// Added to a row's variance before the square root of layer norm.
const LAYER_NORM_EPSILON: f64 = 1e-5;

/// What only a training pass needs.
pub(super) struct TrainingMode<'a> {
    pub(super) dropout: Dropout,
    pub(super) samples: &'a [u64],
    pub(super) reduction: &'a Arc<dyn BatchReduction>,
    pub(super) autocast: Option<Kind>,
}

/// One pass; in evaluation mode there is no [`TrainingMode`].
pub(super) struct Pass<'a> {
    pub(super) architecture: &'a Architecture,
    pub(super) spline: &'a EagerSpline,
    /// Spline of the identity features: the same bins, no factor on its logits.
    pub(super) unconditional: &'a EagerSpline,
    pub(super) weights: &'a Weights,
    pub(super) training: Option<TrainingMode<'a>>,
}

/// Activation, dropout and normalisation of one residual network.
#[derive(Clone, Copy)]
pub(super) struct BlockStyle {
    pub(super) activation: Activation,
    pub(super) dropout: f64,
}

impl Pass<'_> {
    /// `W x + b`.
    pub(super) fn linear(&self, layer: &Linear, x: &Tensor) -> Result<Tensor> {
        let weight = self.weights.parameter(layer.weight);
        Ok(x.f_linear(weight, Some(self.weights.parameter(layer.bias)))?)
    }

    pub(super) fn activation(&self, activation: Activation, x: &Tensor) -> Result<Tensor> {
        Ok(match activation {
            Activation::Elu => x.f_elu()?,
            Activation::Relu => x.f_relu()?,
            Activation::LeakyRelu => x.f_leaky_relu()?,
            Activation::Gelu => x.f_gelu("none")?,
        })
    }

    /// Batch norm with the batch's statistics in training and the running ones in evaluation,
    /// layer norm, or nothing.
    pub(super) fn norm(&self, layer: &NormLayer, x: &Tensor) -> Result<Tensor> {
        match *layer {
            NormLayer::None => Ok(x.shallow_clone()),
            NormLayer::Layer { weight, bias } => {
                let weight = self.weights.parameter(weight);
                let bias = self.weights.parameter(bias);
                let width = weight.size();
                Ok(x.f_layer_norm(width, Some(weight), Some(bias), LAYER_NORM_EPSILON, false)?)
            }
            NormLayer::Batch {
                weight,
                bias,
                mean,
                variance,
                ..
            } => {
                let weight = self.weights.parameter(weight);
                let bias = self.weights.parameter(bias);
                let running = (self.weights.buffer(mean), self.weights.buffer(variance));
                match &self.training {
                    Some(mode) if !mode.reduction.is_local() => {
                        synchronised_batch_norm(x, [weight, bias], running, mode.reduction)
                    }
                    mode => Ok(x.f_batch_norm(
                        Some(weight),
                        Some(bias),
                        running.0,
                        running.1,
                        mode.is_some(),
                        BATCH_NORM_MOMENTUM,
                        BATCH_NORM_EPSILON,
                        false,
                    )?),
                }
            }
        }
    }

    /// Multiplies by the mask of dropout layer `layer`; nothing in evaluation mode.
    pub(super) fn dropout(&self, layer: usize, probability: f64, x: &Tensor) -> Result<Tensor> {
        let Some(mode) = self.training.as_ref().filter(|_| probability > 0.0) else {
            return Ok(x.shallow_clone());
        };
        let width = x.size()[1] as usize;
        let mask = match self.weights.kind() {
            Kind::Double => mask::<f64>(mode, layer, probability, width)?,
            _ => mask::<f32>(mode, layer, probability, width)?,
        };
        let mask = mask.f_to(x.device())?.f_to_dtype(x.kind(), false, false)?;
        Ok(x.f_mul(&mask)?)
    }

    /// Turns autocast on until the guard goes, where the pass has it.
    pub(super) fn autocast(&self) -> Result<Option<Autocast>> {
        let kind = self.training.as_ref().and_then(|mode| mode.autocast);
        Ok(match kind {
            Some(kind) => Some(Autocast::new(self.weights.device(), kind)?),
            None => None,
        })
    }

    /// Back to the network's own precision, where autocast left it.
    pub(super) fn full_precision(&self, x: &Tensor) -> Result<Tensor> {
        if x.kind() == self.weights.kind() {
            return Ok(x.shallow_clone());
        }
        Ok(x.f_to_dtype(self.weights.kind(), false, false)?)
    }
}

/// Masks of all rows of a batch, `[B, H]`, on the host.
fn mask<T: TensorReal>(
    mode: &TrainingMode<'_>,
    layer: usize,
    probability: f64,
    width: usize,
) -> Result<Tensor> {
    let mut values = vec![T::ZERO; mode.samples.len() * width];
    values
        .par_chunks_mut(width)
        .zip(mode.samples)
        .for_each(|(row, &sample)| mode.dropout.mask(layer, sample, probability, row));
    let shape = [mode.samples.len() as i64, width as i64];
    Ok(dunnart_torch_shim::tensor_from_vec(values, &shape)?)
}
