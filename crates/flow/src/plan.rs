//! The network in pure Rust over slices: training with hand-written gradients, evaluation, sampling.
//!
//! Every activation is features-first, `[features][T]` for a chunk of T rows of the batch, so that
//! the last linear layer's output is the bins-major input of the spline, a permutation is a copy of
//! rows, and every elementwise loop runs over adjacent rows of the batch. Matrix products are
//! faer's, sequential per chunk; threads share work by chunks and, for weight gradients, by blocks
//! of rows of the weights. Both cuts are fixed by the shapes alone, so results are bit-identical
//! for every number of threads.
//!
//! What is deliberately not here: optimisers, files, any source of randomness but the dropout masks
//! handed in, and automatic differentiation: every backward pass is written beside its forward pass.

mod gemm;
#[cfg(test)]
mod golden;
mod linear_transform;
pub(crate) mod native;
mod passes;
mod rows;
mod spline;
mod training;

pub use gemm::Scalar;
pub use native::{Prepared, Sampler};
pub use training::{Mode, Plan, PlanKey, PlanStep};
