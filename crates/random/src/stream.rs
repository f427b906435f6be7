//! A sequence of draws: one key, one index, a position.

use crate::normal::{LANES, PAIR, fill_blocks, normal_pair};
use crate::philox::philox4x32_10;
use crate::single;

/// The sequence of draws that belongs to one key and one 64-bit index.
///
/// The Philox counter is (block number, index), 64 bits each, low words first; a block gives two
/// 64-bit words, low one first. Words are read in order; a pair of normals always takes one whole
/// block (an unread half of the block before it is skipped), so that the cost and the position of
/// normals are fixed.
#[derive(Clone, Debug)]
pub struct Stream {
    key: [u32; 2],
    index: u64,
    block: u64,
    spare_word: Option<u64>,
    spare_normal: Option<f64>,
}

impl Stream {
    pub(crate) fn new(key: [u32; 2], index: u64, block: u64) -> Self {
        Self {
            key,
            index,
            block,
            spare_word: None,
            spare_normal: None,
        }
    }

    #[inline]
    fn next_block(&mut self) -> [u32; 4] {
        let ([block_low, block_high], [index_low, index_high]) =
            (halves(self.block), halves(self.index));
        let counter = [block_low, block_high, index_low, index_high].map(|half| half as u32);
        let words = philox4x32_10(counter, self.key);
        self.block = self.block.wrapping_add(1);
        words
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if let Some(word) = self.spare_word.take() {
            return word;
        }
        let [low, high] = join(self.next_block());
        self.spare_word = Some(high);
        low
    }

    /// A uniform draw from [0, 1) with 53 bits: the top bits of a word times 2^-53.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform draw from [low, high): `low + (high - low) u`, kept below `high` where rounding
    /// would reach it.
    ///
    /// # Domain
    /// Finite bounds with `low < high`; with equal bounds the result is `low`.
    #[inline]
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        let value = low + (high - low) * self.uniform();
        if value < high {
            value
        } else {
            high.next_down().max(low)
        }
    }

    /// An unbiased draw from `0..n`; 0 for `n` of 0 or 1.
    ///
    /// # Source
    /// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019), algorithm 5.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        if n < 2 {
            return 0;
        }
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Shuffles a slice by Fisher and Yates: element `i`, from the last down to the second, is
    /// swapped with an unbiased draw from `0..=i`.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            let other = self.below(i as u64 + 1) as usize;
            values.swap(i, other);
        }
    }

    /// A standard normal draw by Box and Muller; the second of each pair is kept for the next call.
    ///
    /// # Numerics
    /// Built from additions, multiplications, divisions and square roots alone, so the bits are the
    /// same on every machine; within 3e-15 of the exact transform (test
    /// `matches_the_library_functions`). Magnitudes end at sqrt(2 x 53 ln 2) = 8.57.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare_normal.take() {
            return value;
        }
        self.spare_word = None;
        let [first, second] = normal_pair(self.next_block());
        self.spare_normal = Some(second);
        first
    }

    /// Fills a slice with standard normal draws, the same as calling [`Stream::normal`] for each
    /// element.
    pub fn fill_normal(&mut self, values: &mut [f64]) {
        let mut start = 0;
        if !values.is_empty()
            && let Some(value) = self.spare_normal.take()
        {
            values[0] = value;
            start = 1;
        }
        let values = &mut values[start..];
        if values.is_empty() {
            return;
        }
        self.spare_word = None;
        let whole = values.len() / (PAIR * LANES) * (PAIR * LANES);
        let (body, tail) = values.split_at_mut(whole);
        fill_blocks(self.key, self.index, self.block, body);
        self.block = self.block.wrapping_add((whole / PAIR) as u64);
        for value in tail {
            *value = self.normal();
        }
    }

    /// Fills a slice with standard normal draws rounded to f32; the same draws as
    /// [`Stream::fill_normal`].
    pub fn fill_normal_f32(&mut self, values: &mut [f32]) {
        let mut buffer = [0.0; 8 * PAIR * LANES];
        for chunk in values.chunks_mut(buffer.len()) {
            let draws = &mut buffer[..chunk.len()];
            self.fill_normal(draws);
            for (value, &draw) in chunk.iter_mut().zip(draws.iter()) {
                *value = draw as f32;
            }
        }
    }

    /// Fills both slices with standard complex normal draws: real and imaginary part N(0, 1) each.
    ///
    /// Two complex numbers take one block of the stream, by the Box-Muller transform in
    /// single precision. What an earlier call left of a block is skipped, and so is the second half of the
    /// last one if the length is odd.
    ///
    /// # Shapes
    /// Both slices are equally long; of a longer one the rest is left alone.
    ///
    /// # Numerics
    /// Built from additions, multiplications, divisions and square roots alone, so the bits are the
    /// same on every machine. Magnitudes end at sqrt(2 x 32 ln 2) = 6.66.
    pub fn fill_complex_normal(&mut self, re: &mut [f32], im: &mut [f32]) {
        self.spare_word = None;
        self.spare_normal = None;
        let length = re.len().min(im.len());
        let (re, im) = (&mut re[..length], &mut im[..length]);
        self.block = single::fill(self.key, self.index, self.block, re, im);
    }
}

/// The two 32-bit halves of a word, low one first.
#[inline(always)]
pub(crate) fn halves(word: u64) -> [u64; 2] {
    [word & 0xffff_ffff, word >> 32]
}

/// The two 64-bit words of a block.
#[inline(always)]
pub(crate) fn join(words: [u32; 4]) -> [u64; 2] {
    [
        u64::from(words[1]) << 32 | u64::from(words[0]),
        u64::from(words[3]) << 32 | u64::from(words[2]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Purpose};

    fn key() -> Key {
        Key::new(11, Purpose::Benchmark)
    }

    /// Computed by an independent program; a change here changes every run ever made and needs a
    /// changelog line.
    #[test]
    fn golden_draws() {
        let mut stream = Key::new(42, Purpose::Sampling).stage(1).epoch(2).stream(3);
        assert_eq!(stream.next_u64(), 10_400_968_680_808_307_941);
        assert_eq!(stream.next_u64(), 3_388_531_793_612_704_624);
        assert_eq!(stream.uniform(), 0.014_868_655_585_816_07);
        // The other program uses the system's functions, ours are frozen to the bit below.
        let pair = [stream.normal(), stream.normal()];
        assert!(
            (pair[0] - 0.321_096_256_846_430_67).abs() < 1e-15,
            "{}",
            pair[0]
        );
        assert!(
            (pair[1] + 0.585_487_018_117_927_6).abs() < 1e-15,
            "{}",
            pair[1]
        );
        assert_eq!(stream.below(1000), 958);
        // FNV-1a over the bits of many normals.
        let mut normals = [0.0; 4096];
        Key::new(42, Purpose::DataNoise)
            .stream(7)
            .fill_normal(&mut normals);
        let hash = normals
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, value| {
                (hash ^ value.to_bits()).wrapping_mul(0x0000_0100_0000_01b3)
            });
        assert_eq!(hash, 10_505_641_422_368_777_262);
    }

    #[test]
    fn streams_and_blocks_do_not_repeat() {
        let mut seen = std::collections::HashSet::new();
        for index in [0, 1, 2, 1 << 32, u64::MAX] {
            let mut stream = key().stream(index);
            for _ in 0..1000 {
                assert!(seen.insert(stream.next_u64()));
            }
        }
    }

    #[test]
    fn filling_equals_single_draws() {
        for length in [0, 1, 2, 3, 15, 16, 17, 100, 257] {
            for lead in 0..3 {
                let mut one = key().stream(5);
                let mut other = one.clone();
                let mut expected: Vec<f64> = (0..lead).map(|_| one.normal()).collect();
                expected.extend((0..length).map(|_| one.normal()));
                let mut actual: Vec<f64> = (0..lead).map(|_| other.normal()).collect();
                actual.resize(lead + length, f64::NAN);
                other.fill_normal(&mut actual[lead..]);
                assert_eq!(actual, expected);
                assert_eq!(one.next_u64(), other.next_u64());
                assert_eq!(one.normal(), other.normal());
                let mut rounded = vec![f32::NAN; length + lead];
                key().stream(5).fill_normal_f32(&mut rounded);
                assert!(rounded.iter().zip(&expected).all(|(&a, &b)| a == b as f32));
            }
        }
    }

    #[test]
    fn a_uniform_draw_splits_no_pair() {
        let mut stream = key().stream(0);
        let mut plain = stream.clone();
        let pair = [
            plain.normal(),
            plain.normal(),
            plain.normal(),
            plain.normal(),
        ];
        assert_eq!(stream.normal(), pair[0]);
        stream.fill_normal(&mut []);
        assert_eq!(stream.normal(), pair[1]);
        // The next block goes to the uniform draw; its second half is skipped.
        let word = key().stream(0).nth_word(2);
        assert_eq!(stream.next_u64(), word);
        plain.normal();
        assert_eq!(stream.normal(), {
            let mut later = key().stream(0);
            later.fill_normal(&mut [0.0; 4]);
            later.normal()
        });
    }

    impl Stream {
        fn nth_word(mut self, n: usize) -> u64 {
            for _ in 0..n {
                self.next_u64();
            }
            self.next_u64()
        }
    }

    #[test]
    fn uniform_moments_and_range() {
        let mut stream = key().stream(1);
        let count = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..count {
            let u = stream.uniform();
            assert!((0.0..1.0).contains(&u));
            sum += u;
            squares += (u - 0.5) * (u - 0.5);
        }
        let count = f64::from(count);
        // Five standard errors of each moment.
        assert!((sum / count - 0.5).abs() < 5.0 * (1.0 / 12.0 / count).sqrt());
        assert!((squares / count - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / count).sqrt());
    }

    #[test]
    fn uniform_in_stays_below_its_upper_bound() {
        let mut stream = key().stream(1);
        let (low, high) = (1.0, 1.0f64.next_up());
        for _ in 0..100 {
            assert_eq!(stream.uniform_in(low, high), low);
        }
        assert_eq!(stream.uniform_in(2.0, 2.0), 2.0);
        for _ in 0..1000 {
            assert!((-3.0..5.0).contains(&stream.uniform_in(-3.0, 5.0)));
        }
    }

    #[test]
    fn below_is_uniform_and_bounded() {
        let mut stream = key().stream(2);
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        let chi_squared: f64 = counts
            .iter()
            .map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0)
            .sum();
        // The 0.1 and 99.9 per cent points of chi-squared with six degrees of freedom.
        assert!(
            (0.38..22.46).contains(&chi_squared),
            "chi squared {chi_squared}"
        );
        // Without the rejection one residue of three would take half of the draws.
        let n = 3 << 62;
        let mut residues = [0u32; 3];
        for _ in 0..40_000 {
            let draw = stream.below(n);
            assert!(draw < n);
            residues[(draw % 3) as usize] += 1;
        }
        for count in residues {
            let share = f64::from(count) / 40_000.0;
            assert!((share - 1.0 / 3.0).abs() < 5.0 * (2.0f64 / 9.0 / 40_000.0).sqrt());
        }
    }
}
