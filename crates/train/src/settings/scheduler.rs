//! `scheduler`: how the learning rate moves from epoch to epoch, with torch's argument names.

use serde::Serialize;
use serde_json::Value;

use super::Warning;
use super::block::{
    Block, Unknown, at_least_one, count, non_negative, number, one_of, positive, show, wrong,
};
use super::nearest::nearest;
use crate::{Error, Result};

/// The schedule of a stage; stepped once after every epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SchedulerSettings {
    /// A constant rate: no scheduler, `null` or `none`.
    #[default]
    None,
    /// Times `gamma` every `step_size` epochs.
    Step {
        /// Epochs between two changes.
        step_size: usize,
        /// Factor; default 0.1.
        gamma: f64,
    },
    /// Half a cosine from the starting rate to `eta_min` in `T_max` epochs.
    Cosine {
        /// Epochs to the minimum.
        #[serde(rename = "T_max")]
        t_max: usize,
        /// The lowest rate; default 0.
        eta_min: f64,
    },
    /// Times `factor` when the test loss has not improved for more than `patience` epochs.
    ReduceOnPlateau {
        /// Factor; default 0.1.
        factor: f64,
        /// Epochs without improvement that are borne; default 10.
        patience: usize,
        /// How much better an improvement must be; default 1e-4.
        threshold: f64,
        /// Whether the threshold is relative to the best loss or in its units.
        threshold_mode: ThresholdMode,
        /// Epochs after a change in which nothing is counted; default 0.
        cooldown: usize,
        /// The lowest rate; default 0.
        min_lr: f64,
        /// Changes smaller than this are left out; default 1e-8.
        eps: f64,
    },
}

/// What the threshold of a plateau is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThresholdMode {
    /// An improvement is a loss below `best (1 - threshold)`.
    Rel,
    /// An improvement is a loss below `best - threshold`.
    Abs,
}

const NAMES: [&str; 4] = ["step", "cosine", "reduce_on_plateau", "none"];

pub(super) fn read(
    name: &str,
    value: &Value,
    warnings: &mut Vec<Warning>,
) -> Result<SchedulerSettings> {
    let mut block = Block::new(name, value)?;
    let kind = block.required(
        "type",
        "one of step, cosine, reduce_on_plateau, none",
        |_, v| Ok(v),
    )?;
    let type_name = block.name("type");
    let lower = kind.as_str().unwrap_or_default().to_ascii_lowercase();
    let settings = match lower.as_str() {
        "none" => SchedulerSettings::None,
        "step" => SchedulerSettings::Step {
            step_size: block.required("step_size", "a number of epochs", at_least_one)?,
            gamma: block.or("gamma", 0.1, non_negative)?,
        },
        "cosine" => SchedulerSettings::Cosine {
            t_max: block.required("T_max", "a number of epochs", at_least_one)?,
            eta_min: block.or("eta_min", 0.0, non_negative)?,
        },
        "reduce_on_plateau" => plateau(&mut block)?,
        other => {
            let near = nearest(other, NAMES).map(|near| format!(" (did you mean `{near}`?)"));
            let expected = format!(
                "one of step, cosine, reduce_on_plateau, none{}",
                near.unwrap_or_default()
            );
            return wrong(&type_name, expected, kind);
        }
    };
    if let Some(last) = block.value("last_epoch")
        && last.as_i64() != Some(-1)
    {
        return Err(Error::Unsupported {
            name: block.name("last_epoch"),
            value: show(last),
            remedy: "a schedule starts with its stage; remove it".into(),
        });
    }
    block.ignored(
        "verbose",
        "the learning rate stands in the history; ignored",
        warnings,
    );
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}

fn plateau(block: &mut Block<'_>) -> Result<SchedulerSettings> {
    let mode = block.optional("mode", one_of(&[("min", true), ("max", false)]))?;
    if mode == Some(false) {
        return Err(Error::Unsupported {
            name: block.name("mode"),
            value: "max".into(),
            remedy: "the test loss is to become small; use min".into(),
        });
    }
    Ok(SchedulerSettings::ReduceOnPlateau {
        factor: block.or("factor", 0.1, factor)?,
        patience: block.or("patience", 10, count)?,
        threshold: block.or("threshold", 1e-4, number)?,
        threshold_mode: block.or(
            "threshold_mode",
            ThresholdMode::Rel,
            one_of(&[("rel", ThresholdMode::Rel), ("abs", ThresholdMode::Abs)]),
        )?,
        cooldown: block.or("cooldown", 0, count)?,
        min_lr: block.or("min_lr", 0.0, non_negative)?,
        eps: block.or("eps", 1e-8, non_negative)?,
    })
}

fn factor(name: &str, value: &Value) -> Result<f64> {
    match positive(name, value) {
        Ok(factor) if factor < 1.0 => Ok(factor),
        _ => wrong(name, "a number above 0 and below 1", value),
    }
}
