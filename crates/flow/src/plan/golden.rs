//! Reference values for the tests of this module: cases, tensors, comparisons.

use std::collections::HashMap;
use std::path::PathBuf;

use dunnart_elementwise::Real;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::{Architecture, BufferValue, Entry, Layout, NetworkState};

/// f64 results agree to this share of the largest magnitude in each tensor.
pub(crate) const DOUBLE_BOUND: f64 = 1e-10;
/// f32 errors are at most this multiple of the reference's own, both against exact values.
pub(crate) const SINGLE_FACTOR: f64 = 2.0;

/// One case of the manifest.
pub(crate) struct Case {
    pub(crate) file: String,
    pub(crate) double: bool,
    pub(crate) architecture: Architecture,
    pub(crate) layout: Layout,
    pub(crate) tensors: HashMap<String, Vec<f64>>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden")
}

fn values(bytes: &[u8], dtype: Dtype) -> Vec<f64> {
    match dtype {
        Dtype::F64 => bytes
            .chunks(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
            .collect(),
        Dtype::F32 => bytes
            .chunks(4)
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
            .collect(),
        Dtype::I64 => bytes
            .chunks(8)
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64)
            .collect(),
        other => panic!("golden tensors are f64, f32 or int64, not {other:?}"),
    }
}

/// All cases of a kind: `flow`, `posterior` or `training`.
pub(crate) fn cases(kind: &str) -> Vec<Case> {
    let manifest = std::fs::read(folder().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let cases: Vec<Case> = manifest[kind]
        .as_array()
        .unwrap()
        .iter()
        .map(Case::read)
        .collect();
    assert!(!cases.is_empty());
    cases
}

impl Case {
    fn read(entry: &Value) -> Self {
        let file = entry["file"].as_str().unwrap().to_owned();
        let mut settings = serde_json::Map::new();
        for key in ["posterior_kwargs", "embedding_kwargs"] {
            if let Some(value) = entry.get(key) {
                settings.insert(key.into(), value.clone());
            }
        }
        let architecture = Architecture::from_json(&Value::Object(settings)).unwrap();
        let layout = Layout::new(&architecture).unwrap();
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = tensors
            .tensors()
            .into_iter()
            .map(|(name, view)| (name, values(view.data(), view.dtype())))
            .collect();
        let double = entry["dtype"] == "float64";
        Self {
            file,
            double,
            architecture,
            layout,
            tensors,
        }
    }

    /// A tensor that may be absent.
    pub(crate) fn find(&self, name: &str) -> Option<&[f64]> {
        self.tensors.get(name).map(Vec::as_slice)
    }

    /// A tensor that must be there.
    pub(crate) fn get(&self, name: &str) -> &[f64] {
        self.find(name)
            .unwrap_or_else(|| panic!("{}: no tensor {name}", self.file))
    }

    /// A tensor in the precision asked for; empty if absent.
    pub(crate) fn cast<T: Real>(&self, name: &str) -> Vec<T> {
        self.find(name)
            .unwrap_or(&[])
            .iter()
            .map(|v| T::from_f64(*v))
            .collect()
    }

    /// Name of a state tensor below a prefix such as `state.` or `grad.`; files of plain flows
    /// leave the leading `flow.` out.
    pub(crate) fn key(&self, prefix: &str, name: &str) -> String {
        let full = format!("{prefix}{name}");
        if self.tensors.contains_key(&full) {
            return full;
        }
        format!("{prefix}{}", name.strip_prefix("flow.").unwrap_or(name))
    }

    /// The state under a prefix.
    pub(crate) fn state<T: Real>(&self, prefix: &str) -> NetworkState<T> {
        let mut state = NetworkState::blank(&self.architecture, &self.layout);
        for entry in self.layout.entries() {
            match *entry {
                Entry::Parameter(index) => {
                    let spec = &self.layout.parameters()[index];
                    let values = self.cast(&self.key(prefix, &spec.name));
                    state.set_parameter(spec, &values).unwrap();
                }
                Entry::Buffer(index) => {
                    let spec = &self.layout.buffers()[index];
                    let values = self.get(&self.key(prefix, &spec.name));
                    let value = match state.buffer(spec) {
                        BufferValue::Integers(_) => {
                            BufferValue::Integers(values.iter().map(|v| *v as i64).collect())
                        }
                        BufferValue::Reals(_) => {
                            BufferValue::Reals(values.iter().map(|v| T::from_f64(*v)).collect())
                        }
                    };
                    state.set_buffer(spec, &value).unwrap();
                }
            }
        }
        state
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |a: f64, v| a.max(v.abs()))
}

/// Largest |actual - expected| over the largest |expected|.
pub(crate) fn relative_error(actual: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let differences: Vec<f64> = actual.iter().zip(expected).map(|(a, e)| a - e).collect();
    assert!(differences.iter().all(|d| d.is_finite()));
    let scale = largest(expected);
    if scale == 0.0 {
        largest(&differences)
    } else {
        largest(&differences) / scale
    }
}

/// Compares one quantity of one case and returns what is wrong with it.
///
/// In f64 against the reference; in f32 against exact values, with the reference's own error as the
/// measure.
pub(crate) fn judge(
    case: &Case,
    name: &str,
    actual: &[f64],
    exact: Option<&[f64]>,
) -> Option<String> {
    let reference = case.get(name);
    if case.double {
        let error = relative_error(actual, reference);
        return (error > DOUBLE_BOUND).then(|| format!("{} {name}: {error:.2e}", case.file));
    }
    let exact = exact.unwrap_or_else(|| case.get(&format!("exact.{name}")));
    let (ours, theirs) = (quantiles(actual, exact), quantiles(reference, exact));
    // One unit in the last place of the largest value is no error at all.
    let floor = 0.5 * f64::from(f32::EPSILON) * largest(exact);
    let worse = ours
        .iter()
        .zip(theirs)
        .any(|(o, t)| *o > SINGLE_FACTOR * t + floor);
    worse.then(|| {
        format!(
            "{} {name}: {ours:?}, reference {theirs:?} of {:.2e}",
            case.file,
            largest(exact)
        )
    })
}

/// Errors at 50, 99 and 99.9 per cent.
fn quantiles(actual: &[f64], exact: &[f64]) -> [f64; 3] {
    assert_eq!(actual.len(), exact.len());
    let errors = actual.iter().zip(exact).map(|(a, e)| (a - e).abs());
    at_quantiles(errors.collect())
}

fn at_quantiles(mut errors: Vec<f64>) -> [f64; 3] {
    assert!(errors.iter().all(|e| e.is_finite()));
    errors.sort_by(f64::total_cmp);
    [0.5, 0.99, 0.999].map(|q| errors[((errors.len() - 1) as f64 * q).round() as usize])
}

/// Errors of many f32 tensors together, each relative to its tensor's largest magnitude.
///
/// A single gradient is a sum over few rows and may be near exact in the reference by luck; all of
/// them together are a fair measure.
#[derive(Default)]
pub(crate) struct Pool {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Pool {
    /// Adds one tensor.
    pub(crate) fn add(&mut self, case: &Case, name: &str, actual: &[f64], exact: &[f64]) {
        let scale = largest(exact);
        if scale > 0.0 {
            let errors = |values: &[f64]| -> Vec<f64> {
                let pairs = values.iter().zip(exact);
                pairs.map(|(v, e)| (v - e).abs() / scale).collect()
            };
            self.ours.extend(errors(actual));
            self.theirs.extend(errors(case.get(name)));
        }
    }

    /// What is wrong with them.
    pub(crate) fn judge(self, case: &Case, name: &str) -> Option<String> {
        if self.ours.is_empty() {
            return None;
        }
        let (ours, theirs) = (at_quantiles(self.ours), at_quantiles(self.theirs));
        let worse = ours.iter().zip(theirs).any(|(o, t)| *o > SINGLE_FACTOR * t);
        worse.then(|| format!("{} {name}*: {ours:?}, reference {theirs:?}", case.file))
    }
}

/// The same numbers in double precision.
pub(crate) fn widen<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}
