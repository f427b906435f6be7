//! JSON with one spelling for every value: sorted keys, no spaces.

use serde_json::Value;

/// The canonical text of a value.
///
/// Keys are sorted by their bytes, there is no white space, and numbers are the shortest text that
/// reads back as the same number, so equal values have equal bytes.
pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (i, (key, value)) in keys.into_iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = json!({"b": [{"z": 1, "a": null}], "a": "x\"\n", "é": 0.1, "Z": true});
        assert_eq!(
            canonical(&value),
            r#"{"Z":true,"a":"x\"\n","b":[{"a":null,"z":1}],"é":0.1}"#
        );
    }

    #[test]
    fn numbers_read_back_exactly() {
        for bits in [
            0x3fb9_9999_9999_999a_u64,
            1,
            0x7fef_ffff_ffff_ffff,
            0x4059_0a3d_70a3_d70a,
        ] {
            let number = f64::from_bits(bits);
            let back: Value = serde_json::from_str(&canonical(&json!(number))).unwrap();
            assert_eq!(back.as_f64().unwrap().to_bits(), bits);
        }
        let seed: Value = serde_json::from_str(&canonical(&json!(u64::MAX))).unwrap();
        assert_eq!(seed.as_u64(), Some(u64::MAX));
    }
}
