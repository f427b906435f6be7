//! Settings of the spline, and the constants that every formulation of it shares.

use crate::Error;

/// Smallest width, height (as shares of the interval) and derivative where nothing else is set.
pub const DEFAULT_FLOOR: f64 = 1e-3;

/// What defines a spline besides its logits.
///
/// The constants that other formulations of the spline need (tensor operations, exported graphs)
/// are methods here, so that they are written once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplineSettings {
    /// Number of bins K.
    pub num_bins: usize,
    /// The spline lives on [-B, B]; beyond it is the identity.
    pub tail_bound: f64,
    /// Smallest bin width as a share of 2 B.
    pub min_bin_width: f64,
    /// Smallest bin height as a share of 2 B.
    pub min_bin_height: f64,
    /// Smallest derivative at a knot.
    pub min_derivative: f64,
}

impl SplineSettings {
    /// Settings with the usual floors of [`DEFAULT_FLOOR`]; not yet validated.
    pub fn new(num_bins: usize, tail_bound: f64) -> Self {
        Self {
            num_bins,
            tail_bound,
            min_bin_width: DEFAULT_FLOOR,
            min_bin_height: DEFAULT_FLOOR,
            min_derivative: DEFAULT_FLOOR,
        }
    }

    /// Checks that the settings define a spline.
    ///
    /// # Errors
    /// [`Error::NumBins`], [`Error::TailBound`], [`Error::Floor`] (also when the floors fill the
    /// interval exactly, which would leave the logits without effect) and
    /// [`Error::MinDerivative`].
    pub fn validate(&self) -> Result<(), Error> {
        let Self {
            num_bins,
            tail_bound,
            min_derivative,
            ..
        } = *self;
        if num_bins == 0 {
            return Err(Error::NumBins { num_bins });
        }
        if !(1e-6..=1e6).contains(&tail_bound) {
            return Err(Error::TailBound { tail_bound });
        }
        let floors = [
            ("min_bin_width", self.min_bin_width),
            ("min_bin_height", self.min_bin_height),
        ];
        for (name, floor) in floors {
            // A product that only rounding keeps below 1 fills the interval too.
            if !(floor > 0.0 && floor * num_bins as f64 <= 1.0 - 1e-12) {
                return Err(Error::Floor {
                    name,
                    floor,
                    num_bins,
                });
            }
        }
        if !(min_derivative > 0.0 && min_derivative < 1.0) {
            return Err(Error::MinDerivative { min_derivative });
        }
        Ok(())
    }

    /// 3 K - 1: logits of one element (K widths, K heights, K - 1 inner derivatives).
    pub fn parameters_per_element(&self) -> usize {
        3 * self.num_bins - 1
    }

    /// ln(exp(1 - m) - 1), m = `min_derivative`: the derivative logit that stands at both ends.
    ///
    /// m + softplus of it is 1, the slope of the tails. It is also the bias that makes a spline
    /// whose other logits are zero the identity. With m = 1e-3 it is 0.539742417236952.
    pub fn boundary_derivative_logit(&self) -> f64 {
        (1.0 - self.min_derivative).exp_m1().ln()
    }

    /// (2 B m, 2 B (1 - m K)), m = `min_bin_width`: a bin is as wide as the first plus the second
    /// times its softmax.
    pub fn width_floor_and_range(&self) -> (f64, f64) {
        self.floor_and_range(self.min_bin_width)
    }

    /// (2 B m, 2 B (1 - m K)), m = `min_bin_height`: a bin is as high as the first plus the second
    /// times its softmax.
    pub fn height_floor_and_range(&self) -> (f64, f64) {
        self.floor_and_range(self.min_bin_height)
    }

    fn floor_and_range(&self, floor: f64) -> (f64, f64) {
        let span = 2.0 * self.tail_bound;
        (span * floor, span * (1.0 - floor * self.num_bins as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_logit_has_the_known_value_and_gives_slope_one() {
        let settings = SplineSettings::new(8, 1.0);
        let logit = settings.boundary_derivative_logit();
        assert!((logit - 0.539_742_417_236_952_2).abs() < 1e-15, "{logit}");
        assert!((DEFAULT_FLOOR + logit.exp().ln_1p() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn floors_and_ranges_fill_the_interval() {
        let settings = SplineSettings {
            min_bin_height: 0.05,
            ..SplineSettings::new(10, 3.0)
        };
        let (floor, range) = settings.width_floor_and_range();
        assert!((10.0 * floor + range - 6.0).abs() < 1e-14);
        assert!((floor - 6e-3).abs() < 1e-16);
        let (floor, range) = settings.height_floor_and_range();
        assert!((10.0 * floor + range - 6.0).abs() < 1e-14);
        assert!((floor - 0.3).abs() < 1e-15);
        assert_eq!(settings.parameters_per_element(), 29);
    }

    #[test]
    fn bad_settings_are_refused() {
        let good = SplineSettings::new(8, 1.0);
        assert_eq!(good.validate(), Ok(()));
        assert_eq!(SplineSettings::new(1, 1.0).validate(), Ok(()));
        assert_eq!(
            SplineSettings::new(0, 1.0).validate(),
            Err(Error::NumBins { num_bins: 0 })
        );
        for tail_bound in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
            let result = SplineSettings::new(8, tail_bound).validate();
            assert!(
                matches!(result, Err(Error::TailBound { .. })),
                "{tail_bound}"
            );
        }
        for min_derivative in [0.0, -1e-3, 1.0, 2.0, f64::NAN] {
            let result = SplineSettings {
                min_derivative,
                ..good
            }
            .validate();
            assert!(
                matches!(result, Err(Error::MinDerivative { .. })),
                "{min_derivative}"
            );
        }
        for floor in [0.0, -1e-3, f64::NAN, f64::INFINITY, 0.125, 0.13] {
            let result = SplineSettings {
                min_bin_width: floor,
                ..good
            }
            .validate();
            assert!(
                matches!(
                    result,
                    Err(Error::Floor {
                        name: "min_bin_width",
                        ..
                    })
                ),
                "{floor}"
            );
            let result = SplineSettings {
                min_bin_height: floor,
                ..good
            }
            .validate();
            assert!(
                matches!(
                    result,
                    Err(Error::Floor {
                        name: "min_bin_height",
                        ..
                    })
                ),
                "{floor}"
            );
        }
    }
}
