//! Half precision and bfloat16 as float32: every value of either is one of float32's.

/// The float32 of an IEEE half-precision number.
pub(crate) fn from_half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        // 2^-24 times an integer: exact.
        0 => sign * fraction * f32::from_bits((127 - 24) << 23),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        // (1024 + fraction) 2^(exponent - 25): both factors and the product are exact.
        _ => {
            let scale = f32::from_bits(((exponent - 25 + 127) as u32) << 23);
            sign * (1024.0 + fraction) * scale
        }
    }
}

/// The float32 of a bfloat16 number: its upper half.
pub(crate) fn from_bfloat16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0x7bff, 65504.0),
            (0xc000, -2.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(from_half(bits), value, "{bits:#06x}");
        }
        assert!(from_half(0x7e00).is_nan());
        assert_eq!(from_half(0x8000).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn bfloat16_is_the_upper_half() {
        for value in [1.0f32, -0.0, 3.5, f32::INFINITY, 1e-38] {
            let bits = (value.to_bits() >> 16) as u16;
            let expected = f32::from_bits(value.to_bits() & 0xffff_0000);
            assert_eq!(from_bfloat16(bits).to_bits(), expected.to_bits());
        }
    }
}
