//! `training.stage_N`: what one stage does and for how long.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::block::{
    Block, Unknown, at_least_one, flag, join, non_negative, one_of, path, positive,
};
use super::{OptimizerSettings, SchedulerSettings, Warning, optimizer, scheduler};
use crate::{Error, Result};

/// One stage, with its own optimiser and schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageSettings {
    /// Epochs of this stage.
    pub epochs: usize,
    /// The noise amplitudes drawn from; needed with waveform data only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asd_dataset_path: Option<PathBuf>,
    /// Whether the reduced-basis layer is kept as it is; absent: as in the stage before, free at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze_rb_layer: Option<bool>,
    /// The update rule.
    pub optimizer: OptimizerSettings,
    /// How the learning rate moves.
    pub scheduler: SchedulerSettings,
    /// Samples of a batch, all workers together.
    pub batch_size: usize,
    /// Batches whose gradients are summed for one step of the optimiser.
    pub gradient_updates_per_optimizer_step: usize,
    /// Largest Euclidean norm of the gradient; a larger one is scaled down. Not an option of dingo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_grad_norm: Option<f64>,
    /// Whether conditioner and embedding compute in half precision.
    pub automatic_mixed_precision: bool,
    /// When the stage ends before its epochs are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStoppingSettings>,
}

/// `early_stopping`: end a stage when its loss no longer falls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EarlyStoppingSettings {
    /// Epochs in a row without improvement that end the stage; default 5.
    pub patience: usize,
    /// Whether every count is reported.
    pub verbose: bool,
    /// `-loss >= best + delta` is an improvement; default 0.
    pub delta: f64,
    /// The loss that is watched.
    pub metric: Metric,
}

/// The loss that early stopping watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The test set's.
    Validation,
    /// The training set's.
    Training,
}

/// The `training` block: consecutive stages.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingSettings {
    /// `stage_0`, `stage_1`, ...
    pub stages: Vec<StageSettings>,
}

impl Serialize for TrainingSettings {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.stages
                .iter()
                .enumerate()
                .map(|(index, stage)| (format!("stage_{index}"), stage)),
        )
    }
}

/// The number in `stage_N`.
pub(crate) fn stage_number(key: &str) -> Option<usize> {
    let digits = key.strip_prefix("stage_")?;
    let number: usize = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Reads the `training` block; `waveforms` says whether stages need noise amplitudes.
pub(super) fn read(
    value: &Value,
    waveforms: bool,
    warnings: &mut Vec<Warning>,
) -> Result<TrainingSettings> {
    let empty = Map::new();
    let entries = match value {
        Value::Object(entries) => entries,
        Value::Null => &empty,
        _ => return super::block::wrong("training", "a mapping of stages", value),
    };
    let mut stages = Vec::new();
    while let Some(value) = entries.get(&format!("stage_{}", stages.len())) {
        let name = format!("training.stage_{}", stages.len());
        stages.push(read_stage(&name, value, waveforms, warnings)?);
    }
    if stages.is_empty() {
        let found: Vec<&str> = entries.keys().map(String::as_str).take(10).collect();
        return Err(Error::MissingSetting {
            name: "training.stage_0".into(),
            expected: format!("a stage; `training` has [{}]", found.join(", ")),
        });
    }
    for key in entries.keys() {
        let message = match stage_number(key) {
            Some(number) if number < stages.len() => continue,
            Some(_) => format!(
                "unused: stages are numbered without gaps, and there is no stage_{}",
                stages.len()
            ),
            None => "unknown, ignored; expected stage_0, stage_1, ...".into(),
        };
        warnings.push(Warning {
            name: join("training", key),
            message,
        });
    }
    Ok(TrainingSettings { stages })
}

/// Reads one stage; `name` is its path, or empty for a file that holds nothing else.
pub(crate) fn read_stage(
    name: &str,
    value: &Value,
    waveforms: bool,
    warnings: &mut Vec<Warning>,
) -> Result<StageSettings> {
    let mut block = Block::new(name, value)?;
    let optimizer_value = block.required(
        "optimizer",
        "a mapping with `type`, `lr`, ...",
        |_, value| Ok(value),
    )?;
    let optimizer = optimizer::read(&block.name("optimizer"), optimizer_value, warnings)?;
    let scheduler = match block.value("scheduler") {
        None => SchedulerSettings::None,
        Some(Value::String(none)) if none.eq_ignore_ascii_case("none") => SchedulerSettings::None,
        Some(value) => scheduler::read(&block.name("scheduler"), value, warnings)?,
    };
    let stage = StageSettings {
        epochs: block.required("epochs", "a number of epochs", at_least_one)?,
        asd_dataset_path: block.optional("asd_dataset_path", path)?,
        freeze_rb_layer: block.optional("freeze_rb_layer", flag)?,
        optimizer,
        scheduler,
        batch_size: block.required("batch_size", "a number of samples", at_least_one)?,
        gradient_updates_per_optimizer_step: block.or(
            "gradient_updates_per_optimizer_step",
            1,
            at_least_one,
        )?,
        clip_grad_norm: block.optional("clip_grad_norm", positive)?,
        automatic_mixed_precision: block.or("automatic_mixed_precision", false, flag)?,
        early_stopping: block
            .block("early_stopping")?
            .map(|b| early_stopping(b, warnings))
            .transpose()?,
    };
    if waveforms && stage.asd_dataset_path.is_none() {
        return Err(Error::MissingSetting {
            name: block.name("asd_dataset_path"),
            expected: "the HDF5 file of noise amplitudes that waveform data need".into(),
        });
    }
    block.finish(Unknown::Warn, warnings)?;
    Ok(stage)
}

fn early_stopping(
    mut block: Block<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<EarlyStoppingSettings> {
    let settings = EarlyStoppingSettings {
        patience: block.or("patience", 5, at_least_one)?,
        verbose: block.or("verbose", false, flag)?,
        delta: block.or("delta", 0.0, non_negative)?,
        metric: block.or(
            "metric",
            Metric::Validation,
            one_of(&[
                ("validation", Metric::Validation),
                ("training", Metric::Training),
            ]),
        )?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}
