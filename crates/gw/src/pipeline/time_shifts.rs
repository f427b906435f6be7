//! Step 3: group-equivariant time proxies.
//!
//! A proxy is an arrival time blurred by a kernel. The network gets the proxy, the data are shifted by it,
//! so that what is left in them is the blur alone.

use dunnart_random::Purpose;

use super::Draw;
use crate::{Prior, Result};

/// Settings of the time proxies.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeShifts {
    /// What a detector's time is blurred by.
    pub kernel: Prior,
    /// Whether times are given relative to the first detector's proxy, which makes the translation of all
    /// times together exact.
    pub exact_equivariance: bool,
}

/// Times after step 3.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedTimes {
    /// Proxies, `[I]`: time + blur.
    pub proxies: Vec<f64>,
    /// Times that the strain is shifted by, `[I]`: time - proxy.
    pub times: Vec<f64>,
    /// What the network infers: relative to the first proxy where the equivariance is exact.
    pub geocent_time: f64,
    /// What the network is conditioned on, in the order of [`TimeShifts::names`].
    pub context: Vec<f64>,
}

impl TimeShifts {
    /// Shifts by a kernel in bilby's spelling.
    ///
    /// # Errors
    /// [`crate::Error::Prior`].
    pub fn new(kernel: &str, exact_equivariance: bool) -> Result<Self> {
        Ok(Self {
            kernel: Prior::from_text("gnpe_time_shifts.kernel", kernel)?,
            exact_equivariance,
        })
    }

    /// Names of the context parameters for these detectors: `H1_time_proxy`, or
    /// `L1_time_proxy_relative` for all but the first where the equivariance is exact.
    pub fn names<S: AsRef<str>>(&self, detectors: &[S]) -> Vec<String> {
        let detectors = detectors.iter().map(AsRef::as_ref);
        if self.exact_equivariance {
            detectors
                .skip(1)
                .map(|name| format!("{name}_time_proxy_relative"))
                .collect()
        } else {
            detectors.map(|name| format!("{name}_time_proxy")).collect()
        }
    }

    /// The blur of every detector's time for a sample.
    pub fn draw(&self, draw: Draw, sample: u64, detectors: usize) -> Vec<f64> {
        let mut stream = draw.key(Purpose::GnpeKernel).stream(sample);
        (0..detectors)
            .map(|_| self.kernel.sample(&mut stream))
            .collect()
    }

    /// Proxies and what they leave of the times.
    ///
    /// # Shapes
    /// `times` and `blurs` have one value per detector.
    pub fn apply(&self, times: &[f64], geocent_time: f64, blurs: &[f64]) -> ShiftedTimes {
        let proxies: Vec<f64> = times.iter().zip(blurs).map(|(t, e)| t + e).collect();
        let shifted = times.iter().zip(&proxies).map(|(t, p)| t - p).collect();
        let (geocent_time, context) = match proxies.first() {
            Some(first) if self.exact_equivariance => (
                geocent_time - first,
                proxies[1..].iter().map(|p| p - first).collect(),
            ),
            _ => (geocent_time, proxies.clone()),
        };
        ShiftedTimes {
            proxies,
            times: shifted,
            geocent_time,
            context,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_with_and_without_exact_equivariance() {
        let mut shifts = TimeShifts::new("Uniform(-0.001, 0.001)", false).unwrap();
        let (times, blurs) = ([0.5, 0.25], [0.125, -0.0625]);
        let shifted = shifts.apply(&times, 1.0, &blurs);
        assert_eq!(shifted.proxies, [0.625, 0.1875]);
        assert_eq!(shifted.times, [-0.125, 0.0625]);
        assert_eq!(shifted.geocent_time, 1.0);
        assert_eq!(shifted.context, shifted.proxies);
        assert_eq!(
            shifts.names(&["H1", "L1"]),
            ["H1_time_proxy", "L1_time_proxy"]
        );
        shifts.exact_equivariance = true;
        let shifted = shifts.apply(&times, 1.0, &blurs);
        assert_eq!(shifted.times, [-0.125, 0.0625]);
        assert_eq!(shifted.geocent_time, 0.375);
        assert_eq!(shifted.context, [-0.4375]);
        assert_eq!(shifts.names(&["H1", "L1"]), ["L1_time_proxy_relative"]);
    }

    #[test]
    fn blurs_belong_to_the_sample() {
        let shifts = TimeShifts::new("Uniform(-0.001, 0.001)", true).unwrap();
        let draw = Draw {
            seed: 1,
            stage: 0,
            epoch: 0,
        };
        let blurs = shifts.draw(draw, 3, 3);
        assert_eq!(blurs, shifts.draw(draw, 3, 3));
        assert_eq!(blurs[..2], shifts.draw(draw, 3, 2));
        assert_ne!(blurs, shifts.draw(draw, 4, 3));
        assert!(blurs.iter().all(|blur| blur.abs() <= 1e-3));
        assert!(TimeShifts::new("Uniform(1, 0)", true).is_err());
    }
}
