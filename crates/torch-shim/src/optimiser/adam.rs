//! Adam and AdamW.

#![allow(unsafe_code)] // A call of C++.

use std::ffi::c_int;
use std::ptr::null;

use tch::Tensor;

use super::LossScale;
use super::check::{check_list, check_scale, check_steps};
use crate::Result;
use crate::ffi::{self, handles, optional_handle};

/// The numbers of an Adam or AdamW step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamSettings {
    /// Learning rate.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Weight decay apart from the gradient (AdamW), instead of added to it (Adam).
    pub decoupled: bool,
    /// Ascend instead of descend.
    pub maximize: bool,
}

impl Default for AdamSettings {
    /// torch's defaults for Adam.
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            maximize: false,
        }
    }
}

/// The moments of Adam, an entry for each parameter.
#[derive(Debug, Clone, Copy)]
pub struct AdamState<'a> {
    /// First moments.
    pub exp_avg: &'a [Tensor],
    /// Second moments.
    pub exp_avg_sq: &'a [Tensor],
    /// Largest second moments so far, for AMSGrad.
    pub max_exp_avg_sq: Option<&'a [Tensor]>,
    /// Counts of the steps taken: float32 without dimensions, each its own memory.
    pub steps: &'a [Tensor],
}

/// One step of Adam or AdamW on every tensor of the list, in place:
/// `m <- b1 m + (1 - b1) g`, `v <- b2 v + (1 - b2) g^2`,
/// `p <- p - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)`.
///
/// Weight decay adds `wd p` to `g` before (Adam) or multiplies `p` by `1 - lr wd` before (AdamW).
///
/// # Shapes
/// Parameter, gradient and moments agree in shape, dtype and device, and are contiguous.
///
/// # Errors
/// [`ListLength`](crate::Error::ListLength), [`Shape`](crate::Error::Shape), [`Kind`](crate::Error::Kind),
/// [`Device`](crate::Error::Device) and [`NotContiguous`](crate::Error::NotContiguous), with nothing changed, and
/// [`Libtorch`](crate::Error::Libtorch) otherwise.
///
/// # Source
/// Kingma and Ba, arXiv:1412.6980, algorithm 1; Loshchilov and Hutter, arXiv:1711.05101, algorithm 2.
pub fn fused_adam(
    parameters: &[Tensor],
    gradients: &[Tensor],
    state: &AdamState<'_>,
    settings: &AdamSettings,
    scale: LossScale<'_>,
) -> Result<()> {
    let operation = if settings.decoupled {
        "fused AdamW"
    } else {
        "fused Adam"
    };
    check_list(operation, "gradients", parameters, gradients)?;
    check_list(operation, "exp_avg", parameters, state.exp_avg)?;
    check_list(operation, "exp_avg_sq", parameters, state.exp_avg_sq)?;
    if let Some(maxima) = state.max_exp_avg_sq {
        check_list(operation, "max_exp_avg_sq", parameters, maxima)?;
    }
    check_steps(operation, parameters, state.steps)?;
    check_scale(scale)?;
    if parameters.is_empty() {
        return Ok(());
    }
    let maxima = state.max_exp_avg_sq.map(handles);
    // SAFETY: every list has the length of the parameters (checked), and its handles belong to borrowed tensors.
    let status = unsafe {
        ffi::dunnart_shim_fused_adam(
            parameters.len(),
            handles(parameters).as_ptr(),
            handles(gradients).as_ptr(),
            handles(state.exp_avg).as_ptr(),
            handles(state.exp_avg_sq).as_ptr(),
            maxima.as_ref().map_or(null(), Vec::as_ptr),
            handles(state.steps).as_ptr(),
            settings.learning_rate,
            settings.beta1,
            settings.beta2,
            settings.weight_decay,
            settings.epsilon,
            c_int::from(settings.decoupled),
            c_int::from(settings.maximize),
            optional_handle(scale.grad_scale),
            optional_handle(scale.found_inf),
        )
    };
    ffi::check(operation, status)
}
