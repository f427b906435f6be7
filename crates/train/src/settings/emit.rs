//! A tree of values as YAML text that reads back as the same tree.

use serde_json::Value;

/// The YAML text of a value, block style, two spaces a level, lists of scalars on one line.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(entries) if !entries.is_empty() => mapping(value, 0, &mut text),
        Value::Array(items) if !items.iter().all(is_scalar) => sequence(items, 0, &mut text),
        _ => {
            text.push_str(&inline(value));
            text.push('\n');
        }
    }
    text
}

fn is_scalar(value: &Value) -> bool {
    !(value.is_object() || value.is_array())
}

/// Everything that fits on one line: scalars, lists of scalars, empty mappings.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(_) => "{}".into(),
        other => other.to_string(),
    }
}

/// A text, quoted as soon as anything could read it otherwise.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/'))
        && text.chars().all(plain)
        && matches!(super::yaml::plain(text), Value::String(_));
    if safe {
        return text.into();
    }
    // JSON's quoted form is YAML's double-quoted form.
    Value::from(text).to_string()
}

fn indent(level: usize, text: &mut String) {
    for _ in 0..level {
        text.push_str("  ");
    }
}

fn mapping(value: &Value, level: usize, text: &mut String) {
    for (key, value) in value.as_object().into_iter().flatten() {
        indent(level, text);
        text.push_str(&quoted(key));
        text.push(':');
        nested(value, level, text);
    }
}

/// What follows a key or a dash.
fn nested(value: &Value, level: usize, text: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            text.push('\n');
            mapping(value, level + 1, text);
        }
        Value::Array(items) if !items.iter().all(is_scalar) => {
            text.push('\n');
            sequence(items, level + 1, text);
        }
        _ => {
            text.push(' ');
            text.push_str(&inline(value));
            text.push('\n');
        }
    }
}

fn sequence(items: &[Value], level: usize, text: &mut String) {
    for item in items {
        indent(level, text);
        text.push('-');
        nested(item, level, text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::yaml::parse;
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let tree = json!({
            "data": {"path": "a/b-c.npz", "prior": "Uniform(minimum=-0.1, name='x')", "none": null},
            "texts": ["yes", "1e-4", "017", "None", "", "a: b", "#x", "- y", "tab\t", "ü", "line\nline"],
            "numbers": [1, -1, 0.001, 1e-5, 1e300, 18446744073709551615u64, 0.1, 5e-324],
            "empty": {}, "nothing": [], "flag": true, "null": "null", "~": false,
            "deep": {"list": [[1.0, 2.0], [3.0, 4.0], {"a": {"b": [1]}}, []]},
        });
        let text = to_yaml(&tree);
        assert_eq!(parse(&text).unwrap(), tree, "{text}");
        for value in [
            json!({}),
            json!([]),
            json!("no"),
            json!([[1], [2]]),
            json!(3),
        ] {
            assert_eq!(parse(&to_yaml(&value)).unwrap(), value);
        }
    }

    #[test]
    fn looks_like_a_settings_file() {
        let tree = json!({"training": {"stage_0": {"lr": 0.001, "betas": [0.9, 0.999]}}});
        let expected = "training:\n  stage_0:\n    lr: 0.001\n    betas: [0.9, 0.999]\n";
        assert_eq!(to_yaml(&tree), expected);
    }
}
