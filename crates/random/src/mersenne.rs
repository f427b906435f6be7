//! Torch's `randperm` on the CPU, for the train/test split alone.
//!
//! A run started by the Python reference split its data with `torch.manual_seed(42)` and
//! `randperm`; resuming it with another split would test on its training data. Every other draw
//! comes from [`crate::Stream`].

const STATE: usize = 624;
const SHIFT: usize = 397;

/// The 32-bit Mersenne twister MT19937.
///
/// # Source
/// Matsumoto and Nishimura, "Mersenne twister", ACM TOMACS 8 (1998).
struct MersenneTwister {
    state: [u32; STATE],
    next: usize,
}

impl MersenneTwister {
    fn new(seed: u32) -> Self {
        let mut state = [0u32; STATE];
        state[0] = seed;
        for j in 1..STATE {
            let previous = state[j - 1];
            state[j] = 1_812_433_253u32
                .wrapping_mul(previous ^ (previous >> 30))
                .wrapping_add(j as u32);
        }
        Self { state, next: STATE }
    }

    fn twist(&mut self) {
        for j in 0..STATE {
            let joined =
                (self.state[j] & 0x8000_0000) | (self.state[(j + 1) % STATE] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[j] = self.state[(j + SHIFT) % STATE] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    fn next_u32(&mut self) -> u32 {
        if self.next == STATE {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Two 32-bit draws, the first one high, as torch joins them.
    fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }
}

/// From this length on torch takes 64-bit draws and another form of the shuffle.
const LONG: usize = (u32::MAX / 20) as usize;

/// The permutation that torch's `randperm(n)` gives on the CPU after `manual_seed(seed)`.
///
/// # Numerics
/// Checked against libtorch 2.11.0 for several seeds and lengths up to 100,000. From 214,748,364
/// elements on, torch uses 64-bit draws and the inside-out shuffle; that branch follows torch's
/// description and is not compared with it, for want of memory in a test.
pub fn torch_randperm(seed: u64, n: usize) -> Vec<usize> {
    // Torch's twister takes the low half of the seed.
    let mut generator = MersenneTwister::new(seed as u32);
    if n < LONG {
        short_shuffle(&mut generator, n)
    } else {
        long_shuffle(&mut generator, n)
    }
}

fn short_shuffle(generator: &mut MersenneTwister, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in 0..n.saturating_sub(1) {
        let step = generator.next_u32() as usize % (n - i);
        order.swap(i, i + step);
    }
    order
}

fn long_shuffle(generator: &mut MersenneTwister, n: usize) -> Vec<usize> {
    let mut order = vec![0; n];
    for i in 0..n {
        let other = (generator.next_u64() % (i as u64 + 1)) as usize;
        order[i] = order[other];
        order[other] = i;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twister_known_answer() {
        // The C++ standard fixes the 10,000th draw of a default-seeded mt19937.
        let mut generator = MersenneTwister::new(5489);
        let last = (0..10_000).map(|_| generator.next_u32()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn ten_with_seed_42() {
        assert_eq!(torch_randperm(42, 10), [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]);
    }

    /// FNV-1a over the 64-bit elements of libtorch 2.11.0's `at::randperm` after `at::manual_seed`.
    #[test]
    fn equals_libtorch() {
        let cases: [(u64, usize, u64); 15] = [
            (42, 1, 0xaf63bd4c8601b7df),
            (42, 2, 0x08328707b4eb6e3a),
            (42, 10, 0xb3b37708c70ce962),
            (42, 1000, 0x7593c28448000885),
            (42, 100000, 0xbe59c47f3e648a83),
            (0, 1, 0xaf63bd4c8601b7df),
            (0, 2, 0x08328707b4eb6e3a),
            (0, 10, 0x5fb755c895d353d6),
            (0, 1000, 0x7ed880462a855ad9),
            (0, 100000, 0x0e376070d838a877),
            (123456789012345, 1, 0xaf63bd4c8601b7df),
            (123456789012345, 2, 0x08328707b4eb6e3a),
            (123456789012345, 10, 0x61507d65c2d8f4a0),
            (123456789012345, 1000, 0x3604e53a06f1ebd9),
            (123456789012345, 100000, 0xd23705fbb1d8d4f1),
        ];
        for (seed, n, expected) in cases {
            let hash = torch_randperm(seed, n)
                .into_iter()
                .fold(0xcbf2_9ce4_8422_2325, |hash, x| {
                    (hash ^ x as u64).wrapping_mul(0x0000_0100_0000_01b3)
                });
            assert_eq!(hash, expected, "seed {seed}, {n} elements");
        }
    }

    #[test]
    fn both_shuffles_permute() {
        for n in [0, 1, 2, 3, 1000] {
            for mut order in [
                short_shuffle(&mut MersenneTwister::new(1), n),
                long_shuffle(&mut MersenneTwister::new(1), n),
            ] {
                order.sort_unstable();
                assert!(order.into_iter().eq(0..n));
            }
        }
    }
}
