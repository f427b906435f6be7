//! Weights of a network as evaluation uses them: running batch norms and masks multiplied in.

use crate::layout::BufferKind;
use crate::plan::Scalar;
use crate::settings::Activation;
use crate::structure::{
    Conditioner, DenseResidualNetwork, Linear, MaskedBlock, MaskedLinear, MaskedNetwork, NormLayer,
    ResidualBlock, ResidualNetwork,
};
use crate::{Layout, NetworkState};

/// Added to the variance by batch normalisation.
pub(crate) const BATCH_NORM_EPSILON: f64 = 1e-3;
/// Added to the variance by layer normalisation.
pub(crate) const LAYER_NORM_EPSILON: f64 = 1e-5;

/// `y = W x + b`; biases are kept in double precision because they are only used to fold.
#[derive(Clone, Debug)]
pub(crate) struct Dense<T> {
    /// `[outputs][inputs]`.
    pub(crate) weight: Vec<T>,
    /// `[outputs]`.
    pub(crate) bias: Vec<f64>,
    /// Number of inputs.
    pub(crate) inputs: usize,
    /// Number of outputs.
    pub(crate) outputs: usize,
}

impl<T: Scalar> Dense<T> {
    /// W x + b in double precision.
    pub(crate) fn apply(&self, x: &[f64]) -> Vec<f64> {
        let product = |row: &[T]| row.iter().zip(x).map(|(w, x)| w.to_f64() * x).sum::<f64>();
        if self.inputs == 0 {
            return self.bias.clone();
        }
        let rows = self.weight.chunks_exact(self.inputs);
        rows.zip(&self.bias)
            .map(|(row, b)| product(row) + b)
            .collect()
    }

    /// The layer followed by `y = scale y + shift`.
    fn then(mut self, scale: &[f64], shift: &[f64]) -> Self {
        for (row, scale) in self.weight.chunks_exact_mut(self.inputs.max(1)).zip(scale) {
            for weight in row {
                *weight = T::from_f64(weight.to_f64() * scale);
            }
        }
        for ((bias, scale), shift) in self.bias.iter_mut().zip(scale).zip(shift) {
            *bias = *bias * scale + shift;
        }
        self
    }
}

/// What happens to an activation before its nonlinearity.
#[derive(Clone, Debug)]
pub(crate) enum Norm<T> {
    /// Nothing, or a batch norm that was multiplied into the layer before.
    None,
    /// A batch norm with running statistics: `scale x + shift`.
    Affine {
        /// `[H]`.
        scale: Vec<f64>,
        /// `[H]`.
        shift: Vec<f64>,
    },
    /// Layer normalisation.
    Layer {
        /// `[H]`.
        weight: Vec<T>,
        /// `[H]`.
        bias: Vec<T>,
    },
}

/// A residual block, gated or masked.
#[derive(Clone, Debug)]
pub(crate) struct Block<T> {
    /// Width H.
    pub(crate) width: usize,
    /// Before the first activation.
    pub(crate) norm0: Norm<T>,
    /// First layer, batch norm 1 multiplied in.
    pub(crate) first: Dense<T>,
    /// Before the second activation: nothing or layer normalisation.
    pub(crate) norm1: Norm<T>,
    /// Second layer.
    pub(crate) second: Dense<T>,
    /// Gate of a gated block; of a masked block what is added to the first layer's output.
    pub(crate) context: Option<Dense<T>>,
    /// Linear layer to the next block's width, if that differs.
    pub(crate) resize: Option<Dense<T>>,
}

/// How the context enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextUse {
    /// Next to the input of the first layer (if at all) and as sigmoid gates.
    Gates,
    /// Added to the first layer's output of the network (through the activation) and of each block.
    Added,
}

/// A residual network: initial layer, blocks, output layer.
#[derive(Clone, Debug)]
pub(crate) struct Trunk<T> {
    /// Its activation.
    pub(crate) activation: Activation,
    /// How the context enters.
    pub(crate) context_use: ContextUse,
    /// Layer on the input without the context.
    pub(crate) initial: Dense<T>,
    /// Layer on the context beside the initial one; its bias is zero for [`ContextUse::Gates`].
    pub(crate) initial_context: Option<Dense<T>>,
    /// The blocks.
    pub(crate) blocks: Vec<Block<T>>,
    /// The last layer.
    pub(crate) output: Dense<T>,
}

impl<T: Scalar> Trunk<T> {
    /// Largest width of an activation.
    pub(crate) fn max_width(&self) -> usize {
        self.blocks.iter().map(|b| b.width).max().unwrap_or(0)
    }
}

/// Reads a state into evaluation weights.
pub(crate) struct Reader<'a, T> {
    /// Where everything lies.
    pub(crate) layout: &'a Layout,
    /// The values.
    pub(crate) state: &'a NetworkState<T>,
    /// Activation of the network being read.
    pub(crate) activation: Activation,
}

impl<T: Scalar> Reader<'_, T> {
    fn values(&self, index: usize) -> &[T] {
        self.state.parameter(&self.layout.parameters()[index])
    }

    fn doubles(&self, index: usize) -> Vec<f64> {
        self.values(index).iter().map(|v| v.to_f64()).collect()
    }

    fn statistics(&self, index: usize, width: usize) -> Vec<f64> {
        match self.layout.buffers()[index].kind {
            BufferKind::RunningMean(offset) | BufferKind::RunningVariance(offset) => {
                let values = &self.state.statistics[offset..offset + width];
                values.iter().map(|v| v.to_f64()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A linear layer as it stands.
    pub(crate) fn linear(&self, linear: &Linear) -> Dense<T> {
        Dense {
            weight: self.values(linear.weight).to_vec(),
            bias: self.doubles(linear.bias),
            inputs: linear.inputs,
            outputs: linear.outputs,
        }
    }

    /// Columns `columns` of a linear layer, with its bias or without.
    fn columns(&self, linear: &Linear, columns: std::ops::Range<usize>, bias: bool) -> Dense<T> {
        let rows = self
            .values(linear.weight)
            .chunks_exact(linear.inputs.max(1));
        Dense {
            weight: rows
                .flat_map(|row| row[columns.clone()].iter().copied())
                .collect(),
            bias: if bias {
                self.doubles(linear.bias)
            } else {
                vec![0.0; linear.outputs]
            },
            inputs: columns.len(),
            outputs: linear.outputs,
        }
    }

    fn masked_linear(&self, masked: &MaskedLinear) -> Dense<T> {
        let mut dense = self.linear(&masked.linear);
        if let BufferKind::Mask(mask) = &self.layout.buffers()[masked.mask].kind {
            for (weight, keep) in dense.weight.iter_mut().zip(mask) {
                if *keep == 0 {
                    *weight = T::ZERO;
                }
            }
        }
        dense
    }

    fn norm(&self, norm: &NormLayer, width: usize) -> Norm<T> {
        match *norm {
            NormLayer::None => Norm::None,
            NormLayer::Layer { weight, bias } => Norm::Layer {
                weight: self.values(weight).to_vec(),
                bias: self.values(bias).to_vec(),
            },
            NormLayer::Batch {
                weight,
                bias,
                mean,
                variance,
                ..
            } => {
                let inverse = self.statistics(variance, width);
                let inverse = inverse
                    .iter()
                    .map(|v| 1.0 / (v + BATCH_NORM_EPSILON).sqrt());
                let weights = self.doubles(weight);
                let scale: Vec<f64> = weights.iter().zip(inverse).map(|(w, i)| w * i).collect();
                let mean = self.statistics(mean, width);
                let terms = self.doubles(bias).into_iter().zip(mean.iter().zip(&scale));
                let shift = terms.map(|(b, (m, s))| b - m * s).collect();
                Norm::Affine { scale, shift }
            }
        }
    }

    fn block(&self, block: &ResidualBlock, resize: Option<&Linear>) -> Block<T> {
        let first = self.linear(&block.linears[0]);
        let (first, norm1) = match self.norm(&block.norms[1], block.width) {
            Norm::Affine { scale, shift } => (first.then(&scale, &shift), Norm::None),
            other => (first, other),
        };
        Block {
            width: block.width,
            norm0: self.norm(&block.norms[0], block.width),
            first,
            norm1,
            second: self.linear(&block.linears[1]),
            context: block.context.as_ref().map(|c| self.linear(c)),
            resize: resize.map(|r| self.linear(r)),
        }
    }

    fn masked_block(&self, block: &MaskedBlock, width: usize) -> Block<T> {
        let mut first = self.masked_linear(&block.linears[0]);
        let mut context = block.context.as_ref().map(|c| self.linear(c));
        if let Norm::Affine { scale, shift } = self.norm(&block.norms[1], width) {
            first = first.then(&scale, &shift);
            context = context.map(|c| c.then(&scale, &vec![0.0; width]));
        }
        // The context layer's bias is a constant beside the first layer's.
        if let Some(context) = &mut context {
            for (bias, more) in first.bias.iter_mut().zip(&mut context.bias) {
                *bias += std::mem::take(more);
            }
        }
        Block {
            width,
            norm0: self.norm(&block.norms[0], width),
            first,
            norm1: Norm::None,
            second: self.masked_linear(&block.linears[1]),
            context,
            resize: None,
        }
    }

    /// A dense residual network; its context, if any, enters through gates alone.
    pub(crate) fn dense_network(&self, network: &DenseResidualNetwork) -> Option<Trunk<T>> {
        let (last, resizes) = network.resizes.split_last()?;
        let between = resizes.iter().map(Option::as_ref).chain([None]);
        Some(Trunk {
            activation: self.activation,
            context_use: ContextUse::Gates,
            initial: self.linear(&network.initial),
            initial_context: None,
            blocks: network
                .blocks
                .iter()
                .zip(between)
                .map(|(b, r)| self.block(b, r))
                .collect(),
            output: self.linear(last.as_ref()?),
        })
    }

    fn residual_network(&self, network: &ResidualNetwork, identity: usize) -> Trunk<T> {
        let initial = &network.initial;
        let context = identity..initial.inputs;
        Trunk {
            activation: self.activation,
            context_use: ContextUse::Gates,
            initial: self.columns(initial, 0..identity, true),
            initial_context: (!context.is_empty())
                .then(|| self.columns(initial, context.clone(), false)),
            blocks: network.blocks.iter().map(|b| self.block(b, None)).collect(),
            output: self.linear(&network.last),
        }
    }

    fn masked_network(&self, network: &MaskedNetwork) -> Trunk<T> {
        let width = network.initial.linear.outputs;
        Trunk {
            activation: self.activation,
            context_use: ContextUse::Added,
            initial: self.masked_linear(&network.initial),
            initial_context: network.context.as_ref().map(|c| self.linear(c)),
            blocks: network
                .blocks
                .iter()
                .map(|b| self.masked_block(b, width))
                .collect(),
            output: self.masked_linear(&network.last),
        }
    }

    /// The conditioner of a step with `identity` identity features.
    pub(crate) fn conditioner(
        &self,
        conditioner: &Conditioner,
        identity: usize,
    ) -> Option<Trunk<T>> {
        match conditioner {
            Conditioner::Residual(network) => Some(self.residual_network(network, identity)),
            Conditioner::Dense(network) => self.dense_network(network),
            Conditioner::Masked(network) => Some(self.masked_network(network)),
        }
    }
}
