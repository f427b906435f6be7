//! Vectorised exp, ln, softplus, sigmoid and activations with their derivatives, for f32 and f64.
//!
//! What is here: the number trait [`Real`] that the numerical crates are generic over; scalar
//! functions that inline into any loop ([`softplus`], [`sigmoid`], [`Activation`] and the
//! methods of [`Real`]); the choice of the instruction set at run time ([`Kernel`], [`dispatch()`],
//! [`kernel!`](crate::kernel)); and ready-made passes over slices ([`slices`]).
//!
//! What is deliberately not here: threads, allocation, errors, shapes. A caller cuts its buffers
//! itself and fuses what it needs out of the scalar functions.
//!
//! # Numerics
//! Every function is a branch-free polynomial, so a loop over it vectorises. NaN stays NaN. The
//! bounds of each function are stated in its documentation and held by constants that the tests
//! share. The last digit may differ between machines with and without fused multiply-add; on one
//! machine the result of an element depends neither on its neighbours nor on its position.

mod activation;
mod dispatch;
mod double;
mod functions;
mod gaussian;
mod real;
mod single;
pub mod slices;

pub use activation::{Activation, Elu, Gelu, LEAKY_RELU_SLOPE, LeakyRelu, Relu};
pub use dispatch::{Kernel, Level, dispatch, dispatch_at};
pub use functions::{clamp, maximum, minimum, sigmoid, softplus, softplus_and_sigmoid};
pub use gaussian::{gaussian_cdf_and_pdf, gelu_with_derivative};
pub use real::Real;
