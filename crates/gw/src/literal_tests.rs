use proptest::prelude::*;
use serde_json::json;

use super::*;

fn value(text: &str) -> Value {
    parse_literal(text).unwrap()
}

fn error(text: &str) -> String {
    parse_literal(text).unwrap_err().to_string()
}

#[test]
fn settings_of_a_data_set() {
    let text = r#"{'domain': {'type': 'UniformFrequencyDomain', 'f_min': 20.0, 'delta_f': 0.25},
        'prior': {'mass_1': "Constraint(minimum=10.0, name='mass_1')", 'phase': 'default'},
        'num_samples': 6000, 'compression': None, 'new_interface': False, 'modes': [(2, 2), (3, -3)]}"#;
    let expected = json!({
        "domain": {"type": "UniformFrequencyDomain", "f_min": 20.0, "delta_f": 0.25},
        "prior": {"mass_1": "Constraint(minimum=10.0, name='mass_1')", "phase": "default"},
        "num_samples": 6000, "compression": null, "new_interface": false, "modes": [[2, 2], [3, -3]],
    });
    assert_eq!(value(text), expected);
    // The order of keys is kept.
    let written = literal(&value(text));
    assert!(written.starts_with("{'domain': {'type': ") && written.ends_with("[3, -3]]}"));
}

#[test]
fn numbers_and_words() {
    let cases = [
        ("1", json!(1)),
        ("-7", json!(-7)),
        ("+3", json!(3)),
        ("1_000", json!(1000)),
        ("18446744073709551615", json!(u64::MAX)),
        ("1e-05", json!(1e-5)),
        (".5", json!(0.5)),
        ("5.", json!(5.0)),
        ("-1.5E+3", json!(-1500.0)),
        ("np.float64(1126259462.391)", json!(1126259462.391)),
        ("numpy.int64( -3 )", json!(-3)),
        ("np.str_('H1')", json!("H1")),
        ("np.True_", json!(true)),
        ("inf", json!("inf")),
        ("-inf", json!("-inf")),
        ("np.float64(nan)", json!("nan")),
        ("()", json!([])),
        ("(1,)", json!([1])),
        ("(1)", json!(1)),
        ("[1, 2, ]", json!([1, 2])),
        ("{}", json!({})),
        (" u'a' ", json!("a")),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn texts_and_escapes() {
    let cases = [
        (r"'a\'b'", "a'b"),
        (r#""it's""#, "it's"),
        (r"'\n\t\\\x41\u00fc\U0001F600'", "\n\t\\Aü😀"),
        (r"'\d'", r"\d"),
        ("'one ' 'and' \" two\"", "one and two"),
        ("''", ""),
        ("'ünï'", "ünï"),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), json!(expected), "{text}");
    }
}

#[test]
fn errors_name_the_position() {
    assert_eq!(
        error("{'a': [1, 2}"),
        "not a Python literal: at byte 11, expected `,` or `]`, found \"}\""
    );
    assert_eq!(
        error("{'a': open('x')}"),
        "not a Python literal: at byte 6, expected a value; names and calls are not read, found \"open('x')}\""
    );
    assert!(error("").contains("at byte 0, expected a value, found the end"));
    assert!(error("{1: 2}").contains("at byte 1, expected a text as key"));
    assert!(error("{'a' 2}").contains("at byte 5, expected `:`"));
    assert!(error("{'a': 1 'b': 2}").contains("at byte 8, expected `,` or `}`"));
    assert!(error("'abc").contains("at byte 0, the text does not end"));
    assert!(error("'a\nb'").contains("at byte 2, the text does not end in its line"));
    assert!(error("'''a'''").contains("three quotes"));
    assert!(error(r"'\ud800'").contains("no character"));
    assert!(error(r"'\x4'").contains("no character"));
    assert!(error("1 2").contains("at byte 2, the literal should end here"));
    for text in [
        "99999999999999999999",
        "1j",
        "0x10",
        "1__0",
        "_1",
        "1_",
        "-",
        "--1",
        ".",
        "1e",
        "1e999",
        "e5",
        "1.2.3",
        "np.array([1])",
        "np.float64([1])",
        "np.float64(1",
        "os.system('x')",
        "{'a'}",
        "[1,,2]",
        "[,]",
        "lambda: 1",
        "b'a'",
        "{**{}}",
        "1+2",
    ] {
        assert!(parse_literal(text).is_err(), "{text}");
    }
}

#[test]
fn depth_size_and_count_are_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse_literal(&nested(MAX_DEPTH)).is_ok());
    assert!(error(&nested(100_000)).contains("nested deeper than 64"));
    assert!(error(&"(".repeat(1_000_000)).contains("nested deeper than 64"));
    assert!(error(&format!("'{}'", "a".repeat(MAX_LENGTH))).contains("more than the 2097152"));
    assert!(error(&format!("[{}]", "0,".repeat(500_000))).contains("more than 400000 values"));
}

#[test]
fn values_are_written_as_python_does() {
    let value = json!({
        "a": null, "b": true, "c": [1, -2.5, 1e-5, 1e16, 123456789012345.0, 1e22, 0.0001], "it's": "say \"x\"",
        "d": "it's", "e": "a\\b\n\u{7f}ü",
    });
    let expected = r#"{'a': None, 'b': True, 'c': [1, -2.5, 1e-05, 1e+16, 123456789012345.0, 1e+22, 0.0001], "it's": 'say "x"', 'd': "it's", 'e': 'a\\b\n\x7fü'}"#;
    assert_eq!(literal(&value), expected);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |x| x.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in any_value()) {
        prop_assert_eq!(parse_literal(&literal(&value)).unwrap(), value);
    }

    #[test]
    fn any_text_ends_in_a_value_or_an_error(text in "\\PC{0,40}|[{}\\[\\]()'\",:0-9eTrueNonp.\\\\ ]{0,60}") {
        let _ = parse_literal(&text);
    }
}
