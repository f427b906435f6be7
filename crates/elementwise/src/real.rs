//! The number trait of the numerical crates.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// Keeps [`Real`] to the two types whose bit layout the polynomials know.
pub(crate) mod sealed {
    /// Implemented for f32 and f64 only.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point type, f32 or f64, with the functions that vectorise.
///
/// Functions take `const FMA: bool`: true where the surrounding function was compiled with the
/// fused multiply-add instruction ([`crate::Kernel`] passes the right value). Without the
/// instruction a fused multiply-add would be a library call for every element.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + PartialOrd
    + Debug
    + Display
    + Send
    + Sync
    + Sum
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// Smallest argument of [`Real::exponential`] that is not limited.
    const EXPONENTIAL_FLOOR: Self;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Distance from 1 to the next larger number.
    const EPSILON: Self;
    /// Smallest positive number with full precision; the floor of [`Real::logarithm`].
    const MIN_POSITIVE: Self;
    /// Largest finite number.
    const MAX: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Largest error of [`Real::exponential`], relative, in units of [`Real::EPSILON`].
    const EXPONENTIAL_MAX_ERROR: f64;
    /// Largest error of [`Real::exponential_minus_one`], relative, in units of [`Real::EPSILON`].
    const EXPONENTIAL_MINUS_ONE_MAX_ERROR: f64;
    /// Largest error of [`Real::logarithm`], relative, in units of [`Real::EPSILON`].
    const LOGARITHM_MAX_ERROR: f64;
    /// Chebyshev coefficients of (1 + 2 z) exp(z^2) erfc(z) in (z - 2) / (z + 2).
    #[doc(hidden)]
    const SCALED_ERFC: &'static [Self];

    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;

    /// The same number as f64, exactly.
    fn to_f64(self) -> f64;

    /// `self * factor + addend`, fused where `FMA` is true.
    fn fused<const FMA: bool>(self, factor: Self, addend: Self) -> Self;

    /// Square root, correctly rounded.
    fn square_root(self) -> Self;

    /// Magnitude.
    fn magnitude(self) -> Self;

    /// exp(x).
    ///
    /// # Domain
    /// The argument is limited to [-87.3, 88.3] (f32) or [-708.3, 709.4] (f64), so the result is
    /// positive and finite for every number; NaN stays NaN.
    ///
    /// # Numerics
    /// Relative error at most [`Real::EXPONENTIAL_MAX_ERROR`] epsilons.
    fn exponential<const FMA: bool>(self) -> Self;

    /// exp(x) without the limits of [`Real::exponential`].
    ///
    /// # Domain
    /// [-87.3, 88.3] (f32) or [-708.3, 709.4] (f64) or NaN; other numbers give nonsense.
    ///
    /// # Numerics
    /// As [`Real::exponential`].
    fn exponential_in_range<const FMA: bool>(self) -> Self;

    /// exp(x) - 1 without cancellation near 0.
    ///
    /// # Domain
    /// As [`Real::exponential`].
    ///
    /// # Numerics
    /// Relative error at most [`Real::EXPONENTIAL_MINUS_ONE_MAX_ERROR`] epsilons.
    fn exponential_minus_one<const FMA: bool>(self) -> Self;

    /// ln(x).
    ///
    /// # Domain
    /// Arguments below [`Real::MIN_POSITIVE`] (zero, negative and subnormal numbers) count as
    /// [`Real::MIN_POSITIVE`], so the result is finite; NaN stays NaN and infinity stays infinity.
    ///
    /// # Numerics
    /// Relative error at most [`Real::LOGARITHM_MAX_ERROR`] epsilons, also near 1.
    fn logarithm<const FMA: bool>(self) -> Self;

    /// ln(1 + x) without cancellation near 0.
    ///
    /// # Domain
    /// [0, 1] or NaN; other numbers give nonsense.
    ///
    /// # Numerics
    /// Relative error at most 2 epsilons.
    fn logarithm_of_one_plus<const FMA: bool>(self) -> Self;
}
