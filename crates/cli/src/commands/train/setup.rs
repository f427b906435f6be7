//! From settings to everything a run needs: data, split, standardisation, network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use dunnart_checkpoint::{Metadata, ParameterMetadata, Scale, Standardization};
use dunnart_data::{
    Array, ArrayFile, NonFiniteRows, RowSource, SimulationOptions, SimulationSet, Split, Values,
};
use dunnart_flow::{Architecture, Layout};
use dunnart_train::Settings;
use dunnart_train::settings::{
    DataSettings, ObservationShape, PathSearch, SampleShape, SimulationDataSettings,
};
use serde_json::{Map, Value};

use crate::failure::InFile;

/// The largest share of rows that `drop_nonfinite` may drop.
const MAX_DROPPED: f64 = 0.5;

/// Everything that the settings lead to.
pub(super) struct Setup {
    pub(super) architecture: Architecture,
    pub(super) layout: Layout,
    pub(super) source: RowSource,
    pub(super) split: Split,
    pub(super) metadata: Metadata,
    /// The settings with every path found.
    pub(super) found: Settings,
    /// What to tell the user.
    pub(super) notes: Vec<String>,
}

/// Reads the data, completes the network's sizes and describes both.
pub(super) fn setup(settings: &Settings, search: &PathSearch) -> Result<Setup> {
    let found = settings.found(search)?;
    let DataSettings::Simulations(data) = &found.data else {
        bail!(
            "setting `data.waveform_dataset_path`: this version trains on simulation sets\nhint: give `data.simulations`, an .npz or .safetensors file"
        );
    };
    let set = simulations(data).in_file(&data.simulations)?;
    let mut notes = load_notes(&set);
    let split = Split::new(set.rows(), data.train_fraction)?;
    let parameters = set.standardize_parameters(&split.train)?;
    let observations = set.standardize_observations(&split.train)?;
    let shape = SampleShape {
        parameters: set.parameter_names().len(),
        observation: ObservationShape::Vector(set.observation_names().len()),
        context_parameters: 0,
    };
    let network = found.model.complete(&shape)?;
    let completed = Settings {
        model: settings.model.with_sizes(&network),
        ..settings.clone()
    };
    let architecture = Architecture::new(network)?;
    let layout = Layout::new(&architecture)?;
    let mut metadata = Metadata::new(&architecture);
    let bounds = set.bounds();
    metadata.parameters = set
        .parameter_names()
        .iter()
        .enumerate()
        .map(|(column, name)| ParameterMetadata {
            name: name.clone(),
            lower: bounds.map(|b| b.low()[column]).filter(|v| v.is_finite()),
            upper: bounds.map(|b| b.high()[column]).filter(|v| v.is_finite()),
        })
        .collect();
    let scale = |s: &dunnart_data::Standardization| Scale {
        mean: s.mean().to_vec(),
        std: s.std().to_vec(),
    };
    metadata.standardization = Some(Standardization {
        theta: scale(&parameters),
        observation: Some(scale(&observations)),
        context_parameters: None,
    });
    metadata.settings = Some(completed.to_value()?);
    let count = layout.count();
    notes.push(format!(
        "data: {} rows for training, {} for testing; {} parameters, {} observed values",
        split.train.len(),
        split.test.len(),
        shape.parameters,
        set.observation_names().len(),
    ));
    notes.push(format!(
        "network: {} parameters: {} reduced basis, {} embedding, {} flow",
        count.total(),
        count.reduced_basis,
        count.embedding,
        count.flow
    ));
    let source = RowSource::new(Arc::new(set), parameters, observations)?;
    Ok(Setup {
        architecture,
        layout,
        source,
        split,
        metadata,
        found,
        notes,
    })
}

/// Checks that a checkpoint belongs to the data: a network trained with other statistics would see
/// other numbers than it learnt from.
pub(super) fn same_data(checkpoint: &Metadata, setup: &Setup) -> Result<()> {
    if checkpoint.standardization != setup.metadata.standardization {
        bail!(
            "the checkpoint's standardisation is not that of the data\nhint: the data file has changed since the run began; give the file it was trained on"
        );
    }
    Ok(())
}

fn simulations(data: &SimulationDataSettings) -> Result<SimulationSet> {
    let Some(observations) = &data.observations else {
        bail!("setting `data.observations`: null is not supported: name the array of observations");
    };
    let mut file = ArrayFile::open(&data.simulations)?;
    let mut parameters = file.read(&data.parameters)?;
    let mut observed = file.read(observations)?;
    if let Some(rows) = data.num_simulations {
        first_rows(&mut parameters, rows, &data.parameters)?;
        first_rows(&mut observed, rows, observations)?;
    }
    let names = match &data.parameter_names {
        Some(names) => Some(names.clone()),
        None => file.read_names("names")?,
    };
    let dimension = parameters.shape.get(1).copied().unwrap_or(1);
    let bounds = match &data.bounds {
        Some(bounds) => Some(bounds.expand(dimension)?),
        None if file.contains("low") || file.contains("high") => {
            let mut bound = |name| anyhow::Ok(file.read(name)?.values.to_vec::<f64>());
            Some((bound("low")?, bound("high")?))
        }
        None => None,
    };
    let non_finite = if data.drop_nonfinite {
        NonFiniteRows::Drop {
            at_most: MAX_DROPPED,
        }
    } else {
        NonFiniteRows::Refuse
    };
    let options = SimulationOptions {
        parameters: data.parameters.clone(),
        observations: observations.clone(),
        names,
        bounds,
        non_finite,
    };
    Ok(SimulationSet::from_arrays(parameters, observed, &options)?)
}

/// Keeps the first rows of an array.
fn first_rows(array: &mut Array, rows: usize, name: &str) -> Result<()> {
    let Some(found) = array.shape.first().copied() else {
        return Ok(());
    };
    if rows > found {
        bail!(
            "setting `data.num_simulations`: expected at most the {found} rows of `{name}`, got {rows}"
        );
    }
    let elements = array.values.len() / found.max(1) * rows;
    match &mut array.values {
        Values::F32(values) => values.truncate(elements),
        Values::F64(values) => values.truncate(elements),
    }
    array.shape[0] = rows;
    Ok(())
}

fn load_notes(set: &SimulationSet) -> Vec<String> {
    let report = set.report();
    let mut notes = Vec::new();
    if report.dropped_rows > 0 {
        notes.push(format!(
            "note: {} of {} rows left out, since they are not finite ({} for their parameters, {} for their observations)",
            report.dropped_rows,
            report.rows_in_file,
            report.dropped_for_parameters,
            report.dropped_for_observations
        ));
    }
    for (what, kind) in [
        ("parameters", &report.parameter_type),
        ("observations", &report.observation_type),
    ] {
        if kind.contains("f8") || kind.eq_ignore_ascii_case("F64") {
            notes.push(format!(
                "note: the {what} are in float64; they are standardised in float64, then rounded to float32 once"
            ));
        }
    }
    notes
}

/// The file that says which files the settings meant, so that a resumed run finds them again.
pub(super) fn inputs(folder: &Path, found: &Settings) -> (PathBuf, String) {
    let mut settings = found.clone();
    let files: Map<String, Value> = settings
        .input_files()
        .into_iter()
        .map(|(name, path)| (name, Value::from(path.display().to_string())))
        .collect();
    let text = dunnart_train::settings::to_yaml(&Value::Object(files));
    (folder.join(INPUTS), text)
}

/// Name of the file of [`inputs`].
const INPUTS: &str = "inputs.yaml";

/// Replaces the paths of a checkpoint's settings by those that the run began with, where these exist.
pub(super) fn known_inputs(settings: &mut Settings, folders: &[&Path]) -> Result<()> {
    for folder in folders {
        let file = folder.join(INPUTS);
        if !file.exists() {
            continue;
        }
        let known = dunnart_train::settings::read_yaml_file(&file).in_file(&file)?;
        for (name, path) in settings.input_files() {
            let place = known.get(&name).and_then(Value::as_str).map(PathBuf::from);
            if let Some(place) = place.filter(|place| place.exists()) {
                *path = place;
            }
        }
        return Ok(());
    }
    Ok(())
}

/// Writes a small file whole.
pub(super) fn write_text(path: &Path, text: &str) -> Result<()> {
    dunnart_files::atomic_write(path, &dunnart_files::WriteOptions::default(), |out| {
        out.write_all(text.as_bytes())
    })?;
    Ok(())
}
