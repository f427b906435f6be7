//! What a case asks of a network that trains, and under which keys its results stand.
//!
//! Here: the order of the computations, for every path alike. Deliberately not here: the computations,
//! which are each path's own ([`Form`]).

use dunnart_elementwise::Real;
use dunnart_flow::{Architecture, Batch, Layout, NetworkState, TrainableSet};

use crate::verify::Result;
use crate::verify::case::{Case, Kind};
use crate::verify::paths::{Computed, failed};

/// All inputs of a case, row by row.
pub(super) struct Inputs<'a, T> {
    architecture: &'a Architecture,
    pub(super) theta: Vec<T>,
    pub(super) observation: Vec<T>,
    pub(super) context_parameters: Vec<T>,
    samples: Vec<u64>,
}

impl<'a, T: Real> Inputs<'a, T> {
    pub(super) fn read(case: &'a Case) -> Result<Self> {
        let (architecture, _) = case.network()?;
        let observation = match case.kind {
            Kind::Posterior => "input.strain",
            _ => "input.context",
        };
        let part = |key: &str, width: usize| -> Result<Vec<T>> {
            if width == 0 {
                return Ok(Vec::new());
            }
            case.numbers(key)
        };
        let theta = part("input.theta", architecture.parameters())?;
        let rows = theta.len() / architecture.parameters().max(1);
        let inputs = Self {
            architecture,
            theta,
            observation: part(observation, architecture.observation())?,
            context_parameters: part("input.gnpe_proxies", architecture.context_parameters())?,
            samples: (0..rows as u64).collect(),
        };
        for (key, found, width) in [
            (
                observation,
                inputs.observation.len(),
                architecture.observation(),
            ),
            (
                "input.gnpe_proxies",
                inputs.context_parameters.len(),
                architecture.context_parameters(),
            ),
        ] {
            if found != rows * width {
                let reason =
                    format!("`{key}`: expected {rows} rows of {width}, got {found} values");
                return Err(failed(case, reason));
            }
        }
        Ok(inputs)
    }

    pub(super) fn rows(&self) -> usize {
        self.samples.len()
    }

    /// `rows` rows from row `first` on.
    fn batch(&self, first: usize, rows: usize) -> Batch<'_, T> {
        fn cut<E>(values: &[E], first: usize, rows: usize, width: usize) -> &[E] {
            &values[first * width..(first + rows) * width]
        }
        let a = self.architecture;
        Batch {
            theta: cut(&self.theta, first, rows, a.parameters()),
            observation: cut(&self.observation, first, rows, a.observation()),
            context_parameters: cut(
                &self.context_parameters,
                first,
                rows,
                a.context_parameters(),
            ),
            samples: cut(&self.samples, first, rows, 1),
        }
    }

    pub(super) fn all(&self) -> Batch<'_, T> {
        self.batch(0, self.rows())
    }
}

/// Adam or AdamW as a case describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamNumbers {
    pub(super) rate: f64,
    pub(super) betas: [f64; 2],
    pub(super) epsilon: f64,
    pub(super) weight_decay: f64,
    /// Whether weight decay shrinks the parameters instead of joining the gradient.
    pub(super) decoupled: bool,
}

impl AdamNumbers {
    /// The numbers at a place of the description; torch's defaults unless given.
    fn read(case: &Case, at: &str, decoupled: bool) -> Result<Self> {
        let optional =
            |name: &str, default: f64| case.number(&format!("{at}/{name}")).unwrap_or(default);
        Ok(Self {
            rate: case.number(&format!("{at}/lr"))?,
            betas: [optional("betas/0", 0.9), optional("betas/1", 0.999)],
            epsilon: optional("eps", 1e-8),
            weight_decay: optional("weight_decay", 0.0),
            decoupled,
        })
    }
}

/// One training pass over all rows.
pub(super) struct Pass<T> {
    pub(super) loss: T,
    /// Gradients of all parameters, flat.
    pub(super) gradients: Vec<T>,
    /// Parameters whose gradient was announced.
    pub(super) ready: Vec<usize>,
    /// Of each row; empty where the form does not tell.
    pub(super) log_prob: Vec<T>,
    /// The network after it.
    pub(super) state: NetworkState<T>,
}

/// A network that is about to train.
pub(super) struct StageStart<T> {
    pub(super) state: NetworkState<T>,
    pub(super) trainable: TrainableSet,
    /// Rows of a batch.
    pub(super) rows: usize,
    pub(super) adam: AdamNumbers,
    pub(super) clip_grad_norm: Option<f64>,
}

/// What an optimiser step tells: losses of its micro-batches, the gradient's norm before clipping.
pub(super) struct Stepped {
    pub(super) losses: Vec<f64>,
    pub(super) norm: Option<f64>,
}

/// One form of the network with its gradients.
pub(super) trait Form<T: Real> {
    /// Network and optimiser between two steps.
    type Stage;

    /// Everything under `eval.` and `sample.` that this form gives.
    fn evaluate(
        &self,
        state: &NetworkState<T>,
        inputs: &Inputs<'_, T>,
        computed: &mut Computed,
    ) -> Result<()>;

    /// Loss, gradients and statistics of one pass.
    fn pass(
        &self,
        state: NetworkState<T>,
        trainable: TrainableSet,
        batch: &Batch<'_, T>,
    ) -> Result<Pass<T>>;

    /// A fresh optimiser.
    fn begin(&self, start: StageStart<T>) -> Result<Self::Stage>;

    /// One optimiser step over the mean of equally large micro-batches.
    fn step(&self, stage: &mut Self::Stage, batches: &[Batch<'_, T>]) -> Result<Stepped>;

    /// The network after the stage.
    fn end(&self, stage: Self::Stage) -> Result<NetworkState<T>>;
}

/// All results of a case through one form.
pub(super) fn compute<T: Real, F: Form<T>>(case: &Case, form: &F) -> Result<Computed> {
    let (_, layout) = case.network()?;
    let run = Run {
        case,
        layout,
        inputs: Inputs::read(case)?,
        form,
    };
    let mut computed = Computed::default();
    match case.kind {
        Kind::Spline => {}
        Kind::Flow => {
            form.evaluate(&case.state()?, &run.inputs, &mut computed)?;
            run.pass("train.", true, &mut computed)?;
        }
        Kind::Posterior => {
            form.evaluate(&case.state()?, &run.inputs, &mut computed)?;
            run.pass("frozen_rb.", true, &mut computed)?;
            run.pass("all_trainable.", false, &mut computed)?;
            run.stages(&mut computed)?;
        }
        Kind::Training => run.accumulate(&mut computed)?,
    }
    Ok(computed)
}

struct Run<'a, T, F> {
    case: &'a Case,
    layout: &'a Layout,
    inputs: Inputs<'a, T>,
    form: &'a F,
}

impl<T: Real, F: Form<T>> Run<'_, T, F> {
    fn trainable(&self, frozen: bool) -> TrainableSet {
        TrainableSet::with_reduced_basis(self.layout, frozen)
    }

    /// One training pass from `state.*`: loss, gradients, and the running statistics after it.
    fn pass(&self, prefix: &str, frozen: bool, computed: &mut Computed) -> Result<()> {
        let trainable = self.trainable(frozen);
        let pass = self
            .form
            .pass(self.case.state()?, trainable, &self.inputs.all())?;
        computed.reals(format!("{prefix}loss"), &[pass.loss]);
        let flow = self.case.kind == Kind::Flow;
        let grad = if flow {
            "grad.".to_owned()
        } else {
            format!("{prefix}grad.")
        };
        for index in pass.ready {
            let spec = &self.layout.parameters()[index];
            let key = format!("{grad}{}", self.case.strip(&spec.name));
            computed.reals(key, &pass.gradients[spec.range()]);
        }
        if flow {
            if !pass.log_prob.is_empty() {
                computed.reals("train.log_prob", &pass.log_prob);
            }
            for (key, values) in self.case.spell("train.after.", &pass.state)? {
                if key.ends_with(".running_mean") || key.ends_with(".running_var") {
                    computed.insert(key, values);
                }
            }
        }
        Ok(())
    }

    /// Stages of Adam on one batch, frozen and free, each with a new optimiser.
    fn stages(&self, computed: &mut Computed) -> Result<()> {
        let (mut state, mut losses, mut number) = (self.case.state()?, Vec::new(), 0);
        while let Some(description) = self.case.value(&format!("/trajectory/{number}")) {
            let at = format!("/trajectory/{number}");
            let frozen = description["freeze_rb_layer"].as_bool().unwrap_or(false);
            let mut stage = self.form.begin(StageStart {
                state,
                trainable: self.trainable(frozen),
                rows: self.inputs.rows(),
                adam: AdamNumbers::read(self.case, &at, false)?,
                clip_grad_norm: None,
            })?;
            for _ in 0..self.case.count(&format!("{at}/steps"))? {
                losses.extend(self.form.step(&mut stage, &[self.inputs.all()])?.losses);
            }
            state = self.form.end(stage)?;
            number += 1;
        }
        computed.reals("trajectory.loss", &losses);
        self.finals(&state, computed)
    }

    /// AdamW over accumulated micro-batches, the gradient's norm clipped.
    fn accumulate(&self, computed: &mut Computed) -> Result<()> {
        let each = self
            .case
            .count("/gradient_updates_per_optimizer_step")?
            .max(1);
        let rows = self.case.count("/micro_batch_size")?;
        let micro_batches = self.case.count("/micro_batches")?;
        if micro_batches * rows > self.inputs.rows() {
            return Err(failed(
                self.case,
                "there are fewer rows than micro-batches need",
            ));
        }
        let mut stage = self.form.begin(StageStart {
            state: self.case.state()?,
            trainable: self.trainable(false),
            rows,
            adam: AdamNumbers::read(self.case, "/optimizer", true)?,
            clip_grad_norm: Some(self.case.number("/clip_grad_norm")?),
        })?;
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for window in 0..micro_batches / each {
            let batch = |micro| self.inputs.batch((window * each + micro) * rows, rows);
            let batches: Vec<_> = (0..each).map(batch).collect();
            let stepped = self.form.step(&mut stage, &batches)?;
            losses.extend(stepped.losses);
            norms.extend(stepped.norm);
        }
        computed.reals("trajectory.loss", &losses);
        computed.reals("trajectory.grad_norm_before_clipping", &norms);
        self.finals(&self.form.end(stage)?, computed)
    }

    fn finals(&self, state: &NetworkState<T>, computed: &mut Computed) -> Result<()> {
        for (key, values) in self.case.spell("trajectory.final.", state)? {
            computed.insert(key, values);
        }
        Ok(())
    }
}
