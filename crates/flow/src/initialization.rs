//! Values a network starts from.

use dunnart_random::{Key, Purpose};

use crate::{Error, Result};

/// How a parameter is initialised.
#[derive(Clone, Debug, PartialEq)]
pub enum Initialization {
    /// Uniform in `[low, high)`.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// One value everywhere.
    Constant(f64),
    /// Bias of a spline's final layer at which the spline is the identity: zero width and height
    /// logits, derivative logits at which the derivative is 1.
    IdentitySpline {
        /// Bins K of the spline.
        num_bins: usize,
        /// The derivative logit.
        derivative: f64,
    },
}

impl Initialization {
    /// torch's default for a linear layer: uniform in +-1/sqrt(fan_in), 0 without inputs.
    pub(crate) fn linear(inputs: usize) -> Self {
        let bound = if inputs == 0 {
            0.0
        } else {
            1.0 / (inputs as f64).sqrt()
        };
        Self::Uniform {
            low: -bound,
            high: bound,
        }
    }

    /// Value of every element, drawn from the stream of this parameter.
    pub(crate) fn fill(&self, seed: u64, parameter: usize, count: usize) -> Vec<f64> {
        match *self {
            Self::Uniform { low, high } => {
                let mut stream = Key::new(seed, Purpose::Initialisation).stream(parameter as u64);
                (0..count).map(|_| stream.uniform_in(low, high)).collect()
            }
            Self::Constant(value) => vec![value; count],
            Self::IdentitySpline {
                num_bins,
                derivative,
            } => (0..count)
                .map(|i| {
                    if i % (3 * num_bins - 1) < 2 * num_bins {
                        0.0
                    } else {
                        derivative
                    }
                })
                .collect(),
        }
    }
}

/// Weight of one detector's reduced-basis layer from the basis `V = Re + i Im`, first `n` columns.
///
/// The layer maps `[Re d | Im d | ASD]` to `[Re(d V) | Im(d V)]`; every value is a rounded entry of
/// V or 0.
///
/// # Shapes
/// `real`, `imag`: `[F, columns]` row-major with `columns >= n`; the result is `[2n, channels F]`.
///
/// # Errors
/// [`Error::Length`] or [`Error::Shape`] when V has too few columns or another number of elements.
pub fn reduced_basis_weight(
    real: &[f64],
    imag: &[f64],
    columns: usize,
    n: usize,
    channels: usize,
) -> Result<Vec<f64>> {
    if real.len() != imag.len() {
        return Err(Error::Length {
            name: "imaginary part of the reduced basis".into(),
            expected: real.len(),
            found: imag.len(),
        });
    }
    if columns < n || columns == 0 || !real.len().is_multiple_of(columns) {
        return Err(Error::Shape {
            name: "reduced basis V".into(),
            expected: vec![real.len() / columns.max(1), n],
            found: vec![real.len() / columns.max(1), columns],
        });
    }
    let bins = real.len() / columns;
    let inputs = channels * bins;
    let mut weight = vec![0.0; 2 * n * inputs];
    for f in 0..bins {
        for k in 0..n {
            let (re, im) = (real[f * columns + k], imag[f * columns + k]);
            weight[k * inputs + f] = re;
            weight[k * inputs + bins + f] = -im;
            weight[(n + k) * inputs + f] = im;
            weight[(n + k) * inputs + bins + f] = re;
        }
    }
    Ok(weight)
}
