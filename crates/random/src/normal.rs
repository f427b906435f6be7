//! The Box-Muller transform in plain arithmetic, written for the vectoriser.
//!
//! Two words `a`, `b` give `r cos(t)`, `r sin(t)` with `r = sqrt(-2 ln u)`, `u` in (0, 1] from the
//! top 53 bits of `a`, and `t = 2 pi v`, `v` in [0, 1) from those of `b`. The logarithm and the
//! circular functions are series of our own, because the system's differ between machines and do
//! not vectorise.

use dunnart_elementwise::{Kernel, dispatch};

use crate::philox::{encrypt, round_keys};
use crate::stream::{halves, join};

/// Blocks transformed together.
pub(crate) const LANES: usize = 16;
/// Normals in a block.
pub(crate) const PAIR: usize = 2;

/// The two normals of one block.
#[inline]
pub(crate) fn normal_pair(words: [u32; 4]) -> [f64; 2] {
    let [a, b] = join(words);
    let radius = radius(a);
    let (cosine, sine) = direction(b);
    [radius * cosine, radius * sine]
}

/// Fills a multiple of `PAIR * LANES` values with the normals of consecutive blocks from `block`
/// on.
///
/// Runs with the widest vectors of the machine; the operations and so the bits are the same for
/// all, since no multiplication is fused with an addition.
pub(crate) fn fill_blocks(key: [u32; 2], index: u64, block: u64, values: &mut [f64]) {
    dispatch(FillBlocks {
        key,
        index,
        block,
        values,
    });
}

/// The arguments of [`fill_blocks`]; a closure in its place would not be inlined into the
/// dispatched code.
struct FillBlocks<'a> {
    key: [u32; 2],
    index: u64,
    block: u64,
    values: &'a mut [f64],
}

impl Kernel for FillBlocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let keys = round_keys(self.key);
        let [index_low, index_high] = halves(self.index);
        let mut block = self.block;
        let (mut first, mut second) = ([0; LANES], [0; LANES]);
        let (mut radii, mut cosines, mut sines) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for chunk in self.values.chunks_exact_mut(PAIR * LANES) {
            // One loop a stage, each short enough to stay in vector registers.
            for lane in 0..LANES {
                let [low, high] = halves(block.wrapping_add(lane as u64));
                let [a, b, c, d] = encrypt([low, high, index_low, index_high], &keys);
                first[lane] = b << 32 | a;
                second[lane] = d << 32 | c;
            }
            for lane in 0..LANES {
                radii[lane] = radius(first[lane]);
            }
            for lane in 0..LANES {
                (cosines[lane], sines[lane]) = direction(second[lane]);
            }
            for (lane, pair) in chunk.chunks_exact_mut(PAIR).enumerate() {
                pair[0] = radii[lane] * cosines[lane];
                pair[1] = radii[lane] * sines[lane];
            }
            block = block.wrapping_add(LANES as u64);
        }
    }
}

/// Bits of 2^52: an integer below 2^52 put into the mantissa becomes a float without a conversion
/// instruction, which SSE2 and AVX2 lack for 64-bit integers.
const MAGIC_BITS: u64 = 0x4330_0000_0000_0000;
const MAGIC: f64 = 4_503_599_627_370_496.0;
const TWO_POW_32: f64 = 4_294_967_296.0;
const TWO_POW_MINUS_51: f64 = 1.0 / 2_251_799_813_685_248.0;
const TWO_POW_MINUS_53: f64 = 1.0 / 9_007_199_254_740_992.0;

/// An integer up to 2^53 as a float, exactly.
#[inline(always)]
fn exact(integer: u64) -> f64 {
    let high = f64::from_bits(MAGIC_BITS | (integer >> 32)) - MAGIC;
    let low = f64::from_bits(MAGIC_BITS | (integer & 0xffff_ffff)) - MAGIC;
    high * TWO_POW_32 + low
}

/// `sqrt(-2 ln u)` for `u = (top 53 bits + 1) 2^-53`.
#[inline(always)]
fn radius(word: u64) -> f64 {
    (-2.0 * logarithm(exact((word >> 11) + 1) * TWO_POW_MINUS_53)).sqrt()
}

/// `ln u` for `u` in (0, 1], normal: `e ln 2 + 2 artanh((m - 1) / (m + 1))` with `m` in [sqrt(1/2),
/// sqrt(2)).
#[inline(always)]
fn logarithm(u: f64) -> f64 {
    const SQRT_HALF_BITS: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    const ONE_BITS: u64 = 1.0f64.to_bits();
    const MANTISSA: u64 = (1 << 52) - 1;
    let shifted = u.to_bits() + (ONE_BITS - SQRT_HALF_BITS);
    let exponent = f64::from_bits(MAGIC_BITS | (shifted >> 52)) - (MAGIC + 1023.0);
    let fraction = f64::from_bits((shifted & MANTISSA) + SQRT_HALF_BITS) - 1.0;
    let s = fraction / (2.0 + fraction);
    let z = s * s;
    // 1/(2k + 1) up to k = 11: z is at most 0.0295, so the first term left out is below 1e-19.
    let mut series = 1.0 / 23.0;
    for k in (0..11).rev() {
        series = series * z + 1.0 / f64::from(2 * k + 1);
    }
    exponent * std::f64::consts::LN_2 + 2.0 * s * series
}

/// `(cos t, sin t)` for `t = 2 pi v`, `v = (top 53 bits) 2^-53`.
#[inline(always)]
fn direction(word: u64) -> (f64, f64) {
    // The nearest quarter turn, 0 to 4, and what is left of it, from -1/2 to 1/2, both exact.
    let quarter = ((word >> 61) + 1) >> 1;
    let rest =
        exact(word >> 11) * TWO_POW_MINUS_51 - (f64::from_bits(MAGIC_BITS | quarter) - MAGIC);
    let angle = rest * std::f64::consts::FRAC_PI_2;
    let square = angle * angle;
    let mut sine = SINE[SINE.len() - 1];
    for coefficient in SINE[..SINE.len() - 1].iter().rev() {
        sine = sine * square + coefficient;
    }
    sine *= angle;
    let mut cosine = COSINE[COSINE.len() - 1];
    for coefficient in COSINE[..COSINE.len() - 1].iter().rev() {
        cosine = cosine * square + coefficient;
    }
    // Odd quarters swap the two; the signs follow the quadrant. Masks keep the lanes free of
    // branches.
    let swap = (quarter & 1).wrapping_neg();
    let (sine_bits, cosine_bits) = (sine.to_bits(), cosine.to_bits());
    let crossed = (sine_bits ^ cosine_bits) & swap;
    let cosine_sign = ((quarter + 1) & 2) << 62;
    let sine_sign = (quarter & 2) << 62;
    (
        f64::from_bits((cosine_bits ^ crossed) ^ cosine_sign),
        f64::from_bits((sine_bits ^ crossed) ^ sine_sign),
    )
}

/// Alternating inverse factorials from `first`, every second one.
const fn inverse_factorials(first: u32) -> [f64; 9] {
    let mut coefficients = [0.0; 9];
    // 17! is below 2^53, so every factorial here is exact.
    let mut factorial = 1.0;
    let mut sign = 1.0;
    let mut term = 0;
    let mut next = 1;
    while term < 9 {
        while next <= first + 2 * term {
            factorial *= next as f64;
            next += 1;
        }
        coefficients[term as usize] = sign / factorial;
        sign = -sign;
        term += 1;
    }
    coefficients
}

/// 1, -1/3!, 1/5!, ...: at a quarter of pi the first term left out of the sine is 1e-19.
const SINE: [f64; 9] = inverse_factorials(1);
/// 1, -1/2!, 1/4!, ...: at a quarter of pi the first term left out of the cosine is 2e-18.
const COSINE: [f64; 9] = inverse_factorials(0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Purpose};

    /// Words at and around every quadrant and octant edge, the smallest and the largest u, then
    /// random ones.
    fn words() -> Vec<u64> {
        let mut words = vec![0, u64::MAX, 1 << 11, !(1 << 11)];
        for octant in 0..8u64 {
            for offset in 0..6u64 {
                words.push((octant << 61).wrapping_add(offset << 11));
                words.push((octant << 61).wrapping_sub(offset << 11));
            }
        }
        for shift in 0..53 {
            words.push(1 << (11 + shift));
            words.push((1 << (11 + shift)) - 1);
        }
        let mut stream = Key::new(1, Purpose::Benchmark).stream(0);
        words.extend((0..200_000).map(|_| stream.next_u64()));
        words
    }

    #[test]
    fn matches_the_library_functions() {
        let mut worst = [0.0f64; 3];
        for word in words() {
            let u = ((word >> 11) + 1) as f64 * TWO_POW_MINUS_53;
            let expected = (-2.0 * u.ln()).sqrt();
            worst[0] = worst[0].max((radius(word) - expected).abs());
            // The quarter is taken off before multiplying by pi, or the library's sine would be the
            // worse one.
            let turns = (word >> 11) as f64 * TWO_POW_MINUS_53;
            let eighth = (turns * 8.0).round();
            let angle = (turns - eighth / 8.0) * std::f64::consts::TAU;
            let (s, c) = angle.sin_cos();
            let (s8, c8) = EIGHTHS[eighth as usize % 8];
            let (cosine, sine) = direction(word);
            worst[1] = worst[1].max((cosine - (c * c8 - s * s8)).abs());
            worst[2] = worst[2].max((sine - (s * c8 + c * s8)).abs());
        }
        // Radius 8.57 times 2e-16 and the product: together below 3e-15.
        assert!(
            worst[0] <= 1.8e-15 && worst[1] <= 4e-16 && worst[2] <= 4e-16,
            "{worst:?}"
        );
    }

    const H: f64 = std::f64::consts::FRAC_1_SQRT_2;
    /// Sine and cosine of the eighths of a turn.
    const EIGHTHS: [(f64, f64); 8] = [
        (0., 1.),
        (H, H),
        (1., 0.),
        (H, -H),
        (0., -1.),
        (-H, -H),
        (-1., 0.),
        (-H, H),
    ];

    #[test]
    fn smallest_and_largest_radius() {
        assert!((radius(0) - (2.0 * 53.0 * std::f64::consts::LN_2).sqrt()).abs() < 1e-15);
        assert_eq!(radius(u64::MAX), 0.0);
    }

    #[test]
    fn exact_conversion() {
        for integer in [
            0,
            1,
            (1 << 32) - 1,
            1 << 32,
            (1 << 53) - 1,
            1 << 53,
            0x12_3456_789a_bcde,
        ] {
            assert_eq!(exact(integer), integer as f64);
        }
    }

    /// Mean, variance, skewness, kurtosis, the share beyond two and the correlation of a pair, each
    /// within five standard errors.
    #[test]
    fn moments() {
        let count = 1_000_000;
        let mut values = vec![0.0; count];
        Key::new(2, Purpose::Benchmark)
            .stream(0)
            .fill_normal(&mut values);
        let n = count as f64;
        let moment = |power: i32| values.iter().map(|x| x.powi(power)).sum::<f64>() / n;
        assert!(moment(1).abs() < 5.0 / n.sqrt());
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!(moment(3).abs() < 5.0 * (15.0 / n).sqrt());
        assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
        let beyond = values.iter().filter(|x| x.abs() > 2.0).count() as f64 / n;
        let share = 0.045_500_263_896_358_42;
        assert!((beyond - share).abs() < 5.0 * (share * (1.0 - share) / n).sqrt());
        let pairs = values
            .chunks_exact(2)
            .map(|pair| pair[0] * pair[1])
            .sum::<f64>();
        assert!((pairs / (n / 2.0)).abs() < 5.0 / (n / 2.0).sqrt());
        let lagged = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        assert!((lagged / n).abs() < 5.0 / n.sqrt());
    }

    /// Prints the cost of a normal draw; run it with `--ignored --nocapture` on a quiet machine.
    #[test]
    #[ignore = "a measurement, not a check"]
    fn cost_of_a_normal() {
        let mut values = vec![0.0; 1 << 16];
        let mut stream = Key::new(2, Purpose::Benchmark).stream(0);
        let mut best = f64::INFINITY;
        for _ in 0..200 {
            let start = std::time::Instant::now();
            stream.fill_normal(&mut values);
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{:.2} ns a normal", best / values.len() as f64 * 1e9);
    }
}
