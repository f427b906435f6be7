//! Gradient descent with momentum.

#![allow(unsafe_code)] // A call of C++.

use std::ffi::c_int;
use std::ptr::null;

use tch::Tensor;

use super::LossScale;
use super::check::{check_length, check_list, check_scale};
use crate::Result;
use crate::ffi::{self, handles, optional_handle};

/// The numbers of a step of gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SgdSettings {
    /// Learning rate.
    pub learning_rate: f64,
    /// Momentum; zero for none.
    pub momentum: f64,
    /// Dampening of the gradient's part in the momentum.
    pub dampening: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Nesterov's momentum.
    pub nesterov: bool,
    /// Ascend instead of descend.
    pub maximize: bool,
}

/// The momentum of gradient descent.
#[derive(Debug, Clone, Copy)]
pub struct SgdState<'a> {
    /// Momentum buffers, an entry for each parameter; `None` exactly when the momentum is zero.
    pub momentum_buffers: Option<&'a [Tensor]>,
    /// Whether no step was taken yet: the first sets the buffers to the gradient, without dampening. After a step that
    /// [`LossScale::found_inf`] skipped it still holds.
    pub first_step: bool,
}

/// One step of gradient descent on every tensor of the list, in place: `b <- mu b + (1 - d) g`, `p <- p - lr b`, with
/// Nesterov's momentum `p <- p - lr (g + mu b)`; weight decay adds `wd p` to `g` before.
///
/// # Shapes
/// Parameter, gradient and buffer agree in shape, dtype and device, and are contiguous.
///
/// # Errors
/// As [`fused_adam`](super::fused_adam).
///
/// # Source
/// torch's `SGD`.
pub fn fused_sgd(
    parameters: &[Tensor],
    gradients: &[Tensor],
    state: &SgdState<'_>,
    settings: &SgdSettings,
    scale: LossScale<'_>,
) -> Result<()> {
    const OPERATION: &str = "fused SGD";
    check_list(OPERATION, "gradients", parameters, gradients)?;
    let buffers = state.momentum_buffers.unwrap_or_default();
    let expected = if settings.momentum == 0.0 {
        0
    } else {
        parameters.len()
    };
    check_length(OPERATION, "momentum_buffers", expected, buffers.len())?;
    if expected != 0 {
        check_list(OPERATION, "momentum_buffers", parameters, buffers)?;
    }
    check_scale(scale)?;
    if parameters.is_empty() {
        return Ok(());
    }
    let buffers = handles(buffers);
    // SAFETY: every list has the length of the parameters (checked) or is null, and its handles belong to borrowed tensors.
    let status = unsafe {
        ffi::dunnart_shim_fused_sgd(
            parameters.len(),
            handles(parameters).as_ptr(),
            handles(gradients).as_ptr(),
            if buffers.is_empty() {
                null()
            } else {
                buffers.as_ptr()
            },
            settings.weight_decay,
            settings.momentum,
            settings.learning_rate,
            settings.dampening,
            c_int::from(settings.nesterov),
            c_int::from(settings.maximize),
            c_int::from(state.first_step),
            optional_handle(scale.grad_scale),
            optional_handle(scale.found_inf),
        )
    };
    ffi::check(OPERATION, status)
}
