//! Writing dingo's layout: what dingo loads, what dingo goes on training from, and equal bytes for equal
//! models.

use std::collections::HashSet;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::Path;

use dunnart_files::{WriteOptions, atomic_write};
use serde_json::Value as Json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::encode::{Encoder, Memo};
use crate::checksum::for_each_block;
use crate::dingo::{OWN_KEY, Record, entry, group, moment_names};
use crate::model::ParameterMoments;
use crate::tensor::Tensor;
use crate::{Error, Model, Result};

/// Folder inside the archive: torch's own name for an archive without a file name.
const FOLDER: &str = "archive";

/// Alignment of storages in bytes.
const ALIGNMENT: u16 = 64;

/// Bytes beyond which a member needs wide sizes.
const WIDE: u64 = u32::MAX as u64;

/// Writes a model that was checked.
pub(crate) fn write(model: &Model, path: &Path, options: &WriteOptions) -> Result<()> {
    let steps = Steps::new(model)?;
    let encoder = pickle(model, &steps)?;
    atomic_write(path, options, |out| stream(out, &encoder))?;
    Ok(())
}

/// The bytes of a model that was checked.
pub(crate) fn to_bytes(model: &Model) -> Result<Vec<u8>> {
    let steps = Steps::new(model)?;
    let encoder = pickle(model, &steps)?;
    let mut bytes = Vec::new();
    stream(&mut bytes, &encoder)?;
    Ok(bytes)
}

/// The counts of steps as the tensors that torch keeps, one for each parameter with moments.
struct Steps(Vec<Option<Tensor>>);

impl Steps {
    fn new(model: &Model) -> Result<Self> {
        let tensor = |moments: &ParameterMoments| {
            let step = moments
                .step
                .map(|step| Tensor::new("step", &[], vec![step]));
            step.transpose()
        };
        let tensors = model.optimizer.iter().map(|(_, moments)| tensor(moments));
        tensors.collect::<Result<_>>().map(Self)
    }
}

fn pickle<'a>(model: &'a Model, steps: &'a Steps) -> Result<Encoder<'a>> {
    let trained = !model.optimizer.is_empty();
    let record = Record::from_metadata(&model.metadata, trained)?;
    let optimizer = match &record.optimizer_kwargs {
        Some(kwargs) => Some(OptimizerEntry::new(model, &record, kwargs)?),
        None => None,
    };
    let mut encoder = Encoder::new();
    let e = &mut encoder;
    let mut entries = Entries { shared: None };
    let mut keys = vec![
        "model_kwargs",
        "model_state_dict",
        "epoch",
        "iteration",
        "version",
    ];
    keys.push("metadata");
    if record.context.is_some() {
        keys.push("context");
    }
    if record.event_metadata.is_some() {
        keys.push("event_metadata");
    }
    if optimizer.is_some() {
        keys.extend([
            "optimizer_kwargs",
            "scheduler_kwargs",
            "optimizer_state_dict",
        ]);
        if record.scheduler_state.is_some() {
            keys.push("scheduler_state_dict");
        }
    }
    keys.push(OWN_KEY);
    keys.extend(record.other.keys().map(String::as_str));
    e.dict(keys.len(), |e, i| {
        e.text(keys[i]);
        match keys[i] {
            "model_kwargs" => {
                e.json(&record.model_kwargs);
                entries.shared = Some(e.remember());
            }
            "model_state_dict" => state_dict(e, model),
            "epoch" => e.integer(record.epoch as i64),
            "iteration" => e.integer(record.iteration as i64),
            "version" => e.json(&Json::from(record.version.clone())),
            "metadata" => entries.metadata(e, &record),
            "context" => e.json(record.context.as_ref().unwrap_or(&Json::Null)),
            "event_metadata" => e.json(record.event_metadata.as_ref().unwrap_or(&Json::Null)),
            "optimizer_kwargs" => e.json(record.optimizer_kwargs.as_ref().unwrap_or(&Json::Null)),
            "scheduler_kwargs" => e.json(record.scheduler_kwargs.as_ref().unwrap_or(&Json::Null)),
            "optimizer_state_dict" => {
                if let Some(optimizer) = &optimizer {
                    optimizer.write(e, steps);
                }
            }
            "scheduler_state_dict" => {
                e.json(record.scheduler_state.as_ref().unwrap_or(&Json::Null));
            }
            OWN_KEY => e.json(&Json::from(record.own.clone())),
            other => e.json(&record.other[other]),
        }
    });
    e.stop();
    Ok(encoder)
}

/// What entries share.
struct Entries {
    shared: Option<Memo>,
}

impl Entries {
    /// The metadata, whose `train_settings.model` is the very dict of `model_kwargs`.
    fn metadata(&self, e: &mut Encoder<'_>, record: &Record) {
        e.map(&record.metadata, |e, key| {
            let (true, Some(Json::Object(settings)), Some(memo)) = (
                key == "train_settings",
                record.metadata.get(key),
                self.shared,
            ) else {
                return false;
            };
            e.map(settings, |e, key| {
                if key == "model" {
                    e.again(memo);
                }
                key == "model"
            });
            true
        });
    }
}

/// The weights, and the versions of the modules that hold them.
fn state_dict<'a>(e: &mut Encoder<'a>, model: &'a Model) {
    let weights: Vec<_> = model.weights.iter().collect();
    e.ordered_dict(weights.len(), |e, i| {
        e.text(weights[i].0);
        e.tensor(weights[i].1);
    });
    let mut seen = HashSet::from([""]);
    let mut modules = vec![""];
    for (name, _) in &weights {
        for (at, _) in name.match_indices('.') {
            if seen.insert(&name[..at]) {
                modules.push(&name[..at]);
            }
        }
    }
    let counted: HashSet<&str> = weights
        .iter()
        .filter_map(|(name, _)| name.strip_suffix(".num_batches_tracked"))
        .collect();
    e.build(|e| {
        e.dict(1, |e, _| {
            e.text("_metadata");
            e.ordered_dict(modules.len(), |e, i| {
                e.text(modules[i]);
                e.dict(1, |e, _| {
                    e.text("version");
                    // Batch norms with a counter are torch's second version.
                    e.integer(if counted.contains(modules[i]) { 2 } else { 1 });
                });
            });
        });
    });
}

/// torch's state of an optimiser.
struct OptimizerEntry<'a> {
    /// Number of the parameter, place of its moments in the model, the moments.
    states: Vec<(i64, usize, &'a ParameterMoments)>,
    parameters: usize,
    counts_steps: bool,
    order: &'static [&'static str],
    group: crate::dingo::Group,
}

impl<'a> OptimizerEntry<'a> {
    fn new(model: &'a Model, record: &Record, kwargs: &Json) -> Result<Self> {
        let kind = kwargs["type"].as_str().unwrap_or_default();
        let Some(names) = moment_names(kind) else {
            let known = "adam, adamw, sgd or adagrad";
            return Err(entry("optimizer.type", known, kwargs.get("type")));
        };
        let first = match &record.scheduler_state {
            Some(state) => state["base_lrs"][0].as_f64(),
            None => None,
        };
        let numbers: Vec<String> = match model.metadata.architecture.settings() {
            Ok(_) => {
                let (_, layout) = model.layout()?;
                layout.parameters().iter().map(|p| p.name.clone()).collect()
            }
            // Where the network is not built, parameters are called by their numbers.
            Err(_) => {
                let last = model
                    .optimizer
                    .iter()
                    .filter_map(|(name, _)| name.parse::<usize>().ok());
                (0..last.max().map_or(0, |last| last + 1))
                    .map(|i| i.to_string())
                    .collect()
            }
        };
        let mut states = Vec::new();
        for (place, (name, moments)) in model.optimizer.iter().enumerate() {
            let Some(number) = numbers.iter().position(|n| n == name) else {
                return Err(Error::Optimizer {
                    name: name.into(),
                    reason: "the network has no parameter of that name".into(),
                });
            };
            // Plain gradient descent keeps nothing.
            if names.counts_steps || !moments.moments.is_empty() {
                states.push((number as i64, place, moments));
            }
        }
        states.sort_by_key(|state| state.0);
        Ok(Self {
            states,
            parameters: numbers.len(),
            counts_steps: names.counts_steps,
            order: names.moments,
            group: group(kwargs, record.learning_rate, first)?,
        })
    }

    fn write(&self, e: &mut Encoder<'a>, steps: &'a Steps) {
        e.dict(2, |e, i| {
            if i == 0 {
                e.text("state");
                e.dict(self.states.len(), |e, i| {
                    let (number, place, moments) = self.states[i];
                    e.integer(number);
                    let step = steps.0[place].as_ref().filter(|_| self.counts_steps);
                    self.moments(e, step, moments);
                });
                return;
            }
            e.text("param_groups");
            e.list(1, |e, _| {
                let keys: Vec<_> = self.group.iter().collect();
                e.dict(keys.len() + 1, |e, i| match keys.get(i) {
                    Some(&(key, Json::Array(values))) if key == "betas" => {
                        e.text(key);
                        e.tuple(values.len(), |e, i| e.json(&values[i]));
                    }
                    Some((key, value)) => {
                        e.text(key);
                        e.json(value);
                    }
                    None => {
                        e.text("params");
                        e.list(self.parameters, |e, i| e.integer(i as i64));
                    }
                });
            });
        });
    }

    fn moments(
        &self,
        e: &mut Encoder<'a>,
        step: Option<&'a Tensor>,
        moments: &'a ParameterMoments,
    ) {
        let known = self
            .order
            .iter()
            .filter_map(|name| moments.moments.get_key_value(*name));
        let others = moments
            .moments
            .iter()
            .filter(|(name, _)| !self.order.contains(&name.as_str()));
        let tensors: Vec<_> = known.chain(others).collect();
        let offset = usize::from(step.is_some());
        e.dict(tensors.len() + offset, |e, i| {
            if let (Some(step), 0) = (step, i) {
                e.text("step");
                return e.tensor(step);
            }
            let (name, tensor) = tensors[i - offset];
            e.text(name);
            e.tensor(tensor);
        });
    }
}

/// The archive, a tensor at a time.
fn stream(out: &mut dyn Write, encoder: &Encoder<'_>) -> std::io::Result<()> {
    // A writer that failed would complain on its own when it is dropped.
    let mut zip = ManuallyDrop::new(ZipWriter::new_stream(out));
    let member = |size: u64| {
        SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .with_alignment(ALIGNMENT)
            .large_file(size >= WIDE)
    };
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&encoder.bytes);
    zip.start_file(
        format!("{FOLDER}/data.pkl"),
        member(encoder.bytes.len() as u64),
    )?;
    zip.write_all(&encoder.bytes)?;
    for (name, content) in [
        (".format_version", "1"),
        (".storage_alignment", "64"),
        ("byteorder", "little"),
    ] {
        zip.start_file(format!("{FOLDER}/{name}"), member(0))?;
        zip.write_all(content.as_bytes())?;
    }
    for (index, tensor) in encoder.storages.iter().enumerate() {
        let data = tensor.data();
        let size = (data.len() * data.dtype().bytes()) as u64;
        zip.start_file(format!("{FOLDER}/data/{index}"), member(size))?;
        for_each_block(data, &mut |bytes| {
            checksum.update(bytes);
            zip.write_all(bytes)
        })?;
    }
    let identity = format!("{:020}{:020}", encoder.bytes.len(), checksum.finalize());
    for (name, content) in [("version", "3\n"), (".data/serialization_id", &identity)] {
        zip.start_file(format!("{FOLDER}/{name}"), member(0))?;
        zip.write_all(content.as_bytes())?;
    }
    ManuallyDrop::into_inner(zip).finish()?;
    Ok(())
}
