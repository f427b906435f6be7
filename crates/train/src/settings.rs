//! Settings files in dingo's schema: `data`, `model`, `training.stage_N`, `local`.
//!
//! Text becomes a tree ([`yaml`]), the tree becomes [`Settings`] with every default filled in, and
//! settings become a tree again (for checkpoints) or text ([`to_yaml`]). Keys that nothing knows are
//! reported as [`Warning`]s with the nearest known key; in blocks that dingo hands on as arguments
//! (`optimizer`, `scheduler`, `early_stopping`, the `kwargs` of the model) and in the block of a
//! simulation set they are errors, since there they would have changed the computation.
//! `docs/settings.md` describes every key.
//!
//! Deliberately not here: opening the data sets, and the clock, the environment or the working
//! folder, which callers hand in.

mod block;
mod data;
mod emit;
mod local;
mod model;
mod nearest;
mod optimizer;
mod paths;
mod scheduler;
mod stage;
mod support;
mod waveforms;
pub mod yaml;

use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

pub use data::{Bounds, DataSettings, Limit, SimulationDataSettings};
pub use emit::to_yaml;
pub use local::{Compile, Device, LocalSettings, MatmulPrecision, RuntimeLimits};
pub use model::{
    EmbeddingKind, EmbeddingKwargs, FlowSettings, ModelSettings, ObservationShape, PosteriorKind,
    SampleShape,
};
pub use optimizer::{AdagradSettings, AdamSettings, OptimizerSettings, SgdSettings};
pub use paths::PathSearch;
pub use scheduler::{SchedulerSettings, ThresholdMode};
pub use stage::{EarlyStoppingSettings, Metric, StageSettings, TrainingSettings};
pub use waveforms::{
    ChirpConditioning, DomainUpdate, ParameterNames, StandardizationSettings, StrainCropping,
    TimeShifts, WaveformDataSettings,
};

pub(crate) use nearest::hint;

use crate::{Error, Result};
use block::{Block, Unknown};

/// A whole settings file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// The data set.
    pub data: DataSettings,
    /// The network.
    pub model: ModelSettings,
    /// The stages.
    pub training: TrainingSettings,
    /// The machine and the run.
    pub local: LocalSettings,
}

/// Something in a settings file that its author should know and that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Path of the setting.
    pub name: String,
    /// What about it.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "setting `{}`: {}", self.name, self.message)
    }
}

/// Reads a settings file as a tree of values.
///
/// # Errors
/// [`Error::File`], [`Error::SettingsTooLarge`], or [`Error::Yaml`], also for bytes that are not UTF-8.
pub fn read_yaml_file(path: &Path) -> Result<Value> {
    let failed = |source| Error::File {
        action: "read",
        path: path.into(),
        source,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large from one that just fits.
    file.take(yaml::LARGEST_TEXT as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line_start = before
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |at| at + 1);
        Error::Yaml {
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: before.len() - line_start + 1,
            reason: "expected UTF-8 text, got a byte that is none".into(),
        }
    })?;
    yaml::parse(text)
}

impl Settings {
    /// Reads and validates a settings file; the warnings are what the file's author should know.
    ///
    /// # Errors
    /// As [`read_yaml_file`] and [`Self::from_value`].
    pub fn from_file(path: &Path) -> Result<(Self, Vec<Warning>)> {
        Self::from_value(&read_yaml_file(path)?)
    }

    /// Reads and validates settings from YAML text.
    ///
    /// # Errors
    /// As [`yaml::parse`] and [`Self::from_value`].
    pub fn from_yaml(text: &str) -> Result<(Self, Vec<Warning>)> {
        Self::from_value(&yaml::parse(text)?)
    }

    /// Validates a tree of settings, from YAML or from a checkpoint's metadata.
    ///
    /// # Errors
    /// [`Error::MissingSetting`], [`Error::Setting`], [`Error::UnknownSetting`], [`Error::Conflict`] or
    /// [`Error::Unsupported`], each with the path of the setting.
    pub fn from_value(value: &Value) -> Result<(Self, Vec<Warning>)> {
        let mut warnings = Vec::new();
        let mut block = Block::new("settings", value)?;
        let [data, model, training] = [
            ("data", "the block of the data set"),
            ("model", "the block of the network"),
            ("training", "the block of the stages"),
        ]
        .map(|(key, what)| {
            block.value(key).ok_or_else(|| Error::MissingSetting {
                name: key.into(),
                expected: what.into(),
            })
        });
        let local = block.value("local").unwrap_or(&Value::Null);
        let mut unknown = Vec::new();
        block.finish(Unknown::Warn, &mut unknown)?;
        for warning in &mut unknown {
            // At the top the path of a key is its name.
            warning.name = warning.name.replacen("settings.", "", 1);
        }
        warnings.append(&mut unknown);
        let data = data::read(data?, &mut warnings)?;
        let waveforms = matches!(data, DataSettings::Waveforms(_));
        let settings = Self {
            model: model::read(model?, &mut warnings)?,
            training: stage::read(training?, waveforms, &mut warnings)?,
            local: local::read(local, &mut warnings)?,
            data,
        };
        Ok((settings, warnings))
    }

    /// The settings as a tree with every default filled in; [`Self::from_value`] reads it back.
    ///
    /// # Errors
    /// [`Error::State`] if a setting has no JSON form; none of those read has.
    pub fn to_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|error| Error::State {
            name: "settings".into(),
            expected: "values with a JSON form".into(),
            found: error.to_string(),
        })
    }
}

impl LocalSettings {
    /// Reads a `local` block that stands alone, as in a run folder.
    ///
    /// # Errors
    /// As [`Settings::from_value`].
    pub fn from_value(value: &Value) -> Result<(Self, Vec<Warning>)> {
        let mut warnings = Vec::new();
        Ok((local::read(value, &mut warnings)?, warnings))
    }
}

#[cfg(test)]
#[path = "settings/settings_tests.rs"]
mod tests;
