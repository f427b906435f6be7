//! Loss and gradients of a network as a static plan: buffers laid out once, backward passes by hand.
//!
//! A [`Plan`] belongs to an architecture, a number of rows, a trainable set and a mode ([`PlanKey`]);
//! it cannot be run with another. It is a list of operations: those on a chunk of rows, which threads
//! run independently, and between them the few where chunks meet (batch norm, weight gradients).
//! Every layer has its forward and its backward pass in one file of this folder.

mod activation;
mod batch_norm;
mod block;
mod chunk;
mod compiled;
mod coupling;
mod gate;
mod layer_norm;
mod linear;
mod lu;
mod network;
mod norm;
mod program;
mod reduced_basis;
mod sums;
mod switch;
mod tasks;
#[cfg(test)]
mod tests;
mod trunk;

pub use compiled::{Mode, Plan, PlanKey, PlanStep};
