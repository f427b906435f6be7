//! Residual block: h + sigmoid(gate(c)) (W1 dropout(f(norm1(W0 f(norm0(h)) + b0))) + b1).
//!
//! Forward keeps h, both activations, both linear outputs (without their biases) and the gate.
//! Backward overwrites what it has read with the gradients that the weight gradients need:
//! `linear[1]` with that by the second layer's output, `gate` with that by the gate's input,
//! `linear[0]` with that by the first layer's output. `dh` runs along: the gradient by the block's
//! output on entry, by its input on return.

use super::activation::dropout_forward;
use super::batch_norm::BatchNormState;
use super::gate::{gate_backward, gate_forward, skip_forward};
use super::linear::LinearLayer;
use super::norm::{Active, Norm, NormBuffers};
use super::sums::row_moments;
use crate::plan::Scalar;
use crate::settings::Activation;
use crate::structure::ResidualBlock;
use crate::{Dropout, Layout};

/// A residual block and its place in the flat parameters.
#[derive(Clone, Debug)]
pub(crate) struct BlockLayer {
    /// Width H.
    pub(crate) width: usize,
    /// The two normalisations.
    pub(crate) norms: [Norm; 2],
    /// Gate on the context.
    pub(crate) gate: Option<LinearLayer>,
    /// The two linear layers.
    pub(crate) linears: [LinearLayer; 2],
    /// Number of its dropout layer.
    pub(crate) dropout: usize,
}

/// Activations of one block for one chunk.
#[derive(Debug)]
pub(crate) struct BlockBuffers<T> {
    /// h, `[H][T]`.
    pub(crate) stream: Vec<T>,
    /// Inputs of the linear layers, `[H][T]` each.
    pub(crate) active: [Vec<T>; 2],
    /// Outputs of the linear layers without bias, `[H][T]` each.
    pub(crate) linear: [Vec<T>; 2],
    /// The gate, `[H][T]`; empty without context.
    pub(crate) gate: Vec<T>,
    /// The block's output where it is not the next block's h, `[H][T]`; else empty.
    pub(crate) output: Vec<T>,
    /// Dropout's mask, `[H][T]`; empty without dropout.
    mask: Vec<T>,
    /// One row's mask, `[H]`.
    mask_row: Vec<T>,
    /// The normalisations'.
    pub(crate) norms: [NormBuffers<T>; 2],
}

/// What every layer of a pass over the network reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass<'a, T> {
    /// The flat parameters.
    pub(crate) parameters: &'a [T],
    /// The batch norms.
    pub(crate) states: &'a [BatchNormState<T>],
    /// Zeros, as many as the widest layer has features.
    pub(crate) zeros: &'a [T],
    /// Whether batch norms take the batch's statistics and dropout drops.
    pub(crate) training: bool,
    /// Where dropout's masks come from.
    pub(crate) dropout: Dropout,
}

impl BlockLayer {
    /// Finds the block in the layout.
    pub(crate) fn new(layout: &Layout, block: &ResidualBlock, states: &mut usize) -> Self {
        Self {
            width: block.width,
            norms: block.norms.map(|norm| Norm::new(layout, &norm, states)),
            gate: block.context.as_ref().map(|c| LinearLayer::new(layout, c)),
            linears: block
                .linears
                .map(|linear| LinearLayer::new(layout, &linear)),
            dropout: block.dropout,
        }
    }

    /// Buffers for `rows` rows.
    pub(crate) fn buffers<T: Scalar>(
        &self,
        rows: usize,
        own_output: bool,
        dropout: bool,
    ) -> BlockBuffers<T> {
        let wide = |present: bool| vec![T::ZERO; if present { self.width * rows } else { 0 }];
        BlockBuffers {
            stream: wide(true),
            active: [wide(true), wide(true)],
            linear: [wide(true), wide(true)],
            gate: wide(self.gate.is_some()),
            output: wide(own_output),
            mask: wide(dropout),
            mask_row: vec![T::ZERO; if dropout { self.width } else { 0 }],
            norms: [
                self.norms[0].buffers(self.width, rows),
                self.norms[1].buffers(self.width, rows),
            ],
        }
    }

    /// `linear[0]` = W0 f(norm0(h)), and its moments where batch norm 1 takes them.
    pub(crate) fn forward_first<T: Scalar>(
        &self,
        activation: Activation,
        pass: Pass<'_, T>,
        buffers: &mut BlockBuffers<T>,
        count: usize,
    ) {
        let length = self.width * count;
        let BlockBuffers {
            stream,
            active,
            linear,
            norms,
            ..
        } = buffers;
        let input = (&stream[..length], &pass.zeros[..self.width]);
        let shared = (pass.parameters, pass.states);
        let out = &mut active[0][..length];
        self.norms[0].forward(activation, shared, input, out, &mut norms[0], count);
        let linear = &mut linear[0][..length];
        self.linears[0].forward(pass.parameters, out, linear, count);
        if pass.training && self.norms[1].is_batch() {
            row_moments(linear, count, &mut norms[1].sums);
        }
    }

    /// out = h + gate(c) (W1 dropout(f(norm1(linear0 + b0))) + b1).
    ///
    /// # Shapes
    /// context `[C][T]`, samples `[T]`, out `[H][T]`, or `None` for the block's own output.
    pub(crate) fn forward_second<T: Scalar>(
        &self,
        (activation, dropout): (Activation, f64),
        pass: Pass<'_, T>,
        (context, samples): (&[T], &[u64]),
        buffers: &mut BlockBuffers<T>,
        out: Option<&mut [T]>,
        count: usize,
    ) {
        let length = self.width * count;
        let BlockBuffers {
            stream,
            active,
            linear,
            gate,
            output,
            mask,
            mask_row,
            norms,
        } = buffers;
        let out = &mut out.unwrap_or(output)[..length];
        let [linear0, linear1] = linear;
        let input = (&linear0[..length], self.linears[0].bias(pass.parameters));
        let shared = (pass.parameters, pass.states);
        let active = &mut active[1][..length];
        self.norms[1].forward(activation, shared, input, active, &mut norms[1], count);
        if pass.training && !mask.is_empty() {
            let mask = &mut mask[..length];
            for (row, sample) in samples.iter().enumerate() {
                pass.dropout.mask(self.dropout, *sample, dropout, mask_row);
                for (h, value) in mask_row.iter().enumerate() {
                    mask[h * count + row] = *value;
                }
            }
            dropout_forward(active, mask);
        }
        let linear = &mut linear1[..length];
        self.linears[1].forward(pass.parameters, active, linear, count);
        let bias = self.linears[1].bias(pass.parameters);
        match &self.gate {
            Some(layer) => {
                let gate = &mut gate[..length];
                layer.forward(pass.parameters, context, gate, count);
                let gate_bias = layer.bias(pass.parameters);
                gate_forward(&stream[..length], linear, bias, gate, gate_bias, out);
            }
            None => skip_forward(&stream[..length], linear, bias, out),
        }
    }

    /// Through the gate, the second layer and the activation before it, up to batch norm 1's sums.
    ///
    /// # Shapes
    /// dh, upstream `[H][T]`; context_gradient `[C][T]` is added to.
    pub(crate) fn backward_second<T: Scalar>(
        &self,
        activation: Activation,
        pass: Pass<'_, T>,
        (dh, upstream): (&[T], &mut [T]),
        context_gradient: Option<&mut [T]>,
        buffers: &mut BlockBuffers<T>,
        count: usize,
    ) {
        let length = self.width * count;
        let BlockBuffers {
            active,
            linear,
            gate,
            mask,
            norms,
            ..
        } = buffers;
        let [linear0, linear1] = linear;
        let linear1 = &mut linear1[..length];
        match &self.gate {
            Some(layer) => {
                let gate = &mut gate[..length];
                gate_backward(dh, linear1, self.linears[1].bias(pass.parameters), gate);
                if let Some(gradient) = context_gradient {
                    let columns = 0..layer.inputs;
                    layer.backward(pass.parameters, &columns, gate, (gradient, true), count);
                }
            }
            None => linear1.copy_from_slice(dh),
        }
        let columns = 0..self.width;
        self.linears[1].backward(pass.parameters, &columns, linear1, (upstream, false), count);
        let shared = (pass.parameters, pass.states);
        let active = Active {
            offset: self.linears[0].bias(pass.parameters),
            output: &active[1][..length],
            mask: if mask.is_empty() {
                mask
            } else {
                &mask[..length]
            },
        };
        let x = &mut linear0[..length];
        let norm = &self.norms[1];
        norm.backward_sums(
            activation,
            shared,
            (x, active),
            upstream,
            &mut norms[1],
            count,
        );
        if !norm.is_batch() {
            norm.backward(activation, shared, (x, active), upstream, &norms[1], count);
        }
    }

    /// Through batch norm 1, the first layer and the activation before it, up to batch norm 0's
    /// sums; without batch norm through to dh.
    ///
    /// # Shapes
    /// dh, upstream `[H][T]`.
    pub(crate) fn backward_first<T: Scalar>(
        &self,
        activation: Activation,
        pass: Pass<'_, T>,
        (dh, upstream): (&mut [T], &mut [T]),
        buffers: &mut BlockBuffers<T>,
        count: usize,
    ) {
        let length = self.width * count;
        let BlockBuffers {
            stream,
            active,
            linear,
            norms,
            ..
        } = buffers;
        let shared = (pass.parameters, pass.states);
        let linear0 = &mut linear[0][..length];
        let unused = Active {
            offset: &[],
            output: &[],
            mask: &[],
        };
        if self.norms[1].is_batch() {
            let x = (&mut *linear0, unused);
            self.norms[1].backward(activation, shared, x, upstream, &norms[1], count);
        }
        let columns = 0..self.width;
        self.linears[0].backward(pass.parameters, &columns, linear0, (upstream, false), count);
        let output = &active[0][..length];
        let active = Active {
            offset: &pass.zeros[..self.width],
            output,
            mask: &[],
        };
        let x = &mut stream[..length];
        let norm = &self.norms[0];
        norm.backward_sums(
            activation,
            shared,
            (x, active),
            upstream,
            &mut norms[0],
            count,
        );
        if !norm.is_batch() {
            let into = (dh, &norms[0]);
            norm.add_backward(activation, shared, (x, output), upstream, into, count);
        }
    }

    /// Through batch norm 0 to dh.
    ///
    /// # Shapes
    /// dh, upstream `[H][T]`.
    pub(crate) fn backward_skip<T: Scalar>(
        &self,
        activation: Activation,
        pass: Pass<'_, T>,
        (dh, upstream): (&mut [T], &[T]),
        buffers: &mut BlockBuffers<T>,
        count: usize,
    ) {
        if self.norms[0].is_batch() {
            let length = self.width * count;
            let BlockBuffers {
                stream,
                active,
                norms,
                ..
            } = buffers;
            let shared = (pass.parameters, pass.states);
            let x = (&mut stream[..length], &active[0][..length]);
            let into = (dh, &norms[0]);
            self.norms[0].add_backward(activation, shared, x, upstream, into, count);
        }
    }
}
