//! The `data` block of dingo's waveform data set, read and validated whole.
//!
//! Prior strings are kept as text: what they mean is the data pipeline's to say.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Warning;
use super::block::{
    Block, Unknown, at_least_one, count, flag, list, names, non_negative, number, path, text, wrong,
};
use super::data::fraction;
use crate::Result;

/// `data` with `waveform_dataset_path`: strains made in training from a waveform data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaveformDataSettings {
    /// The HDF5 file of intrinsic parameters and polarisations.
    pub waveform_dataset_path: PathBuf,
    /// Share of the waveforms that is trained on.
    pub train_fraction: f64,
    /// A narrower frequency range than the data set's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_update: Option<DomainUpdate>,
    /// How many basis vectors of the compressed data set are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub svd_size_update: Option<usize>,
    /// Detectors, in the order of the network's detector axis.
    pub detectors: Vec<String>,
    /// Priors of the extrinsic parameters, over dingo's defaults.
    pub extrinsic_prior: Map<String, Value>,
    /// GPS time at which the sky is projected, s.
    pub ref_time: f64,
    /// Parameters that are inferred, in the order of theta's columns.
    pub inference_parameters: ParameterNames,
    /// Parameters the network is conditioned on.
    pub context_parameters: Vec<String>,
    /// Time shifts of group-equivariant estimation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gnpe_time_shifts: Option<TimeShifts>,
    /// Conditioning on a blurred chirp mass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chirp_prior_conditioning: Option<ChirpConditioning>,
    /// Random masking of the ends of the band.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_strain_cropping: Option<StrainCropping>,
    /// No detector noise, for debugging.
    pub zero_noise: bool,
    /// Means and standard deviations, as written back after they were computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standardization: Option<StandardizationSettings>,
}

/// `domain_update`: a narrower frequency range, Hz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DomainUpdate {
    /// Lowest frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f_min: Option<f64>,
    /// Highest frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f_max: Option<f64>,
}

/// A list of parameter names, or dingo's fifteen.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterNames {
    /// `default`: the fifteen parameters of a binary black hole.
    Default,
    /// The names given.
    Names(Vec<String>),
}

impl Serialize for ParameterNames {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Default => serializer.serialize_str("default"),
            Self::Names(names) => names.serialize(serializer),
        }
    }
}

/// `gnpe_time_shifts`: detector times blurred by a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeShifts {
    /// Prior string of the kernel.
    pub kernel: String,
    /// Whether overall time translations are treated exactly.
    pub exact_equiv: bool,
}

/// `chirp_prior_conditioning`, once called `gnpe_chirp`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChirpConditioning {
    /// Prior string of the kernel of each parameter.
    pub kernel: Map<String, Value>,
    /// Post-Newtonian order of the phase that is divided out.
    pub order: usize,
}

/// `random_strain_cropping`: which ends of the band are masked, and how often.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrainCropping {
    /// Largest lower end of the band, Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f_min_upper: Option<f64>,
    /// Smallest upper end of the band, Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f_max_lower: Option<f64>,
    /// Probability that a sample is cropped.
    pub cropping_probability: f64,
    /// Whether every detector is cropped on its own.
    pub independent_detectors: bool,
    /// Whether the two ends are cropped on their own.
    pub independent_lower_upper: bool,
    /// A fixed band, `[f_min, f_max]` or one such pair per detector, Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic_fmin_fmax: Option<Value>,
}

/// `standardization`: mean and standard deviation of every parameter by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StandardizationSettings {
    /// Means.
    pub mean: Map<String, Value>,
    /// Standard deviations.
    pub std: Map<String, Value>,
}

pub(super) fn read(value: &Value, warnings: &mut Vec<Warning>) -> Result<WaveformDataSettings> {
    let mut block = Block::new("data", value)?;
    let chirp = block.block("chirp_prior_conditioning")?;
    let old_chirp = block.block("gnpe_chirp")?;
    let settings = WaveformDataSettings {
        waveform_dataset_path: block.required("waveform_dataset_path", "an HDF5 file", path)?,
        train_fraction: block.required(
            "train_fraction",
            "a number above 0 and below 1",
            fraction,
        )?,
        domain_update: block
            .block("domain_update")?
            .map(|b| domain_update(b, warnings))
            .transpose()?,
        svd_size_update: block.optional("svd_size_update", at_least_one)?,
        detectors: block.required("detectors", "a list such as [H1, L1]", names)?,
        extrinsic_prior: block.or("extrinsic_prior", Map::new(), priors)?,
        ref_time: block.required("ref_time", "a GPS time in seconds", number)?,
        inference_parameters: block.required(
            "inference_parameters",
            "a list of names, or `default`",
            parameter_names,
        )?,
        context_parameters: block.or("context_parameters", Vec::new(), maybe_names)?,
        gnpe_time_shifts: block
            .block("gnpe_time_shifts")?
            .map(|b| time_shifts(b, warnings))
            .transpose()?,
        chirp_prior_conditioning: chirp
            .or(old_chirp)
            .map(|b| chirp_conditioning(b, warnings))
            .transpose()?,
        random_strain_cropping: block
            .block("random_strain_cropping")?
            .map(|b| cropping(b, warnings))
            .transpose()?,
        zero_noise: block.or("zero_noise", false, flag)?,
        standardization: block
            .block("standardization")?
            .map(|b| standardization(b, warnings))
            .transpose()?,
    };
    block.refused(
        "tokenization",
        "only transformer embeddings read tokens; remove it",
    )?;
    block.ignored(
        "window",
        "ignored since dingo 0.9: the noise data set has it",
        warnings,
    );
    block.finish(Unknown::Warn, warnings)?;
    Ok(settings)
}

fn domain_update(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<DomainUpdate> {
    let update = DomainUpdate {
        f_min: block.optional("f_min", non_negative)?,
        f_max: block.optional("f_max", non_negative)?,
    };
    if let (Some(low), Some(high)) = (update.f_min, update.f_max)
        && low >= high
    {
        return wrong(
            &block.name("f_max"),
            format!("more than f_min, {low}"),
            &Value::from(high),
        );
    }
    block.finish(Unknown::Warn, warnings)?;
    Ok(update)
}

/// Every value is `default`, a prior string or a number.
fn priors(name: &str, value: &Value) -> Result<Map<String, Value>> {
    let Value::Object(entries) = value else {
        return wrong(name, "a mapping of parameters to priors", value);
    };
    for (parameter, prior) in entries {
        if !(prior.is_string() || prior.is_number()) {
            return wrong(
                &format!("{name}.{parameter}"),
                "`default`, a prior string or a number",
                prior,
            );
        }
    }
    Ok(entries.clone())
}

fn numbers(name: &str, value: &Value) -> Result<Map<String, Value>> {
    let Value::Object(entries) = value else {
        return wrong(name, "a mapping of parameters to numbers", value);
    };
    for (parameter, value) in entries {
        number(&format!("{name}.{parameter}"), value)?;
    }
    Ok(entries.clone())
}

fn parameter_names(name: &str, value: &Value) -> Result<ParameterNames> {
    if value.as_str() == Some("default") {
        return Ok(ParameterNames::Default);
    }
    Ok(ParameterNames::Names(names(name, value)?))
}

fn maybe_names(name: &str, value: &Value) -> Result<Vec<String>> {
    if value.as_array().is_some_and(Vec::is_empty) {
        return Ok(Vec::new());
    }
    names(name, value)
}

fn time_shifts(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<TimeShifts> {
    let shifts = TimeShifts {
        kernel: block.required("kernel", "a prior string", text)?,
        exact_equiv: block.required("exact_equiv", "true or false", flag)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(shifts)
}

fn chirp_conditioning(
    mut block: Block<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<ChirpConditioning> {
    let chirp = ChirpConditioning {
        kernel: block.required("kernel", "a mapping of chirp_mass to a prior", priors)?,
        order: block.or("order", 0, count)?,
    };
    if chirp.order != 0 {
        return wrong(&block.name("order"), "0", &Value::from(chirp.order));
    }
    block.finish(Unknown::Refuse, warnings)?;
    Ok(chirp)
}

fn cropping(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<StrainCropping> {
    let cropping = StrainCropping {
        f_min_upper: block.optional("f_min_upper", non_negative)?,
        f_max_lower: block.optional("f_max_lower", non_negative)?,
        cropping_probability: block.or("cropping_probability", 1.0, probability)?,
        independent_detectors: block.or("independent_detectors", true, flag)?,
        independent_lower_upper: block.or("independent_lower_upper", true, flag)?,
        deterministic_fmin_fmax: block.optional("deterministic_fmin_fmax", band)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(cropping)
}

fn probability(name: &str, value: &Value) -> Result<f64> {
    match value.as_f64() {
        Some(probability) if (0.0..=1.0).contains(&probability) => Ok(probability),
        _ => wrong(name, "a probability", value),
    }
}

fn band(name: &str, value: &Value) -> Result<Value> {
    let pair = |name: &str, value: &Value| {
        let ends = list(non_negative)(name, value)?;
        if ends.len() == 2 && ends[0] < ends[1] {
            return Ok(());
        }
        wrong(name, "[f_min, f_max]", value)
    };
    if value
        .as_array()
        .is_some_and(|items| items.iter().any(Value::is_array))
    {
        list(pair)(name, value)?;
    } else {
        pair(name, value)?;
    }
    Ok(value.clone())
}

fn standardization(
    mut block: Block<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<StandardizationSettings> {
    let what = "a mapping of parameters to numbers";
    let settings = StandardizationSettings {
        mean: block.required("mean", what, numbers)?,
        std: block.required("std", what, numbers)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}
