//! Numbers as Python's `repr` writes them, for files that dingo users' scripts read.

/// The shortest text that reads back as the same float64, in Python's spelling.
///
/// Fixed notation for `1e-4 <= |x| < 1e16`, otherwise an exponent of at least two digits; `nan`,
/// `inf`, `-inf`.
pub fn python_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    // Both languages write the shortest digits that round-trip, so only their layout differs.
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Reads what [`python_repr`] writes; `None` if it is no such number.
pub fn parse_python(text: &str) -> Option<f64> {
    match text {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        // Rust would also read `infinity`, `NAN` and the like.
        _ if text
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.e".contains(&b)) =>
        {
            text.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair was printed by Python 3.11.
    #[test]
    fn spelling_is_pythons() {
        for (value, expected) in [
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (0.00012, "0.00012"),
            (9.9999e-05, "9.9999e-05"),
            (0.00010000000000000002, "0.00010000000000000002"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (9999999999999998.0, "9999999999999998.0"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e22, "1e+22"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (-2.5e-5, "-2.5e-05"),
            (1.0 / 3.0, "0.3333333333333333"),
            (14.279050600152267, "14.279050600152267"),
            (1.6349021371744834e-05, "1.6349021371744834e-05"),
            (9007199254740993.0, "9007199254740992.0"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(python_repr(value), expected);
            let back = parse_python(expected).unwrap();
            assert!(back.to_bits() == value.to_bits() || value.is_nan() && back.is_nan());
        }
    }

    #[test]
    fn every_number_reads_back() {
        // Steps through the bit patterns reach every exponent.
        let mut bits: u64 = 1;
        while bits < f64::INFINITY.to_bits() {
            let value = f64::from_bits(bits);
            for value in [value, -value] {
                let back = parse_python(&python_repr(value)).unwrap();
                assert_eq!(back.to_bits(), value.to_bits());
            }
            bits += 0x0003_1415_9265_3589;
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in ["", "NaN", "infinity", "1,5", "0x10", "1.0f", " 1", "--1"] {
            assert_eq!(parse_python(text), None, "{text}");
        }
    }
}
