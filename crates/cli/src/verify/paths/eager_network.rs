//! Densities, samples, gradients and training of the eager network.

use dunnart_flow::eager::{
    EagerBatch, EagerNetwork, EagerStorage, SplinePath, StepOptions, TensorReal,
};
use dunnart_flow::{Architecture, Batch, Dropout, Layout, TrainableSet};
use dunnart_torch_shim::{AdamSettings, as_slice, tensor_from_vec};
use dunnart_train::engine::{EngineKind, engine};
use dunnart_train::optimizer::{Method, Optimizer};
use dunnart_train::step::Stepper;
use dunnart_train::storage::Storage;
use tch::{Device, Tensor};

use crate::verify::Result;
use crate::verify::case::{Case, Kind};
use crate::verify::paths::{Computed, failed};

pub(super) fn compute<T: TensorReal>(case: &Case, path: SplinePath) -> Result<Computed> {
    let run = Run::<T>::new(case, path)?;
    let mut computed = Computed::default();
    match case.kind {
        Kind::Spline => {}
        Kind::Flow => {
            run.evaluate(&mut computed)?;
            run.train_once("train.", true, &mut computed)?;
        }
        Kind::Posterior => {
            run.evaluate(&mut computed)?;
            run.train_once("frozen_rb.", true, &mut computed)?;
            run.train_once("all_trainable.", false, &mut computed)?;
            run.stages(&mut computed)?;
        }
        Kind::Training => run.accumulate(&mut computed)?,
    }
    Ok(computed)
}

/// What all computations of a case share.
struct Run<'a, T> {
    case: &'a Case,
    architecture: &'a Architecture,
    layout: &'a Layout,
    network: EagerNetwork,
    path: SplinePath,
    number: std::marker::PhantomData<T>,
}

impl<'a, T: TensorReal> Run<'a, T> {
    fn new(case: &'a Case, path: SplinePath) -> Result<Self> {
        let (architecture, layout) = case.network()?;
        let network =
            EagerNetwork::new(architecture, layout, path).map_err(|error| failed(case, error))?;
        Ok(Self {
            case,
            architecture,
            layout,
            network,
            path,
            number: std::marker::PhantomData,
        })
    }

    fn fail(&self, error: impl std::fmt::Display) -> crate::verify::Error {
        failed(self.case, error)
    }

    fn storage(&self) -> Result<EagerStorage> {
        let state = self.case.state::<T>()?;
        EagerStorage::from_state(self.layout, &state, Device::Cpu).map_err(|e| self.fail(e))
    }

    /// All inputs, row by row, of `rows` rows from row `first` on.
    fn batch(&self, first: usize, rows: usize) -> Result<EagerBatch> {
        let part = |key: &str, width: usize| -> Result<Vec<T>> {
            if width == 0 {
                return Ok(vec![]);
            }
            let all = self.case.numbers::<T>(key)?;
            let range = first * width..(first + rows) * width;
            let found = all.get(range).map(<[T]>::to_vec);
            found.ok_or_else(|| self.fail(format!("`{key}` has too few rows")))
        };
        let a = self.architecture;
        let observation = match self.case.kind {
            Kind::Posterior => "input.strain",
            _ => "input.context",
        };
        let theta = part("input.theta", a.parameters())?;
        let observation = part(observation, a.observation())?;
        let context_parameters = part("input.gnpe_proxies", a.context_parameters())?;
        let samples: Vec<u64> = (0..rows as u64).collect();
        let batch = Batch {
            theta: &theta,
            observation: &observation,
            context_parameters: &context_parameters,
            samples: &samples,
        };
        EagerBatch::new(a, &batch, Device::Cpu).map_err(|e| self.fail(e))
    }

    fn values(&self, tensor: &Tensor) -> Result<Vec<T>> {
        let tensor = tensor.detach().contiguous();
        Ok(as_slice(&tensor).map_err(|e| self.fail(e))?.to_vec())
    }

    fn evaluate(&self, computed: &mut Computed) -> Result<()> {
        let storage = self.storage()?;
        let fail = |error| self.fail(error);
        let evaluation = self.network.evaluation(&storage).map_err(fail)?;
        let batch = self.batch(0, self.case.rows()?)?;
        let log_prob = evaluation.log_prob(&batch).map_err(fail)?;
        computed.reals("eval.log_prob", &self.values(&log_prob)?);
        let (noise, _) = evaluation.noise(&batch).map_err(fail)?;
        computed.reals("eval.noise", &self.values(&noise)?);
        let context = evaluation.embed(&batch).map_err(fail)?;
        if let (Kind::Posterior, Some(context)) = (self.case.kind, &context) {
            computed.reals("eval.context", &self.values(context)?);
        }
        let noise = self.case.numbers::<T>("sample.noise")?;
        let shape = [-1, self.architecture.parameters() as i64];
        let noise = tensor_from_vec(noise.clone(), &[noise.len() as i64])
            .map_err(|e| self.fail(e))?
            .reshape(shape);
        let (theta, log_prob) = evaluation.sample(&noise, context.as_ref()).map_err(fail)?;
        computed.reals("sample.theta", &self.values(&theta)?);
        computed.reals("sample.log_prob", &self.values(&log_prob)?);
        Ok(())
    }

    fn trainable(&self, frozen: bool) -> TrainableSet {
        TrainableSet::with_reduced_basis(self.layout, frozen)
    }

    fn options() -> StepOptions {
        StepOptions::new(Dropout::new(0, 0, 0))
    }

    /// One training pass from `state.*`: loss, gradients, and the running statistics after it.
    fn train_once(&self, prefix: &str, frozen: bool, computed: &mut Computed) -> Result<()> {
        let mut storage = self.storage()?;
        let gradients = storage.zeros().map_err(|e| self.fail(e))?;
        let trainable = self.trainable(frozen);
        let mut training = self
            .network
            .training(&storage, &gradients, &trainable)
            .map_err(|e| self.fail(e))?;
        let batch = self.batch(0, self.case.rows()?)?;
        let mut ready = Vec::new();
        let loss = training
            .loss_and_gradients(&mut storage, &batch, &Self::options(), &mut |i| {
                ready.push(i)
            })
            .map_err(|e| self.fail(e))?;
        computed.reals(format!("{prefix}loss"), &self.values(&loss)?);
        let gradients = self.values(&gradients)?;
        let grad = match self.case.kind {
            Kind::Posterior => format!("{prefix}grad."),
            _ => "grad.".into(),
        };
        for index in ready {
            let spec = &self.layout.parameters()[index];
            let key = format!("{grad}{}", self.case.strip(&spec.name));
            computed.reals(key, &gradients[spec.range()]);
        }
        if self.case.kind == Kind::Flow {
            if let Some(log_prob) = training.log_prob() {
                computed.reals("train.log_prob", &self.values(log_prob)?);
            }
            let state = storage.to_state::<T>().map_err(|e| self.fail(e))?;
            for (key, values) in self.case.spell("train.after.", &state)? {
                if key.ends_with(".running_mean") || key.ends_with(".running_var") {
                    computed.insert(key, values);
                }
            }
        }
        Ok(())
    }

    /// What the training loop steps with.
    fn stepper(
        &self,
        storage: &Storage,
        trainable: &TrainableSet,
        settings: AdamSettings,
        clip_grad_norm: Option<f64>,
    ) -> Result<Stepper> {
        let kind = match self.path {
            SplinePath::Fused => EngineKind::Eager,
            SplinePath::Tensor => EngineKind::EagerTensorSpline,
        };
        let engine = engine(
            kind,
            self.architecture,
            self.layout,
            storage,
            trainable,
            None,
        )
        .map_err(|e| self.fail(e))?;
        let method = Method::Adam(settings);
        let optimizer = Optimizer::new(method, self.layout, trainable, storage.options())
            .map_err(|e| self.fail(e))?;
        Ok(Stepper {
            engine,
            optimizer,
            clip_grad_norm,
            autocast: None,
        })
    }

    fn training_storage(&self) -> Result<Storage> {
        let state = self.case.state::<T>()?;
        Storage::from_state(self.layout, &state, Device::Cpu).map_err(|e| self.fail(e))
    }

    fn settings(&self, at: &str, decoupled: bool) -> Result<AdamSettings> {
        let optional =
            |name: &str, default: f64| self.case.number(&format!("{at}/{name}")).unwrap_or(default);
        let default = AdamSettings::default();
        Ok(AdamSettings {
            learning_rate: self.case.number(&format!("{at}/lr"))?,
            beta1: optional("betas/0", default.beta1),
            beta2: optional("betas/1", default.beta2),
            epsilon: optional("eps", default.epsilon),
            weight_decay: optional("weight_decay", 0.0),
            decoupled,
            ..default
        })
    }

    /// Two stages of fused Adam on one batch, frozen and free, each with a new optimiser.
    fn stages(&self, computed: &mut Computed) -> Result<()> {
        let mut storage = self.training_storage()?;
        let batch = self.batch(0, self.case.rows()?)?;
        let mut losses = Vec::new();
        let mut stage = 0;
        while let Some(description) = self.case.value(&format!("/trajectory/{stage}")) {
            let frozen = description["freeze_rb_layer"].as_bool().unwrap_or(false);
            let settings = self.settings(&format!("/trajectory/{stage}"), false)?;
            let mut stepper = self.stepper(&storage, &self.trainable(frozen), settings, None)?;
            for _ in 0..self.case.count(&format!("/trajectory/{stage}/steps"))? {
                let batches = std::slice::from_ref(&batch);
                losses.extend(
                    self.window(&mut stepper, &mut storage, batches, &settings)?
                        .0,
                );
            }
            stage += 1;
        }
        computed.reals("trajectory.loss", &losses);
        self.finals(&storage, computed)
    }

    /// One optimiser step of the training loop: losses of the micro-batches, norm before clipping.
    fn window(
        &self,
        stepper: &mut Stepper,
        storage: &mut Storage,
        batches: &[EagerBatch],
        settings: &AdamSettings,
    ) -> Result<(Vec<f64>, Option<f64>)> {
        let dropout = Dropout::new(0, 0, 0);
        stepper
            .window(storage, batches, dropout, settings.learning_rate)
            .map_err(|e| self.fail(e))
    }

    fn finals(&self, storage: &Storage, computed: &mut Computed) -> Result<()> {
        let state = storage.to_state::<T>().map_err(|e| self.fail(e))?;
        for (key, values) in self.case.spell("trajectory.final.", &state)? {
            computed.insert(key, values);
        }
        Ok(())
    }

    /// AdamW over accumulated micro-batches, the gradient's norm clipped.
    fn accumulate(&self, computed: &mut Computed) -> Result<()> {
        let mut storage = self.training_storage()?;
        let each = self
            .case
            .count("/gradient_updates_per_optimizer_step")?
            .max(1);
        let rows = self.case.count("/micro_batch_size")?;
        let limit = self.case.number("/clip_grad_norm")?;
        let settings = self.settings("/optimizer", true)?;
        let mut stepper = self.stepper(&storage, &self.trainable(false), settings, Some(limit))?;
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for window in 0..self.case.count("/micro_batches")? / each {
            let batches = (0..each)
                .map(|micro| self.batch((window * each + micro) * rows, rows))
                .collect::<Result<Vec<_>>>()?;
            let (loss, norm) = self.window(&mut stepper, &mut storage, &batches, &settings)?;
            losses.extend(loss);
            norms.extend(norm);
        }
        computed.reals("trajectory.loss", &losses);
        computed.reals("trajectory.grad_norm_before_clipping", &norms);
        self.finals(&storage, computed)
    }
}
