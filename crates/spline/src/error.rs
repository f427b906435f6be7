//! What can be wrong with settings or slices.

/// A setting that makes no spline, or a slice of the wrong length.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The number of bins is zero.
    #[error("num_bins: expected at least 1, got {num_bins}")]
    NumBins {
        /// The number given.
        num_bins: usize,
    },
    /// The tail bound is not a usable number.
    #[error("tail_bound: expected a number in [1e-6, 1e6], got {tail_bound}")]
    TailBound {
        /// The bound given.
        tail_bound: f64,
    },
    /// The smallest width or height leaves no room for the logits.
    #[error(
        "{name}: expected a positive number with {name} * num_bins < 1, \
         got {floor} * {num_bins} = {}", floor * *num_bins as f64
    )]
    Floor {
        /// `min_bin_width` or `min_bin_height`.
        name: &'static str,
        /// The floor given.
        floor: f64,
        /// The number of bins given.
        num_bins: usize,
    },
    /// The smallest derivative leaves no room for the derivative 1 of the tails.
    #[error("min_derivative: expected a number in (0, 1), got {min_derivative}")]
    MinDerivative {
        /// The smallest derivative given.
        min_derivative: f64,
    },
    /// The factor on the width and height logits is not a usable number.
    #[error("logit scale: expected a positive finite number, got {logit_scale}")]
    LogitScale {
        /// The factor given.
        logit_scale: f64,
    },
    /// A slice does not fit the number of elements, which is the length of the input.
    #[error("{name}: expected {expected} values, got {actual}")]
    Length {
        /// Which slice.
        name: &'static str,
        /// Length that fits.
        expected: usize,
        /// Length given.
        actual: usize,
    },
}
