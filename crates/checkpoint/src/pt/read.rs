//! From a pickle's values to a model: which entry is what, and which tensors it names.

use std::fs::File;
use std::io::BufReader;

use dunnart_flow::{Architecture, Layout};
use serde_json::{Map, Value as Json};

use super::{Archive, Document, Heap, Loader, TensorRef, ToJson, Tuples, Value};
use crate::dingo::{OWN_KEY, Record};
use crate::model::{OptimizerState, ParameterMoments, StateDict};
use crate::names::{OPTIMIZER, common_wrappers, plain_keys};
use crate::safetensors::{Header, TensorInfo, layout};
use crate::tensor::{DType, Data, Tensor};
use crate::{Error, Metadata, Model, Named, Result};

/// Entries that have a place of their own.
const KNOWN: [&str; 13] = [
    "model_kwargs",
    "model_state_dict",
    "epoch",
    "iteration",
    "version",
    "metadata",
    "context",
    "event_metadata",
    "optimizer_kwargs",
    "scheduler_kwargs",
    "optimizer_state_dict",
    "scheduler_state_dict",
    OWN_KEY,
];

/// A moment of one parameter: a tensor, or a number of steps that older versions keep.
enum Moment {
    Tensor(TensorRef),
    Number(f64),
}

/// A file whose tensors are named and not read.
pub(crate) struct Parts {
    archive: Archive,
    metadata: Metadata,
    weights: Named<TensorRef>,
    /// Parameter, moment, what it is; in the file's order.
    moments: Vec<(String, String, Moment)>,
    network: Option<(Architecture, Layout)>,
    /// Steps of the whole run.
    iteration: u64,
    bytes: u64,
}

/// What stands where, for messages.
fn entry(heap: &Heap, name: &str, expected: &str, found: Option<Value>) -> Error {
    Error::Entry {
        name: name.into(),
        expected: expected.into(),
        found: found
            .map_or("nothing", |value| heap.type_name(value))
            .into(),
    }
}

impl Parts {
    /// Reads everything but the tensors' elements.
    pub(crate) fn open(file: BufReader<File>, bytes: u64) -> Result<Self> {
        let Document {
            archive,
            heap,
            root,
        } = Document::open(file, bytes)?;
        let Some(dict) = heap.as_dict(root) else {
            return Err(entry(&heap, "the file", "a dict", Some(root)));
        };
        let Some(weights) = heap.get(root, "model_state_dict") else {
            let expected = "the weights; this is no dingo model";
            return Err(entry(&heap, "model_state_dict", expected, None));
        };
        let mut json = ToJson::new(&heap, bytes);
        let mut get = |key: &str, tuples| -> Result<Option<Json>> {
            match heap.get(root, key) {
                None | Some(Value::None) => Ok(None),
                Some(value) => json.convert(key, value, tuples).map(Some),
            }
        };
        let optimizer = heap
            .get(root, "optimizer_state_dict")
            .filter(|v| *v != Value::None);
        let record = Record {
            model_kwargs: get("model_kwargs", Tuples::AsArrays)?
                .ok_or_else(|| entry(&heap, "model_kwargs", "a dict", None))?,
            metadata: match get("metadata", Tuples::AsArrays)? {
                Some(Json::Object(metadata)) => metadata,
                _ => {
                    return Err(entry(
                        &heap,
                        "metadata",
                        "a dict",
                        heap.get(root, "metadata"),
                    ));
                }
            },
            context: get("context", Tuples::Tagged)?,
            event_metadata: get("event_metadata", Tuples::Tagged)?,
            optimizer_kwargs: get("optimizer_kwargs", Tuples::AsArrays)?,
            scheduler_kwargs: get("scheduler_kwargs", Tuples::AsArrays)?,
            scheduler_state: get("scheduler_state_dict", Tuples::AsArrays)?,
            other: {
                let mut other = Map::new();
                for &(key, value) in &dict.items {
                    let Some(key) = heap.as_text(key) else {
                        return Err(entry(&heap, "the file", "keys that are text", Some(key)));
                    };
                    if !KNOWN.contains(&key) {
                        other.insert(key.into(), json.convert(key, value, Tuples::Tagged)?);
                    }
                }
                other
            },
            epoch: count(&heap, root, "epoch")?
                .ok_or_else(|| entry(&heap, "epoch", "a count", None))?,
            iteration: count(&heap, root, "iteration")?.unwrap_or(0),
            version: text(&heap, root, "version")?,
            own: text(&heap, root, OWN_KEY)?,
            learning_rate: optimizer.and_then(|optimizer| learning_rate(&heap, optimizer)),
        };
        let iteration = record.iteration;
        let named = state_dict(&heap, weights)?;
        let metadata = record.into_metadata()?;
        let network = match metadata.architecture.settings() {
            Ok(_) => Some(layout(&metadata, named.len(), bytes)?),
            Err(_) => None,
        };
        let (weights, parameters) = match &network {
            Some((_, layout)) => {
                let known = |name: &str| layout.find(name).is_some();
                let names = layout.parameters().iter().map(|p| p.name.clone()).collect();
                (plain_keys(named, known)?, Some(names))
            }
            None => (common_wrappers(named)?, None),
        };
        let moments = match optimizer {
            Some(optimizer) => moments(&heap, optimizer, parameters)?,
            None => Vec::new(),
        };
        Ok(Self {
            archive,
            metadata,
            weights,
            moments,
            network,
            iteration,
            bytes,
        })
    }

    /// What the file says without its data.
    pub(crate) fn header(self) -> Result<Header> {
        let mut tensors = Vec::new();
        let info = |name: String, tensor: &TensorRef| -> Result<TensorInfo> {
            Ok(TensorInfo {
                dtype: tensor.storage.kind.dtype(),
                shape: tensor.checked_shape(&name)?,
                name,
            })
        };
        for (name, tensor) in self.weights.iter() {
            tensors.push(info(name.into(), tensor)?);
        }
        for (parameter, slot, moment) in &self.moments {
            let name = format!("{OPTIMIZER}{parameter}.{slot}");
            tensors.push(match moment {
                Moment::Tensor(tensor) => info(name, tensor)?,
                Moment::Number(_) => TensorInfo {
                    name,
                    dtype: DType::F32,
                    shape: Vec::new(),
                },
            });
        }
        Ok(Header {
            metadata: self.metadata,
            tensors,
            bytes: self.bytes,
        })
    }

    /// The whole model, checked.
    pub(crate) fn model(mut self) -> Result<Model> {
        let of_weights = self.weights.iter().map(|(_, tensor)| tensor);
        let of_moments = self
            .moments
            .iter()
            .filter_map(|(_, _, moment)| match moment {
                Moment::Tensor(tensor) => Some(tensor),
                Moment::Number(_) => None,
            });
        let mut loader = Loader::new(&mut self.archive, of_weights.chain(of_moments));
        let mut weights = StateDict::new();
        for (name, tensor) in self.weights.iter() {
            weights.insert(name, loader.load(name, tensor)?)?;
        }
        let mut optimizer = OptimizerState::new();
        for (parameter, slot, moment) in &self.moments {
            let name = format!("{OPTIMIZER}{parameter}.{slot}");
            let value = match moment {
                Moment::Tensor(tensor) => Ok(loader.load(&name, tensor)?),
                Moment::Number(number) => Err(*number),
            };
            if optimizer.get(parameter).is_none() {
                optimizer.insert(parameter, ParameterMoments::default())?;
            }
            // It was inserted just now if it was not there.
            let Some(entry) = optimizer.get_mut(parameter) else {
                continue;
            };
            if slot == "step" {
                entry.step = Some(step(&name, &value)?);
            } else if let Ok(tensor) = value {
                entry.moments.insert(slot.clone(), tensor);
            } else {
                let reason = "is a number, expected a tensor".into();
                return Err(Error::Optimizer { name, reason });
            }
        }
        // Gradient descent keeps no count; the run's is one that was reached.
        let uncounted = self.metadata.settings.is_some();
        let names: Vec<String> = optimizer.iter().map(|(name, _)| name.into()).collect();
        for name in names.iter().filter(|_| uncounted) {
            if let Some(entry) = optimizer.get_mut(name)
                && entry.step.is_none()
            {
                entry.step = Some(self.iteration.max(1) as f32);
            }
        }
        let mut model = Model {
            metadata: self.metadata,
            weights,
            optimizer,
        };
        if let Some((architecture, layout)) = &self.network {
            model.sort(layout);
            model.check_with(architecture, layout)?;
        }
        Ok(model)
    }
}

/// A count of steps, as a tensor or as a number.
fn step(name: &str, value: &std::result::Result<Tensor, f64>) -> Result<f32> {
    let found = match value {
        Err(number) => return Ok(*number as f32),
        Ok(tensor) => tensor,
    };
    match (found.shape(), found.data()) {
        ([], Data::F32(values)) => Ok(values[0]),
        ([], Data::F64(values)) => Ok(values[0] as f32),
        ([], Data::I64(values)) => Ok(values[0] as f32),
        (shape, data) => Err(Error::Optimizer {
            name: name.into(),
            reason: format!(
                "expected one number, got {} of shape {shape:?}",
                data.dtype()
            ),
        }),
    }
}

fn count(heap: &Heap, root: Value, key: &str) -> Result<Option<u64>> {
    match heap.get(root, key) {
        None | Some(Value::None) => Ok(None),
        Some(Value::Int(count)) if count >= 0 => Ok(Some(count as u64)),
        other => Err(entry(heap, key, "a count", other)),
    }
}

fn text(heap: &Heap, root: Value, key: &str) -> Result<Option<String>> {
    match heap.get(root, key) {
        None | Some(Value::None) => Ok(None),
        Some(value) => match heap.as_text(value) {
            Some(text) => Ok(Some(text.into())),
            None => Err(entry(heap, key, "text", Some(value))),
        },
    }
}

fn state_dict(heap: &Heap, dict: Value) -> Result<Named<TensorRef>> {
    let name = "model_state_dict";
    let Some(dict) = heap.as_dict(dict) else {
        return Err(entry(heap, name, "a dict of tensors", Some(dict)));
    };
    let mut named = Named::new();
    for &(key, value) in &dict.items {
        let Some(key) = heap.as_text(key) else {
            return Err(entry(heap, name, "keys that are text", Some(key)));
        };
        let Some(tensor) = heap.as_tensor(value) else {
            return Err(entry(
                heap,
                &format!("{name}.{key}"),
                "a tensor",
                Some(value),
            ));
        };
        named.insert(key, tensor.clone())?;
    }
    Ok(named)
}

/// The rate of the optimiser's first group.
fn learning_rate(heap: &Heap, optimizer: Value) -> Option<f64> {
    let groups = heap.as_sequence(heap.get(optimizer, "param_groups")?)?;
    match heap.get(*groups.first()?, "lr")? {
        Value::Float(rate) => Some(rate),
        Value::Int(rate) => Some(rate as f64),
        _ => None,
    }
}

/// The moments of every parameter that has any.
///
/// torch numbers parameters in registration order, frozen ones included; where the network is not
/// built here the number is the parameter's name.
fn moments(
    heap: &Heap,
    optimizer: Value,
    parameters: Option<Vec<String>>,
) -> Result<Vec<(String, String, Moment)>> {
    let name = "optimizer_state_dict";
    let groups_name = format!("{name}.param_groups");
    let found = heap.get(optimizer, "param_groups");
    let Some(groups) = found.and_then(|groups| heap.as_sequence(groups)) else {
        return Err(entry(heap, &groups_name, "a list", found));
    };
    let mut numbers = Vec::new();
    for &group in groups {
        let found = heap.get(group, "params");
        let Some(params) = found.and_then(|params| heap.as_sequence(params)) else {
            return Err(entry(
                heap,
                &format!("{groups_name}.params"),
                "a list",
                found,
            ));
        };
        numbers.extend_from_slice(params);
    }
    if let Some(parameters) = &parameters {
        let expected = (0..parameters.len()).map(|i| Value::Int(i as i64));
        if !numbers.iter().copied().eq(expected) {
            return Err(Error::Entry {
                name: format!("{groups_name}.params"),
                expected: format!(
                    "the numbers of the network's {} parameters",
                    parameters.len()
                ),
                found: format!("{} numbers", numbers.len()),
            });
        }
    }
    let state_name = format!("{name}.state");
    let found = heap.get(optimizer, "state");
    let Some(state) = found.and_then(|state| heap.as_dict(state)) else {
        return Err(entry(heap, &state_name, "a dict", found));
    };
    let mut moments = Vec::new();
    for &(index, slots) in &state.items {
        let parameter = match (index, &parameters) {
            (Value::Int(index), None) if index >= 0 => Some(index.to_string()),
            (Value::Int(index), Some(names)) => usize::try_from(index)
                .ok()
                .and_then(|i| names.get(i).cloned()),
            _ => None,
        };
        let Some(parameter) = parameter else {
            return Err(entry(
                heap,
                &state_name,
                "the number of a parameter",
                Some(index),
            ));
        };
        let Some(slots) = heap.as_dict(slots) else {
            return Err(entry(
                heap,
                &state_name,
                "a dict for each parameter",
                Some(slots),
            ));
        };
        for &(slot, value) in &slots.items {
            let Some(slot) = heap.as_text(slot) else {
                return Err(entry(heap, &state_name, "keys that are text", Some(slot)));
            };
            let moment = match (value, heap.as_tensor(value)) {
                (Value::None, _) => continue,
                (_, Some(tensor)) => Moment::Tensor(tensor.clone()),
                (Value::Int(number), _) => Moment::Number(number as f64),
                (Value::Float(number), _) => Moment::Number(number),
                _ => {
                    let name = format!("{state_name}.{slot}");
                    return Err(entry(heap, &name, "a tensor", Some(value)));
                }
            };
            moments.push((parameter.clone(), slot.to_owned(), moment));
        }
    }
    Ok(moments)
}
