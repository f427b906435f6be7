//! What computes a step: one trait, and the one place where its implementation is chosen.

use dunnart_flow::eager::{EagerBatch, EagerNetwork, SplinePath, StepOptions, Training};
use dunnart_flow::structure::ParameterIndex;
use dunnart_flow::{Architecture, Layout, TrainableSet, TransformKind};
use tch::{Device, Kind, Tensor};

use crate::Result;
use crate::settings::Compile;
use crate::storage::Storage;

mod compiled;

/// Which implementation computes steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// A plan compiled for the trainable set: pure Rust with hand-written gradients, on CPUs.
    Compiled,
    /// libtorch operations with autograd, the spline by the fused kernel where the device is a CPU.
    #[default]
    Eager,
    /// libtorch operations throughout.
    EagerTensorSpline,
}

impl EngineKind {
    /// Names of the kinds.
    pub const NAMES: [&'static str; 3] = ["compiled", "eager", "eager-tensor-spline"];

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "compiled" => Some(Self::Compiled),
            "eager" => Some(Self::Eager),
            "eager-tensor-spline" => Some(Self::EagerTensorSpline),
            _ => None,
        }
    }

    /// What `local.torch_compile` means for a network, and why it is not compiled where it was to be.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] when compilation is required and not possible.
    pub fn choose(
        compile: Compile,
        architecture: &Architecture,
    ) -> Result<(Self, Option<&'static str>)> {
        let masked = architecture.coupling().kind == TransformKind::Autoregressive;
        match compile {
            Compile::Off => Ok((Self::Eager, None)),
            Compile::On | Compile::Require if !masked => Ok((Self::Compiled, None)),
            Compile::On => Ok((
                Self::Eager,
                Some(
                    "autoregressive steps are not compiled: training runs operation by operation, \
                     several times slower; `base_transform_type: rq-coupling` is compiled",
                ),
            )),
            Compile::Require => Err(crate::Error::Unsupported {
                name: "local.torch_compile".into(),
                value: "require".into(),
                remedy: "autoregressive steps are not compiled; set it to true or false, or use \
                         `base_transform_type: rq-coupling`"
                    .into(),
            }),
        }
    }
}

/// Computes losses, gradients and test losses of one network with one trainable set.
///
/// An engine belongs to the trainable set it was made for: a stage that changes the set makes a new
/// engine, so that nothing traced or captured for the old set can survive.
pub trait StepEngine {
    /// Loss `-mean(log q)` of a training batch; its gradient times `options.weight` is added to (or
    /// replaces) the trainable part of `storage.gradients`.
    ///
    /// `ready` is called with each parameter whose gradient is complete. The loss has no dimension
    /// and is not waited for.
    ///
    /// # Errors
    /// [`crate::Error::Network`] when the batch does not fit the network.
    fn loss_and_gradients(
        &mut self,
        storage: &mut Storage,
        batch: &EagerBatch,
        options: &StepOptions,
        ready: &mut (dyn FnMut(ParameterIndex) + Send),
    ) -> Result<Tensor>;

    /// Sum of `-log q` over a batch's rows in evaluation mode, added up in double precision.
    ///
    /// Never under autocast, so that test losses are comparable whatever a stage trains with.
    ///
    /// # Errors
    /// As [`StepEngine::loss_and_gradients`].
    fn evaluate(&mut self, storage: &Storage, batch: &EagerBatch) -> Result<f64>;
}

/// Makes the engine of a stage; its compiled steps run on `threads`, or on rayon's current pool.
///
/// # Errors
/// [`crate::Error::Network`] when the network has a part that this kind cannot compute.
pub fn engine(
    kind: EngineKind,
    architecture: &Architecture,
    layout: &Layout,
    storage: &Storage,
    trainable: &TrainableSet,
    threads: Option<usize>,
) -> Result<Box<dyn StepEngine>> {
    let (_, device) = storage.options();
    if kind == EngineKind::Compiled {
        return compiled::engine(architecture, layout, storage, trainable, threads);
    }
    let spline = match (kind, device) {
        (EngineKind::Eager, Device::Cpu) => SplinePath::Fused,
        (_, _) => SplinePath::Tensor,
    };
    let network = EagerNetwork::new(architecture, layout, spline)?;
    let training = network.training(&storage.network, &storage.gradients, trainable)?;
    Ok(Box::new(EagerEngine { network, training }))
}

struct EagerEngine {
    network: EagerNetwork,
    training: Training,
}

impl StepEngine for EagerEngine {
    fn loss_and_gradients(
        &mut self,
        storage: &mut Storage,
        batch: &EagerBatch,
        options: &StepOptions,
        ready: &mut (dyn FnMut(ParameterIndex) + Send),
    ) -> Result<Tensor> {
        Ok(self
            .training
            .loss_and_gradients(&mut storage.network, batch, options, ready)?)
    }

    fn evaluate(&mut self, storage: &Storage, batch: &EagerBatch) -> Result<f64> {
        let log_prob = self.network.evaluation(&storage.network)?.log_prob(batch)?;
        let sum = log_prob.f_to_kind(Kind::Double)?.f_sum(Kind::Double)?;
        Ok(-f64::try_from(&sum)?)
    }
}
