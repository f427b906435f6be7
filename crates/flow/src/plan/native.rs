//! Evaluation without gradients: embedding, density and sampling, from weights prepared once.
//!
//! [`Sampler`] holds a network whose normalisations, masks and LU transforms are folded into its
//! linear layers. For one observation the context is a constant, so [`Prepared`] folds the gates
//! and the context part of the first layer too; for many observations the context is computed for
//! each row. Rows are cut into tiles of a fixed number; threads take tiles independently.

mod constants;
mod forward;
mod sampler;
#[cfg(test)]
mod tests;
mod tile;
mod weights;

pub use sampler::{Prepared, Sampler};
