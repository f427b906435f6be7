//! The compiled plan as an engine: no autograd, nothing allocated after the first step.

use std::sync::Arc;

use dunnart_flow::eager::{EagerBatch, StepOptions};
use dunnart_flow::plan::{Mode, Plan, PlanKey, PlanStep, Scalar};
use dunnart_flow::reduction::{BatchReduction, LocalReduction};
use dunnart_flow::structure::ParameterIndex;
use dunnart_flow::{Architecture, Batch, Layout, TrainableSet};
use dunnart_torch_shim::{Element, as_mut_slice, as_slice};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tch::{Kind, Tensor};

use super::StepEngine;
use crate::storage::Storage;
use crate::{Error, Result};

/// Steps through plans made for one trainable set.
///
/// A plan is made at the first batch and serves every batch of at most as many rows; evaluation has
/// a plan of its own.
pub(super) struct CompiledEngine<T> {
    architecture: Architecture,
    layout: Layout,
    permutations: Vec<Vec<usize>>,
    trainable: TrainableSet,
    reduction: Arc<dyn BatchReduction>,
    training: Option<Plan<T>>,
    evaluation: Option<Plan<T>>,
    log_prob: Vec<T>,
    pool: Option<ThreadPool>,
}

/// Calls on a pool, or on the current one.
fn on<R: Send>(pool: Option<&ThreadPool>, call: impl FnOnce() -> R + Send) -> R {
    match pool {
        Some(pool) => pool.install(call),
        None => call(),
    }
}

impl<T: Scalar + Element> CompiledEngine<T> {
    pub(super) fn new(
        architecture: &Architecture,
        layout: &Layout,
        storage: &Storage,
        trainable: &TrainableSet,
        threads: Option<usize>,
    ) -> Result<Self> {
        let pool = threads.map(|count| ThreadPoolBuilder::new().num_threads(count).build());
        let pool = pool.transpose().map_err(|error| Error::State {
            name: "local.num_threads".into(),
            expected: "threads that can be started".into(),
            found: error.to_string(),
        })?;
        let mut engine = Self {
            architecture: architecture.clone(),
            layout: layout.clone(),
            permutations: storage.network.permutations.clone(),
            trainable: trainable.clone(),
            reduction: Arc::new(LocalReduction),
            training: None,
            evaluation: None,
            log_prob: Vec::new(),
            pool,
        };
        // What the plan cannot do is said before the first batch.
        engine.evaluation = Some(engine.plan(1, Mode::Evaluation)?);
        Ok(engine)
    }

    fn plan(&self, rows: usize, mode: Mode) -> Result<Plan<T>> {
        let key = PlanKey {
            rows,
            trainable: self.trainable.clone(),
            mode,
        };
        Ok(Plan::new(
            &self.architecture,
            &self.layout,
            &self.permutations,
            key,
        )?)
    }

    /// Makes the plan of a mode if there is none that holds so many rows.
    fn prepare(&mut self, rows: usize, mode: Mode) -> Result<()> {
        let slot = match mode {
            Mode::Training => &self.training,
            Mode::Evaluation => &self.evaluation,
        };
        if slot.as_ref().is_some_and(|plan| plan.key().rows >= rows) {
            return Ok(());
        }
        let plan = Some(self.plan(rows, mode)?);
        match mode {
            Mode::Training => self.training = plan,
            Mode::Evaluation => self.evaluation = plan,
        }
        Ok(())
    }
}

/// The elements of an optional tensor of a batch; none where it is absent.
fn elements<T: Element>(tensor: Option<&Tensor>) -> Result<&[T]> {
    match tensor {
        Some(tensor) => Ok(as_slice(tensor)?),
        None => Ok(&[]),
    }
}

fn host<T: Element>(batch: &EagerBatch) -> Result<Batch<'_, T>> {
    Ok(Batch {
        theta: as_slice(&batch.theta)?,
        observation: elements(batch.observation.as_ref())?,
        context_parameters: elements(batch.context_parameters.as_ref())?,
        samples: &batch.samples,
    })
}

fn missing_plan() -> Error {
    Error::State {
        name: "compiled step".into(),
        expected: "a plan".into(),
        found: "none".into(),
    }
}

impl<T: Scalar + Element> StepEngine for CompiledEngine<T> {
    fn loss_and_gradients(
        &mut self,
        storage: &mut Storage,
        batch: &EagerBatch,
        options: &StepOptions,
        ready: &mut (dyn FnMut(ParameterIndex) + Send),
    ) -> Result<Tensor> {
        if options.autocast.is_some() {
            return Err(Error::Unsupported {
                name: "automatic_mixed_precision".into(),
                value: "true".into(),
                remedy: "the compiled step computes in float32; set `local.torch_compile: false`"
                    .into(),
            });
        }
        let host = host::<T>(batch)?;
        self.prepare(host.rows(&self.architecture)?, Mode::Training)?;
        let plan = self.training.as_mut().ok_or_else(missing_plan)?;
        let step = PlanStep {
            dropout: options.dropout,
            weight: options.weight,
            accumulate: options.accumulate,
        };
        let network = &mut storage.network;
        let parameters = as_slice(&network.parameters)?;
        let statistics = as_mut_slice(&mut network.statistics)?;
        let counters = &mut network.counters;
        let gradients = as_mut_slice(&mut storage.gradients)?;
        let reduction = self.reduction.as_ref();
        let loss = on(self.pool.as_ref(), || {
            plan.loss_and_gradients(
                parameters, statistics, counters, &host, &step, gradients, reduction, ready,
            )
        })?;
        Ok(Tensor::from(loss))
    }

    fn evaluate(&mut self, storage: &Storage, batch: &EagerBatch) -> Result<f64> {
        let host = host::<T>(batch)?;
        let rows = host.rows(&self.architecture)?;
        self.prepare(rows, Mode::Evaluation)?;
        self.log_prob.resize(rows, T::ZERO);
        let plan = self.evaluation.as_mut().ok_or_else(missing_plan)?;
        let network = &storage.network;
        let parameters = as_slice(&network.parameters)?;
        let statistics = as_slice(&network.statistics)?;
        let log_prob = self.log_prob.as_mut_slice();
        on(self.pool.as_ref(), || {
            plan.log_prob(parameters, statistics, &host, log_prob, None)
        })?;
        Ok(-self
            .log_prob
            .iter()
            .map(|value| value.to_f64())
            .sum::<f64>())
    }
}

/// The engine in the storage's precision.
pub(super) fn engine(
    architecture: &Architecture,
    layout: &Layout,
    storage: &Storage,
    trainable: &TrainableSet,
    threads: Option<usize>,
) -> Result<Box<dyn StepEngine>> {
    match storage.options().0 {
        Kind::Double => Ok(Box::new(CompiledEngine::<f64>::new(
            architecture,
            layout,
            storage,
            trainable,
            threads,
        )?)),
        _ => Ok(Box::new(CompiledEngine::<f32>::new(
            architecture,
            layout,
            storage,
            trainable,
            threads,
        )?)),
    }
}
