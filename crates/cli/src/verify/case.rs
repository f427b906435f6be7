//! One golden case: its description, its tensors, and which of them are to be computed.

use std::path::Path;

use dunnart_elementwise::Real;
use dunnart_flow::{Architecture, BufferValue, Entry as LayoutEntry, Layout, NetworkState};
use dunnart_spline::SplineSettings;
use serde_json::{Value, json};

use super::golden::{Golden, Values};
use super::manifest::Entry;
use super::{Error, Result};

/// What a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The spline alone, with its gradients.
    Spline,
    /// A flow without embedding.
    Flow,
    /// A flow with embedding, and training in two stages.
    Posterior,
    /// Training with accumulation, clipping and decoupled weight decay.
    Training,
}

impl Kind {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "spline" => Self::Spline,
            "flow" => Self::Flow,
            "posterior" => Self::Posterior,
            "training" => Self::Training,
            _ => return None,
        })
    }
}

/// The precision something is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32.
    Single,
    /// f64.
    Double,
}

/// A case, read and checked.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is about.
    pub kind: Kind,
    /// Its tensors.
    pub golden: Golden,
    /// The precision of its values.
    pub precision: Precision,
    description: Value,
    network: Option<(Architecture, Layout)>,
}

/// Keys that are inputs, not results; `exact.` holds more precise results of the same names.
const INPUTS: [&str; 5] = ["input.", "state.", "init.V_rb.", "exact.", "unnormalized_"];

impl Case {
    /// Reads the file of a manifest entry, and checks that it is whole.
    ///
    /// # Errors
    /// [`Error`] when the file cannot be read, lacks a tensor, or has one of another shape than the
    /// description promises.
    pub fn read(folder: &Path, entry: &Entry) -> Result<Self> {
        let path = folder.join(&entry.file);
        let refuse = |what: String| Error::Manifest {
            path: path.clone(),
            what,
        };
        let precision = match entry.description["dtype"].as_str() {
            Some("float64") => Precision::Double,
            Some("float32") => Precision::Single,
            other => {
                return Err(refuse(format!(
                    "dtype: expected float32 or float64, got {other:?}"
                )));
            }
        };
        let network = match entry.kind {
            Kind::Spline => None,
            _ => {
                let mut settings = json!({
                    "posterior_kwargs": entry.description["posterior_kwargs"],
                });
                if let Some(embedding) = entry.description.get("embedding_kwargs") {
                    settings["embedding_kwargs"] = embedding.clone();
                }
                let built = Architecture::from_json(&settings)
                    .and_then(|a| Layout::new(&a).map(|layout| (a, layout)));
                Some(built.map_err(|error| refuse(error.to_string()))?)
            }
        };
        let case = Self {
            kind: entry.kind,
            golden: Golden::read(&path)?,
            precision,
            description: entry.description.clone(),
            network,
        };
        case.check()?;
        Ok(case)
    }

    /// Name of the case: its file without ending.
    pub fn name(&self) -> &str {
        let file = self.golden.file();
        file.strip_suffix(".safetensors").unwrap_or(file)
    }

    /// The network of the case.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a case of the spline alone.
    pub fn network(&self) -> Result<&(Architecture, Layout)> {
        self.network
            .as_ref()
            .ok_or_else(|| self.undescribed("posterior_kwargs"))
    }

    pub(super) fn undescribed(&self, what: &str) -> Error {
        Error::Manifest {
            path: self.golden.file().into(),
            what: format!("its description lacks `{what}`"),
        }
    }

    /// A number of the description, by a path as `/optimizer/lr`.
    ///
    /// # Errors
    /// [`Error::Manifest`] when there is none.
    pub fn number(&self, pointer: &str) -> Result<f64> {
        let value = self.description.pointer(pointer).and_then(Value::as_f64);
        value.ok_or_else(|| self.undescribed(pointer))
    }

    /// Any value of the description, by a path.
    pub fn value(&self, pointer: &str) -> Option<&Value> {
        self.description.pointer(pointer)
    }

    /// A count of the description, by a path.
    ///
    /// # Errors
    /// [`Error::Manifest`] when there is none.
    pub fn count(&self, pointer: &str) -> Result<usize> {
        let value = self.description.pointer(pointer).and_then(Value::as_u64);
        value
            .map(|v| v as usize)
            .ok_or_else(|| self.undescribed(pointer))
    }

    /// Settings of a spline case.
    ///
    /// # Errors
    /// [`Error::Manifest`] when one is missing.
    pub fn spline_settings(&self) -> Result<SplineSettings> {
        Ok(SplineSettings {
            num_bins: self.count("/num_bins")?,
            tail_bound: self.number("/tail_bound")?,
            min_bin_width: self.number("/min_bin_width")?,
            min_bin_height: self.number("/min_bin_height")?,
            min_derivative: self.number("/min_derivative")?,
        })
    }

    /// Elements of a tensor in the precision something is computed in.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn numbers<T: Real>(&self, key: &str) -> Result<Vec<T>> {
        Ok(self
            .golden
            .reals(key)?
            .iter()
            .map(|&x| T::from_f64(x))
            .collect())
    }

    /// What stands before a parameter's name in this file: whole posteriors spell names in full.
    pub fn strip<'n>(&self, name: &'n str) -> &'n str {
        match self.kind {
            Kind::Posterior => name,
            _ => name.strip_prefix("flow.").unwrap_or(name),
        }
    }

    /// The network's numbers before anything is computed, from `state.*`.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Path`] when a tensor does not belong to the network.
    pub fn state<T: Real>(&self) -> Result<NetworkState<T>> {
        let (architecture, layout) = self.network()?;
        let mut state = NetworkState::blank(architecture, layout);
        let refuse = |error: dunnart_flow::Error| Error::Path {
            file: self.golden.file().into(),
            path: "state".into(),
            reason: error.to_string(),
        };
        let mut read = 0;
        for entry in layout.entries() {
            let name = match entry {
                LayoutEntry::Parameter(i) => &layout.parameters()[*i].name,
                LayoutEntry::Buffer(i) => &layout.buffers()[*i].name,
            };
            let key = format!("state.{}", self.strip(name));
            read += 1;
            match entry {
                LayoutEntry::Parameter(i) => {
                    let values = self.numbers::<T>(&key)?;
                    state
                        .set_parameter(&layout.parameters()[*i], &values)
                        .map_err(refuse)?;
                }
                LayoutEntry::Buffer(i) => {
                    let value = match &self.golden.tensor(&key)?.values {
                        Values::Integers(values) => BufferValue::Integers(values.clone()),
                        Values::Reals(values) => {
                            BufferValue::Reals(values.iter().map(|&x| T::from_f64(x)).collect())
                        }
                    };
                    state
                        .set_buffer(&layout.buffers()[*i], &value)
                        .map_err(refuse)?;
                }
            }
        }
        let found = self.keys_under("state.").count();
        if found != read {
            return Err(Error::Path {
                file: self.golden.file().into(),
                path: "state".into(),
                reason: format!("expected {read} tensors `state.*`, got {found}"),
            });
        }
        Ok(state)
    }

    /// A state as the file spells it: every parameter and buffer under `prefix`.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a case without network.
    pub fn spell<T: Real>(
        &self,
        prefix: &str,
        state: &NetworkState<T>,
    ) -> Result<Vec<(String, Values)>> {
        let (_, layout) = self.network()?;
        let reals = |values: &[T]| Values::Reals(values.iter().map(|x| x.to_f64()).collect());
        Ok(layout
            .entries()
            .iter()
            .map(|entry| match entry {
                LayoutEntry::Parameter(i) => {
                    let spec = &layout.parameters()[*i];
                    let key = format!("{prefix}{}", self.strip(&spec.name));
                    (key, reals(state.parameter(spec)))
                }
                LayoutEntry::Buffer(i) => {
                    let spec = &layout.buffers()[*i];
                    let key = format!("{prefix}{}", self.strip(&spec.name));
                    let values = match state.buffer(spec) {
                        BufferValue::Integers(values) => Values::Integers(values),
                        BufferValue::Reals(values) => reals(&values),
                    };
                    (key, values)
                }
            })
            .collect())
    }

    /// Keys that begin with `prefix`.
    pub fn keys_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.golden
            .keys()
            .filter(move |key| key.starts_with(prefix))
    }

    /// Keys of the results: everything that is no input.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        self.golden.keys().filter(|key| {
            !INPUTS.iter().any(|input| key.starts_with(input))
                && *key != "x"
                && *key != "sample.noise"
                && !key.contains(".grad_out_")
        })
    }

    /// Rows of the case's inputs.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn rows(&self) -> Result<usize> {
        let key = if self.kind == Kind::Spline {
            "x"
        } else {
            "input.theta"
        };
        Ok(self.golden.tensor(key)?.shape.first().copied().unwrap_or(0))
    }
}
