//! The entry that dingo ignores: what it does not store.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{OWN_KEY, run};
use crate::json::canonical;
use crate::{
    EpochRecord, Error, FORMAT_VERSION, GeneratorKey, Metadata, ParameterMetadata, PrecisionRun,
    Result, Standardization,
};

/// Its content; the fields of [`Metadata`] under their own names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Own {
    format_version: u32,
    dunnart_version: String,
    parameters: Vec<ParameterMetadata>,
    context_parameters: Vec<String>,
    standardization: Option<Standardization>,
    run: Option<Value>,
    scheduler: Option<Value>,
    early_stopping: Option<Value>,
    generator: Option<GeneratorKey>,
    float32_matmul_precision_history: Vec<PrecisionRun>,
    history: Vec<EpochRecord>,
    /// The settings' `local` block.
    local: Option<Value>,
    /// Whether there are settings at all.
    settings: bool,
    /// Whether the model came from dingo.
    dingo: bool,
    /// Paths in `train_settings` that were made for dingo.
    made: Vec<String>,
    /// The one option of the network that dingo does not know.
    pub(super) identity_init: bool,
    other: Map<String, Value>,
}

/// The entry of a model's metadata.
pub(super) fn format(
    metadata: &Metadata,
    made: Vec<String>,
    identity_init: bool,
) -> Result<String> {
    let metadata = metadata.clone();
    let own = Own {
        format_version: FORMAT_VERSION,
        dunnart_version: env!("CARGO_PKG_VERSION").into(),
        parameters: metadata.parameters,
        context_parameters: metadata.context_parameters,
        standardization: metadata.standardization,
        run: metadata.run,
        scheduler: metadata.scheduler,
        early_stopping: metadata.early_stopping,
        generator: metadata.generator,
        float32_matmul_precision_history: metadata.float32_matmul_precision_history,
        history: metadata.history,
        local: metadata
            .settings
            .as_ref()
            .and_then(|s| s.get("local").cloned()),
        settings: metadata.settings.is_some(),
        dingo: metadata.dingo.is_some(),
        made,
        identity_init,
        other: metadata.other,
    };
    let value = serde_json::to_value(&own).map_err(|e| Error::Metadata(e.to_string()))?;
    Ok(canonical(&value))
}

/// Reads the entry.
pub(super) fn parse(text: &str) -> Result<Own> {
    let fault = |e: serde_json::Error| Error::Metadata(format!("entry `{OWN_KEY}`: {e}"));
    let value: Value = serde_json::from_str(text).map_err(fault)?;
    let version = value["format_version"].as_u64().unwrap_or(0);
    if version > u64::from(FORMAT_VERSION) {
        return Err(Error::Newer {
            found: version,
            supported: FORMAT_VERSION,
            writer: value["dunnart_version"]
                .as_str()
                .unwrap_or("unknown")
                .into(),
        });
    }
    serde_json::from_value(value).map_err(fault)
}

impl Own {
    /// Takes the place of what was read from dingo's entries.
    pub(super) fn win(
        self,
        metadata: &mut Metadata,
        train_settings: &mut Map<String, Value>,
        stages: usize,
    ) -> Result<()> {
        metadata.format_version = self.format_version;
        metadata.dunnart_version = self.dunnart_version;
        metadata.parameters = self.parameters;
        metadata.context_parameters = self.context_parameters;
        metadata.standardization = self.standardization;
        metadata.run = self.run;
        if let Some(Value::Object(run)) = &mut metadata.run {
            // dingo's own tool may have appended a stage.
            if stages > 0 {
                run::refit(run, stages);
            }
        }
        metadata.scheduler = self.scheduler;
        metadata.early_stopping = self.early_stopping;
        metadata.generator = self.generator;
        metadata.float32_matmul_precision_history = self.float32_matmul_precision_history;
        metadata.history = self.history;
        metadata.other = self.other;
        if !self.dingo {
            metadata.dingo = None;
        }
        for path in self.made.iter().rev() {
            match path.split_once('.') {
                None => drop(train_settings.shift_remove(path)),
                Some((parent, key)) => {
                    if let Some(Value::Object(parent)) = train_settings.get_mut(parent) {
                        parent.shift_remove(key);
                    }
                }
            }
        }
        if let Some(local) = self.local {
            train_settings.insert("local".into(), local);
        }
        if self.settings {
            metadata.settings = Some(Value::Object(std::mem::take(train_settings)));
        }
        Ok(())
    }
}
