//! Residual network: initial layer, blocks with linear layers between different widths, last layer.
//!
//! The input is `[features | context]` where the initial layer has columns for the context. Backward
//! leaves the gradient by the initial layer's output in the first block's `stream`, and that by each
//! layer between blocks in the following block's `stream`.

use super::block::{BlockBuffers, BlockLayer, Pass};
use super::linear::LinearLayer;
use super::sums::row_moments;
use crate::Layout;
use crate::plan::Scalar;
use crate::settings::Activation;
use crate::structure::{DenseResidualNetwork, ResidualNetwork};

/// A residual network and its place in the flat parameters.
#[derive(Clone, Debug)]
pub(crate) struct TrunkLayer {
    /// Its activation.
    pub(crate) activation: Activation,
    /// Probability that dropout zeroes an element.
    pub(crate) dropout: f64,
    /// First layer.
    pub(crate) initial: LinearLayer,
    /// Columns of the first layer that are not the context.
    pub(crate) inputs: usize,
    /// The blocks.
    pub(crate) blocks: Vec<BlockLayer>,
    /// What follows each block but the last: a linear layer, or nothing where the widths are equal.
    pub(crate) resizes: Vec<Option<LinearLayer>>,
    /// Last layer.
    pub(crate) output: LinearLayer,
}

/// Activations of one residual network for one chunk.
#[derive(Debug)]
pub(crate) struct TrunkBuffers<T> {
    /// Those of each block.
    pub(crate) blocks: Vec<BlockBuffers<T>>,
}

/// A linear layer of a residual network; numbers are those of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerId {
    Initial,
    First(usize),
    Second(usize),
    Gate(usize),
    Resize(usize),
    Output,
}

/// Gradients by what a residual network reads, added up by its backward pass.
#[derive(Debug)]
pub(crate) struct InputGradients<'a, T> {
    /// By the input, `[inputs][T]`, overwritten; `None` if nobody needs it.
    pub(crate) input: Option<&'a mut [T]>,
    /// By the context, `[C][T]`, added to; `None` if nobody needs it.
    pub(crate) context: Option<&'a mut [T]>,
}

impl TrunkLayer {
    /// A dense residual network; the context, if any, enters through gates alone.
    pub(crate) fn dense(
        layout: &Layout,
        network: &DenseResidualNetwork,
        (activation, dropout): (Activation, f64),
        states: &mut usize,
    ) -> Option<Self> {
        let (last, resizes) = network.resizes.split_last()?;
        let linear = |linear| LinearLayer::new(layout, linear);
        Some(Self {
            activation,
            dropout,
            initial: linear(&network.initial),
            inputs: network.initial.inputs,
            blocks: network
                .blocks
                .iter()
                .map(|b| BlockLayer::new(layout, b, states))
                .collect(),
            resizes: resizes.iter().map(|r| r.as_ref().map(linear)).collect(),
            output: linear(last.as_ref()?),
        })
    }

    /// A residual network on `inputs` features and the context.
    pub(crate) fn residual(
        layout: &Layout,
        network: &ResidualNetwork,
        inputs: usize,
        (activation, dropout): (Activation, f64),
        states: &mut usize,
    ) -> Self {
        Self {
            activation,
            dropout,
            initial: LinearLayer::new(layout, &network.initial),
            inputs,
            blocks: network
                .blocks
                .iter()
                .map(|b| BlockLayer::new(layout, b, states))
                .collect(),
            resizes: vec![None; network.blocks.len().saturating_sub(1)],
            output: LinearLayer::new(layout, &network.last),
        }
    }

    /// Buffers for `rows` rows.
    pub(crate) fn buffers<T: Scalar>(&self, rows: usize) -> TrunkBuffers<T> {
        let dropout = self.dropout > 0.0;
        let block =
            |(b, block): (usize, &BlockLayer)| block.buffers(rows, self.owns_output(b), dropout);
        TrunkBuffers {
            blocks: self.blocks.iter().enumerate().map(block).collect(),
        }
    }

    /// Largest width of an activation.
    pub(crate) fn max_width(&self) -> usize {
        self.blocks.iter().map(|b| b.width).max().unwrap_or(0)
    }

    /// Whether block `b`'s output is not the next block's input.
    fn owns_output(&self, b: usize) -> bool {
        self.resizes.get(b).is_none_or(Option::is_some)
    }

    /// Takes the moments of a block's input where its first batch norm needs them.
    fn moments<T: Scalar>(
        &self,
        b: usize,
        pass: Pass<'_, T>,
        block: &mut BlockBuffers<T>,
        count: usize,
    ) {
        if pass.training && self.blocks[b].norms[0].is_batch() {
            let stream = &block.stream[..self.blocks[b].width * count];
            row_moments(stream, count, &mut block.norms[0].sums);
        }
    }

    /// h = W [input | context] + b.
    ///
    /// # Shapes
    /// input `[inputs][T]`, context `[C][T]`.
    pub(crate) fn forward_initial<T: Scalar>(
        &self,
        pass: Pass<'_, T>,
        (input, context): (&[T], &[T]),
        buffers: &mut TrunkBuffers<T>,
        count: usize,
    ) {
        let block = &mut buffers.blocks[0];
        let stream = &mut block.stream[..self.initial.outputs * count];
        crate::plan::rows::fill_rows(self.initial.bias(pass.parameters), stream);
        let (own, shared) = (0..self.inputs, self.inputs..self.initial.inputs);
        self.initial
            .add_forward(pass.parameters, &own, input, stream, count);
        if !shared.is_empty() {
            self.initial
                .add_forward(pass.parameters, &shared, context, stream, count);
        }
        self.moments(0, pass, block, count);
    }

    /// First half of block `b`.
    pub(crate) fn forward_first<T: Scalar>(
        &self,
        b: usize,
        pass: Pass<'_, T>,
        buffers: &mut TrunkBuffers<T>,
        count: usize,
    ) {
        self.blocks[b].forward_first(self.activation, pass, &mut buffers.blocks[b], count);
    }

    /// Second half of block `b`, and the layer after it.
    ///
    /// # Shapes
    /// context `[C][T]`, samples `[T]`.
    pub(crate) fn forward_second<T: Scalar>(
        &self,
        b: usize,
        pass: Pass<'_, T>,
        inputs: (&[T], &[u64]),
        buffers: &mut TrunkBuffers<T>,
        count: usize,
    ) {
        let (head, tail) = buffers.blocks.split_at_mut(b + 1);
        let (block, next) = (&mut head[b], tail.first_mut());
        let kind = (self.activation, self.dropout);
        let Some(next) = next else {
            self.blocks[b].forward_second(kind, pass, inputs, block, None, count);
            return;
        };
        match self.resizes[b].as_ref() {
            None => {
                let out = Some(next.stream.as_mut_slice());
                self.blocks[b].forward_second(kind, pass, inputs, block, out, count);
            }
            Some(resize) => {
                self.blocks[b].forward_second(kind, pass, inputs, block, None, count);
                let out = &mut next.stream[..resize.outputs * count];
                let x = &block.output[..resize.inputs * count];
                resize.forward_with_bias(pass.parameters, x, out, count);
            }
        }
        self.moments(b + 1, pass, next, count);
    }

    /// out = W h + b.
    ///
    /// # Shapes
    /// out `[outputs][T]`.
    pub(crate) fn forward_output<T: Scalar>(
        &self,
        pass: Pass<'_, T>,
        buffers: &TrunkBuffers<T>,
        out: &mut [T],
        count: usize,
    ) {
        let h = self.last_stream(buffers, count);
        self.output
            .forward_with_bias(pass.parameters, h, out, count);
    }

    /// The stream after the last block, `[H][T]`.
    fn last_stream<'a, T>(&self, buffers: &'a TrunkBuffers<T>, count: usize) -> &'a [T] {
        let last = self.blocks.len() - 1;
        &buffers.blocks[last].output[..self.output.inputs * count]
    }

    /// dh = W^T dout.
    ///
    /// # Shapes
    /// dout `[outputs][T]`; dh: at least `[H][T]`.
    pub(crate) fn backward_output<T: Scalar>(
        &self,
        pass: Pass<'_, T>,
        dout: &[T],
        dh: &mut [T],
        count: usize,
    ) {
        let columns = 0..self.output.inputs;
        let dh = &mut dh[..self.output.inputs * count];
        self.output
            .backward(pass.parameters, &columns, dout, (dh, false), count);
    }

    /// Second half of block `b`, see [`BlockLayer::backward_second`].
    pub(crate) fn backward_second<T: Scalar>(
        &self,
        b: usize,
        pass: Pass<'_, T>,
        (dh, upstream): (&[T], &mut [T]),
        context_gradient: Option<&mut [T]>,
        buffers: &mut TrunkBuffers<T>,
        count: usize,
    ) {
        let block = &self.blocks[b];
        let length = block.width * count;
        let gradients = (&dh[..length], &mut upstream[..length]);
        let buffers = &mut buffers.blocks[b];
        block.backward_second(
            self.activation,
            pass,
            gradients,
            context_gradient,
            buffers,
            count,
        );
    }

    /// First half of block `b`, see [`BlockLayer::backward_first`].
    pub(crate) fn backward_first<T: Scalar>(
        &self,
        b: usize,
        pass: Pass<'_, T>,
        (dh, upstream): (&mut [T], &mut [T]),
        buffers: &mut TrunkBuffers<T>,
        count: usize,
    ) {
        let block = &self.blocks[b];
        let length = block.width * count;
        let gradients = (&mut dh[..length], &mut upstream[..length]);
        block.backward_first(
            self.activation,
            pass,
            gradients,
            &mut buffers.blocks[b],
            count,
        );
    }

    /// The rest of block `b` and the layer before it.
    pub(crate) fn backward_skip<T: Scalar>(
        &self,
        b: usize,
        pass: Pass<'_, T>,
        (dh, upstream): (&mut [T], &[T]),
        gradients: InputGradients<'_, T>,
        buffers: &mut TrunkBuffers<T>,
        count: usize,
    ) {
        let block = &self.blocks[b];
        let length = block.width * count;
        let own = (&mut dh[..length], &upstream[..length]);
        block.backward_skip(self.activation, pass, own, &mut buffers.blocks[b], count);
        let stream = &mut buffers.blocks[b].stream[..length];
        let Some(before) = b.checked_sub(1) else {
            stream.copy_from_slice(&dh[..length]);
            let (own, shared) = (0..self.inputs, self.inputs..self.initial.inputs);
            if let Some(gradient) = gradients.input {
                self.initial
                    .backward(pass.parameters, &own, stream, (gradient, false), count);
            }
            if let (Some(gradient), false) = (gradients.context, shared.is_empty()) {
                self.initial
                    .backward(pass.parameters, &shared, stream, (gradient, true), count);
            }
            return;
        };
        if let Some(resize) = &self.resizes[before] {
            stream.copy_from_slice(&dh[..length]);
            let columns = 0..resize.inputs;
            let dh = &mut dh[..resize.inputs * count];
            resize.backward(pass.parameters, &columns, stream, (dh, false), count);
        }
    }

    /// The layer of that name, if there is one.
    pub(crate) fn layer(&self, id: LayerId) -> Option<&LinearLayer> {
        match id {
            LayerId::Initial => Some(&self.initial),
            LayerId::First(b) => Some(&self.blocks[b].linears[0]),
            LayerId::Second(b) => Some(&self.blocks[b].linears[1]),
            LayerId::Gate(b) => self.blocks[b].gate.as_ref(),
            LayerId::Resize(b) => self.resizes.get(b)?.as_ref(),
            LayerId::Output => Some(&self.output),
        }
    }

    /// What a layer's weight gradient is made of after the backward pass: the gradient by its output
    /// and its input.
    ///
    /// # Shapes
    /// `dout`: gradient by the last layer's output; results `[outputs][T]`, `[inputs][T]` (for
    /// [`LayerId::Initial`] without the context's columns).
    pub(crate) fn gradient_and_input<'a, T>(
        &self,
        id: LayerId,
        (input, context): (&'a [T], &'a [T]),
        dout: &'a [T],
        buffers: &'a TrunkBuffers<T>,
        count: usize,
    ) -> (&'a [T], &'a [T]) {
        let blocks = &buffers.blocks;
        let cut = |buffer: &'a [T], width: usize| &buffer[..width * count];
        let width = |b: usize| self.blocks[b].width;
        match id {
            LayerId::Initial => (cut(&blocks[0].stream, self.initial.outputs), input),
            LayerId::First(b) => (
                cut(&blocks[b].linear[0], width(b)),
                cut(&blocks[b].active[0], width(b)),
            ),
            LayerId::Second(b) => (
                cut(&blocks[b].linear[1], width(b)),
                cut(&blocks[b].active[1], width(b)),
            ),
            LayerId::Gate(b) => (cut(&blocks[b].gate, width(b)), context),
            LayerId::Resize(b) => (
                cut(&blocks[b + 1].stream, width(b + 1)),
                cut(&blocks[b].output, width(b)),
            ),
            LayerId::Output => (dout, self.last_stream(buffers, count)),
        }
    }
}
