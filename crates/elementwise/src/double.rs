//! [`Real`] for f64.
//!
//! The series are Taylor's: one number a second more or less does not matter in f64, which serves
//! checks, while coefficients that anybody can verify do.

use crate::functions::clamp;
use crate::real::Real;

/// 1 / k! for k from 2: (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, error 4e-18.
const EXPONENTIAL: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// 2 / (2 k + 1) for k from 1: ln((1 + s) / (1 - s)) = 2 s + s (2/3 s^2 + 2/5 s^4 + ...).
const LOGARITHM: [f64; 10] = [
    2.0 / 3.0,
    2.0 / 5.0,
    2.0 / 7.0,
    2.0 / 9.0,
    2.0 / 11.0,
    2.0 / 13.0,
    2.0 / 15.0,
    2.0 / 17.0,
    2.0 / 19.0,
    2.0 / 21.0,
];

/// 1.5 x 2^52: adding it leaves the nearest integer in the low bits of the mantissa.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// ln 2 cut to 32 bits, so that its product with an exponent is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// ln 2 - `LN_2_HIGH`.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Bits of sqrt(1/2).
const ROOT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;

/// Splits x = n ln 2 + r; returns (2^n, exp(r) - 1).
#[inline(always)]
fn power_and_rest<const FMA: bool>(x: f64) -> (f64, f64) {
    let shifted = x.fused::<FMA>(std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.fused::<FMA>(-LN_2_LOW, n.fused::<FMA>(-LN_2_HIGH, x));
    let mut p = EXPONENTIAL[11];
    for k in (0..11).rev() {
        p = p.fused::<FMA>(r, EXPONENTIAL[k]);
    }
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (power, (r * r).fused::<FMA>(p, r))
}

impl Real for f64 {
    const EXPONENTIAL_FLOOR: Self = -708.39;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const EPSILON: Self = f64::EPSILON;
    const MIN_POSITIVE: Self = f64::MIN_POSITIVE;
    const MAX: Self = f64::MAX;
    const INFINITY: Self = f64::INFINITY;
    const EXPONENTIAL_MAX_ERROR: f64 = 1.3;
    const EXPONENTIAL_MINUS_ONE_MAX_ERROR: f64 = 2.0;
    const LOGARITHM_MAX_ERROR: f64 = 1.3;
    const SCALED_ERFC: &'static [Self] = &[
        1.176_006_655_588_300_4,
        0.025_779_673_870_048_207,
        -0.106_593_150_677_785_03,
        0.038_808_879_574_483_82,
        -0.005_414_899_930_893_725,
        -0.000_408_152_572_823_723_84,
        0.000_198_437_682_485_535_27,
        9.842_532_776_048_127e-6,
        -7.763_265_561_062_859e-6,
        -7.174_001_457_529_682e-7,
        3.140_694_955_581_843e-7,
        6.188_423_669_546_144e-8,
        -9.890_619_934_492_214e-9,
        -4.595_399_622_510_18e-9,
        -7.180_587_728_177_086e-11,
        2.629_618_333_636_404_4e-10,
        4.867_734_056_607_904e-11,
        -8.026_804_193_759_018e-12,
        -4.779_133_570_845_298e-12,
        -4.347_012_647_846_443_5e-13,
        2.412_314_273_846_194e-13,
        8.610_900_521_277_247e-14,
        2.594_764_898_371_22e-15,
        -5.872_254_381_501_051e-15,
        -1.701_932_881_234_431_7e-15,
        1.387_358_712_117_345e-17,
        1.409_217_440_725_963_2e-16,
    ];

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
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
        clamp(self, Self::EXPONENTIAL_FLOOR, 709.43).exponential_in_range::<FMA>()
    }

    #[inline(always)]
    fn exponential_in_range<const FMA: bool>(self) -> Self {
        let (power, rest) = power_and_rest::<FMA>(self);
        (rest + 1.0) * power
    }

    #[inline(always)]
    fn exponential_minus_one<const FMA: bool>(self) -> Self {
        let x = clamp(self, Self::EXPONENTIAL_FLOOR, 709.43);
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
        // The exponent n of x = m 2^n with m between sqrt(1/2) and sqrt(2), biased by 1023.
        let biased = bits.wrapping_add(0x3ff0_0000_0000_0000 - ROOT_HALF_BITS) >> 52;
        let m = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(1023) << 52));
        let n = f64::from_bits(ROUND.to_bits() + biased) - (ROUND + 1023.0);
        let f = m - 1.0;
        let s = f / (f + 2.0);
        let z = s * s;
        let mut p = LOGARITHM[9];
        for k in (0..9).rev() {
            p = p.fused::<FMA>(z, LOGARITHM[k]);
        }
        // 2 s = f - s f = f - f^2 / 2 + s f^2 / 2: f is exact, so what is rounded is small.
        let half_square = 0.5 * f * f;
        let low = s.fused::<FMA>(p.fused::<FMA>(z, half_square), n * LN_2_LOW);
        let rest = (low - half_square) + f;
        let result = n.fused::<FMA>(LN_2_HIGH, rest);
        // False for NaN and infinity, which both stay what they are.
        if x < Self::INFINITY { result } else { x }
    }

    #[inline(always)]
    fn logarithm_of_one_plus<const FMA: bool>(self) -> Self {
        // ln(y) misses what the rounding of y = 1 + x lost; its first order is (x - (y - 1)) / y.
        let y = self + 1.0;
        (self - (y - 1.0)) / y + y.logarithm::<FMA>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::largest_relative_error;

    // The functions of the standard library are themselves within one unit in the last place,
    // which the bounds contain.
    #[test]
    fn exponential_keeps_its_bound() {
        let points = (0..1_000_000).map(|i| -708.0 + 1417.0 * (i as f64) / 1e6);
        for error in [
            largest_relative_error::<f64>(points.clone(), |x| x.exponential::<true>(), f64::exp),
            largest_relative_error::<f64>(points, |x| x.exponential::<false>(), f64::exp),
        ] {
            assert!(error <= f64::EXPONENTIAL_MAX_ERROR, "{error}");
        }
    }

    #[test]
    fn exponential_minus_one_keeps_its_bound() {
        let wide = (0..1_000_000).map(|i| -40.0 + 80.0 * (i as f64) / 1e6);
        let small = (0..1_000_000).map(|i| -1e-3 + 2e-3 * (i as f64 + 0.5) / 1e6);
        let points = wide.chain(small);
        for error in [
            largest_relative_error::<f64>(
                points.clone(),
                |x| x.exponential_minus_one::<true>(),
                f64::exp_m1,
            ),
            largest_relative_error::<f64>(
                points,
                |x| x.exponential_minus_one::<false>(),
                f64::exp_m1,
            ),
        ] {
            assert!(error <= f64::EXPONENTIAL_MINUS_ONE_MAX_ERROR, "{error}");
        }
    }

    #[test]
    fn logarithm_keeps_its_bound() {
        let step = 0x7fe0_0000_0000_0000_u64 / 1_000_003;
        let all = (0..1_000_000).map(move |i| f64::from_bits(0x0010_0000_0000_0000 + i * step));
        let near_one = (0..1_000_000).map(|i| 0.99 + 0.02 * (i as f64) / 1e6);
        let points = all.chain(near_one);
        for error in [
            largest_relative_error::<f64>(points.clone(), |x| x.logarithm::<true>(), f64::ln),
            largest_relative_error::<f64>(points, |x| x.logarithm::<false>(), f64::ln),
        ] {
            assert!(error <= f64::LOGARITHM_MAX_ERROR, "{error}");
        }
    }
}
