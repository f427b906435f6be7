//! Distribution function of the normal distribution, and GELU, which is built on it.

use crate::real::Real;

/// (Phi(x), phi(x)): distribution function and density of the normal distribution.
///
/// With z = |x| / sqrt(2): Phi(-|x|) = exp(-z^2) g(z) / (2 (1 + 2 z)), where
/// g(z) = (1 + 2 z) exp(z^2) erfc(z) lies between 1 and 1.27 and is a short Chebyshev series
/// in (z - 2) / (z + 2).
///
/// # Numerics
/// Nothing cancels for negative x. Relative error of Phi at most
/// [`crate::slices::GAUSSIAN_MAX_ERROR`] epsilons for x >= -3, growing with x^2 below.
#[inline(always)]
pub fn gaussian_cdf_and_pdf<T: Real, const FMA: bool>(x: T) -> (T, T) {
    let two = T::from_f64(2.0);
    let z = x.magnitude() * T::from_f64(std::f64::consts::FRAC_1_SQRT_2);
    let weight = T::from_f64(-0.5) * x * x;
    let e = weight.exponential::<FMA>();
    let linear = two.fused::<FMA>(z, T::ONE);
    // One division serves both quotients.
    let inverse = T::ONE / ((z + two) * linear);
    let u = (z - two) * linear * inverse;
    let coefficients = T::SCALED_ERFC;
    let (mut b1, mut b2) = (T::ZERO, T::ZERO);
    for k in (1..coefficients.len()).rev() {
        let b0 = (u + u).fused::<FMA>(b1, coefficients[k] - b2);
        b2 = b1;
        b1 = b0;
    }
    let scaled = u.fused::<FMA>(b1, coefficients[0] - b2);
    let tail = T::from_f64(0.5) * e * scaled * ((z + two) * inverse);
    let cdf = if x > T::ZERO { T::ONE - tail } else { tail };
    // 1 / sqrt(2 pi).
    (cdf, e * T::from_f64(0.398_942_280_401_432_7))
}

/// (x Phi(x), Phi(x) + x phi(x)): GELU in its exact form and its derivative.
#[inline(always)]
pub fn gelu_with_derivative<T: Real, const FMA: bool>(x: T) -> (T, T) {
    let (cdf, pdf) = gaussian_cdf_and_pdf::<T, FMA>(x);
    (x * cdf, x.fused::<FMA>(pdf, cdf))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (x, Phi(x)) to 17 digits, computed in 40-digit arithmetic.
    const CDF: [(f64, f64); 9] = [
        (-8.0, 6.220960574271784e-16),
        (-5.0, 2.866515718791939e-07),
        (-3.0, 0.0013498980316300946),
        (-1.5, 0.06680720126885807),
        (-0.25, 0.4012936743170763),
        (0.0, 0.5),
        (0.5, 0.6914624612740131),
        (2.0, 0.9772498680518208),
        (6.0, 0.9999999990134123),
    ];

    #[test]
    fn distribution_function_has_the_known_values() {
        for (x, expected) in CDF {
            let (actual, _) = gaussian_cdf_and_pdf::<f64, false>(x);
            let bound =
                crate::slices::GAUSSIAN_MAX_ERROR * f64::EPSILON * expected * (1.0 + x * x / 9.0);
            assert!(
                (actual - expected).abs() <= bound,
                "Phi({x}) = {actual}, expected {expected}"
            );
            let x = x as f32;
            let single = f64::from(gaussian_cdf_and_pdf::<f32, false>(x).0);
            let (expected, _) = gaussian_cdf_and_pdf::<f64, false>(f64::from(x));
            let bound = bound / f64::EPSILON * f64::from(f32::EPSILON);
            assert!(
                (single - expected).abs() <= bound,
                "Phi({x}) = {single}, expected {expected}"
            );
        }
    }

    #[test]
    fn single_precision_follows_double_precision_everywhere() {
        for i in -3000..3000 {
            let x = i as f32 * 0.003;
            let (value, slope) = gelu_with_derivative::<f32, false>(x);
            let (value64, slope64) = gelu_with_derivative::<f64, false>(f64::from(x));
            assert!(
                (f64::from(value) - value64).abs() <= 4e-7 * (1.0 + value64.abs()),
                "{x}"
            );
            assert!((f64::from(slope) - slope64).abs() <= 4e-7, "{x}");
        }
    }

    #[test]
    fn derivative_is_the_slope_of_the_function() {
        for i in -60..60 {
            let (x, step) = (f64::from(i) * 0.1 + 0.03, 1e-5);
            let (_, slope) = gelu_with_derivative::<f64, false>(x);
            let (up, _) = gelu_with_derivative::<f64, false>(x + step);
            let (down, _) = gelu_with_derivative::<f64, false>(x - step);
            assert!((slope - (up - down) / (2.0 * step)).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn nan_stays_nan() {
        let (value, slope) = gelu_with_derivative::<f32, false>(f32::NAN);
        assert!(value.is_nan() && slope.is_nan());
    }
}
