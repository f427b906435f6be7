//! The compiled step: density, gradients, statistics and training in pure Rust.

use dunnart_flow::plan::{Mode, Plan, PlanKey, PlanStep, Scalar};
use dunnart_flow::reduction::LocalReduction;
use dunnart_flow::settings::TransformKind;
use dunnart_flow::{Architecture, Batch, Dropout, Layout, NetworkState, TrainableSet};

use super::adam::{Adam, clip};
use super::network::{self, Form, Inputs, Pass, StageStart, Stepped};
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

    fn covers(&self, _: &Case, key: &str) -> bool {
        // Contexts and samples are the native sampler's.
        let others = key.starts_with("init.state.") || key.starts_with("sample.");
        !others && key != "eval.context"
    }

    fn compute(&self, case: &Case, precision: Precision) -> Result<Computed> {
        match precision {
            Precision::Single => compute::<f32>(case),
            Precision::Double => compute::<f64>(case),
        }
    }
}

fn compute<T: Scalar>(case: &Case) -> Result<Computed> {
    let (architecture, layout) = case.network()?;
    let steps = Steps {
        case,
        architecture,
        layout,
    };
    network::compute::<T, _>(case, &steps)
}

struct Steps<'a> {
    case: &'a Case,
    architecture: &'a Architecture,
    layout: &'a Layout,
}

/// A plan with the numbers it works on.
struct Trainee<T> {
    plan: Plan<T>,
    state: NetworkState<T>,
    gradients: Vec<T>,
    ready: Vec<usize>,
}

/// A plan and the optimiser that follows its gradients.
struct Stage<T> {
    trainee: Trainee<T>,
    adam: Adam<T>,
    trainable: TrainableSet,
    clip_grad_norm: Option<f64>,
}

impl Steps<'_> {
    fn fail(&self, error: impl std::fmt::Display) -> crate::verify::Error {
        failed(self.case, error)
    }

    fn plan<T: Scalar>(&self, state: &NetworkState<T>, key: PlanKey) -> Result<Plan<T>> {
        Plan::new(self.architecture, self.layout, &state.permutations, key)
            .map_err(|error| self.fail(error))
    }

    fn trainee<T: Scalar>(
        &self,
        state: NetworkState<T>,
        trainable: TrainableSet,
        rows: usize,
    ) -> Result<Trainee<T>> {
        let key = PlanKey {
            rows,
            trainable,
            mode: Mode::Training,
        };
        Ok(Trainee {
            plan: self.plan(&state, key)?,
            gradients: vec![T::ZERO; state.parameters.len()],
            ready: Vec::new(),
            state,
        })
    }

    /// Loss and gradients of some rows.
    fn gradients<T: Scalar>(
        &self,
        trainee: &mut Trainee<T>,
        batch: &Batch<'_, T>,
        weight: f64,
        accumulate: bool,
    ) -> Result<f64> {
        let Trainee {
            plan,
            state,
            gradients,
            ready,
        } = trainee;
        let options = PlanStep {
            dropout: Dropout::new(0, 0, 0),
            weight,
            accumulate,
        };
        ready.clear();
        plan.loss_and_gradients(
            &state.parameters,
            &mut state.statistics,
            &mut state.counters,
            batch,
            &options,
            gradients,
            &LocalReduction,
            &mut |index| ready.push(index),
        )
        .map_err(|error| self.fail(error))
    }
}

impl<T: Scalar> Form<T> for Steps<'_> {
    type Stage = Stage<T>;

    fn evaluate(
        &self,
        state: &NetworkState<T>,
        inputs: &Inputs<'_, T>,
        computed: &mut Computed,
    ) -> Result<()> {
        let rows = inputs.rows();
        // One row more than there is, as for the last batch of a test set.
        let key = PlanKey {
            rows: rows + 1,
            trainable: TrainableSet::all(self.layout),
            mode: Mode::Evaluation,
        };
        let mut plan = self.plan(state, key)?;
        let (mut log_prob, mut noise) = (vec![T::ZERO; rows], inputs.theta.clone());
        plan.log_prob(
            &state.parameters,
            &state.statistics,
            &inputs.all(),
            &mut log_prob,
            Some(noise.as_mut_slice()),
        )
        .map_err(|error| self.fail(error))?;
        computed.reals("eval.log_prob", &log_prob);
        computed.reals("eval.noise", &noise);
        Ok(())
    }

    fn pass(
        &self,
        state: NetworkState<T>,
        trainable: TrainableSet,
        batch: &Batch<'_, T>,
    ) -> Result<Pass<T>> {
        let mut trainee = self.trainee(state, trainable, batch.samples.len())?;
        let loss = self.gradients(&mut trainee, batch, 1.0, false)?;
        Ok(Pass {
            loss: T::from_f64(loss),
            log_prob: trainee.plan.row_log_prob().collect(),
            gradients: trainee.gradients,
            ready: trainee.ready,
            state: trainee.state,
        })
    }

    fn begin(&self, start: StageStart<T>) -> Result<Stage<T>> {
        let trainable = start.trainable;
        Ok(Stage {
            trainee: self.trainee(start.state, trainable.clone(), start.rows)?,
            adam: Adam::new(start.adam),
            trainable,
            clip_grad_norm: start.clip_grad_norm,
        })
    }

    fn step(&self, stage: &mut Stage<T>, batches: &[Batch<'_, T>]) -> Result<Stepped> {
        let trainee = &mut stage.trainee;
        let weight = 1.0 / batches.len() as f64;
        let mut losses = Vec::new();
        for (micro, batch) in batches.iter().enumerate() {
            losses.push(self.gradients(trainee, batch, weight, micro > 0)?);
        }
        let limit = stage.clip_grad_norm;
        let norm = limit.map(|limit| clip(&mut trainee.gradients, limit).to_f64());
        stage.adam.step(
            self.layout,
            &stage.trainable,
            &mut trainee.state.parameters,
            &trainee.gradients,
        );
        Ok(Stepped { losses, norm })
    }

    fn end(&self, stage: Stage<T>) -> Result<NetworkState<T>> {
        Ok(stage.trainee.state)
    }
}
