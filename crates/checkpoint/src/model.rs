//! The one in-memory form of a checkpoint, and its way into and out of a network's flat state.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use dunnart_elementwise::Real;
use dunnart_files::{WriteOptions, previous_path};
use dunnart_flow::{Architecture, BufferKind, BufferValue, Entry, Layout, NetworkState};

#[allow(unused_imports, reason = "named in the documentation")]
use crate::Format;
use crate::tensor::{DType, Data, Element, Tensor};
use crate::{Error, Metadata, Named, Result, checks, format, pt, safetensors};

/// Tensors by the reference's plain names, in its order.
pub type StateDict = Named<Tensor>;

/// Moments by parameter; only parameters that were ever stepped have an entry.
pub type OptimizerState = Named<ParameterMoments>;

/// What an optimiser remembers of one parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParameterMoments {
    /// Steps taken, as torch counts them.
    pub step: Option<f32>,
    /// Tensors of the parameter's shape by torch's names: `exp_avg` and `exp_avg_sq` (Adam, AdamW),
    /// `momentum_buffer` (SGD), `sum` (Adagrad).
    pub moments: BTreeMap<String, Tensor>,
}

/// Everything that a file says about a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What is not a tensor.
    pub metadata: Metadata,
    /// Parameters and buffers.
    pub weights: StateDict,
    /// Moments of the optimiser; empty where only the network was saved.
    pub optimizer: OptimizerState,
}

/// Whether weights may lose digits on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Weights are taken over exactly; float32 weights may become float64.
    Refuse,
    /// float64 weights may be rounded to float32.
    Nearest,
}

/// A network that was rebuilt from a checkpoint alone.
#[derive(Clone, Debug)]
pub struct Network<T> {
    /// What it is.
    pub architecture: Architecture,
    /// Where its tensors lie.
    pub layout: Layout,
    /// Its numbers.
    pub state: NetworkState<T>,
}

impl Model {
    /// A model of a network's state, without an optimiser.
    ///
    /// # Errors
    /// [`dunnart_flow::Error::Length`] when the state is not laid out by `layout`.
    pub fn new<T: Real + Element>(
        metadata: Metadata,
        layout: &Layout,
        state: &NetworkState<T>,
    ) -> Result<Self> {
        let lengths = [
            (
                "parameters",
                layout.parameter_elements(),
                state.parameters.len(),
            ),
            (
                "running statistics",
                layout.statistic_elements(),
                state.statistics.len(),
            ),
            ("counters", layout.batch_norms(), state.counters.len()),
            (
                "permutations",
                layout.permutations(),
                state.permutations.len(),
            ),
        ];
        for (name, expected, found) in lengths {
            if expected != found {
                let name = name.into();
                return Err(dunnart_flow::Error::Length {
                    name,
                    expected,
                    found,
                }
                .into());
            }
        }
        let mut weights = StateDict::new();
        for &entry in layout.entries() {
            let (name, shape) = checks::entry_spec(layout, entry);
            let data = match entry {
                Entry::Parameter(i) => T::wrap(state.parameter(&layout.parameters()[i]).to_vec()),
                Entry::Buffer(i) => match state.buffer(&layout.buffers()[i]) {
                    BufferValue::Integers(values) => Data::I64(values),
                    BufferValue::Reals(values) => T::wrap(values),
                },
            };
            weights.insert(name, Tensor::from_data(name, shape, data)?)?;
        }
        Ok(Self {
            metadata,
            weights,
            optimizer: OptimizerState::new(),
        })
    }

    /// The validated architecture and its layout.
    ///
    /// # Errors
    /// [`Error::Flow`] for settings that cannot be built, [`Error::Implausible`] for settings that
    /// cannot belong to these tensors.
    pub fn layout(&self) -> Result<(Architecture, Layout)> {
        let bytes = |t: &Tensor| (t.data().len() * t.dtype().bytes()) as u64;
        let total = self.weights.iter().map(|(_, t)| bytes(t)).sum();
        safetensors::layout(&self.metadata, self.weights.len(), total)
    }

    /// Checks everything: metadata, keys, shapes, element types, finite values, moments.
    ///
    /// # Errors
    /// The first thing that does not fit, see [`Error`].
    pub fn check(&self) -> Result<DType> {
        if self.metadata.architecture.settings().is_err() {
            return checks::not_built(self);
        }
        let (architecture, layout) = self.layout()?;
        self.check_with(&architecture, &layout)
    }

    /// Puts weights and moments in the reference's order.
    pub(crate) fn sort(&mut self, layout: &Layout) {
        let mut ranks = HashMap::new();
        for (rank, &entry) in layout.entries().iter().enumerate() {
            ranks.insert(checks::entry_spec(layout, entry).0, rank);
        }
        let rank = |name: &str| ranks.get(name).copied().unwrap_or(usize::MAX);
        self.weights.sort_by_rank(rank);
        self.optimizer.sort_by_rank(rank);
    }

    pub(crate) fn check_with(&self, architecture: &Architecture, layout: &Layout) -> Result<DType> {
        self.metadata.check(architecture)?;
        let precision = checks::state_dict(layout, &self.weights)?;
        checks::optimizer(layout, &self.optimizer, precision)?;
        Ok(precision)
    }

    /// Rebuilds the network: all of it or nothing.
    ///
    /// # Errors
    /// [`Error::KeySet`] with counts and names, [`Error::Shape`], [`Error::ElementType`],
    /// [`Error::Precision`], [`Error::NonFinite`], and [`Error::Flow`] for buffers that contradict
    /// the architecture.
    pub fn network<T: Real + Element>(&self, rounding: Rounding) -> Result<Network<T>> {
        let (architecture, layout) = self.layout()?;
        let found = self.check_with(&architecture, &layout)?;
        if found == DType::F64 && T::DTYPE == DType::F32 && rounding == Rounding::Refuse {
            return Err(Error::Precision {
                wanted: T::DTYPE,
                found,
            });
        }
        let mut state = NetworkState::<T>::blank(&architecture, &layout);
        for &entry in layout.entries() {
            let (name, _) = checks::entry_spec(&layout, entry);
            // The key set was checked above.
            let Some(tensor) = self.weights.get(name) else {
                continue;
            };
            match entry {
                Entry::Parameter(i) => {
                    state.set_parameter(&layout.parameters()[i], &reals::<T>(tensor))?;
                }
                Entry::Buffer(i) => {
                    let spec = &layout.buffers()[i];
                    let value = match spec.kind {
                        BufferKind::Mask(_)
                        | BufferKind::RunningMean(_)
                        | BufferKind::RunningVariance(_) => {
                            BufferValue::Reals(reals::<T>(tensor).into_owned())
                        }
                        _ => BufferValue::Integers(integers(tensor)),
                    };
                    state.set_buffer(spec, &value)?;
                }
            }
        }
        if rounding == Rounding::Nearest {
            check_rounded(&layout, &state)?;
        }
        Ok(Network {
            architecture,
            layout,
            state,
        })
    }

    /// Reads a checkpoint; its content says in which [`Format`] it is.
    ///
    /// # Errors
    /// [`Error::File`] with the path, what is wrong, and the save before this one if it was kept and
    /// is whole. Falling back to it is the caller's decision.
    pub fn read(path: &Path) -> Result<Self> {
        format::read(path).map_err(|fault| {
            let previous = previous_path(path);
            let whole = previous.exists() && format::read(&previous).is_ok();
            Error::File {
                path: path.into(),
                fault: Box::new(fault),
                previous: whole.then_some(previous),
            }
        })
    }

    /// Writes a checkpoint, atomically, in the [`Format`] of the path's ending; equal models give equal
    /// bytes.
    ///
    /// # Errors
    /// What [`Model::check`] refuses is not written: a damaged model never replaces a good file.
    /// [`Error::Write`] when the system refuses; the old file is untouched.
    pub fn write(&self, path: &Path, options: &WriteOptions) -> Result<()> {
        let wrap = |fault| match fault {
            // These name the path themselves.
            Error::Write(_) => fault,
            fault => Error::File {
                path: path.into(),
                fault: Box::new(fault),
                previous: None,
            },
        };
        self.check().map_err(wrap)?;
        format::write(self, path, options).map_err(wrap)
    }

    /// The bytes of the native format.
    ///
    /// # Errors
    /// What [`Model::check`] refuses.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.check()?;
        safetensors::to_bytes(self)
    }

    /// The bytes of dingo's `.pt`.
    ///
    /// # Errors
    /// What [`Model::check`] refuses, and [`Error::Entry`] for a run that dingo has no words for.
    pub fn to_pt_bytes(&self) -> Result<Vec<u8>> {
        self.check()?;
        pt::to_bytes(self)
    }
}

/// Weights that overflowed when they were rounded are not the weights of the file.
fn check_rounded<T: Real + Element>(layout: &Layout, state: &NetworkState<T>) -> Result<()> {
    for spec in layout.parameters() {
        let values = state.parameter(spec);
        let bad = |v: &T| {
            let v = v.to_f64();
            !v.is_finite()
        };
        if let Some(index) = values.iter().position(bad) {
            let value = values[index].to_f64();
            return Err(Error::NonFinite {
                name: spec.name.clone(),
                index,
                value,
            });
        }
    }
    Ok(())
}

fn reals<T: Real + Element>(tensor: &Tensor) -> Cow<'_, [T]> {
    if let Some(values) = tensor.slice::<T>() {
        return Cow::Borrowed(values);
    }
    let convert = |v: f64| T::from_f64(v);
    Cow::Owned(match tensor.data() {
        Data::F32(values) => values.iter().map(|&v| convert(f64::from(v))).collect(),
        Data::F64(values) => values.iter().map(|&v| convert(v)).collect(),
        Data::U8(values) => values.iter().map(|&v| convert(f64::from(v))).collect(),
        // Element types were checked before.
        Data::I32(_) | Data::I64(_) => Vec::new(),
    })
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    match tensor.data() {
        Data::I64(values) => values.clone(),
        Data::I32(values) => values.iter().map(|&v| i64::from(v)).collect(),
        // Element types were checked before.
        _ => Vec::new(),
    }
}
