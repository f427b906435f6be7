//! What a checkpoint says about its network besides the tensors.

use dunnart_flow::Architecture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, ModelArchitecture, Result};

/// Version of the native format that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 1;

/// Everything that rebuilds a network, samples it and goes on with its training.
///
/// Sections that other crates define are JSON here: they go in and come out unchanged. JSON has no NaN
/// and no infinity; where they can occur a number is optional and absent means "not finite". Keys that
/// this version does not know are kept in `other`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// Version of the program that wrote the file.
    pub dunnart_version: String,
    /// Settings of the network.
    pub architecture: ModelArchitecture,
    /// Name and bounds of each of the D parameters, in order; empty where nobody named them.
    #[serde(default)]
    pub parameters: Vec<ParameterMetadata>,
    /// Names of the P context parameters.
    #[serde(default)]
    pub context_parameters: Vec<String>,
    /// How physical values became the network's.
    #[serde(default)]
    pub standardization: Option<Standardization>,
    /// The run's whole settings.
    #[serde(default)]
    pub settings: Option<Value>,
    /// Settings of the data set the network was trained on.
    #[serde(default)]
    pub dataset_settings: Option<Value>,
    /// State of the run: stage, epoch in the stage, finished flags, global step, best loss.
    #[serde(default)]
    pub run: Option<Value>,
    /// State of the learning-rate schedule.
    #[serde(default)]
    pub scheduler: Option<Value>,
    /// State of early stopping.
    #[serde(default)]
    pub early_stopping: Option<Value>,
    /// What every random draw of the run follows from.
    #[serde(default)]
    pub generator: Option<GeneratorKey>,
    /// Precision of float32 matrix products in the latest run: `highest`, `high` or `medium`.
    #[serde(default)]
    pub float32_matmul_precision: Option<String>,
    /// The same for every run that trained this network, in order.
    #[serde(default)]
    pub float32_matmul_precision_history: Vec<PrecisionRun>,
    /// Losses of every epoch so far.
    #[serde(default)]
    pub history: Vec<EpochRecord>,
    /// What a dingo model says besides; absent where the model never was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dingo: Option<DingoMetadata>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterMetadata {
    /// Its name.
    pub name: String,
    /// Lower bound of the prior, absent if there is none.
    #[serde(default)]
    pub lower: Option<f64>,
    /// Upper bound of the prior, absent if there is none.
    #[serde(default)]
    pub upper: Option<f64>,
}

/// `z = (x - mean) / std` for each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Means.
    pub mean: Vec<f64>,
    /// Standard deviations.
    pub std: Vec<f64>,
}

/// How physical values became the network's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardization {
    /// Parameters theta, D columns.
    pub theta: Scale,
    /// Observations as the network sees them; absent where they enter as they are.
    #[serde(default)]
    pub observation: Option<Scale>,
    /// Context parameters, P columns; absent where there are none.
    #[serde(default)]
    pub context_parameters: Option<Scale>,
}

/// What every random draw of a run follows from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorKey {
    /// Name of the generator.
    pub name: String,
    /// Seed of the run.
    pub seed: u64,
}

impl GeneratorKey {
    /// The project's generator with a seed.
    pub fn philox(seed: u64) -> Self {
        Self {
            name: "philox4x32-10".into(),
            seed,
        }
    }
}

/// Precision of float32 matrix products in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrecisionRun {
    /// Epochs that were complete when the run began, over all stages.
    pub from_epoch: u32,
    /// `highest`, `high` or `medium`.
    pub float32_matmul_precision: String,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Stage, from 0.
    pub stage: u32,
    /// Epoch over all stages, from 1.
    pub epoch: u32,
    /// Mean loss on the training part; absent if it was not finite.
    #[serde(default)]
    pub training_loss: Option<f64>,
    /// Mean loss on the test part; absent if it was not finite.
    #[serde(default)]
    pub test_loss: Option<f64>,
    /// Learning rate of every parameter group during the epoch.
    #[serde(default)]
    pub learning_rates: Vec<f64>,
}

/// What a dingo model says that nothing else here has a place for; it is kept and written back.
///
/// Values are JSON. What JSON has no word for, such as tuples and infinities, is an object with the
/// one key `$python`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DingoMetadata {
    /// Version of the program that trained it: `dingo=0.10.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Epochs that are done, for models that are not trained in stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Steps that are done, for the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// The event of a density-recovery model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// What is known of that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_metadata: Option<Value>,
    /// Keys of its `metadata` that have no place of their own, such as `base`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Keys of the file that are not known.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub other: Map<String, Value>,
}

impl Metadata {
    /// Metadata of a network that nobody has trained yet.
    pub fn new(architecture: &Architecture) -> Self {
        Self::of_architecture(architecture.settings().clone().into())
    }

    /// The same for an architecture that nobody has validated.
    pub(crate) fn of_architecture(architecture: ModelArchitecture) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            dunnart_version: env!("CARGO_PKG_VERSION").into(),
            architecture,
            parameters: Vec::new(),
            context_parameters: Vec::new(),
            standardization: None,
            settings: None,
            dataset_settings: None,
            run: None,
            scheduler: None,
            early_stopping: None,
            generator: None,
            float32_matmul_precision: None,
            float32_matmul_precision_history: Vec::new(),
            history: Vec::new(),
            dingo: None,
            other: Map::new(),
        }
    }

    /// Names of the D parameters; `theta[i]` where nobody named them.
    pub fn parameter_names(&self) -> Vec<String> {
        if self.parameters.is_empty() {
            let count = self.architecture.parameters();
            return (0..count).map(|i| format!("theta[{i}]")).collect();
        }
        self.parameters.iter().map(|p| p.name.clone()).collect()
    }

    /// Checks that names, bounds and statistics fit the architecture.
    ///
    /// # Errors
    /// [`Error::Metadata`] naming what does not fit.
    pub fn check(&self, architecture: &Architecture) -> Result<()> {
        let refuse = |text: String| Err(Error::Metadata(text));
        let count = |what: &str, expected: usize, found: usize| {
            if expected == found {
                return Ok(());
            }
            Err(Error::Metadata(format!(
                "{what}: expected {expected} entries, got {found}"
            )))
        };
        let d = architecture.parameters();
        if !self.parameters.is_empty() {
            count("parameters", d, self.parameters.len())?;
        }
        for (i, parameter) in self.parameters.iter().enumerate() {
            let name = &parameter.name;
            if self.parameters[..i].iter().any(|p| p.name == *name) {
                return refuse(format!("parameters: name `{name}` occurs twice"));
            }
            if let (Some(lower), Some(upper)) = (parameter.lower, parameter.upper)
                && lower >= upper
            {
                return refuse(format!(
                    "parameters: bounds of `{name}` are empty, lower {lower}, upper {upper}"
                ));
            }
        }
        let context = architecture.context_parameters();
        if !self.context_parameters.is_empty() {
            count("context_parameters", context, self.context_parameters.len())?;
        }
        let Some(standardization) = &self.standardization else {
            return Ok(());
        };
        let scale = |what: &str, scale: &Scale, width: usize| {
            count(
                &format!("standardization.{what}.mean"),
                width,
                scale.mean.len(),
            )?;
            count(
                &format!("standardization.{what}.std"),
                width,
                scale.std.len(),
            )?;
            match scale.std.iter().position(|&s| !(s.is_finite() && s > 0.0)) {
                Some(i) => Err(Error::Metadata(format!(
                    "standardization.{what}.std[{i}] is {}, expected a positive number",
                    scale.std[i]
                ))),
                None => Ok(()),
            }
        };
        scale("theta", &standardization.theta, d)?;
        if let Some(observation) = &standardization.observation {
            scale("observation", observation, architecture.observation())?;
        }
        if let Some(parameters) = &standardization.context_parameters {
            scale("context_parameters", parameters, context)?;
        }
        Ok(())
    }

    /// Reads metadata from JSON, refusing what a newer program wrote.
    ///
    /// # Errors
    /// [`Error::Newer`], [`Error::Metadata`].
    pub(crate) fn from_value(value: Value) -> Result<Self> {
        let version = value
            .get("format_version")
            .and_then(Value::as_u64)
            .ok_or_else(|| {
                Error::Metadata("`format_version` is missing or no whole number".into())
            })?;
        if version > u64::from(FORMAT_VERSION) {
            let writer = value
                .get("dunnart_version")
                .and_then(Value::as_str)
                .unwrap_or("unknown");
            return Err(Error::Newer {
                found: version,
                supported: FORMAT_VERSION,
                writer: writer.into(),
            });
        }
        serde_json::from_value(value).map_err(|e| Error::Metadata(e.to_string()))
    }
}
