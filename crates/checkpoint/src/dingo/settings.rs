//! dingo's `model_kwargs` and `train_settings` from our settings.

use serde_json::{Map, Value, json};

use crate::{Error, Metadata, ModelArchitecture, Result};

/// Path of our one option that dingo's builder does not know.
const IDENTITY_INIT: &str = "/posterior_kwargs/base_transform_kwargs";

/// Sets that option in a `model` block.
pub(super) fn set_identity_init(block: &mut Value) {
    if let Some(Value::Object(base)) = block.pointer_mut(IDENTITY_INIT) {
        base.insert("identity_init".into(), true.into());
    }
}

/// dingo's `model` block, and whether it would say `identity_init` if dingo knew that.
///
/// The block of the settings, sizes filled in, if it describes the network of the metadata; otherwise
/// the block of that network.
pub(super) fn model_kwargs(metadata: &Metadata) -> Result<(Value, bool)> {
    let settings = match &metadata.architecture {
        ModelArchitecture::NotBuilt(block) => return Ok((block.clone(), false)),
        ModelArchitecture::Flow(settings) => settings,
    };
    let network = serde_json::to_value(settings).map_err(|e| Error::Metadata(e.to_string()))?;
    let given = metadata.settings.as_ref().map(|s| &s["model"]);
    let mut block =
        match given.and_then(|block| dunnart_flow::current_model_block("model", block).ok()) {
            Some(block @ Value::Object(_)) => block,
            _ => Value::Null,
        };
    for (part, key) in [
        ("posterior_kwargs", "input_dim"),
        ("posterior_kwargs", "context_dim"),
        ("embedding_kwargs", "input_dims"),
        ("embedding_kwargs", "added_context"),
    ] {
        if let (Some(Value::Object(part)), Some(size)) =
            (block.get_mut(part), network[part].get(key))
            && !part.contains_key(key)
        {
            part.insert(key.into(), size.clone());
        }
    }
    let same =
        ModelArchitecture::from_model_block(&block).is_ok_and(|a| a == metadata.architecture);
    if !same {
        block = network;
    }
    let mut identity = false;
    if let Some(Value::Object(base)) = block.pointer_mut(IDENTITY_INIT) {
        identity = base.shift_remove("identity_init") == Some(Value::Bool(true));
    }
    if let Some(map) = block.as_object_mut() {
        map.entry("posterior_model_type")
            .or_insert("normalizing_flow".into());
        if map.contains_key("embedding_kwargs") {
            map.entry("embedding_type").or_insert("resnet".into());
        }
    }
    Ok((block, identity))
}

/// Settings without `local`, with what dingo wants in them, and the paths of what was made for it.
pub(super) fn train_settings(metadata: &Metadata) -> Result<(Map<String, Value>, Vec<String>)> {
    let mut made = Vec::new();
    let mut settings = match &metadata.settings {
        Some(Value::Object(settings)) => settings.clone(),
        None => Map::new(),
        Some(other) => return Err(super::entry("settings", "a mapping", Some(other))),
    };
    settings.shift_remove("local");
    for key in ["data", "model", "training"] {
        if !settings.contains_key(key) {
            made.push(key.to_owned());
            settings.insert(key.into(), json!({}));
        }
    }
    let Some(Value::Object(data)) = settings.get_mut("data") else {
        return Err(super::entry(
            "settings.data",
            "a mapping",
            settings.get("data"),
        ));
    };
    let mut make = |key: &str, value: Value| {
        if !data.contains_key(key) {
            made.push(format!("data.{key}"));
            data.insert(key.into(), value);
        }
    };
    let parameters = metadata.parameter_names();
    if !data_is_unconditional(metadata) {
        make("inference_parameters", json!(parameters));
        make("context_parameters", json!(metadata.context_parameters));
    }
    if let Some(standardization) = &metadata.standardization {
        let mut columns: Vec<(&str, f64, f64)> = Vec::new();
        let theta = &standardization.theta;
        for (i, name) in parameters.iter().enumerate().take(theta.mean.len()) {
            columns.push((name, theta.mean[i], theta.std[i]));
        }
        if let Some(scale) = &standardization.context_parameters {
            for (i, name) in metadata.context_parameters.iter().enumerate() {
                if let (Some(&mean), Some(&std)) = (scale.mean.get(i), scale.std.get(i)) {
                    columns.push((name, mean, std));
                }
            }
        }
        let means: Map<_, _> = columns
            .iter()
            .map(|c| (c.0.to_owned(), c.1.into()))
            .collect();
        let stds: Map<_, _> = columns
            .iter()
            .map(|c| (c.0.to_owned(), c.2.into()))
            .collect();
        make("standardization", json!({"mean": means, "std": stds}));
    }
    Ok((settings, made))
}

/// Whether the settings are those of a density-recovery model, which lists its parameters otherwise.
fn data_is_unconditional(metadata: &Metadata) -> bool {
    let data = metadata.settings.as_ref().map(|settings| &settings["data"]);
    data.is_some_and(|data| data["unconditional"] == true)
}
