//! Complex values over frequency bins.

/// Complex values over frequency bins, real and imaginary parts apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spectrum {
    /// Real parts.
    pub re: Vec<f64>,
    /// Imaginary parts, as many.
    pub im: Vec<f64>,
}

impl Spectrum {
    /// Zeros.
    pub fn zeros(bins: usize) -> Self {
        Self {
            re: vec![0.0; bins],
            im: vec![0.0; bins],
        }
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.re.len()
    }
}
