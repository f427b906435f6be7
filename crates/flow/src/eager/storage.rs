//! State and batches as tensors.

use dunnart_elementwise::Real;
use dunnart_torch_shim::{Element, as_slice, tensor_from_vec};
use tch::{Device, Kind, Tensor};

use crate::{Architecture, Batch, Error, Layout, NetworkState, Result};

/// A number type that tensors hold and networks compute in: f32 or f64.
pub trait TensorReal: Real + Element {}

impl<T: Real + Element> TensorReal for T {}

/// The numbers of a network in flat tensors: what a [`NetworkState`] is on a device.
///
/// Parameters and statistics are changed in place by training; whoever holds a shallow clone sees it.
#[derive(Debug)]
pub struct EagerStorage {
    /// All parameters in registration order.
    pub parameters: Tensor,
    /// Running means and variances of the batch norms.
    pub statistics: Tensor,
    /// Batches seen by each batch norm.
    pub counters: Vec<i64>,
    /// The fixed permutations, in the density direction.
    pub permutations: Vec<Vec<usize>>,
}

impl EagerStorage {
    /// Copies a state to a device.
    ///
    /// # Errors
    /// [`Error::Length`] when the state does not fit the layout.
    pub fn from_state<T: TensorReal>(
        layout: &Layout,
        state: &NetworkState<T>,
        device: Device,
    ) -> Result<Self> {
        let storage = Self {
            parameters: flat(&state.parameters, device)?,
            statistics: flat(&state.statistics, device)?,
            counters: state.counters.clone(),
            permutations: state.permutations.clone(),
        };
        storage.check(layout)?;
        Ok(storage)
    }

    /// Copies the state back to host memory.
    ///
    /// # Errors
    /// [`Error::Torch`] when `T` is not the storage's precision.
    pub fn to_state<T: TensorReal>(&self) -> Result<NetworkState<T>> {
        Ok(NetworkState {
            parameters: host(&self.parameters)?,
            statistics: host(&self.statistics)?,
            counters: self.counters.clone(),
            permutations: self.permutations.clone(),
        })
    }

    /// Precision of the network.
    pub fn kind(&self) -> Kind {
        self.parameters.kind()
    }

    /// Device the network lies on.
    pub fn device(&self) -> Device {
        self.parameters.device()
    }

    /// Zeros of the size, precision and device of the parameters: for gradients and moments.
    ///
    /// # Errors
    /// [`Error::Torch`], out of memory above all.
    pub fn zeros(&self) -> Result<Tensor> {
        Ok(self.parameters.f_zeros_like()?)
    }

    /// Checks sizes and precision against a layout.
    pub(super) fn check(&self, layout: &Layout) -> Result<()> {
        check_flat(
            "parameters",
            &self.parameters,
            layout.parameter_elements(),
            self.kind(),
        )?;
        check_flat(
            "running statistics",
            &self.statistics,
            layout.statistic_elements(),
            self.kind(),
        )?;
        for (name, expected, found) in [
            ("batch counters", layout.batch_norms(), self.counters.len()),
            (
                "permutations",
                layout.permutations(),
                self.permutations.len(),
            ),
        ] {
            if expected != found {
                return Err(Error::Length {
                    name: name.into(),
                    expected,
                    found,
                });
            }
        }
        match self.kind() {
            Kind::Float | Kind::Double => Ok(()),
            other => Err(unsupported_kind(other)),
        }
    }
}

fn unsupported_kind(kind: Kind) -> Error {
    Error::Unsupported {
        what: format!("precision {kind:?}"),
        where_: "in the eager network".into(),
        remedy: "use float32 or float64; autocast has its own option".into(),
    }
}

/// Refuses a flat tensor of another size or precision.
pub(super) fn check_flat(name: &str, tensor: &Tensor, elements: usize, kind: Kind) -> Result<()> {
    if tensor.dim() != 1 || tensor.numel() != elements {
        return Err(Error::Shape {
            name: name.into(),
            expected: vec![elements],
            found: shape(tensor),
        });
    }
    if tensor.kind() != kind {
        return Err(Error::Torch(format!(
            "tensor `{name}`: expected {kind:?}, got {:?}",
            tensor.kind()
        )));
    }
    Ok(())
}

/// The shape of a tensor in our own numbers.
pub(super) fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.size().iter().map(|&size| size as usize).collect()
}

fn flat<T: Element>(values: &[T], device: Device) -> Result<Tensor> {
    rows(values, &[values.len() as i64], device)
}

fn rows<T: Element>(values: &[T], shape: &[i64], device: Device) -> Result<Tensor> {
    Ok(tensor_from_vec(values.to_vec(), shape)?.f_to(device)?)
}

fn host<T: Element>(tensor: &Tensor) -> Result<Vec<T>> {
    let tensor = tensor.f_detach()?.f_to(Device::Cpu)?.f_contiguous()?;
    Ok(as_slice(&tensor)?.to_vec())
}

/// A batch as tensors on a device.
#[derive(Debug)]
pub struct EagerBatch {
    /// Standardised parameters, `[B, D]`.
    pub theta: Tensor,
    /// Observations, `[B, I, channels, F]` with an embedding, `[B, C]` without; `None` if unconditional.
    pub observation: Option<Tensor>,
    /// Context parameters, `[B, P]`.
    pub context_parameters: Option<Tensor>,
    /// Index of every row in the whole data set: the key of its dropout masks. Empty in evaluation.
    pub samples: Vec<u64>,
}

impl EagerBatch {
    /// Copies a batch to a device.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit the architecture.
    pub fn new<T: TensorReal>(
        architecture: &Architecture,
        batch: &Batch<'_, T>,
        device: Device,
    ) -> Result<Self> {
        let count = batch.rows(architecture)? as i64;
        let theta = rows(
            batch.theta,
            &[count, architecture.parameters() as i64],
            device,
        )?;
        let observation = match (architecture.embedding(), architecture.context()) {
            (Some(e), _) => {
                let [i, channels, bins] = [e.detectors, e.channels, e.bins].map(|n| n as i64);
                let shape = [count, i, channels, bins];
                Some(rows(batch.observation, &shape, device)?)
            }
            (None, 0) => None,
            (None, context) => Some(rows(batch.observation, &[count, context as i64], device)?),
        };
        let context_parameters = match architecture.context_parameters() {
            0 => None,
            p => Some(rows(batch.context_parameters, &[count, p as i64], device)?),
        };
        Ok(Self {
            theta,
            observation,
            context_parameters,
            samples: batch.samples.to_vec(),
        })
    }

    /// Number B of rows, after checking every shape and precision.
    pub(super) fn rows(&self, architecture: &Architecture, kind: Kind) -> Result<usize> {
        let count = self.theta.size().first().copied().unwrap_or(0);
        let d = architecture.parameters() as i64;
        check_tensor("theta", &self.theta, &[count, d], kind)?;
        self.check_context(architecture, count, kind)?;
        Ok(count as usize)
    }

    /// Checks what the context is made of, for `count` rows.
    pub(super) fn check_context(
        &self,
        architecture: &Architecture,
        count: i64,
        kind: Kind,
    ) -> Result<()> {
        let observation = match architecture.embedding() {
            Some(e) => Some(vec![
                count,
                e.detectors as i64,
                e.channels as i64,
                e.bins as i64,
            ]),
            None => match architecture.context() as i64 {
                0 => None,
                context => Some(vec![count, context]),
            },
        };
        check_optional("observation", self.observation.as_ref(), observation, kind)?;
        let context_parameters = match architecture.context_parameters() as i64 {
            0 => None,
            p => Some(vec![count, p]),
        };
        check_optional(
            "context parameters",
            self.context_parameters.as_ref(),
            context_parameters,
            kind,
        )
    }
}

fn check_optional(
    name: &str,
    tensor: Option<&Tensor>,
    shape: Option<Vec<i64>>,
    kind: Kind,
) -> Result<()> {
    match (tensor, shape) {
        (None, None) => Ok(()),
        (Some(tensor), Some(shape)) => check_tensor(name, tensor, &shape, kind),
        (found, shape) => Err(Error::Shape {
            name: name.into(),
            expected: shape.map_or_else(Vec::new, |s| s.iter().map(|&n| n as usize).collect()),
            found: found.map_or_else(Vec::new, self::shape),
        }),
    }
}

/// Refuses a tensor of another shape or precision.
pub(super) fn check_tensor(
    name: &str,
    tensor: &Tensor,
    expected: &[i64],
    kind: Kind,
) -> Result<()> {
    if tensor.size() != expected {
        return Err(Error::Shape {
            name: name.into(),
            expected: expected.iter().map(|&n| n as usize).collect(),
            found: shape(tensor),
        });
    }
    if tensor.kind() != kind {
        return Err(Error::Torch(format!(
            "tensor `{name}`: expected {kind:?}, got {:?}",
            tensor.kind()
        )));
    }
    Ok(())
}
