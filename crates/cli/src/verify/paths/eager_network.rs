//! Densities, samples, gradients and training of the eager network.

use dunnart_flow::eager::{
    EagerBatch, EagerNetwork, EagerStorage, SplinePath, StepOptions, TensorReal, Training,
};
use dunnart_flow::{Architecture, Batch, Dropout, Layout, TrainableSet};
use dunnart_torch_shim::{
    AdamSettings, AdamState, LossScale, as_slice, clip_grad_norm, fused_adam, tensor_from_vec,
};
use tch::{Device, Kind as TensorKind, Tensor};

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
    number: std::marker::PhantomData<T>,
}

/// Adam's moments and counts over flat tensors, for runs of neighbouring trainable parameters.
struct Adam {
    settings: AdamSettings,
    runs: Vec<std::ops::Range<usize>>,
    moments: [Tensor; 2],
    steps: Vec<Tensor>,
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

    fn adam(&self, trainable: &TrainableSet, settings: AdamSettings) -> Result<Adam> {
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for index in trainable.indices() {
            let range = self.layout.parameters()[index].range();
            match runs.last_mut() {
                Some(run) if run.end == range.start => run.end = range.end,
                _ => runs.push(range),
            }
        }
        let storage = self.storage()?;
        let moment = || storage.zeros().map_err(|e| self.fail(e));
        let moments = [moment()?, moment()?];
        let steps = runs
            .iter()
            .map(|_| Tensor::zeros([] as [i64; 0], (TensorKind::Float, Device::Cpu)))
            .collect();
        Ok(Adam {
            settings,
            runs,
            moments,
            steps,
        })
    }

    fn step(&self, adam: &Adam, parameters: &Tensor, gradients: &Tensor) -> Result<()> {
        let views = |flat: &Tensor| -> Vec<Tensor> {
            let view =
                |run: &std::ops::Range<usize>| flat.narrow(0, run.start as i64, run.len() as i64);
            adam.runs.iter().map(view).collect()
        };
        let state = AdamState {
            exp_avg: &views(&adam.moments[0]),
            exp_avg_sq: &views(&adam.moments[1]),
            max_exp_avg_sq: None,
            steps: &adam.steps,
        };
        let (parameters, gradients) = (views(parameters), views(gradients));
        let scale = LossScale::default();
        fused_adam(&parameters, &gradients, &state, &adam.settings, scale).map_err(|e| self.fail(e))
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
        let mut storage = self.storage()?;
        let gradients = storage.zeros().map_err(|e| self.fail(e))?;
        let batch = self.batch(0, self.case.rows()?)?;
        let mut losses: Vec<T> = Vec::new();
        let mut stage = 0;
        while let Some(description) = self.case.value(&format!("/trajectory/{stage}")) {
            let frozen = description["freeze_rb_layer"].as_bool().unwrap_or(false);
            let trainable = self.trainable(frozen);
            let adam = self.adam(
                &trainable,
                self.settings(&format!("/trajectory/{stage}"), false)?,
            )?;
            let mut training = self
                .network
                .training(&storage, &gradients, &trainable)
                .map_err(|e| self.fail(e))?;
            for _ in 0..self.case.count(&format!("/trajectory/{stage}/steps"))? {
                let loss = self.loss(&mut training, &mut storage, &batch, &Self::options())?;
                losses.extend(self.values(&loss)?);
                self.step(&adam, &storage.parameters, &gradients)?;
            }
            stage += 1;
        }
        computed.reals("trajectory.loss", &losses);
        self.finals(&storage, computed)
    }

    fn loss(
        &self,
        training: &mut Training,
        storage: &mut EagerStorage,
        batch: &EagerBatch,
        options: &StepOptions,
    ) -> Result<Tensor> {
        training
            .loss_and_gradients(storage, batch, options, &mut |_| {})
            .map_err(|e| self.fail(e))
    }

    fn finals(&self, storage: &EagerStorage, computed: &mut Computed) -> Result<()> {
        let state = storage.to_state::<T>().map_err(|e| self.fail(e))?;
        for (key, values) in self.case.spell("trajectory.final.", &state)? {
            computed.insert(key, values);
        }
        Ok(())
    }

    /// AdamW over accumulated micro-batches, the gradient's norm clipped.
    fn accumulate(&self, computed: &mut Computed) -> Result<()> {
        let mut storage = self.storage()?;
        let gradients = storage.zeros().map_err(|e| self.fail(e))?;
        let trainable = self.trainable(false);
        let adam = self.adam(&trainable, self.settings("/optimizer", true)?)?;
        let mut training = self
            .network
            .training(&storage, &gradients, &trainable)
            .map_err(|e| self.fail(e))?;
        let each = self.case.count("/gradient_updates_per_optimizer_step")?;
        let rows = self.case.count("/micro_batch_size")?;
        let limit = self.case.number("/clip_grad_norm")?;
        let (mut losses, mut norms): (Vec<T>, Vec<T>) = (Vec::new(), Vec::new());
        for micro in 0..self.case.count("/micro_batches")? {
            let batch = self.batch(micro * rows, rows)?;
            let options = StepOptions {
                weight: 1.0 / each as f64,
                accumulate: !micro.is_multiple_of(each),
                ..Self::options()
            };
            let loss = self.loss(&mut training, &mut storage, &batch, &options)?;
            losses.extend(self.values(&loss)?);
            if (micro + 1).is_multiple_of(each) {
                let norm = clip_grad_norm(&[&gradients], limit).map_err(|e| self.fail(e))?;
                norms.extend(self.values(&norm)?);
                self.step(&adam, &storage.parameters, &gradients)?;
            }
        }
        computed.reals("trajectory.loss", &losses);
        computed.reals("trajectory.grad_norm_before_clipping", &norms);
        self.finals(&storage, computed)
    }
}
