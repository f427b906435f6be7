//! The compiled step: density, gradients, statistics and training in pure Rust.

use dunnart_flow::plan::{Mode, Plan, PlanKey, PlanStep, Scalar};
use dunnart_flow::reduction::LocalReduction;
use dunnart_flow::settings::TransformKind;
use dunnart_flow::{Architecture, Batch, Dropout, Layout, NetworkState, TrainableSet};

use super::adam::{Adam, clip};
use crate::verify::Result;
use crate::verify::case::{Case, Kind, Precision};
use crate::verify::paths::{Computed, Path, failed};

/// Loss and gradients by hand-written backward passes; coupling networks only.
pub(super) struct Compiled;

impl Path for Compiled {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn available(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn takes(&self, case: &Case) -> bool {
        // Autoregressive networks run eagerly; the plan refuses them by name.
        let coupling =
            |(a, _): &(Architecture, Layout)| a.coupling().kind == TransformKind::Coupling;
        case.kind != Kind::Spline && case.network().is_ok_and(coupling)
    }

    fn covers(&self, case: &Case, key: &str) -> bool {
        // Adam divides by gradients that nearly vanish, so single float32 weights after twelve steps
        // are a matter of rounding; all of them together are compared, and the losses on the way.
        let rounding = case.precision == Precision::Single && key.starts_with("trajectory.final.");
        // Contexts and samples are the native sampler's.
        let others = key.starts_with("init.state.") || key.starts_with("sample.");
        !rounding && !others && key != "eval.context"
    }

    fn compute(&self, case: &Case, precision: Precision) -> Result<Computed> {
        match precision {
            Precision::Single => compute::<f32>(case),
            Precision::Double => compute::<f64>(case),
        }
    }
}

fn compute<T: Scalar>(case: &Case) -> Result<Computed> {
    let run = Run::<T>::new(case)?;
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
    theta: Vec<T>,
    observation: Vec<T>,
    context_parameters: Vec<T>,
    samples: Vec<u64>,
}

/// A plan with the numbers it works on.
struct Trainee<T> {
    plan: Plan<T>,
    state: NetworkState<T>,
    gradients: Vec<T>,
    ready: Vec<usize>,
}

impl<'a, T: Scalar> Run<'a, T> {
    fn new(case: &'a Case) -> Result<Self> {
        let (architecture, layout) = case.network()?;
        let part = |key: &str, width: usize| -> Result<Vec<T>> {
            if width == 0 {
                Ok(Vec::new())
            } else {
                case.numbers(key)
            }
        };
        let observation = match case.kind {
            Kind::Posterior => "input.strain",
            _ => "input.context",
        };
        let theta: Vec<T> = case.numbers("input.theta")?;
        Ok(Self {
            case,
            architecture,
            layout,
            samples: (0..(theta.len() / architecture.parameters()) as u64).collect(),
            theta,
            observation: part(observation, architecture.observation())?,
            context_parameters: part("input.gnpe_proxies", architecture.context_parameters())?,
        })
    }

    fn fail(&self, error: impl std::fmt::Display) -> crate::verify::Error {
        failed(self.case, error)
    }

    /// `rows` rows from row `first` on.
    fn batch(&self, first: usize, rows: usize) -> Batch<'_, T> {
        fn cut<T>(values: &[T], first: usize, rows: usize, width: usize) -> &[T] {
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

    fn plan(
        &self,
        state: &NetworkState<T>,
        rows: usize,
        frozen: bool,
        mode: Mode,
    ) -> Result<Plan<T>> {
        let trainable = TrainableSet::with_reduced_basis(self.layout, frozen);
        let key = PlanKey {
            rows,
            trainable,
            mode,
        };
        Plan::new(self.architecture, self.layout, &state.permutations, key)
            .map_err(|error| self.fail(error))
    }

    fn trainee(&self, state: NetworkState<T>, rows: usize, frozen: bool) -> Result<Trainee<T>> {
        Ok(Trainee {
            plan: self.plan(&state, rows, frozen, Mode::Training)?,
            gradients: vec![T::ZERO; state.parameters.len()],
            ready: Vec::new(),
            state,
        })
    }

    fn evaluate(&self, computed: &mut Computed) -> Result<()> {
        let state = self.case.state::<T>()?;
        let rows = self.samples.len();
        // One row more than there is, as for the last batch of a test set.
        let mut plan = self.plan(&state, rows + 1, false, Mode::Evaluation)?;
        let (mut log_prob, mut noise) = (vec![T::ZERO; rows], self.theta.clone());
        let (batch, noise_out) = (self.batch(0, rows), Some(noise.as_mut_slice()));
        plan.log_prob(
            &state.parameters,
            &state.statistics,
            &batch,
            &mut log_prob,
            noise_out,
        )
        .map_err(|error| self.fail(error))?;
        computed.reals("eval.log_prob", &log_prob);
        computed.reals("eval.noise", &noise);
        Ok(())
    }

    /// Loss and gradients of some rows.
    fn step(
        &self,
        trainee: &mut Trainee<T>,
        batch: &Batch<'_, T>,
        weight: f64,
        add: bool,
    ) -> Result<T> {
        let Trainee {
            plan,
            state,
            gradients,
            ready,
        } = trainee;
        let options = PlanStep {
            dropout: Dropout::new(0, 0, 0),
            weight,
            accumulate: add,
        };
        ready.clear();
        let loss = plan.loss_and_gradients(
            &state.parameters,
            &mut state.statistics,
            &mut state.counters,
            batch,
            &options,
            gradients,
            &LocalReduction,
            &mut |index| ready.push(index),
        );
        Ok(T::from_f64(loss.map_err(|error| self.fail(error))?))
    }

    /// One training pass from `state.*`: loss, gradients, and the running statistics after it.
    fn train_once(&self, prefix: &str, frozen: bool, computed: &mut Computed) -> Result<()> {
        let rows = self.samples.len();
        let mut trainee = self.trainee(self.case.state::<T>()?, rows, frozen)?;
        let loss = self.step(&mut trainee, &self.batch(0, rows), 1.0, false)?;
        computed.reals(format!("{prefix}loss"), &[loss]);
        let flow = self.case.kind == Kind::Flow;
        let grad = if flow {
            "grad.".to_owned()
        } else {
            format!("{prefix}grad.")
        };
        for &index in &trainee.ready {
            let spec = &self.layout.parameters()[index];
            let key = format!("{grad}{}", self.case.strip(&spec.name));
            computed.reals(key, &trainee.gradients[spec.range()]);
        }
        if flow {
            let log_prob: Vec<T> = trainee.plan.row_log_prob().collect();
            computed.reals("train.log_prob", &log_prob);
            for (key, values) in self.case.spell("train.after.", &trainee.state)? {
                if key.ends_with(".running_mean") || key.ends_with(".running_var") {
                    computed.insert(key, values);
                }
            }
        }
        Ok(())
    }

    /// Two stages of Adam on one batch, frozen and free: each its own plan and a new optimiser.
    fn stages(&self, computed: &mut Computed) -> Result<()> {
        let rows = self.samples.len();
        let (mut state, mut losses, mut stage) = (self.case.state::<T>()?, Vec::new(), 0);
        while let Some(description) = self.case.value(&format!("/trajectory/{stage}")) {
            let frozen = description["freeze_rb_layer"].as_bool().unwrap_or(false);
            let mut trainee = self.trainee(state, rows, frozen)?;
            let trainable = TrainableSet::with_reduced_basis(self.layout, frozen);
            let mut adam = Adam::new(self.case, &format!("/trajectory/{stage}"), false)?;
            for _ in 0..self.case.count(&format!("/trajectory/{stage}/steps"))? {
                losses.push(self.step(&mut trainee, &self.batch(0, rows), 1.0, false)?);
                let parameters = &mut trainee.state.parameters;
                adam.step(self.layout, &trainable, parameters, &trainee.gradients);
            }
            state = trainee.state;
            stage += 1;
        }
        computed.reals("trajectory.loss", &losses);
        self.finals(&state, computed)
    }

    /// AdamW over accumulated micro-batches, the gradient's norm clipped.
    fn accumulate(&self, computed: &mut Computed) -> Result<()> {
        let each = self.case.count("/gradient_updates_per_optimizer_step")?;
        let rows = self.case.count("/micro_batch_size")?;
        let limit = self.case.number("/clip_grad_norm")?;
        let mut trainee = self.trainee(self.case.state::<T>()?, rows, false)?;
        let trainable = TrainableSet::all(self.layout);
        let mut adam = Adam::new(self.case, "/optimizer", true)?;
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for micro in 0..self.case.count("/micro_batches")? {
            let batch = self.batch(micro * rows, rows);
            let add = !micro.is_multiple_of(each);
            losses.push(self.step(&mut trainee, &batch, 1.0 / each as f64, add)?);
            if (micro + 1).is_multiple_of(each) {
                norms.push(clip(&mut trainee.gradients, limit));
                let parameters = &mut trainee.state.parameters;
                adam.step(self.layout, &trainable, parameters, &trainee.gradients);
            }
        }
        computed.reals("trajectory.loss", &losses);
        computed.reals("trajectory.grad_norm_before_clipping", &norms);
        self.finals(&trainee.state, computed)
    }

    fn finals(&self, state: &NetworkState<T>, computed: &mut Computed) -> Result<()> {
        for (key, values) in self.case.spell("trajectory.final.", state)? {
            computed.insert(key, values);
        }
        Ok(())
    }
}
