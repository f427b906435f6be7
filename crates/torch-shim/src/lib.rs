//! The little C++ that tch lacks: fused optimisers, custom functions, autocast, matmul precision.
//!
//! Here: [matmul precision](MatmulPrecision), [fused optimisers](fused_adam), [operations over lists of tensors](foreach_norm),
//! [clipping](clip_grad_norm), [gradients of chosen outputs](gradients), [`.grad` tensors of our own](set_grad),
//! [functions whose forward and backward are Rust](CustomFunction), [autocast with a dtype](Autocast), tensors over Rust's
//! memory and slices over tensors' ([`tensor_from_vec`], [`as_slice`]), and a [count of dispatched operations](OperationCounter).
//!
//! Deliberately not here: anything that tch has, anything about flows, and the choice of device or dtype.
//!
//! Everything fallible returns [`Error`]. C++ exceptions and Rust panics become errors, their texts carry no backtrace.

mod autocast;
mod count;
mod custom;
mod error;
mod ffi;
mod foreach;
mod gradient;
mod memory;
mod optimiser;
mod precision;

pub use autocast::Autocast;
pub use count::{OperationCount, OperationCounter};
pub use custom::{BoxError, CustomFunction, Forward, apply};
pub use error::{Error, Result};
pub use foreach::{clip_grad_norm, foreach_mul, foreach_norm, foreach_unscale, foreach_zero};
pub use gradient::{GradientOptions, backward, clear_grad, gradients, set_grad};
pub use memory::{Element, as_mut_slice, as_slice, tensor_from_vec, with_borrowed};
pub use optimiser::{
    AdagradSettings, AdagradState, AdamSettings, AdamState, LossScale, SgdSettings, SgdState,
    fused_adagrad, fused_adam, fused_sgd,
};
pub use precision::{MatmulPrecision, matmul_precision, set_matmul_precision};
