//! Densities, samples, gradients and training of the eager network.

use dunnart_flow::eager::{
    EagerBatch, EagerNetwork, EagerStorage, SplinePath, StepOptions, TensorReal,
};
use dunnart_flow::{Architecture, Batch, Dropout, Layout, NetworkState, TrainableSet};
use dunnart_torch_shim::{AdamSettings, as_slice, tensor_from_vec};
use dunnart_train::engine::{EngineKind, engine};
use dunnart_train::optimizer::{Method, Optimizer};
use dunnart_train::step::Stepper;
use dunnart_train::storage::Storage;
use tch::{Device, Tensor};

use super::network::{self, AdamNumbers, Form, Inputs, Pass, StageStart, Stepped};
use crate::verify::Result;
use crate::verify::case::{Case, Kind};
use crate::verify::paths::{Computed, failed};

pub(super) fn compute<T: TensorReal>(case: &Case, path: SplinePath) -> Result<Computed> {
    let (architecture, layout) = case.network()?;
    let network =
        EagerNetwork::new(architecture, layout, path).map_err(|error| failed(case, error))?;
    let eager = Eager {
        case,
        architecture,
        layout,
        network,
        path,
    };
    network::compute::<T, _>(case, &eager)
}

struct Eager<'a> {
    case: &'a Case,
    architecture: &'a Architecture,
    layout: &'a Layout,
    network: EagerNetwork,
    path: SplinePath,
}

/// What the training loop steps with, and the numbers it moves.
struct Stage {
    stepper: Stepper,
    storage: Storage,
    rate: f64,
}

impl Eager<'_> {
    fn fail(&self, error: impl std::fmt::Display) -> crate::verify::Error {
        failed(self.case, error)
    }

    fn storage<T: TensorReal>(&self, state: &NetworkState<T>) -> Result<EagerStorage> {
        EagerStorage::from_state(self.layout, state, Device::Cpu).map_err(|e| self.fail(e))
    }

    fn batch<T: TensorReal>(&self, batch: &Batch<'_, T>) -> Result<EagerBatch> {
        EagerBatch::new(self.architecture, batch, Device::Cpu).map_err(|e| self.fail(e))
    }

    fn values<T: TensorReal>(&self, tensor: &Tensor) -> Result<Vec<T>> {
        let tensor = tensor.detach().contiguous();
        Ok(as_slice(&tensor).map_err(|e| self.fail(e))?.to_vec())
    }
}

impl<T: TensorReal> Form<T> for Eager<'_> {
    type Stage = Stage;

    fn evaluate(
        &self,
        state: &NetworkState<T>,
        inputs: &Inputs<'_, T>,
        computed: &mut Computed,
    ) -> Result<()> {
        let storage = self.storage(state)?;
        let fail = |error| self.fail(error);
        let evaluation = self.network.evaluation(&storage).map_err(fail)?;
        let batch = self.batch(&inputs.all())?;
        let log_prob = evaluation.log_prob(&batch).map_err(fail)?;
        computed.reals("eval.log_prob", &self.values::<T>(&log_prob)?);
        let (noise, _) = evaluation.noise(&batch).map_err(fail)?;
        computed.reals("eval.noise", &self.values::<T>(&noise)?);
        let context = evaluation.embed(&batch).map_err(fail)?;
        if let (Kind::Posterior, Some(context)) = (self.case.kind, &context) {
            computed.reals("eval.context", &self.values::<T>(context)?);
        }
        let noise = self.case.numbers::<T>("sample.noise")?;
        let shape = [-1, self.architecture.parameters() as i64];
        let count = noise.len() as i64;
        let noise = tensor_from_vec(noise, &[count])
            .map_err(|e| self.fail(e))?
            .reshape(shape);
        let (theta, log_prob) = evaluation.sample(&noise, context.as_ref()).map_err(fail)?;
        computed.reals("sample.theta", &self.values::<T>(&theta)?);
        computed.reals("sample.log_prob", &self.values::<T>(&log_prob)?);
        Ok(())
    }

    fn pass(
        &self,
        state: NetworkState<T>,
        trainable: TrainableSet,
        batch: &Batch<'_, T>,
    ) -> Result<Pass<T>> {
        let mut storage = self.storage(&state)?;
        let gradients = storage.zeros().map_err(|e| self.fail(e))?;
        let mut training = self
            .network
            .training(&storage, &gradients, &trainable)
            .map_err(|e| self.fail(e))?;
        let batch = self.batch(batch)?;
        let mut ready = Vec::new();
        let options = StepOptions::new(Dropout::new(0, 0, 0));
        let loss = training
            .loss_and_gradients(&mut storage, &batch, &options, &mut |i| ready.push(i))
            .map_err(|e| self.fail(e))?;
        let log_prob = match training.log_prob() {
            Some(log_prob) => self.values(log_prob)?,
            None => Vec::new(),
        };
        Ok(Pass {
            loss: T::from_f64(f64::try_from(&loss).map_err(|e| self.fail(e))?),
            gradients: self.values(&gradients)?,
            ready,
            log_prob,
            state: storage.to_state().map_err(|e| self.fail(e))?,
        })
    }

    fn begin(&self, start: StageStart<T>) -> Result<Stage> {
        let storage = Storage::from_state(self.layout, &start.state, Device::Cpu)
            .map_err(|e| self.fail(e))?;
        let kind = match self.path {
            SplinePath::Fused => EngineKind::Eager,
            SplinePath::Tensor => EngineKind::EagerTensorSpline,
        };
        let trainable = &start.trainable;
        let engine = engine(
            kind,
            self.architecture,
            self.layout,
            &storage,
            trainable,
            None,
        )
        .map_err(|e| self.fail(e))?;
        let method = Method::Adam(settings(&start.adam));
        let optimizer = Optimizer::new(method, self.layout, trainable, storage.options())
            .map_err(|e| self.fail(e))?;
        Ok(Stage {
            stepper: Stepper {
                engine,
                optimizer,
                clip_grad_norm: start.clip_grad_norm,
                autocast: None,
            },
            storage,
            rate: start.adam.rate,
        })
    }

    fn step(&self, stage: &mut Stage, batches: &[Batch<'_, T>]) -> Result<Stepped> {
        let batches = batches
            .iter()
            .map(|batch| self.batch(batch))
            .collect::<Result<Vec<_>>>()?;
        let dropout = Dropout::new(0, 0, 0);
        let (losses, norm) = stage
            .stepper
            .window(&mut stage.storage, &batches, dropout, stage.rate)
            .map_err(|e| self.fail(e))?;
        Ok(Stepped { losses, norm })
    }

    fn end(&self, stage: Stage) -> Result<NetworkState<T>> {
        stage.storage.to_state().map_err(|e| self.fail(e))
    }
}

/// The numbers as libtorch's fused operation takes them.
fn settings(adam: &AdamNumbers) -> AdamSettings {
    AdamSettings {
        learning_rate: adam.rate,
        beta1: adam.betas[0],
        beta2: adam.betas[1],
        epsilon: adam.epsilon,
        weight_decay: adam.weight_decay,
        decoupled: adam.decoupled,
        ..AdamSettings::default()
    }
}
