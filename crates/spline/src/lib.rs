//! Rational-quadratic spline with linear tails: forward, inverse, and the gradients of both.
//!
//! Inside [-B, B] (B the tail bound) each element passes through its own monotone spline of K
//! bins, defined by K unnormalized widths, K unnormalized heights and K - 1 unnormalized inner
//! derivatives; outside it passes unchanged. [`RationalQuadraticSpline`] holds the validated
//! [`SplineSettings`] and works on slices of f32 or f64 in either [`Parameters`] layout.
//!
//! The crate writes into its caller's buffers and has static shapes throughout: an element in the
//! tails runs through the same arithmetic as every other, with a safe stand-in for its value, so
//! nothing depends on the data, no domain is asserted and no gradient is lost to a masked NaN.
//!
//! What is deliberately not here: the network that makes the parameters, sums over features,
//! tensors, any random number. Everything below is safe code; the instruction set is chosen by
//! [`dunnart_elementwise::dispatch()`].
//!
//! # Source
//! Durkan, Bekasov, Murray, Papamakarios, "Neural Spline Flows", 2019, equations 4 to 8 and
//! appendix A.

mod backward;
mod block;
mod chunk;
mod curve;
mod error;
mod layout;
mod settings;
mod spline;
mod split;

pub use chunk::SplineReal;
pub use error::Error;
pub use layout::{Parameters, ParametersMut};
pub use settings::{DEFAULT_FLOOR, SplineSettings};
pub use spline::{RationalQuadraticSpline, Upstream};
