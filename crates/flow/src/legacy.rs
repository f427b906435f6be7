//! `model` blocks of older dingo versions, as what they became.
//!
//! This is the one place that knows the old spellings: settings files and checkpoints both come here first.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// The keys that say the normalisation in older versions.
const NORM_FLAGS: [(&str, &str); 2] = [("batch_norm", "BatchNorm"), ("layer_norm", "LayerNorm")];

/// The `model` block in today's words.
///
/// `type: nsf+embedding` with `nsf_kwargs` and `embedding_net_kwargs` becomes `posterior_model_type`,
/// `posterior_kwargs` and `embedding_kwargs`. In every block, however deep, `batch_norm: true` becomes
/// `norm: BatchNorm`, `layer_norm: true` becomes `norm: LayerNorm`, and `norm: null` stands for
/// neither; `"true"` and `"false"` are truth values too. What is new already stays as it is. `path` is
/// how messages call the block.
///
/// # Errors
/// [`Error::Setting`] for another `type` and for a flag that is no truth value, [`Error::Conflict`]
/// for old and new words that contradict each other.
pub fn current_model_block(path: &str, block: &Value) -> Result<Value> {
    let mut block = block.clone();
    if let Value::Object(model) = &mut block {
        rename(path, model)?;
        norms(path, model)?;
    }
    Ok(block)
}

fn rename(path: &str, model: &mut Map<String, Value>) -> Result<()> {
    match model.get("type") {
        None => return Ok(()),
        Some(kind) if kind.as_str() == Some("nsf+embedding") => {}
        Some(kind) => {
            return Err(Error::Setting {
                name: format!("{path}.type"),
                found: kind.to_string(),
                expected: "nsf+embedding, the one old name".into(),
            });
        }
    }
    let flow = Value::from("normalizing_flow");
    model.shift_remove("type");
    let names = [
        ("nsf_kwargs", "posterior_kwargs"),
        ("embedding_net_kwargs", "embedding_kwargs"),
    ];
    for (old, new) in names {
        if model.contains_key(new) {
            return Err(Error::Conflict {
                first: format!("{path}.type: nsf+embedding"),
                second: format!("{path}.{new}"),
                reason: format!("the old type goes with `{old}`"),
            });
        }
        if let Some(block) = model.shift_remove(old) {
            model.insert(new.into(), block);
        }
    }
    model.insert("posterior_model_type".into(), flow);
    Ok(())
}

fn norms(path: &str, block: &mut Map<String, Value>) -> Result<()> {
    let mut said = false;
    let mut old = None;
    for (key, norm) in NORM_FLAGS {
        let Some(value) = block.shift_remove(key) else {
            continue;
        };
        said = true;
        if !flag(&format!("{path}.{key}"), &value)? {
            continue;
        }
        if old.replace(norm).is_some() {
            return Err(Error::Conflict {
                first: format!("{path}.batch_norm"),
                second: format!("{path}.layer_norm"),
                reason: "there is one normalisation".into(),
            });
        }
    }
    if said {
        let norm = Value::from(old);
        let same = |given: &Value| match (given.as_str(), old) {
            (Some(given), Some(old)) => given.eq_ignore_ascii_case(old),
            _ => *given == norm,
        };
        if block.get("norm").is_some_and(|given| !same(given)) {
            return Err(Error::Conflict {
                first: format!("{path}.norm"),
                second: format!("{path}.batch_norm"),
                reason: "the old and the new key contradict each other".into(),
            });
        }
        block.insert("norm".into(), norm);
    }
    for (key, value) in block {
        if let Value::Object(inner) = value {
            norms(&format!("{path}.{key}"), inner)?;
        }
    }
    Ok(())
}

/// A truth value, which old files also hold as text.
fn flag(name: &str, value: &Value) -> Result<bool> {
    match (
        value,
        value.as_str().map(str::to_ascii_lowercase).as_deref(),
    ) {
        (&Value::Bool(flag), _) => Ok(flag),
        (_, Some("true")) => Ok(true),
        (_, Some("false")) => Ok(false),
        _ => Err(Error::Setting {
            name: name.into(),
            found: value.to_string(),
            expected: "true or false".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_become_norms_at_any_depth() {
        let old = json!({
            "posterior_kwargs": {"base_transform_kwargs": {"batch_norm": "true", "num_bins": 8}},
            "embedding_kwargs": {
                "batch_norm": false, "layer_norm": true, "final": {"deep": {"batch_norm": false}}
            },
        });
        let new = json!({
            "posterior_kwargs": {"base_transform_kwargs": {"norm": "BatchNorm", "num_bins": 8}},
            "embedding_kwargs": {"norm": "LayerNorm", "final": {"deep": {"norm": null}}},
        });
        assert_eq!(current_model_block("model", &old).unwrap(), new);
        assert_eq!(current_model_block("model", &new).unwrap(), new);
    }

    #[test]
    fn the_old_type_is_renamed() {
        let old = json!({
            "type": "nsf+embedding", "nsf_kwargs": {"a": 1}, "embedding_net_kwargs": {"b": 2}
        });
        let new = json!({
            "posterior_model_type": "normalizing_flow",
            "posterior_kwargs": {"a": 1}, "embedding_kwargs": {"b": 2}
        });
        assert_eq!(current_model_block("model", &old).unwrap(), new);
    }

    #[test]
    fn contradictions_are_named() {
        for (block, name) in [
            (
                json!({"x": {"batch_norm": true, "layer_norm": "true"}}),
                "m.x.layer_norm",
            ),
            (
                json!({"x": {"batch_norm": true, "norm": "LayerNorm"}}),
                "m.x.norm",
            ),
            (json!({"x": {"batch_norm": 3}}), "m.x.batch_norm"),
            (json!({"type": "maf"}), "m.type"),
            (
                json!({"type": "nsf+embedding", "posterior_kwargs": {}}),
                "m.posterior_kwargs",
            ),
        ] {
            let error = current_model_block("m", &block).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}")), "{error}");
        }
    }
}
