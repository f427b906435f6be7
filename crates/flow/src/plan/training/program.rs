//! The order of operations of a plan, written down once when it is built.

use super::network::NetworkLayers;
use super::norm::Norm;
use super::trunk::TrunkLayer;
use crate::plan::Scalar;

/// A residual network of the whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The embedding's.
    Embedding,
    /// A step's conditioner.
    Step(usize),
}

/// An operation on the rows of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkOperation {
    /// Reads parameters and context of the rows.
    Load,
    /// Reduced-basis projection and the embedding's first layer.
    EmbeddingBegin,
    /// The embedding's last layer, and the context parameters.
    EmbeddingEnd,
    /// See [`super::coupling::CouplingLayer::forward_begin`].
    StepBegin(usize),
    /// See [`super::coupling::CouplingLayer::forward_end`].
    StepEnd(usize),
    /// First half of a block.
    First(Part, usize),
    /// Second half of a block.
    Second(Part, usize),
    /// Last LU transform and base density.
    Density,
    /// Backward through the base density and the last LU transform.
    DensityBack,
    /// See [`super::coupling::CouplingLayer::backward_begin`].
    StepBeginBack(usize),
    /// See [`super::coupling::CouplingLayer::backward_end`].
    StepEndBack(usize),
    /// Backward through the embedding's last layer.
    EmbeddingBeginBack,
    /// Second half of a block, backward.
    SecondBack(Part, usize),
    /// First half of a block, backward.
    FirstBack(Part, usize),
    /// The rest of a block and the layer before it, backward.
    SkipBack(Part, usize),
}

/// A step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// On every chunk by itself.
    Chunk(ChunkOperation),
    /// Batch norm `2` of block `1` joins the chunks' moments.
    Moments(Part, usize, usize),
    /// Batch norm `2` of block `1` joins the chunks' sums.
    Sums(Part, usize, usize),
    /// The gradients of a group of parameters: step `i`, or the embedding after all steps.
    Gradients(usize),
}

use ChunkOperation as C;
use Operation as O;

/// Forward pass; batch norms join chunks where `training`.
pub(crate) fn forward<T: Scalar>(network: &NetworkLayers<T>, training: bool) -> Vec<Operation> {
    let mut program = vec![O::Chunk(C::Load)];
    if let Some(embedding) = &network.embedding {
        program.push(O::Chunk(C::EmbeddingBegin));
        blocks_forward(Part::Embedding, &embedding.trunk, training, &mut program);
        program.push(O::Chunk(C::EmbeddingEnd));
    }
    for (index, step) in network.steps.iter().enumerate() {
        program.push(O::Chunk(C::StepBegin(index)));
        blocks_forward(Part::Step(index), &step.trunk, training, &mut program);
        program.push(O::Chunk(C::StepEnd(index)));
    }
    program.push(O::Chunk(C::Density));
    program
}

fn blocks_forward(part: Part, trunk: &TrunkLayer, training: bool, program: &mut Vec<Operation>) {
    let joins = |norm: &Norm| training && norm.is_batch();
    for (b, block) in trunk.blocks.iter().enumerate() {
        if joins(&block.norms[0]) {
            program.push(O::Moments(part, b, 0));
        }
        program.push(O::Chunk(C::First(part, b)));
        if joins(&block.norms[1]) {
            program.push(O::Moments(part, b, 1));
        }
        program.push(O::Chunk(C::Second(part, b)));
    }
}

/// Backward pass down to step `lowest`, and through the embedding where it trains.
pub(crate) fn backward<T: Scalar>(
    network: &NetworkLayers<T>,
    lowest: usize,
    embedding_trains: bool,
) -> Vec<Operation> {
    let mut program = vec![O::Chunk(C::DensityBack)];
    let count = network.steps.len();
    for (index, step) in network.steps.iter().enumerate().skip(lowest).rev() {
        program.push(O::Chunk(C::StepBeginBack(index)));
        blocks_backward(Part::Step(index), &step.trunk, &mut program);
        program.push(O::Chunk(C::StepEndBack(index)));
        program.push(O::Gradients(index));
    }
    if lowest == count {
        // Only the last LU transform trains.
        program.push(O::Gradients(count - 1));
    }
    if let (Some(embedding), true) = (&network.embedding, embedding_trains) {
        program.push(O::Chunk(C::EmbeddingBeginBack));
        blocks_backward(Part::Embedding, &embedding.trunk, &mut program);
        program.push(O::Gradients(count));
    }
    program
}

fn blocks_backward(part: Part, trunk: &TrunkLayer, program: &mut Vec<Operation>) {
    for (b, block) in trunk.blocks.iter().enumerate().rev() {
        program.push(O::Chunk(C::SecondBack(part, b)));
        if block.norms[1].is_batch() {
            program.push(O::Sums(part, b, 1));
        }
        program.push(O::Chunk(C::FirstBack(part, b)));
        if block.norms[0].is_batch() {
            program.push(O::Sums(part, b, 0));
        }
        program.push(O::Chunk(C::SkipBack(part, b)));
    }
}
