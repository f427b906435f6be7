//! One-dimensional priors as bilby spells them: the extrinsic parameters and the kernels of proxies.
//!
//! Here: the distributions that training settings use, their quantile function, density and moments,
//! and how they are read ([`Prior::from_value`]). Deliberately not here: joint and conditional priors,
//! and the intrinsic prior of a data set, which is metadata and is never evaluated.

mod expression;
mod normal;
mod parse;

use dunnart_random::{Key, Purpose, Stream};
use std::f64::consts::{FRAC_PI_2, LN_2, PI};

use normal::{distribution, quantile as normal_quantile};

/// A one-dimensional prior.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Prior {
    /// One value.
    Delta {
        /// The value.
        peak: f64,
    },
    /// p = 1 / (maximum - minimum).
    Uniform {
        /// Lower end.
        minimum: f64,
        /// Upper end.
        maximum: f64,
    },
    /// p proportional to sin x, within [0, pi].
    Sine {
        /// Lower end.
        minimum: f64,
        /// Upper end.
        maximum: f64,
    },
    /// p proportional to cos x, within [-pi/2, pi/2].
    Cosine {
        /// Lower end.
        minimum: f64,
        /// Upper end.
        maximum: f64,
    },
    /// p proportional to x^alpha; alpha = -1 is uniform in ln x.
    PowerLaw {
        /// The exponent.
        alpha: f64,
        /// Lower end.
        minimum: f64,
        /// Upper end.
        maximum: f64,
    },
    /// The normal distribution.
    Normal {
        /// Mean.
        mu: f64,
        /// Standard deviation.
        sigma: f64,
    },
    /// The normal distribution between two ends.
    TruncatedNormal {
        /// Mean before truncation.
        mu: f64,
        /// Standard deviation before truncation.
        sigma: f64,
        /// Lower end.
        minimum: f64,
        /// Upper end.
        maximum: f64,
    },
}

/// Draws that stand in for a closed form in [`Prior::moments`].
const MOMENT_DRAWS: usize = 50_000;

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
}

impl Moments {
    /// Mean and population standard deviation of values, each summed in one pass over differences from
    /// the first value.
    pub fn of(values: &[f64]) -> Self {
        let shift = values.first().copied().unwrap_or(0.0);
        let count = values.len() as f64;
        let mean = values.iter().map(|x| x - shift).sum::<f64>() / count;
        let squares: f64 = values.iter().map(|x| (x - shift - mean).powi(2)).sum();
        Self {
            mean: shift + mean,
            std: (squares / count).sqrt(),
        }
    }
}

impl Prior {
    /// The value below which lies the share `u` of the probability.
    ///
    /// # Domain
    /// `u` in [0, 1).
    pub fn quantile(&self, u: f64) -> f64 {
        let value = match *self {
            Self::Delta { peak } => peak,
            Self::Uniform { minimum, maximum } => minimum + u * (maximum - minimum),
            Self::Sine { minimum, maximum } => {
                (minimum.cos() - u * (minimum.cos() - maximum.cos())).acos()
            }
            Self::Cosine { minimum, maximum } => {
                (minimum.sin() + u * (maximum.sin() - minimum.sin())).asin()
            }
            Self::PowerLaw {
                alpha,
                minimum,
                maximum,
            } => {
                if alpha == -1.0 {
                    minimum * (u * (maximum / minimum).ln()).exp()
                } else {
                    let power = 1.0 + alpha;
                    let low = minimum.powf(power);
                    (low + u * (maximum.powf(power) - low)).powf(1.0 / power)
                }
            }
            Self::Normal { mu, sigma } => mu + sigma * normal_quantile(u),
            Self::TruncatedNormal {
                mu,
                sigma,
                minimum,
                maximum,
            } => {
                // The farther tail would lose its digits as a share close to 1.
                let (a, b) = ((minimum - mu) / sigma, (maximum - mu) / sigma);
                if a > 0.0 {
                    let (low, high) = (distribution(-b), distribution(-a));
                    mu - sigma * normal_quantile(high - u * (high - low))
                } else {
                    let (low, high) = (distribution(a), distribution(b));
                    mu + sigma * normal_quantile(low + u * (high - low))
                }
            }
        };
        let (low, high) = self.bounds();
        // Not `clamp`: a NaN must not panic.
        value.max(low).min(high)
    }

    /// A draw: the quantile of the stream's next uniform number.
    ///
    /// Every prior, also a single value, takes one number, so that what one parameter's prior is does
    /// not move the draws of another.
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        self.quantile(stream.uniform())
    }

    /// ln p(x); negative infinity outside the bounds, 0 at the value of a single-valued prior.
    pub fn log_density(&self, x: f64) -> f64 {
        let (low, high) = self.bounds();
        // Also false for NaN.
        if !(low <= x && x <= high) {
            return f64::NEG_INFINITY;
        }
        let normal = |mu: f64, sigma: f64| {
            -0.5 * ((x - mu) / sigma).powi(2) - sigma.ln() - 0.5 * (LN_2 + PI.ln())
        };
        match *self {
            Self::Delta { .. } => 0.0,
            Self::Uniform { minimum, maximum } => -(maximum - minimum).ln(),
            Self::Sine { minimum, maximum } => x.sin().ln() - (minimum.cos() - maximum.cos()).ln(),
            Self::Cosine { minimum, maximum } => {
                x.cos().ln() - (maximum.sin() - minimum.sin()).ln()
            }
            Self::PowerLaw {
                alpha,
                minimum,
                maximum,
            } => {
                let mass = if alpha == -1.0 {
                    (maximum / minimum).ln()
                } else {
                    let power = 1.0 + alpha;
                    (maximum.powf(power) - minimum.powf(power)) / power
                };
                // 0 ln 0 is 0 here: a flat law has a density at the origin.
                let law = if alpha == 0.0 { 0.0 } else { alpha * x.ln() };
                law - mass.ln()
            }
            Self::Normal { mu, sigma } => normal(mu, sigma),
            Self::TruncatedNormal { mu, sigma, .. } => normal(mu, sigma) - self.mass().ln(),
        }
    }

    /// The share of the untruncated distribution between the bounds.
    fn mass(&self) -> f64 {
        match *self {
            Self::TruncatedNormal {
                mu,
                sigma,
                minimum,
                maximum,
            } => {
                let (a, b) = ((minimum - mu) / sigma, (maximum - mu) / sigma);
                if a > 0.0 {
                    distribution(-a) - distribution(-b)
                } else {
                    distribution(b) - distribution(a)
                }
            }
            _ => 1.0,
        }
    }

    /// Mean and standard deviation as training standardises with them.
    ///
    /// Exact for a single value, for a uniform prior and for sine and cosine over their full range;
    /// otherwise mean and population standard deviation of 50,000 draws from a fixed key.
    pub fn moments(&self) -> Moments {
        let full_range_std = (PI * PI / 4.0 - 2.0).sqrt();
        match *self {
            Self::Delta { peak } => Moments {
                mean: peak,
                std: 0.0,
            },
            Self::Uniform { minimum, maximum } => Moments {
                mean: (minimum + maximum) / 2.0,
                std: ((maximum - minimum).powi(2) / 12.0).sqrt(),
            },
            Self::Sine { minimum, maximum } if minimum == 0.0 && maximum == PI => Moments {
                mean: FRAC_PI_2,
                std: full_range_std,
            },
            Self::Cosine { minimum, maximum } if minimum == -FRAC_PI_2 && maximum == FRAC_PI_2 => {
                Moments {
                    mean: 0.0,
                    std: full_range_std,
                }
            }
            _ => {
                let mut stream = Key::new(0, Purpose::Standardisation).stream(0);
                let draws: Vec<f64> = (0..MOMENT_DRAWS)
                    .map(|_| self.sample(&mut stream))
                    .collect();
                Moments::of(&draws)
            }
        }
    }

    /// Smallest and largest possible value.
    pub fn bounds(&self) -> (f64, f64) {
        match *self {
            Self::Delta { peak } => (peak, peak),
            Self::Normal { .. } => (f64::NEG_INFINITY, f64::INFINITY),
            Self::Uniform { minimum, maximum }
            | Self::Sine { minimum, maximum }
            | Self::Cosine { minimum, maximum }
            | Self::PowerLaw {
                minimum, maximum, ..
            }
            | Self::TruncatedNormal {
                minimum, maximum, ..
            } => (minimum, maximum),
        }
    }

    /// What is wrong with the numbers of this prior, if anything.
    fn check(&self) -> Result<(), String> {
        let (low, high) = self.bounds();
        if let Self::Delta { peak } = *self {
            return finite("the value", peak);
        }
        if let Self::Normal { mu, sigma } | Self::TruncatedNormal { mu, sigma, .. } = *self {
            finite("mu", mu)?;
            finite("sigma", sigma)?;
            if sigma <= 0.0 {
                return Err(format!("sigma must be positive, got {sigma}"));
            }
            if matches!(self, Self::Normal { .. }) {
                return Ok(());
            }
        }
        finite("minimum", low)?;
        finite("maximum", high)?;
        if low >= high {
            return Err(format!(
                "minimum must be below maximum, got {low} and {high}"
            ));
        }
        let within = |from: f64, to: f64, name: &str| {
            // Bounds are often written with a few digits of pi.
            if low < from - 1e-6 || high > to + 1e-6 {
                return Err(format!(
                    "{name} is a density within [{from}, {to}] only, got {low} to {high}"
                ));
            }
            Ok(())
        };
        match *self {
            Self::Sine { .. } => within(0.0, PI, "Sine"),
            Self::Cosine { .. } => within(-FRAC_PI_2, FRAC_PI_2, "Cosine"),
            Self::PowerLaw { alpha, .. } => {
                finite("alpha", alpha)?;
                if low < 0.0 || (alpha <= -1.0 && low == 0.0) {
                    return Err(format!("minimum must be positive, got {low}"));
                }
                Ok(())
            }
            Self::TruncatedNormal { mu, sigma, .. } if self.mass() < f64::MIN_POSITIVE => Err(
                format!("nothing of N({mu}, {sigma}) lies between {low} and {high}"),
            ),
            _ => Ok(()),
        }
    }
}

fn finite(name: &str, value: f64) -> Result<(), String> {
    if value.is_finite() {
        return Ok(());
    }
    Err(format!("{name} must be a finite number, got {value}"))
}

#[cfg(test)]
#[path = "prior/prior_tests.rs"]
mod tests;
