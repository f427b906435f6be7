//! Normalisation (or none) with activation, in one place for the residual block.

use std::ops::Range;

use super::activation::{activation_backward, add_activation_backward};
use super::batch_norm::{
    BatchNormPlace, BatchNormState, add_batch_norm_backward, batch_norm_backward,
    batch_norm_backward_sums, batch_norm_forward,
};
use super::layer_norm::{LayerNormView, layer_norm_backward, layer_norm_backward_sums};
use super::switch::{Off, with_switch};
use crate::Layout;
use crate::layout::BufferKind;
use crate::plan::Scalar;
use crate::plan::passes::{layer_norm_activate, layer_statistics, shift_activate, with_activation};
use crate::settings::Activation;
use crate::structure::{NormLayer, ParameterIndex};

/// Added to the variance by layer normalisation.
const LAYER_NORM_EPSILON: f64 = 1e-5;

/// One normalisation and its place in the flat parameters.
#[derive(Clone, Debug)]
pub(crate) enum Norm {
    /// Nothing.
    None,
    /// Batch normalisation, with the indices of w and b.
    Batch(BatchNormPlace, [ParameterIndex; 2]),
    /// Layer normalisation: elements of w and b, and their indices.
    Layer([Range<usize>; 2], [ParameterIndex; 2]),
}

/// What a normalisation keeps of one chunk.
#[derive(Debug)]
pub(crate) struct NormBuffers<T> {
    /// `[2][H]`: forward the chunk's moments (batch norm), backward sum(g), then sum(g xhat).
    pub(crate) sums: Vec<f64>,
    /// Mean of each row (layer norm), `[T]`.
    mean: Vec<T>,
    /// 1 / sqrt(var + eps) of each row (layer norm), `[T]`.
    inverse: Vec<T>,
    /// mean(g w), then mean(g w xhat) of each row (layer norm), `[2][T]`.
    columns: Vec<T>,
}

/// The activations that a normalisation works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<'a, T> {
    /// What x lacks: the bias of the linear layer before, `[H]`.
    pub(crate) offset: &'a [T],
    /// The activation's output, `[H][T]`, after dropout.
    pub(crate) output: &'a [T],
    /// Dropout's mask, `[H][T]`; empty without dropout.
    pub(crate) mask: &'a [T],
}

impl Norm {
    /// Finds the normalisation in the layout; `states` counts the batch norms met so far.
    pub(crate) fn new(layout: &Layout, norm: &NormLayer, states: &mut usize) -> Self {
        let range = |index: usize| layout.parameters()[index].range();
        let statistics = |index: usize| match layout.buffers()[index].kind {
            BufferKind::RunningMean(start) | BufferKind::RunningVariance(start) => {
                start..start + layout.buffers()[index].shape[0]
            }
            _ => 0..0,
        };
        match *norm {
            NormLayer::None => Self::None,
            NormLayer::Layer { weight, bias } => {
                Self::Layer([range(weight), range(bias)], [weight, bias])
            }
            NormLayer::Batch {
                weight,
                bias,
                mean,
                variance,
                tracked,
            } => {
                let counter = match layout.buffers()[tracked].kind {
                    BufferKind::BatchesTracked(counter) => counter,
                    _ => 0,
                };
                let place = BatchNormPlace {
                    weight: range(weight),
                    bias: range(bias),
                    mean: statistics(mean),
                    variance: statistics(variance),
                    counter,
                    state: *states,
                };
                *states += 1;
                Self::Batch(place, [weight, bias])
            }
        }
    }

    /// Whether the rows of all chunks meet here.
    pub(crate) fn is_batch(&self) -> bool {
        matches!(self, Self::Batch(..))
    }

    /// Buffers for `rows` rows of `width` features.
    pub(crate) fn buffers<T: Scalar>(&self, width: usize, rows: usize) -> NormBuffers<T> {
        let (sums, rows) = match self {
            Self::None => (0, 0),
            Self::Batch(..) => (2 * width, 0),
            Self::Layer(..) => (2 * width, rows),
        };
        NormBuffers {
            sums: vec![0.0; sums],
            mean: vec![T::ZERO; rows],
            inverse: vec![T::ZERO; rows],
            columns: vec![T::ZERO; 2 * rows],
        }
    }

    /// out = f(norm(x + offset)).
    ///
    /// # Shapes
    /// x, out `[H][T]`; offset `[H]`.
    pub(crate) fn forward<T: Scalar>(
        &self,
        activation: Activation,
        (parameters, states): (&[T], &[BatchNormState<T>]),
        (x, offset): (&[T], &[T]),
        out: &mut [T],
        buffers: &mut NormBuffers<T>,
        count: usize,
    ) {
        match self {
            Self::None => with_activation!(activation, a => shift_activate(x, offset, out, a)),
            Self::Batch(place, _) => {
                // The offset would cancel against the mean.
                let state = &states[place.state];
                let bias = &parameters[place.bias.clone()];
                with_activation!(activation, a => {
                    batch_norm_forward(x, &state.mean, &state.scale, bias, out, a)
                });
            }
            Self::Layer([weight, bias], _) => {
                let (mean, inverse) = (&mut buffers.mean[..count], &mut buffers.inverse[..count]);
                layer_statistics(x, offset, T::from_f64(LAYER_NORM_EPSILON), mean, inverse);
                let weights = (&parameters[weight.clone()], &parameters[bias.clone()]);
                with_activation!(activation, a => {
                    layer_norm_activate(x, offset, weights, (mean, inverse), out, a)
                });
            }
        }
    }

    /// First pass backward: `upstream` becomes the gradient by the normalisation's output; sums are
    /// taken. Without normalisation nothing happens here.
    ///
    /// # Shapes
    /// x, upstream `[H][T]`.
    pub(crate) fn backward_sums<T: Scalar>(
        &self,
        activation: Activation,
        (parameters, states): (&[T], &[BatchNormState<T>]),
        (x, active): (&mut [T], Active<'_, T>),
        upstream: &mut [T],
        buffers: &mut NormBuffers<T>,
        count: usize,
    ) {
        let outputs = (active.output, active.mask);
        let dropout = !active.mask.is_empty();
        match self {
            Self::None => {}
            Self::Batch(place, _) => {
                let state = &states[place.state];
                let bias = &parameters[place.bias.clone()];
                let norm = [&state.mean[..], &state.scale[..], &state.inverse[..], bias];
                with_activation!(activation, a => with_switch!(dropout, d => {
                    batch_norm_backward_sums(x, norm, outputs, upstream, &mut buffers.sums, a, d)
                }));
            }
            Self::Layer([weight, bias], _) => {
                let norm = LayerNormView {
                    offset: active.offset,
                    weight: &parameters[weight.clone()],
                    bias: &parameters[bias.clone()],
                    mean: &buffers.mean[..count],
                    inverse: &buffers.inverse[..count],
                };
                let columns = &mut buffers.columns[..2 * count];
                let sums = &mut buffers.sums;
                with_activation!(activation, a => with_switch!(dropout, d => {
                    layer_norm_backward_sums(x, norm, outputs, upstream, (columns, sums), a, d)
                }));
            }
        }
    }

    /// Second pass backward: the gradient by x replaces x.
    ///
    /// # Shapes
    /// x, upstream `[H][T]`.
    pub(crate) fn backward<T: Scalar>(
        &self,
        activation: Activation,
        (parameters, states): (&[T], &[BatchNormState<T>]),
        (x, active): (&mut [T], Active<'_, T>),
        upstream: &[T],
        buffers: &NormBuffers<T>,
        count: usize,
    ) {
        let dropout = !active.mask.is_empty();
        match self {
            Self::None => with_activation!(activation, a => with_switch!(dropout, d => {
                let Active { offset, output, mask } = active;
                activation_backward(x, offset, output, mask, upstream, a, d)
            })),
            Self::Batch(place, _) => {
                let s = &states[place.state];
                let norm = [
                    &s.mean[..],
                    &s.scale[..],
                    &s.shift_back[..],
                    &s.slope_back[..],
                ];
                batch_norm_backward(upstream, x, norm);
            }
            Self::Layer([weight, _], _) => {
                let (inverse, columns) = (&buffers.inverse[..count], &buffers.columns[..2 * count]);
                let weight = &parameters[weight.clone()];
                layer_norm_backward(upstream, x, weight, inverse, columns, &mut [], Off);
            }
        }
    }

    /// Second pass backward: the gradient by x is added to `gradient`; there is no dropout here.
    ///
    /// # Shapes
    /// x, upstream, gradient `[H][T]`.
    pub(crate) fn add_backward<T: Scalar>(
        &self,
        activation: Activation,
        (parameters, states): (&[T], &[BatchNormState<T>]),
        (x, output): (&mut [T], &[T]),
        upstream: &[T],
        (gradient, buffers): (&mut [T], &NormBuffers<T>),
        count: usize,
    ) {
        match self {
            Self::None => with_activation!(activation, a => {
                add_activation_backward(x, output, upstream, gradient, a, Off)
            }),
            Self::Batch(place, _) => {
                let s = &states[place.state];
                let norm = [
                    &s.mean[..],
                    &s.scale[..],
                    &s.shift_back[..],
                    &s.slope_back[..],
                ];
                add_batch_norm_backward(upstream, x, norm, gradient);
            }
            Self::Layer([weight, _], _) => {
                let (inverse, columns) = (&buffers.inverse[..count], &buffers.columns[..2 * count]);
                let weight = &parameters[weight.clone()];
                let on = super::switch::On;
                layer_norm_backward(upstream, x, weight, inverse, columns, gradient, on);
            }
        }
    }
}
