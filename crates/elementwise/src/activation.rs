//! Activation functions as types, so that a fused pass is compiled once for each.

use crate::gaussian::{gaussian_cdf_and_pdf, gelu_with_derivative};
use crate::real::Real;

/// Slope of [`LeakyRelu`] below 0.
pub const LEAKY_RELU_SLOPE: f64 = 0.01;

/// An activation function with its derivative.
///
/// The implementors have no size; a fused pass takes one as a type parameter and calls the
/// functions in its loop.
pub trait Activation: Copy + Send + Sync + 'static {
    /// Whether [`Activation::derivative`] reads its first argument; if not, the input need not be
    /// kept for the backward pass.
    const DERIVATIVE_NEEDS_INPUT: bool;

    /// f(x).
    fn value<T: Real, const FMA: bool>(input: T) -> T;

    /// f'(x), given x and f(x).
    ///
    /// Where [`Activation::DERIVATIVE_NEEDS_INPUT`] is false, any number may stand for x.
    fn derivative<T: Real, const FMA: bool>(input: T, output: T) -> T;
}

/// x for x > 0, exp(x) - 1 below.
#[derive(Clone, Copy, Debug)]
pub struct Elu;

/// max(x, 0).
#[derive(Clone, Copy, Debug)]
pub struct Relu;

/// x for x > 0, 0.01 x below.
#[derive(Clone, Copy, Debug)]
pub struct LeakyRelu;

/// x Phi(x), with the exact distribution function of the normal distribution.
#[derive(Clone, Copy, Debug)]
pub struct Gelu;

impl Activation for Elu {
    const DERIVATIVE_NEEDS_INPUT: bool = false;

    #[inline(always)]
    fn value<T: Real, const FMA: bool>(input: T) -> T {
        let below = input.exponential_minus_one::<FMA>();
        if input > T::ZERO { input } else { below }
    }

    #[inline(always)]
    fn derivative<T: Real, const FMA: bool>(_input: T, output: T) -> T {
        if output > T::ZERO {
            T::ONE
        } else {
            output + T::ONE
        }
    }
}

impl Activation for Relu {
    const DERIVATIVE_NEEDS_INPUT: bool = false;

    #[inline(always)]
    fn value<T: Real, const FMA: bool>(input: T) -> T {
        // Written this way round so that NaN stays NaN.
        if input < T::ZERO { T::ZERO } else { input }
    }

    #[inline(always)]
    fn derivative<T: Real, const FMA: bool>(_input: T, output: T) -> T {
        if output > T::ZERO { T::ONE } else { T::ZERO }
    }
}

impl Activation for LeakyRelu {
    const DERIVATIVE_NEEDS_INPUT: bool = false;

    #[inline(always)]
    fn value<T: Real, const FMA: bool>(input: T) -> T {
        if input > T::ZERO {
            input
        } else {
            input * T::from_f64(LEAKY_RELU_SLOPE)
        }
    }

    #[inline(always)]
    fn derivative<T: Real, const FMA: bool>(_input: T, output: T) -> T {
        if output > T::ZERO {
            T::ONE
        } else {
            T::from_f64(LEAKY_RELU_SLOPE)
        }
    }
}

impl Activation for Gelu {
    const DERIVATIVE_NEEDS_INPUT: bool = true;

    #[inline(always)]
    fn value<T: Real, const FMA: bool>(input: T) -> T {
        input * gaussian_cdf_and_pdf::<T, FMA>(input).0
    }

    #[inline(always)]
    fn derivative<T: Real, const FMA: bool>(input: T, _output: T) -> T {
        gelu_with_derivative::<T, FMA>(input).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope_matches<A: Activation>() {
        for i in -50..50 {
            let (x, step) = (f64::from(i) * 0.1 + 0.05, 1e-6);
            let slope = A::derivative::<f64, false>(x, A::value::<f64, false>(x));
            let (up, down) = (
                A::value::<f64, false>(x + step),
                A::value::<f64, false>(x - step),
            );
            let expected = (up - down) / (2.0 * step);
            assert!(
                (slope - expected).abs() < 1e-8,
                "{x}: {slope}, expected {expected}"
            );
        }
        assert!(A::value::<f32, false>(f32::NAN).is_nan());
        assert!(A::value::<f64, true>(f64::NAN).is_nan());
    }

    #[test]
    fn every_derivative_is_the_slope_of_its_function() {
        slope_matches::<Elu>();
        slope_matches::<Relu>();
        slope_matches::<LeakyRelu>();
        slope_matches::<Gelu>();
    }

    #[test]
    fn values_are_the_known_ones() {
        assert_eq!(Elu::value::<f64, false>(2.5), 2.5);
        assert!((Elu::value::<f64, false>(-1.0) - (-0.632_120_558_828_557_7)).abs() < 1e-15);
        // exp(x) - 1 formed by subtraction would be off by half a per cent here.
        let tiny = f64::from(Elu::value::<f32, false>(-1e-5));
        assert!(
            (tiny / f64::from(-1e-5_f32).exp_m1() - 1.0).abs() < 2e-7,
            "{tiny}"
        );
        assert_eq!(Relu::value::<f32, false>(-3.0), 0.0);
        assert_eq!(Relu::value::<f32, false>(3.0), 3.0);
        assert_eq!(LeakyRelu::value::<f32, false>(-3.0), -0.03);
        assert_eq!(LeakyRelu::value::<f32, false>(3.0), 3.0);
        assert!((Gelu::value::<f64, false>(1.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((Gelu::value::<f64, false>(-1.0) + 0.158_655_253_931_457_05).abs() < 1e-16);
    }

    #[test]
    fn the_gradient_at_zero_is_the_one_of_the_lower_branch() {
        assert_eq!(Elu::derivative::<f32, false>(0.0, 0.0), 1.0);
        assert_eq!(Relu::derivative::<f32, false>(0.0, 0.0), 0.0);
        assert_eq!(
            LeakyRelu::derivative::<f32, false>(0.0, 0.0),
            LEAKY_RELU_SLOPE as f32
        );
    }
}
