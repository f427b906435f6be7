//! What is constant over the rows of a tile: biases moved to where they cost nothing.
//!
//! The residual stream h is computed without the biases of the layers that feed it. Their sum is a
//! constant of each feature, which enters where h is read: before the activations and at the output.

use super::weights::{Block, ContextUse, Norm, Trunk};
use crate::plan::Scalar;
use crate::plan::passes::activation_value;

/// Constants of one block.
#[derive(Clone, Debug)]
pub(crate) struct BlockConstants<T> {
    /// Scale before the first activation; empty for 1.
    pub(crate) scale0: Vec<T>,
    /// Shift before the first activation, bias of the stream included; for layer normalisation
    /// that bias alone.
    pub(crate) shift0: Vec<T>,
    /// Bias of the first layer, with the context of a masked block.
    pub(crate) bias0: Vec<T>,
    /// The second layer's weight times the gates, `[H][H]`, where the gates are constant.
    pub(crate) weight1: Option<Vec<T>>,
    /// Bias of the second layer; used where the gates differ between rows.
    pub(crate) bias1: Vec<T>,
    /// Bias of the gates; used where they differ between rows.
    pub(crate) gate_bias: Vec<T>,
}

/// Constants of a residual network.
#[derive(Clone, Debug)]
pub(crate) struct Constants<T> {
    /// Bias of the layer on the context of a masked network; used where rows differ.
    pub(crate) initial_context_bias: Vec<T>,
    /// One for each block.
    pub(crate) blocks: Vec<BlockConstants<T>>,
    /// Bias of the output layer, bias of the stream included.
    pub(crate) output_bias: Vec<T>,
}

fn round<T: Scalar>(values: &[f64]) -> Vec<T> {
    values.iter().map(|v| T::from_f64(*v)).collect()
}

fn sigmoid(x: f64) -> f64 {
    dunnart_elementwise::sigmoid::<f64, false>(x)
}

fn add(to: &mut [f64], from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

impl<T: Scalar> Constants<T> {
    /// Constants for one context, or, with `None`, for contexts that differ between rows.
    pub(crate) fn new(trunk: &Trunk<T>, context: Option<&[f64]>) -> Self {
        let mut offset = trunk.initial.bias.clone();
        let mut initial_context_bias = Vec::new();
        if let Some(layer) = &trunk.initial_context {
            match (context, trunk.context_use) {
                (Some(context), ContextUse::Gates) => add(&mut offset, &layer.apply(context)),
                (Some(context), ContextUse::Added) => {
                    let mut more = layer.apply(context);
                    for value in &mut more {
                        *value = activation_value(trunk.activation, *value);
                    }
                    add(&mut offset, &more);
                }
                (None, _) => initial_context_bias = round(&layer.bias),
            }
        }
        let mut blocks = Vec::with_capacity(trunk.blocks.len());
        for block in &trunk.blocks {
            blocks.push(BlockConstants::new(
                block,
                trunk.context_use,
                context,
                &mut offset,
            ));
            if let Some(resize) = &block.resize {
                offset = resize.apply(&offset);
            }
        }
        let output_bias = round(&trunk.output.apply(&offset));
        Self {
            initial_context_bias,
            blocks,
            output_bias,
        }
    }
}

impl<T: Scalar> BlockConstants<T> {
    /// Constants of one block; adds its bias to the stream's.
    fn new(
        block: &Block<T>,
        context_use: ContextUse,
        context: Option<&[f64]>,
        offset: &mut [f64],
    ) -> Self {
        let (scale0, shift0) = match &block.norm0 {
            Norm::Affine { scale, shift } => {
                let terms = scale.iter().zip(shift).zip(offset.iter());
                let shift: Vec<f64> = terms.map(|((scale, shift), o)| scale * o + shift).collect();
                (round(scale), round(&shift))
            }
            _ => (Vec::new(), round(offset)),
        };
        let mut bias0 = block.first.bias.clone();
        let mut bias1 = block.second.bias.clone();
        let (mut weight1, mut gate_bias) = (None, Vec::new());
        match (&block.context, context_use, context) {
            (None, _, _) => add(offset, &bias1),
            (Some(layer), ContextUse::Added, context) => {
                if let Some(context) = context {
                    add(&mut bias0, &layer.apply(context));
                }
                add(offset, &bias1);
            }
            (Some(layer), ContextUse::Gates, None) => gate_bias = round(&layer.bias),
            (Some(layer), ContextUse::Gates, Some(context)) => {
                let mut weight = block.second.weight.clone();
                let gates = layer.apply(context).into_iter().map(sigmoid);
                let rows = weight.chunks_exact_mut(block.width).zip(&mut bias1);
                for ((row, bias), gate) in rows.zip(gates) {
                    let rounded = T::from_f64(gate);
                    for value in row {
                        *value *= rounded;
                    }
                    *bias *= gate;
                }
                add(offset, &bias1);
                weight1 = Some(weight);
            }
        }
        Self {
            scale0,
            shift0,
            bias0: round(&bias0),
            weight1,
            bias1: round(&bias1),
            gate_bias,
        }
    }
}
