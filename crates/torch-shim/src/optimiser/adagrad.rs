//! Adagrad.

#![allow(unsafe_code)] // A call of C++.

use std::ffi::c_int;

use tch::Tensor;

use super::LossScale;
use super::check::{check_list, check_scale, check_steps};
use crate::Result;
use crate::ffi::{self, handles, optional_handle};

/// The numbers of an Adagrad step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdagradSettings {
    /// Learning rate.
    pub learning_rate: f64,
    /// Decay of the learning rate.
    pub learning_rate_decay: f64,
    /// Added to the root of the sum of squares.
    pub epsilon: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
}

/// The sums of Adagrad, an entry for each parameter.
#[derive(Debug, Clone, Copy)]
pub struct AdagradState<'a> {
    /// Sums of squared gradients.
    pub sums: &'a [Tensor],
    /// Counts of the steps taken: float32 without dimensions, each its own memory.
    pub steps: &'a [Tensor],
}

/// One step of Adagrad on every tensor of the list, in place: `s <- s + g^2`,
/// `p <- p - lr / (1 + (t - 1) decay) g / (sqrt(s) + eps)`; weight decay adds `wd p` to `g` before.
///
/// # Shapes
/// Parameter, gradient and sum agree in shape, dtype and device, and are contiguous.
///
/// # Errors
/// As [`fused_adam`](super::fused_adam).
///
/// # Source
/// Duchi, Hazan and Singer, JMLR 12 (2011) 2121; torch's `Adagrad`.
pub fn fused_adagrad(
    parameters: &[Tensor],
    gradients: &[Tensor],
    state: &AdagradState<'_>,
    settings: &AdagradSettings,
    scale: LossScale<'_>,
) -> Result<()> {
    const OPERATION: &str = "fused Adagrad";
    check_list(OPERATION, "gradients", parameters, gradients)?;
    check_list(OPERATION, "sums", parameters, state.sums)?;
    check_steps(OPERATION, parameters, state.steps)?;
    check_scale(scale)?;
    if parameters.is_empty() {
        return Ok(());
    }
    // SAFETY: every list has the length of the parameters (checked), and its handles belong to borrowed tensors.
    let status = unsafe {
        ffi::dunnart_shim_fused_adagrad(
            parameters.len(),
            handles(parameters).as_ptr(),
            handles(gradients).as_ptr(),
            handles(state.sums).as_ptr(),
            handles(state.steps).as_ptr(),
            settings.learning_rate,
            settings.learning_rate_decay,
            settings.weight_decay,
            settings.epsilon,
            c_int::from(settings.maximize),
            optional_handle(scale.grad_scale),
            optional_handle(scale.found_inf),
        )
    };
    ffi::check(OPERATION, status)
}
