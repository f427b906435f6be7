//! Functions built on [`Real`], each inlined into the loop that calls it.

use crate::real::Real;

/// The larger of two numbers; `a` if either is NaN.
#[inline(always)]
pub fn maximum<T: Real>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The smaller of two numbers; `a` if either is NaN.
#[inline(always)]
pub fn minimum<T: Real>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

/// `x` limited to [low, high]; NaN stays NaN.
#[inline(always)]
pub fn clamp<T: Real>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// exp(-|x|), at least the smallest positive number.
#[inline(always)]
fn exponential_of_negative<T: Real, const FMA: bool>(x: T) -> T {
    maximum(-x.magnitude(), T::EXPONENTIAL_FLOOR).exponential_in_range::<FMA>()
}

/// ln(1 + exp(x)) = max(x, 0) + ln(1 + exp(-|x|)).
///
/// # Domain
/// All numbers; below -87 (f32) or -708 (f64) the result stays at the smallest positive number.
/// Infinity and NaN stay what they are.
///
/// # Numerics
/// Relative error at most [`crate::slices::SOFTPLUS_MAX_ERROR`] epsilons.
#[inline(always)]
pub fn softplus<T: Real, const FMA: bool>(x: T) -> T {
    let e = exponential_of_negative::<T, FMA>(x);
    maximum(x, T::ZERO) + e.logarithm_of_one_plus::<FMA>()
}

/// 1 / (1 + exp(-x)).
///
/// # Numerics
/// Relative error at most [`crate::slices::SIGMOID_MAX_ERROR`] epsilons.
#[inline(always)]
pub fn sigmoid<T: Real, const FMA: bool>(x: T) -> T {
    let e = exponential_of_negative::<T, FMA>(x);
    let inverse = T::ONE / (e + T::ONE);
    if x < T::ZERO { e * inverse } else { inverse }
}

/// ([`softplus`], its derivative [`sigmoid`]) at the price of one.
#[inline(always)]
pub fn softplus_and_sigmoid<T: Real, const FMA: bool>(x: T) -> (T, T) {
    let e = exponential_of_negative::<T, FMA>(x);
    let inverse = T::ONE / (e + T::ONE);
    let value = maximum(x, T::ZERO) + e.logarithm_of_one_plus::<FMA>();
    (value, if x < T::ZERO { e * inverse } else { inverse })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Largest |function - exact| / |exact| over the points rounded to `T`, in epsilons of `T`.
    pub(crate) fn largest_relative_error<T: Real>(
        points: impl Iterator<Item = f64>,
        function: impl Fn(T) -> T,
        exact: impl Fn(f64) -> f64,
    ) -> f64 {
        let mut largest = 0.0;
        for point in points {
            let x = T::from_f64(point);
            let expected = exact(x.to_f64());
            let actual = function(x).to_f64();
            if actual == expected {
                continue;
            }
            let error = ((actual - expected) / expected).abs() / T::EPSILON.to_f64();
            assert!(!error.is_nan(), "at {point}: {actual}, expected {expected}");
            if error > largest {
                largest = error;
            }
        }
        assert!(
            largest > 0.0,
            "a rounded function cannot be exact everywhere"
        );
        largest
    }

    #[test]
    fn nan_survives_every_function() {
        let nan = f32::NAN;
        assert!(softplus::<f32, false>(nan).is_nan());
        assert!(sigmoid::<f32, false>(nan).is_nan());
        assert!(nan.exponential::<false>().is_nan());
        assert!(nan.exponential_minus_one::<false>().is_nan());
        assert!(nan.logarithm::<false>().is_nan());
        assert!(clamp(nan, -1.0, 1.0).is_nan());
        assert!(f64::NAN.exponential::<false>().is_nan());
        assert!(f64::NAN.logarithm::<false>().is_nan());
    }

    #[test]
    fn the_ends_of_the_domain_behave_as_documented() {
        assert_eq!(f32::INFINITY.logarithm::<false>(), f32::INFINITY);
        assert_eq!(f64::INFINITY.logarithm::<false>(), f64::INFINITY);
        for x in [0.0, -1.0, f32::NEG_INFINITY, 1e-40] {
            assert!(
                (x.logarithm::<false>() - f32::MIN_POSITIVE.ln()).abs() < 1e-5,
                "{x}"
            );
        }
        for x in [0.0, -1.0, f64::NEG_INFINITY, 1e-310] {
            assert!(
                (x.logarithm::<false>() - f64::MIN_POSITIVE.ln()).abs() < 1e-12,
                "{x}"
            );
        }
        assert_eq!(1.0_f32.logarithm::<false>(), 0.0);
        assert_eq!(1.0_f64.logarithm::<false>(), 0.0);
        assert_eq!(0.0_f32.exponential::<false>(), 1.0);
        assert_eq!(0.0_f64.exponential::<false>(), 1.0);
        for x in [f32::NEG_INFINITY, -1e30, f32::INFINITY, 1e30] {
            let e = x.exponential::<false>();
            assert!(e > 0.0 && e.is_finite(), "exp({x}) = {e}");
            let s = sigmoid::<f32, false>(x);
            assert!((0.0..=1.0).contains(&s), "sigmoid({x}) = {s}");
        }
        assert_eq!(softplus::<f32, false>(f32::INFINITY), f32::INFINITY);
        assert_eq!(softplus::<f32, false>(50.0), 50.0);
        assert!(softplus::<f32, false>(-1e30) > 0.0);
    }

    #[test]
    fn softplus_with_its_derivative_agrees_with_the_single_functions() {
        for i in -2000..2000 {
            let x = f64::from(i) * 0.013;
            let (value, slope) = softplus_and_sigmoid::<f64, false>(x);
            assert_eq!(value, softplus::<f64, false>(x));
            assert_eq!(slope, sigmoid::<f64, false>(x));
        }
    }
}
