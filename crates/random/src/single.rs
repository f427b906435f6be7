//! The Box-Muller transform in single precision: two complex normals a block, for detector noise.
//!
//! A block's 32-bit words `a`, `b`, `c`, `d` give the complex numbers of (a, b) and of (c, d):
//! `r (cos t + i sin t)` with `r = sqrt(-2 ln u)`, `u = (a + 1) 2^-32` and `t = 2 pi b 2^-32`. Half of the
//! words and half of the digits of [`crate::normal`], for where the values are rounded to f32 anyway and
//! where there are ten thousands of them for each sample.

use dunnart_elementwise::{Kernel, dispatch};

use crate::philox::{encrypt, round_keys};
use crate::stream::halves;

/// Blocks transformed together.
const LANES: usize = 16;
/// Complex numbers of one round of [`fill`].
const ROUND: usize = 2 * LANES;

/// Fills both slices, equally long, with the normals of consecutive blocks from `block` on; returns the
/// next block. A block that is used by half counts as used.
pub(crate) fn fill(key: [u32; 2], index: u64, block: u64, re: &mut [f32], im: &mut [f32]) -> u64 {
    dispatch(Fill {
        key,
        index,
        block,
        re,
        im,
    })
}

/// The arguments of [`fill`]; a closure in its place would not be inlined into the dispatched code.
struct Fill<'a> {
    key: [u32; 2],
    index: u64,
    block: u64,
    re: &'a mut [f32],
    im: &'a mut [f32],
}

impl Kernel for Fill<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u64 {
        let keys = round_keys(self.key);
        let mut block = self.block;
        let (re, re_rest) = self.re.as_chunks_mut::<ROUND>();
        let (im, im_rest) = self.im.as_chunks_mut::<ROUND>();
        for (re, im) in re.iter_mut().zip(im) {
            round(&keys, self.index, block, re, im);
            block = block.wrapping_add(LANES as u64);
        }
        if !re_rest.is_empty() {
            let (mut re, mut im) = ([0.0; ROUND], [0.0; ROUND]);
            round(&keys, self.index, block, &mut re, &mut im);
            re_rest.copy_from_slice(&re[..re_rest.len()]);
            im_rest.copy_from_slice(&im[..im_rest.len()]);
            block = block.wrapping_add(re_rest.len().div_ceil(2) as u64);
        }
        block
    }
}

/// The complex normals of `LANES` blocks.
#[inline(always)]
fn round(
    keys: &[[u64; 2]; 10],
    index: u64,
    block: u64,
    re: &mut [f32; ROUND],
    im: &mut [f32; ROUND],
) {
    let [index_low, index_high] = halves(index);
    let (mut radii, mut angles) = ([[0u32; LANES]; 2], [[0u32; LANES]; 2]);
    // One loop a stage, each short enough to stay in vector registers.
    for lane in 0..LANES {
        let [low, high] = halves(block.wrapping_add(lane as u64));
        let [a, b, c, d] = encrypt([low, high, index_low, index_high], keys);
        (radii[0][lane], angles[0][lane]) = (a as u32, b as u32);
        (radii[1][lane], angles[1][lane]) = (c as u32, d as u32);
    }
    for half in 0..2 {
        for lane in 0..LANES {
            let radius = radius(radii[half][lane]);
            let (cosine, sine) = direction(angles[half][lane]);
            re[2 * lane + half] = radius * cosine;
            im[2 * lane + half] = radius * sine;
        }
    }
}

/// `sqrt(-2 ln u)` for `u = (word + 1) 2^-32`, at most 6.66.
#[inline(always)]
fn radius(word: u32) -> f32 {
    const SQRT_HALF_BITS: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    const ONE_BITS: u32 = 1.0f32.to_bits();
    const MANTISSA: u32 = (1 << 23) - 1;
    const TWO_POW_MINUS_32: f32 = 1.0 / 4_294_967_296.0;
    let u = (word as f32 + 1.0) * TWO_POW_MINUS_32;
    // ln u = e ln 2 + 2 artanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2)).
    let shifted = u.to_bits() + (ONE_BITS - SQRT_HALF_BITS);
    let exponent = ((shifted >> 23) as i32 - 127) as f32;
    let fraction = f32::from_bits((shifted & MANTISSA) + SQRT_HALF_BITS) - 1.0;
    let s = fraction / (2.0 + fraction);
    let z = s * s;
    // z is at most 0.0295, so the first term left out, z^5 / 11, is below 3e-9.
    let series = 1.0 + z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * (1.0 / 9.0))));
    (-2.0 * (exponent * std::f32::consts::LN_2 + 2.0 * s * series)).sqrt()
}

/// `(cos t, sin t)` for `t = 2 pi word 2^-32`.
#[inline(always)]
fn direction(word: u32) -> (f32, f32) {
    // The nearest quarter turn, 0 to 3, and what is left of it, from -1/8 to 1/8 of a turn, exact.
    let quarter = word.wrapping_add(1 << 29) >> 30;
    let rest = word.wrapping_sub(quarter << 30) as i32;
    let angle = rest as f32 * (std::f32::consts::FRAC_PI_2 / 1_073_741_824.0);
    let square = angle * angle;
    // The first terms left out are 2e-9 and 1e-10 at an eighth of a turn.
    let sine = 1.0 / 362_880.0;
    let sine = sine * square - 1.0 / 5_040.0;
    let sine = sine * square + 1.0 / 120.0;
    let sine = sine * square - 1.0 / 6.0;
    let sine = angle + angle * (square * sine);
    let cosine = -1.0 / 3_628_800.0;
    let cosine = cosine * square + 1.0 / 40_320.0;
    let cosine = cosine * square - 1.0 / 720.0;
    let cosine = cosine * square + 1.0 / 24.0;
    let cosine = cosine * square - 0.5;
    let cosine = 1.0 + square * cosine;
    // Odd quarters swap the two; the signs follow the quadrant. Masks keep the lanes free of branches.
    let swap = (quarter & 1).wrapping_neg();
    let (sine_bits, cosine_bits) = (sine.to_bits(), cosine.to_bits());
    let crossed = (sine_bits ^ cosine_bits) & swap;
    let cosine_sign = (quarter.wrapping_add(1) & 2) << 30;
    let sine_sign = (quarter & 2) << 30;
    (
        f32::from_bits((cosine_bits ^ crossed) ^ cosine_sign),
        f32::from_bits((sine_bits ^ crossed) ^ sine_sign),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Purpose};

    /// Words at and around every octant edge, the smallest and the largest u, then random ones.
    fn words() -> Vec<u32> {
        let mut words = vec![0, 1, 2, u32::MAX, u32::MAX - 1];
        for octant in 0..8u32 {
            for offset in 0..6u32 {
                words.push((octant << 29).wrapping_add(offset));
                words.push((octant << 29).wrapping_sub(offset));
            }
        }
        words.extend((0..32).flat_map(|shift| [1 << shift, (1u32 << shift) - 1]));
        let mut stream = Key::new(1, Purpose::Benchmark).stream(0);
        words.extend((0..300_000).map(|_| stream.next_u64() as u32));
        words
    }

    #[test]
    fn matches_the_library_functions() {
        let mut worst = [0.0f64; 3];
        for word in words() {
            // What rounding u to f32 does is the distribution's granularity, not an error.
            let u = f64::from((word as f32 + 1.0) * (1.0 / 4_294_967_296.0));
            let expected = (-2.0 * u.ln()).sqrt();
            worst[0] = worst[0].max((f64::from(radius(word)) - expected).abs());
            let (s, c) = (f64::from(word) / 4_294_967_296.0 * std::f64::consts::TAU).sin_cos();
            let (cosine, sine) = direction(word);
            worst[1] = worst[1].max((f64::from(cosine) - c).abs());
            worst[2] = worst[2].max((f64::from(sine) - s).abs());
        }
        assert!(
            worst[0] <= 5e-7 && worst[1] <= 1.2e-7 && worst[2] <= 1.2e-7,
            "{worst:?}"
        );
        assert_eq!(radius(u32::MAX), 0.0);
        assert!((radius(0) - 6.660_44).abs() < 1e-4);
    }

    #[test]
    fn filling_does_not_depend_on_how_it_is_cut() {
        let start = Key::new(5, Purpose::DataNoise).stream(17);
        let (mut re, mut im) = (vec![0.0; 1000], vec![0.0; 1000]);
        start.clone().fill_complex_normal(&mut re, &mut im);
        for cut in [1usize, 2, 31, 32, 33, 64, 500] {
            let (mut a, mut b) = (vec![f32::NAN; 1000], vec![f32::NAN; 1000]);
            let mut stream = start.clone();
            // An odd cut ends within a block, whose second half is skipped.
            let even = cut + cut % 2;
            stream.fill_complex_normal(&mut a[..cut], &mut b[..cut]);
            let rest = 1000 - even;
            stream.fill_complex_normal(&mut a[even..], &mut b[even..]);
            assert_eq!((&a[..cut], &b[..cut]), (&re[..cut], &im[..cut]));
            assert_eq!((&a[even..], &b[even..]), (&re[even..], &im[even..]));
            let mut at = Key::new(5, Purpose::DataNoise).stream_at(17, even as u64 / 2);
            at.fill_complex_normal(&mut a[..rest], &mut b[..rest]);
            assert_eq!((&a[..rest], &b[..rest]), (&re[even..], &im[even..]));
        }
    }

    /// Mean, variance, kurtosis, the share beyond two and every correlation that the layout could
    /// bring, each within five standard errors.
    #[test]
    fn moments() {
        let count = 500_000;
        let (mut re, mut im) = (vec![0.0; count], vec![0.0; count]);
        Key::new(2, Purpose::Benchmark)
            .stream(0)
            .fill_complex_normal(&mut re, &mut im);
        let n = count as f64;
        for values in [&re, &im] {
            let moment = |power: i32| {
                values
                    .iter()
                    .map(|&x| f64::from(x).powi(power))
                    .sum::<f64>()
                    / n
            };
            assert!(moment(1).abs() < 5.0 / n.sqrt());
            assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
            assert!(moment(3).abs() < 5.0 * (15.0 / n).sqrt());
            assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
            let beyond = values.iter().filter(|x| x.abs() > 2.0).count() as f64 / n;
            let share = 0.045_500_263_896_358_42;
            assert!((beyond - share).abs() < 5.0 * (share * (1.0 - share) / n).sqrt());
            for lag in [1, 2, 31, 32] {
                let pairs = values.iter().zip(&values[lag..]);
                let product: f64 = pairs.map(|(a, b)| f64::from(a * b)).sum();
                assert!((product / n).abs() < 5.0 / n.sqrt(), "{lag}");
            }
        }
        let product: f64 = re.iter().zip(&im).map(|(a, b)| f64::from(a * b)).sum();
        assert!((product / n).abs() < 5.0 / n.sqrt());
    }

    /// A change here changes every noisy sample ever drawn; it needs a changelog line.
    #[test]
    fn golden_bits() {
        let (mut re, mut im) = (vec![0.0; 2049], vec![0.0; 2049]);
        Key::new(42, Purpose::DataNoise)
            .stream(7)
            .fill_complex_normal(&mut re, &mut im);
        let hash = re
            .iter()
            .chain(&im)
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, value: &f32| {
                (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
            });
        assert_eq!(hash, 11_484_554_509_849_230_071);
    }

    /// Prints the cost of a normal draw; run it with `--ignored --nocapture` on a quiet machine.
    #[test]
    #[ignore = "a measurement, not a check"]
    fn cost_of_a_normal() {
        let (mut re, mut im) = (vec![0.0; 1 << 13], vec![0.0; 1 << 13]);
        let mut stream = Key::new(2, Purpose::Benchmark).stream(0);
        let mut best = f64::INFINITY;
        for _ in 0..1000 {
            let start = std::time::Instant::now();
            stream.fill_complex_normal(&mut re, &mut im);
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{:.2} ns a normal", best / (2 * re.len()) as f64 * 1e9);
    }
}
