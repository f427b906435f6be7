//! [`Real`] for f32.
//!
//! The polynomials are interpolations at Chebyshev nodes, fitted in 40-digit arithmetic.

use crate::functions::clamp;
use crate::real::Real;

/// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, error 1e-8 of exp(r).
const EXPONENTIAL: [f32; 5] = [
    0.5,
    0.166_665_76,
    0.041_666_556,
    0.008_363_179,
    0.001_392_618_4,
];

/// (ln(1 + f) - f + f^2 / 2) / f^3 for 1 + f between sqrt(1/2) and sqrt(2), error 3e-9 of ln.
const LOGARITHM: [f32; 9] = [
    0.333_333_3,
    -0.249_999_97,
    0.200_007_16,
    -0.166_678_03,
    0.142_490_58,
    -0.124_256_87,
    0.116_854_2,
    -0.114_797_34,
    0.069_716_12,
];

/// ln(1 + e) / e for e between 0 and 1, error 5e-9.
const LOGARITHM_OF_ONE_PLUS: [f32; 10] = [
    1.0,
    -0.499_998_93,
    0.333_297_1,
    -0.249_516_16,
    0.196_632_74,
    -0.152_696_67,
    0.105_436_24,
    -0.056_373_61,
    0.019_542_527,
    -0.003_176_057,
];

/// 1.5 x 2^23: adding it leaves the nearest integer in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;
/// ln 2 cut to nine bits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
/// ln 2 - `LN_2_HIGH`.
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Bits of sqrt(1/2).
const ROOT_HALF_BITS: u32 = 0x3f35_04f3;

/// Splits x = n ln 2 + r; returns (2^n, exp(r) - 1).
#[inline(always)]
fn power_and_rest<const FMA: bool>(x: f32) -> (f32, f32) {
    let shifted = x.fused::<FMA>(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.fused::<FMA>(-LN_2_LOW, n.fused::<FMA>(-LN_2_HIGH, x));
    let mut p = EXPONENTIAL[4];
    for k in (0..4).rev() {
        p = p.fused::<FMA>(r, EXPONENTIAL[k]);
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    (power, (r * r).fused::<FMA>(p, r))
}

impl Real for f32 {
    const EXPONENTIAL_FLOOR: Self = -87.336;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const EPSILON: Self = f32::EPSILON;
    const MIN_POSITIVE: Self = f32::MIN_POSITIVE;
    const MAX: Self = f32::MAX;
    const INFINITY: Self = f32::INFINITY;
    const EXPONENTIAL_MAX_ERROR: f64 = 0.8;
    const EXPONENTIAL_MINUS_ONE_MAX_ERROR: f64 = 1.5;
    const LOGARITHM_MAX_ERROR: f64 = 1.0;
    const SCALED_ERFC: &'static [Self] = &[
        1.176_006_7,
        0.025_779_674,
        -0.106_593_154,
        0.038_808_88,
        -0.005_414_9,
        -0.000_408_152_58,
        0.000_198_437_69,
        9.842_533e-6,
        -7.763_266e-6,
        -7.174_001_6e-7,
        3.140_695e-7,
        6.188_423_6e-8,
        -9.890_62e-9,
    ];

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn fused<const FMA: bool>(self, factor: Self, addend: Self) -> Self {
        if FMA {
            self.mul_add(factor, addend)
        } else {
            self * factor + addend
        }
    }

    #[inline(always)]
    fn square_root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn magnitude(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn exponential<const FMA: bool>(self) -> Self {
        clamp(self, Self::EXPONENTIAL_FLOOR, 88.37).exponential_in_range::<FMA>()
    }

    #[inline(always)]
    fn exponential_in_range<const FMA: bool>(self) -> Self {
        let (power, rest) = power_and_rest::<FMA>(self);
        (rest + 1.0) * power
    }

    #[inline(always)]
    fn exponential_minus_one<const FMA: bool>(self) -> Self {
        let x = clamp(self, Self::EXPONENTIAL_FLOOR, 88.37);
        let (power, rest) = power_and_rest::<FMA>(x);
        rest.fused::<FMA>(power, power - 1.0)
    }

    #[inline(always)]
    fn logarithm<const FMA: bool>(self) -> Self {
        let x = if self < Self::MIN_POSITIVE {
            Self::MIN_POSITIVE
        } else {
            self
        };
        let bits = x.to_bits();
        // The exponent n of x = m 2^n with m between sqrt(1/2) and sqrt(2), biased by 127.
        let biased = bits.wrapping_add(0x3f80_0000 - ROOT_HALF_BITS) >> 23;
        let m = f32::from_bits(bits.wrapping_sub(biased.wrapping_sub(127) << 23));
        let n = f32::from_bits(ROUND.to_bits() + biased) - (ROUND + 127.0);
        let f = m - 1.0;
        let mut p = LOGARITHM[8];
        for k in (0..8).rev() {
            p = p.fused::<FMA>(f, LOGARITHM[k]);
        }
        let square = f * f;
        let low = (f * square).fused::<FMA>(p, n * LN_2_LOW);
        let rest = square.fused::<FMA>(-0.5, low) + f;
        let result = n.fused::<FMA>(LN_2_HIGH, rest);
        // False for NaN and infinity, which both stay what they are.
        if x < Self::INFINITY { result } else { x }
    }

    #[inline(always)]
    fn logarithm_of_one_plus<const FMA: bool>(self) -> Self {
        let mut p = LOGARITHM_OF_ONE_PLUS[9];
        for k in (0..9).rev() {
            p = p.fused::<FMA>(self, LOGARITHM_OF_ONE_PLUS[k]);
        }
        self * p
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::largest_relative_error;

    #[test]
    fn exponential_keeps_its_bound() {
        let points = (0..2_000_000).map(|i| -87.3 + 175.6 * (i as f64) / 2e6);
        for error in [
            largest_relative_error::<f32>(points.clone(), |x| x.exponential::<true>(), f64::exp),
            largest_relative_error::<f32>(points, |x| x.exponential::<false>(), f64::exp),
        ] {
            assert!(error <= f32::EXPONENTIAL_MAX_ERROR, "{error}");
        }
    }

    #[test]
    fn exponential_minus_one_keeps_its_bound() {
        let wide = (0..1_000_000).map(|i| -20.0 + 40.0 * (i as f64) / 1e6);
        let small = (0..1_000_000).map(|i| -1e-3 + 2e-3 * (i as f64 + 0.5) / 1e6);
        let points = wide.chain(small);
        for error in [
            largest_relative_error::<f32>(
                points.clone(),
                |x| x.exponential_minus_one::<true>(),
                f64::exp_m1,
            ),
            largest_relative_error::<f32>(
                points,
                |x| x.exponential_minus_one::<false>(),
                f64::exp_m1,
            ),
        ] {
            assert!(error <= f32::EXPONENTIAL_MINUS_ONE_MAX_ERROR, "{error}");
        }
    }

    #[test]
    fn logarithm_keeps_its_bound() {
        // Every 997th positive normal number, then every number close to 1.
        let all = (0x0080_0000_u32..0x7f80_0000).step_by(997);
        let near_one = 0x3f7f_0000_u32..0x3f81_0000;
        let points = all
            .chain(near_one)
            .map(|bits| f64::from(f32::from_bits(bits)));
        for error in [
            largest_relative_error::<f32>(points.clone(), |x| x.logarithm::<true>(), f64::ln),
            largest_relative_error::<f32>(points, |x| x.logarithm::<false>(), f64::ln),
        ] {
            assert!(error <= f32::LOGARITHM_MAX_ERROR, "{error}");
        }
    }
}
