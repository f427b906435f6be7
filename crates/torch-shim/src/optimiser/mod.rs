//! Fused optimisers: one call updates every tensor of a list, one pass over memory each.
//!
//! The state belongs to the caller. Not here: groups of parameters, schedules, and anything about when to step.

mod adagrad;
mod adam;
mod check;
mod sgd;
#[cfg(test)]
mod tests;

use tch::Tensor;

pub use adagrad::{AdagradSettings, AdagradState, fused_adagrad};
pub use adam::{AdamSettings, AdamState, fused_adam};
pub use sgd::{SgdSettings, SgdState, fused_sgd};

/// What a loss scaler hands to a fused optimiser.
///
/// Gradients are divided by `grad_scale` (in place); where `found_inf` is 1 the step is skipped as a whole: parameters,
/// moments and step counts stay as they were.
///
/// # Shapes
/// One float32 value each.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossScale<'a> {
    /// The factor that the loss was multiplied by.
    pub grad_scale: Option<&'a Tensor>,
    /// 1 where a gradient is not finite, else 0.
    pub found_inf: Option<&'a Tensor>,
}
