//! The `data` block: which data set a run learns from.
//!
//! Two kinds: dingo's waveform data set ([`WaveformDataSettings`], with `waveform_dataset_path`) and
//! a plain simulation set ([`SimulationDataSettings`], with `simulations`).

use std::path::PathBuf;

use dunnart_data::{NonFiniteRows, SimulationOptions};
use serde::Serialize;
use serde_json::Value;

use super::block::{Block, Unknown, at_least_one, flag, names, number, path, text, wrong};
use super::{Warning, WaveformDataSettings};
use crate::{Error, Result};

/// The `data` block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DataSettings {
    /// Arrays of parameters and observations.
    Simulations(SimulationDataSettings),
    /// dingo's waveform data set.
    Waveforms(Box<WaveformDataSettings>),
}

/// A plain simulation set: an `.npz` or `.safetensors` file with one row per simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulationDataSettings {
    /// The file.
    pub simulations: PathBuf,
    /// Name of the array of parameters, `[N, D]`.
    pub parameters: String,
    /// Name of the array of observations, `[N, C]`; absent for an unconditional flow.
    pub observations: Option<String>,
    /// Names of the parameters; absent: those in the file, or `theta_0`, `theta_1`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter_names: Option<Vec<String>>,
    /// The prior's box.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// Share of the rows that is trained on; `int(train_fraction N)` rows, the rest is the test set.
    pub train_fraction: f64,
    /// Whether rows with a NaN or an infinity are left out; otherwise they are an error.
    pub drop_nonfinite: bool,
    /// Largest share of the rows that may be left out; default 0.1.
    pub max_dropped_fraction: f64,
    /// Use only the first rows of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_simulations: Option<usize>,
    /// A file of observations with reference posterior samples, for the final report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
}

/// A box of parameters, `low <= theta <= high`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Lower ends.
    pub low: Limit,
    /// Upper ends.
    pub high: Limit,
}

/// One end of the bounds of every parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Limit {
    /// The same number for all parameters.
    Same(f64),
    /// One number per parameter.
    Each(Vec<f64>),
}

impl Limit {
    fn expand(&self, name: &str, parameters: usize) -> Result<Vec<f64>> {
        match self {
            Self::Same(limit) => Ok(vec![*limit; parameters]),
            Self::Each(limits) if limits.len() == parameters => Ok(limits.clone()),
            Self::Each(limits) => Err(Error::Setting {
                name: name.into(),
                expected: format!("{parameters} numbers, one per parameter"),
                found: format!("{} numbers", limits.len()),
            }),
        }
    }
}

impl SimulationDataSettings {
    /// What the data crate needs to read the file, for D parameters.
    ///
    /// # Errors
    /// [`Error::Setting`] if the bounds do not fit D; [`Error::Unsupported`] without observations.
    pub fn options(&self, parameters: usize) -> Result<SimulationOptions> {
        let observations = self
            .observations
            .clone()
            .ok_or_else(|| Error::Unsupported {
                name: "data.observations".into(),
                value: "null".into(),
                remedy: "this version trains flows that see an observation".into(),
            })?;
        let bounds = self.bounds.as_ref().map(|bounds| bounds.expand(parameters));
        Ok(SimulationOptions {
            parameters: self.parameters.clone(),
            observations,
            names: self.parameter_names.clone(),
            bounds: bounds.transpose()?,
            non_finite: if self.drop_nonfinite {
                NonFiniteRows::Drop {
                    at_most: self.max_dropped_fraction,
                }
            } else {
                NonFiniteRows::Refuse
            },
        })
    }
}

impl Bounds {
    /// The lower and upper end of each of D parameters.
    ///
    /// # Errors
    /// [`Error::Setting`] if the lists have another length, or a lower end is not below its upper end.
    pub fn expand(&self, parameters: usize) -> Result<(Vec<f64>, Vec<f64>)> {
        let low = self.low.expand("data.bounds.low", parameters)?;
        let high = self.high.expand("data.bounds.high", parameters)?;
        for (i, (low, high)) in low.iter().zip(&high).enumerate() {
            if low >= high {
                return Err(Error::Setting {
                    name: format!("data.bounds.high[{i}]"),
                    expected: format!("more than the lower end {low}"),
                    found: high.to_string(),
                });
            }
        }
        Ok((low, high))
    }
}

/// Reads the `data` block.
pub(super) fn read(value: &Value, warnings: &mut Vec<Warning>) -> Result<DataSettings> {
    let has = |key: &str| value.get(key).is_some_and(|value| !value.is_null());
    match (has("simulations"), has("waveform_dataset_path")) {
        (true, true) => Err(Error::Conflict {
            first: "data.simulations".into(),
            second: "data.waveform_dataset_path".into(),
            reason: "a run learns from one data set".into(),
        }),
        (true, false) => Ok(DataSettings::Simulations(simulations(value, warnings)?)),
        (false, true) => Ok(DataSettings::Waveforms(Box::new(super::waveforms::read(
            value, warnings,
        )?))),
        (false, false) => {
            // An unknown key is often a misspelt one, so that it is worth naming.
            let mut found = Vec::new();
            let mut block = Block::new("data", value)?;
            let _ = (
                block.value("simulations"),
                block.value("waveform_dataset_path"),
            );
            block.finish(Unknown::Warn, &mut found)?;
            let near = found
                .iter()
                .find(|warning| warning.message.contains("did you mean"))
                .map(|warning| format!(" (`{}` is {})", warning.name, warning.message));
            Err(Error::MissingSetting {
                name: "data.simulations".into(),
                expected: format!(
                    "the file of a simulation set, or `data.waveform_dataset_path` with dingo's \
                     waveform data set{}",
                    near.unwrap_or_default()
                ),
            })
        }
    }
}

fn simulations(value: &Value, warnings: &mut Vec<Warning>) -> Result<SimulationDataSettings> {
    let mut block = Block::new("data", value)?;
    let file = "an .npz or .safetensors file";
    let unconditional = value.get("observations") == Some(&Value::Null);
    let settings = SimulationDataSettings {
        simulations: block.required("simulations", file, path)?,
        parameters: block.or("parameters", "theta".into(), text)?,
        observations: block
            .optional("observations", text)?
            .or_else(|| (!unconditional).then(|| "x".into())),
        parameter_names: block.optional("parameter_names", names)?,
        bounds: block
            .block("bounds")?
            .map(|b| bounds(b, warnings))
            .transpose()?,
        train_fraction: block.or("train_fraction", 0.95, fraction)?,
        drop_nonfinite: block.or("drop_nonfinite", false, flag)?,
        max_dropped_fraction: block.or("max_dropped_fraction", 0.1, share)?,
        num_simulations: block.optional("num_simulations", at_least_one)?,
        reference: block.optional("reference", path)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    if let (Some(names), Some(bounds)) = (&settings.parameter_names, &settings.bounds) {
        bounds.expand(names.len())?;
    }
    Ok(settings)
}

/// A share strictly between none and all, since both parts of the split must have rows.
pub(super) fn fraction(name: &str, value: &Value) -> Result<f64> {
    match value.as_f64() {
        Some(fraction) if fraction > 0.0 && fraction < 1.0 => Ok(fraction),
        _ => wrong(name, "a number above 0 and below 1", value),
    }
}

fn share(name: &str, value: &Value) -> Result<f64> {
    match value.as_f64() {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => wrong(name, "a number from 0 to 1", value),
    }
}

fn bounds(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<Bounds> {
    let what = "a number, or a list with one number per parameter";
    let bounds = Bounds {
        low: block.required("low", what, limit)?,
        high: block.required("high", what, limit)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    let parameters = match (&bounds.low, &bounds.high) {
        (Limit::Each(limits), _) | (_, Limit::Each(limits)) => limits.len(),
        _ => 1,
    };
    bounds.expand(parameters)?;
    Ok(bounds)
}

fn limit(name: &str, value: &Value) -> Result<Limit> {
    if value.is_number() {
        return Ok(Limit::Same(number(name, value)?));
    }
    let limits = super::block::list(number)(name, value)?;
    if limits.is_empty() {
        return wrong(name, "at least one number", value);
    }
    Ok(Limit::Each(limits))
}
