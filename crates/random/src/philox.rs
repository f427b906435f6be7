//! The bijection Philox4x32-10: 128 counter bits and 64 key bits to 128 random bits.
//!
//! Only the bijection; keys and counters are laid out in [`crate::Key`] and [`crate::Stream`].

const MULTIPLIER_0: u64 = 0xD251_1F53;
const MULTIPLIER_1: u64 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const ROUNDS: usize = 10;
const LOW: u64 = 0xffff_ffff;

/// Encrypts one counter block under a key with ten Philox rounds.
///
/// # Source
/// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 4.3.
#[inline]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    encrypt(counter.map(u64::from), &round_keys(key)).map(|word| word as u32)
}

/// The keys of the ten rounds.
#[inline(always)]
pub(crate) fn round_keys(key: [u32; 2]) -> [[u64; 2]; ROUNDS] {
    std::array::from_fn(|round| {
        [
            u64::from(key[0].wrapping_add(WEYL_0.wrapping_mul(round as u32))),
            u64::from(key[1].wrapping_add(WEYL_1.wrapping_mul(round as u32))),
        ]
    })
}

/// Ten rounds on one block whose 32-bit words lie in 64-bit variables.
///
/// In that form both products of a round are the widening multiplication that vector units have, so
/// that a loop over blocks vectorises without moving words between lanes.
#[inline(always)]
pub(crate) fn encrypt(counter: [u64; 4], keys: &[[u64; 2]; ROUNDS]) -> [u64; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    for key in keys {
        let product_0 = MULTIPLIER_0 * (a & LOW);
        let product_1 = MULTIPLIER_1 * (c & LOW);
        a = (product_1 >> 32) ^ b ^ key[0];
        b = product_1 & LOW;
        c = (product_0 >> 32) ^ d ^ key[1];
        d = product_0 & LOW;
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer vectors published with Random123 (file `kat_vectors`, `philox4x32 10`).
    #[test]
    fn known_answers() {
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }
}
