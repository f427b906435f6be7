//! Vectorised exp, ln, softplus, sigmoid and activations with their derivatives.

/// A floating-point type the network computes in.
pub trait Real: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Rounds from float64.
    fn from_f64(value: f64) -> Self;
    /// Converts exactly to float64.
    fn to_f64(self) -> f64;
}

impl Real for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
}
