//! What a checkpoint says its network is: one that is built here, or one that is only kept.

use dunnart_flow::{NetworkSettings, current_model_block};
use serde::de::{Deserializer, Error as _};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Result};

/// Key under which metadata hold the `model` block of a network that is not built.
const NOT_BUILT: &str = "not_built";

/// Settings of the network of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelArchitecture {
    /// A flow, with or without reduced-basis embedding.
    Flow(NetworkSettings),
    /// The `model` block of another family (transformer embedding, flow matching, score matching):
    /// its tensors are kept, described and converted, and its network is not built.
    NotBuilt(Value),
}

impl ModelArchitecture {
    /// Reads dingo's `model` block, old spellings included.
    ///
    /// # Errors
    /// [`Error::Entry`] for an unknown family and for settings that no network has,
    /// [`Error::Flow`] for old and new words that contradict each other.
    pub fn from_model_block(block: &Value) -> Result<Self> {
        let name = "model_kwargs";
        let mut block = current_model_block(name, block)?;
        let lower = |key: &str| match block.get(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.to_ascii_lowercase()),
            Some(other) => Err(entry(name, key, "text", other)),
        };
        let (family, embedding) = (lower("posterior_model_type")?, lower("embedding_type")?);
        match family.as_str() {
            "" | "normalizing_flow" => {}
            "flow_matching" | "score_matching" => return Ok(Self::NotBuilt(block)),
            _ => {
                let families = "normalizing_flow, flow_matching or score_matching";
                return Err(entry(
                    name,
                    "posterior_model_type",
                    families,
                    &family.into(),
                ));
            }
        }
        match embedding.as_str() {
            "" | "resnet" => {}
            "transformer" => return Ok(Self::NotBuilt(block)),
            _ => {
                let kinds = "resnet or transformer";
                return Err(entry(name, "embedding_type", kinds, &embedding.into()));
            }
        }
        if let Some(map) = block.as_object_mut() {
            map.shift_remove("posterior_model_type");
            map.shift_remove("embedding_type");
            // The reference asks whether the block is empty, not whether it is there.
            let empty = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
            if map.get("embedding_kwargs").is_some_and(empty) {
                map.shift_remove("embedding_kwargs");
            }
            if let Some(Value::Object(embedding)) = map.get_mut("embedding_kwargs")
                && embedding.get("V_rb_list").is_some_and(Value::is_null)
            {
                embedding.shift_remove("V_rb_list");
            }
        }
        match serde_json::from_value(block) {
            Ok(settings) => Ok(Self::Flow(settings)),
            Err(error) => Err(Error::Entry {
                name: name.into(),
                expected: "settings of a network".into(),
                found: format!("settings with a fault: {error}"),
            }),
        }
    }

    /// The settings of a network that can be built.
    ///
    /// # Errors
    /// [`Error::NotBuilt`] naming the family of one that cannot.
    pub fn settings(&self) -> Result<&NetworkSettings> {
        let block = match self {
            Self::Flow(settings) => return Ok(settings),
            Self::NotBuilt(block) => block,
        };
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        let family = text("posterior_model_type");
        let (name, found) = match family.to_ascii_lowercase().as_str() {
            "" | "normalizing_flow" => ("embedding_type", text("embedding_type")),
            _ => ("posterior_model_type", family),
        };
        Err(Error::NotBuilt {
            name: name.into(),
            found: found.into(),
        })
    }

    /// Number D of parameters, where the settings say it.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Flow(settings) => settings.posterior_kwargs.input_dim,
            Self::NotBuilt(block) => {
                let count = &block["posterior_kwargs"]["input_dim"];
                count
                    .as_u64()
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(0)
            }
        }
    }
}

fn entry(name: &str, key: &str, expected: &str, found: &Value) -> Error {
    Error::Entry {
        name: format!("{name}.{key}"),
        expected: expected.into(),
        found: found.to_string(),
    }
}

impl From<NetworkSettings> for ModelArchitecture {
    fn from(settings: NetworkSettings) -> Self {
        Self::Flow(settings)
    }
}

impl Serialize for ModelArchitecture {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Flow(settings) => settings.serialize(s),
            Self::NotBuilt(block) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry(NOT_BUILT, block)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ModelArchitecture {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        let mut value = Value::deserialize(d)?;
        if let Some(block) = value.get_mut(NOT_BUILT) {
            return Ok(Self::NotBuilt(block.take()));
        }
        match NetworkSettings::deserialize(value) {
            Ok(settings) => Ok(Self::Flow(settings)),
            Err(error) => Err(D::Error::custom(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flow() -> Value {
        json!({
            "posterior_model_type": "Normalizing_Flow",
            "posterior_kwargs": {
                "input_dim": 3, "context_dim": 4, "num_flow_steps": 2,
                "base_transform_kwargs": {"hidden_dim": 4, "batch_norm": "true"}
            },
            "embedding_type": "ResNet",
            "embedding_kwargs": {
                "input_dims": [2, 3, 4], "output_dim": 4, "hidden_dims": [5], "svd": {"size": 2},
                "V_rb_list": null, "batch_norm": false
            }
        })
    }

    #[test]
    fn flows_are_read_in_old_and_new_words() {
        let read = ModelArchitecture::from_model_block(&flow()).unwrap();
        let ModelArchitecture::Flow(settings) = &read else {
            panic!("{read:?}")
        };
        let base = &settings.posterior_kwargs.base_transform_kwargs;
        assert_eq!(base.norm, Some(dunnart_flow::Norm::BatchNorm));
        assert_eq!(settings.embedding_kwargs.as_ref().unwrap().norm, None);
        let mut bare = flow();
        bare["embedding_kwargs"] = json!({});
        bare["embedding_type"] = Value::Null;
        let ModelArchitecture::Flow(bare) = ModelArchitecture::from_model_block(&bare).unwrap()
        else {
            panic!("no flow")
        };
        assert_eq!(bare.embedding_kwargs, None);
    }

    #[test]
    fn other_families_are_kept_and_refused_by_name() {
        for (key, value) in [
            ("posterior_model_type", "flow_matching"),
            ("posterior_model_type", "Score_Matching"),
            ("embedding_type", "Transformer"),
        ] {
            let mut block = flow();
            block[key] = value.into();
            let read = ModelArchitecture::from_model_block(&block).unwrap();
            assert_eq!(read.parameters(), 3);
            let text = read.settings().unwrap_err().to_string();
            assert!(text.contains(key) && text.contains(value), "{text}");
            let json = serde_json::to_value(&read).unwrap();
            assert_eq!(
                serde_json::from_value::<ModelArchitecture>(json).unwrap(),
                read
            );
        }
    }

    #[test]
    fn unknown_families_and_settings_are_errors() {
        for (pointer, value, named) in [
            ("/posterior_model_type", json!("maf"), "maf"),
            ("/embedding_type", json!(3), "3"),
            (
                "/posterior_kwargs/num_flow_stepz",
                json!(3),
                "num_flow_stepz",
            ),
            ("/posterior_kwargs/input_dim", json!("x"), "x"),
        ] {
            let mut block = flow();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            block.pointer_mut(parent).unwrap()[key] = value;
            let text = ModelArchitecture::from_model_block(&block)
                .unwrap_err()
                .to_string();
            assert!(text.contains(named), "{text}");
        }
    }
}
