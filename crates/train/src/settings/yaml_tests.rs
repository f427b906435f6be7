use serde_json::json;

use super::*;

fn reason(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn scalars_of_both_versions() {
    for (text, expected) in [
        ("1e-4", json!(1e-4)),
        ("1.0e-3", json!(1e-3)),
        ("1.e-3", json!(1e-3)),
        (".5", json!(0.5)),
        ("+5", json!(5)),
        ("-5", json!(-5)),
        ("-0.25", json!(-0.25)),
        ("1_000", json!(1000)),
        ("0", json!(0)),
        ("0.1", json!(0.1)),
        ("0x1F", json!(31)),
        ("-0x10", json!(-16)),
        ("1.5E+3", json!(1500.0)),
        ("18446744073709551615", json!(u64::MAX)),
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("TRUE", json!(true)),
        ("null", json!(null)),
        ("~", json!(null)),
        ("", json!(null)),
        ("None", json!("None")),
        ("017", json!("017")),
        ("1:30", json!("1:30")),
        ("2020-01-01", json!("2020-01-01")),
        (".inf", json!(".inf")),
        (".nan", json!(".nan")),
        ("nan", json!("nan")),
        ("inf", json!("inf")),
        ("1e999", json!("1e999")),
        ("y", json!("y")),
        (".", json!(".")),
        ("-", json!("-")),
        ("e5", json!("e5")),
        ("0x", json!("0x")),
        ("1-2", json!("1-2")),
        ("'1'", json!("1")),
        ("\"yes\"", json!("yes")),
        ("!!str 1", json!("1")),
    ] {
        let text = if text == "-" {
            "a: '-'".into()
        } else {
            format!("a: {text}")
        };
        assert_eq!(parse(&text).unwrap(), json!({"a": expected}), "{text}");
    }
}

#[test]
fn anchors_and_merged_mappings() {
    let text = "
base: &base {type: adam, lr: 1e-3}
other: &other {lr: 5, eps: 1}
a: {<<: *base, lr: 2e-3}
b: {<<: [*base, *other]}
c: *base
";
    let tree = parse(text).unwrap();
    assert_eq!(tree["a"], json!({"lr": 2e-3, "type": "adam"}));
    assert_eq!(tree["b"], json!({"type": "adam", "lr": 1e-3, "eps": 1}));
    assert_eq!(tree["c"], tree["base"]);
    assert!(reason("a: {<<: 3}").contains("`<<` takes a mapping"));
}

#[test]
fn duplicate_keys_name_both_lines() {
    assert_eq!(
        reason("data:\n  lr: 1\n  eps: 2\n  lr: 3\n"),
        "settings, line 4, column 3: the key `lr` stands already in line 2"
    );
}

#[test]
fn an_alias_bomb_stops_early() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let error = parse(&text).unwrap_err();
    assert!(
        matches!(error, Error::SettingsTooLarge { what: "values", .. }),
        "{error}"
    );
    // A single value, repeated more often than any settings file has values.
    let many = format!("a: &a 1\nb: [{}]", vec!["*a"; MOST_NODES].join(","));
    let error = parse(&many).unwrap_err();
    assert!(
        matches!(error, Error::SettingsTooLarge { what: "values", .. }),
        "{error}"
    );
    // Aliases that double the depth instead of the width.
    let mut deep = String::from("a0: &a0 {k: {k: {k: {k: 1}}}}\n");
    for level in 1..40 {
        deep.push_str(&format!(
            "a{level}: &a{level} {{k: {{k: *a{}}}}}\n",
            level - 1
        ));
    }
    assert!(reason(&deep).contains("nested deeper than 64 levels"));
}

#[test]
fn an_alias_inside_its_own_anchor_is_an_error() {
    for text in ["a: &a [*a]", "&a {b: *a}", "a: *missing"] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, Error::Yaml { .. }), "{text}: {error}");
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for unit in ["[", "{a: ", "- ", "? "] {
        for depth in [100, 200_000] {
            let error = parse(&unit.repeat(depth)).unwrap_err();
            assert!(
                matches!(error, Error::Yaml { .. }),
                "{unit} {depth}: {error}"
            );
        }
    }
    let blocks: String = (0..500).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert!(reason(&blocks).contains("nested deeper than 64 levels"));
    let fits = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
    assert!(parse(&fits).is_ok());
}

#[test]
fn ten_megabytes_are_refused_unread() {
    let error = parse(&"a: 1\n".repeat(2_000_000)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::SettingsTooLarge {
                what: "bytes",
                found: 10_000_000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn what_is_no_plain_data_is_refused() {
    for text in [
        "a: !!python/object/apply:os.system [x]",
        "a: !custom x",
        "a: !!binary aGVsbG8=",
        "!!map {a: 1}",
        "a: 1\n---\nb: 2\n",
        "? [a, b]\n: 1",
        "? {a: b}\n: 1",
        "null: 1",
        "a: 'unclosed",
        "a: [1, 2",
        "a: {b: 1",
        "a: b: c",
        "a: %x\n@y: 1",
        "*a : 1",
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, Error::Yaml { .. }), "{text}: {error}");
    }
}

#[test]
fn keys_are_read_as_text() {
    let tree = parse("1: a\n1.5: b\nyes: c\n'2': d").unwrap();
    assert_eq!(tree, json!({"1": "a", "1.5": "b", "true": "c", "2": "d"}));
}

#[test]
fn no_bytes_make_the_reader_panic() {
    // Cuts and flips of a valid file reach most of the scanner's branches.
    let text =
        "a: &x {b: [1, 2e-3], c: 'd\"', ? e : !!str f}\ng: |\n  h\n  i\n# j\nk: >-\n  l\n<<: *x\n";
    let bytes = text.as_bytes();
    for cut in 0..bytes.len() {
        let _ = parse(&text[..cut]);
        for byte in *b"\n\t :-[]{}&*!|>'\"%@#,?\0\x7f" {
            let mut changed = bytes.to_vec();
            changed[cut] = byte;
            let _ = parse(&String::from_utf8(changed).unwrap());
        }
    }
}
