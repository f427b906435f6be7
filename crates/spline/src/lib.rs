//! Rational-quadratic spline with linear tails: forward, inverse, gradients.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings no spline can have.
    #[error("spline settings: {0}")]
    Settings(String),
}

/// Bins and tail bound of a spline; the floors are 1e-3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplineSettings {
    num_bins: usize,
    tail_bound: f64,
}

impl SplineSettings {
    /// Validates the numbers.
    ///
    /// # Errors
    /// [`Error::Settings`] when no spline can have them.
    pub fn new(num_bins: usize, tail_bound: f64) -> Result<Self, Error> {
        if num_bins == 0 || num_bins >= 1000 || !tail_bound.is_finite() || tail_bound <= 0.0 {
            return Err(Error::Settings(format!("num_bins {num_bins}, tail_bound {tail_bound}")));
        }
        Ok(Self { num_bins, tail_bound })
    }

    /// Bins K.
    pub fn num_bins(&self) -> usize {
        self.num_bins
    }

    /// The spline acts on [-tail_bound, tail_bound].
    pub fn tail_bound(&self) -> f64 {
        self.tail_bound
    }

    /// Derivative logit at which the derivative is 1: ln(e^(1 - 1e-3) - 1).
    pub fn boundary_derivative_logit(&self) -> f64 {
        0.539_742_417_236_952_2
    }
}
