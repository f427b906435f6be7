//! Compiled steps against the reference's values.

use super::{Mode, Plan, PlanKey, PlanStep};
use crate::plan::Scalar;
use crate::plan::golden::{Case, Pool, cases, judge, relative_error, widen};
use crate::reduction::LocalReduction;
use crate::settings::TransformKind;
use crate::structure::{Conditioner, NormLayer};
use crate::{Batch, BufferKind, Dropout, Error, Layout, NetworkState, TrainableSet};

fn step() -> PlanStep {
    PlanStep {
        dropout: Dropout::new(0, 0, 0),
        weight: 1.0,
        accumulate: false,
    }
}

/// A case's inputs in some precision.
struct Rows<T> {
    theta: Vec<T>,
    observation: Vec<T>,
    context_parameters: Vec<T>,
    samples: Vec<u64>,
}

impl<T: Scalar> Rows<T> {
    fn new(case: &Case) -> Self {
        let theta: Vec<T> = case.cast("input.theta");
        let strain: Vec<T> = case.cast("input.strain");
        Self {
            samples: (0..(theta.len() / case.architecture.parameters()) as u64).collect(),
            observation: if strain.is_empty() {
                case.cast("input.context")
            } else {
                strain
            },
            context_parameters: case.cast("input.gnpe_proxies"),
            theta,
        }
    }

    fn batch(&self) -> Batch<'_, T> {
        Batch {
            theta: &self.theta,
            observation: &self.observation,
            context_parameters: &self.context_parameters,
            samples: &self.samples,
        }
    }

    fn count(&self) -> usize {
        self.samples.len()
    }
}

/// What one step of a case computes.
struct Results<T> {
    loss: f64,
    gradients: Vec<T>,
    state: NetworkState<T>,
    ready: Vec<usize>,
}

fn plan<T: Scalar>(case: &Case, state: &NetworkState<T>, key: PlanKey) -> Plan<T> {
    Plan::new(&case.architecture, &case.layout, &state.permutations, key).unwrap()
}

fn run_step<T: Scalar>(case: &Case, trainable: &TrainableSet, options: &PlanStep) -> Results<T> {
    let mut state: NetworkState<T> = case.state("state.");
    let rows = Rows::new(case);
    let mode = Mode::Training;
    let key = PlanKey {
        rows: rows.count(),
        trainable: trainable.clone(),
        mode,
    };
    let mut plan = plan(case, &state, key);
    let mut gradients = vec![T::from_f64(f64::NAN); state.parameters.len()];
    let mut ready = Vec::new();
    let loss = plan
        .loss_and_gradients(
            &state.parameters,
            &mut state.statistics,
            &mut state.counters,
            &rows.batch(),
            options,
            &mut gradients,
            &LocalReduction,
            &mut |index| ready.push(index),
        )
        .unwrap();
    Results {
        loss,
        gradients,
        state,
        ready,
    }
}

/// Coupling cases of the flow and posterior kinds.
fn coupling_cases() -> Vec<Case> {
    let mut all = cases("flow");
    all.append(&mut cases("posterior"));
    all.retain(|case| case.architecture.coupling().kind == TransformKind::Coupling);
    all
}

/// Checks loss, gradients and statistics under a prefix; returns the number of checks.
fn check_step(
    case: &Case,
    prefix: (&str, &str),
    trainable: &TrainableSet,
    failures: &mut Vec<String>,
) -> usize {
    let exact = run_step::<f64>(case, trainable, &step());
    let (loss, gradients, statistics, ready) = if case.double {
        let r = run_step::<f64>(case, trainable, &step());
        (r.loss, r.gradients, r.state.statistics, r.ready)
    } else {
        let r = run_step::<f32>(case, trainable, &step());
        (
            r.loss,
            widen(&r.gradients),
            widen(&r.state.statistics),
            r.ready,
        )
    };
    let mut zero_failures = Vec::new();
    let mut pool = Pool::default();
    let mut checks = 0;
    let mut check = |name: String, actual: &[f64], exact: &[f64]| {
        checks += 1;
        let own = case
            .find(&format!("exact.{name}"))
            .is_none()
            .then_some(exact);
        failures.extend(judge(case, &name, actual, own));
    };
    check(format!("{}loss", prefix.0), &[loss], &[exact.loss]);
    let mut trained: Vec<usize> = trainable.indices().collect();
    for &index in &trained {
        let spec = &case.layout.parameters()[index];
        if spec.elements() > 0 {
            let name = case.key(prefix.1, &spec.name);
            if before_batch_norm(case, index) {
                // Its true gradient is zero; what is there is rounding of the weight's gradient.
                let weight = &exact.gradients[case.layout.parameters()[index - 1].range()];
                let scale = weight.iter().fold(0.0_f64, |a, g| a.max(g.abs()));
                let bound = if case.double { 1e-10 } else { 1e-4 };
                let worst = gradients[spec.range()]
                    .iter()
                    .fold(0.0_f64, |a, g| a.max(g.abs()));
                if worst > bound * scale {
                    zero_failures.push(format!("{} {name}: {worst:e} of {scale:e}", case.file));
                }
                continue;
            }
            if case.double {
                check(
                    name,
                    &gradients[spec.range()],
                    &exact.gradients[spec.range()],
                );
                continue;
            }
            let exact = match case.find(&format!("exact.{name}")) {
                Some(exact) => exact,
                None => &exact.gradients[spec.range()],
            };
            pool.add(case, &name, &gradients[spec.range()], exact);
        }
    }
    let mut sorted = ready.clone();
    sorted.sort_unstable();
    trained.sort_unstable();
    assert_eq!(
        sorted, trained,
        "{}: every trainable parameter is ready once",
        case.file
    );
    for (index, spec) in case.layout.parameters().iter().enumerate() {
        if !trainable.contains(index) {
            assert!(
                gradients[spec.range()].iter().all(|g| g.is_nan()),
                "{}",
                spec.name
            );
        }
    }
    for spec in case.layout.buffers() {
        let name = case.key("train.after.", &spec.name);
        if let (BufferKind::RunningMean(start) | BufferKind::RunningVariance(start), Some(_)) =
            (&spec.kind, case.find(&name))
        {
            let range = *start..start + spec.shape[0];
            check(
                name,
                &statistics[range.clone()],
                &exact.state.statistics[range],
            );
        }
    }
    failures.append(&mut zero_failures);
    failures.extend(pool.judge(case, prefix.1));
    checks
}

/// Whether a parameter is the bias of a layer that a batch norm follows.
fn before_batch_norm(case: &Case, index: usize) -> bool {
    let network = case.layout.network();
    let embedding = network.embedding.iter().flat_map(|e| &e.network.blocks);
    let steps = network
        .steps
        .iter()
        .flat_map(|step| match &step.conditioner {
            Conditioner::Residual(network) => network.blocks.as_slice(),
            Conditioner::Dense(network) => &network.blocks,
            Conditioner::Masked(_) => &[],
        });
    embedding.chain(steps).any(|block| {
        block.linears[0].bias == index && matches!(block.norms[1], NormLayer::Batch { .. })
    })
}

#[test]
fn steps_agree_with_the_reference() {
    let mut failures = Vec::new();
    let (mut checks, mut files) = (0, 0);
    for case in coupling_cases() {
        let all = TrainableSet::all(&case.layout);
        files += 1;
        if case.find("train.loss").is_some() {
            checks += check_step(&case, ("train.", "grad."), &all, &mut failures);
        } else {
            let frozen = TrainableSet::with_reduced_basis(&case.layout, true);
            let all_names = ("all_trainable.", "all_trainable.grad.");
            checks += check_step(&case, all_names, &all, &mut failures);
            let frozen_names = ("frozen_rb.", "frozen_rb.grad.");
            checks += check_step(&case, frozen_names, &frozen, &mut failures);
        }
    }
    assert_eq!(files, 18);
    assert!(checks > 1500, "{checks}");
    let shown = failures.len().min(60);
    assert!(
        failures.is_empty(),
        "{} of {checks} failed\n{}",
        failures.len(),
        failures[..shown].join("\n")
    );
}

#[test]
fn evaluation_plans_agree_with_the_reference() {
    fn compute<T: Scalar>(case: &Case) -> (Vec<f64>, Vec<f64>) {
        let state: NetworkState<T> = case.state("state.");
        let rows = Rows::new(case);
        // One row more than the batch has, as for a last partial batch.
        let key = PlanKey {
            rows: rows.count() + 1,
            trainable: TrainableSet::all(&case.layout),
            mode: Mode::Evaluation,
        };
        let mut plan = plan(case, &state, key);
        let (mut log_prob, mut noise) = (vec![T::ZERO; rows.count()], rows.theta.clone());
        let (values, statistics) = (&state.parameters, &state.statistics);
        plan.log_prob(
            values,
            statistics,
            &rows.batch(),
            &mut log_prob,
            Some(&mut noise),
        )
        .unwrap();
        (widen(&log_prob), widen(&noise))
    }
    let mut failures = Vec::new();
    for case in coupling_cases() {
        let exact = compute::<f64>(&case);
        let (log_prob, noise) = if case.double {
            compute::<f64>(&case)
        } else {
            compute::<f32>(&case)
        };
        for (name, actual, exact) in [
            ("eval.log_prob", &log_prob, &exact.0),
            ("eval.noise", &noise, &exact.1),
        ] {
            let own = case
                .find(&format!("exact.{name}"))
                .is_none()
                .then_some(exact.as_slice());
            failures.extend(judge(&case, name, actual, own));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The first micro-batches of the accumulated run: losses, and the norm of the first window.
#[test]
fn accumulated_gradients_have_the_reference_norm() {
    for case in cases("training") {
        let state: NetworkState<f64> = case.state("state.");
        let mut statistics = state.statistics.clone();
        let mut counters = state.counters.clone();
        let (micro, count) = (2, 24);
        let rows = Rows::<f64>::new(&case);
        let (d, c) = (case.architecture.parameters(), case.architecture.context());
        let trainable = TrainableSet::all(&case.layout);
        let key = PlanKey {
            rows: count,
            trainable,
            mode: Mode::Training,
        };
        let mut plan = plan(&case, &state, key);
        let mut gradients = vec![f64::NAN; state.parameters.len()];
        for index in 0..micro {
            let batch = Batch {
                theta: &rows.theta[index * count * d..(index + 1) * count * d],
                observation: &rows.observation[index * count * c..(index + 1) * count * c],
                context_parameters: &[],
                samples: &rows.samples[..count],
            };
            let options = PlanStep {
                weight: 0.5,
                accumulate: index > 0,
                ..step()
            };
            let loss = plan
                .loss_and_gradients(
                    &state.parameters,
                    &mut statistics,
                    &mut counters,
                    &batch,
                    &options,
                    &mut gradients,
                    &LocalReduction,
                    &mut |_| {},
                )
                .unwrap();
            let expected = case.get("trajectory.loss")[index];
            assert!((loss / expected - 1.0).abs() < 1e-10, "{loss} {expected}");
        }
        let norm = gradients.iter().map(|g| g * g).sum::<f64>().sqrt();
        let expected = case.get("trajectory.grad_norm_before_clipping")[0];
        assert!((norm / expected - 1.0).abs() < 1e-10, "{norm} {expected}");
    }
}

/// A flow with batch norm and dropout on more rows than one chunk holds.
fn larger(dropout: f64, norm: &str, rows: usize) -> (Case, Vec<f32>, Vec<f32>) {
    let case = cases("flow").swap_remove(3);
    let mut settings = serde_json::to_value(case.architecture.settings()).unwrap();
    settings["posterior_kwargs"]["base_transform_kwargs"]["dropout_probability"] = dropout.into();
    settings["posterior_kwargs"]["base_transform_kwargs"]["norm"] = norm.into();
    let architecture = crate::Architecture::from_json(&settings).unwrap();
    let layout = Layout::new(&architecture).unwrap();
    let tile = |name: &str, width: usize| -> Vec<f32> {
        let values = case.cast::<f32>(name);
        let wobble = |i: usize| 1.0 + (i / values.len()) as f32 * 0.013;
        let cycle = values.iter().cycle().take(rows * width).enumerate();
        cycle.map(|(i, v)| v * wobble(i)).collect()
    };
    let theta = tile("input.theta", architecture.parameters());
    let context = tile("input.context", architecture.context());
    (
        Case {
            architecture,
            layout,
            ..case
        },
        theta,
        context,
    )
}

/// Loss, gradients and statistics of a step, by the number of threads and the precision.
fn step_on<T: Scalar>(
    (case, theta, context): &(Case, Vec<f32>, Vec<f32>),
    threads: usize,
    options: &PlanStep,
) -> (f64, Vec<T>, Vec<T>) {
    let state: NetworkState<T> = NetworkState::initialize(&case.architecture, &case.layout, 5);
    let mut state = state;
    for (index, value) in state.parameters.iter_mut().enumerate() {
        // Second layers start near zero; nothing may hide behind that.
        *value += T::from_f64(((index * 31) % 17) as f64 * 0.01 - 0.08);
    }
    let cast =
        |values: &[f32]| -> Vec<T> { values.iter().map(|v| T::from_f64(f64::from(*v))).collect() };
    let (theta, context) = (cast(theta), cast(context));
    let rows = theta.len() / case.architecture.parameters();
    let samples: Vec<u64> = (0..rows as u64).map(|i| i * 7 + 3).collect();
    let trainable = TrainableSet::all(&case.layout);
    let mut plan = plan(
        case,
        &state,
        PlanKey {
            rows,
            trainable,
            mode: Mode::Training,
        },
    );
    let batch = Batch {
        theta: &theta,
        observation: &context,
        context_parameters: &[],
        samples: &samples,
    };
    let mut gradients = vec![T::ZERO; state.parameters.len()];
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let loss = pool
        .install(|| {
            plan.loss_and_gradients(
                &state.parameters,
                &mut state.statistics,
                &mut state.counters,
                &batch,
                options,
                &mut gradients,
                &LocalReduction,
                &mut |_| {},
            )
        })
        .unwrap();
    (loss, gradients, state.statistics)
}

#[test]
fn steps_do_not_depend_on_the_number_of_threads() {
    for norm in ["BatchNorm", "LayerNorm"] {
        let case = larger(0.2, norm, 300);
        let one = step_on::<f32>(&case, 1, &step());
        assert_eq!(one, step_on::<f32>(&case, 2, &step()));
        assert_eq!(one, step_on::<f32>(&case, 3, &step()));
        assert!(one.0.is_finite());
    }
}

/// Gradients under dropout are those of the loss with the same masks.
#[test]
fn gradients_under_dropout_agree_with_differences() {
    for (norm, rows) in [("BatchNorm", 40), ("LayerNorm", 40), ("none", 20)] {
        let mut case = larger(0.3, if norm == "none" { "BatchNorm" } else { norm }, rows);
        if norm == "none" {
            let mut settings = serde_json::to_value(case.0.architecture.settings()).unwrap();
            settings["posterior_kwargs"]["base_transform_kwargs"]["norm"] = serde_json::Value::Null;
            case.0.architecture = crate::Architecture::from_json(&settings).unwrap();
            case.0.layout = Layout::new(&case.0.architecture).unwrap();
        }
        let (case, theta, context) = &case;
        let mut state: NetworkState<f64> =
            NetworkState::initialize(&case.architecture, &case.layout, 5);
        for (index, value) in state.parameters.iter_mut().enumerate() {
            *value += ((index * 31) % 17) as f64 * 0.01 - 0.08;
        }
        let theta: Vec<f64> = theta.iter().map(|v| f64::from(*v)).collect();
        let context: Vec<f64> = context.iter().map(|v| f64::from(*v)).collect();
        let samples: Vec<u64> = (0..rows as u64).collect();
        let trainable = TrainableSet::all(&case.layout);
        let mut plan = plan(
            case,
            &state,
            PlanKey {
                rows,
                trainable,
                mode: Mode::Training,
            },
        );
        let batch = Batch {
            theta: &theta,
            observation: &context,
            context_parameters: &[],
            samples: &samples,
        };
        let mut gradients = vec![0.0; state.parameters.len()];
        let mut loss = |parameters: &[f64], gradients: &mut [f64]| {
            let (mut statistics, mut counters) = (state.statistics.clone(), state.counters.clone());
            plan.loss_and_gradients(
                parameters,
                &mut statistics,
                &mut counters,
                &batch,
                &step(),
                gradients,
                &LocalReduction,
                &mut |_| {},
            )
            .unwrap()
        };
        loss(&state.parameters, &mut gradients);
        let mut scratch = gradients.clone();
        let size = gradients.iter().fold(0.0_f64, |a, g| a.max(g.abs()));
        for index in (0..gradients.len()).step_by(gradients.len() / 150) {
            let mut moved = state.parameters.clone();
            let width = 1e-6;
            moved[index] += width;
            let up = loss(&moved, &mut scratch);
            moved[index] -= 2.0 * width;
            let slope = (up - loss(&moved, &mut scratch)) / (2.0 * width);
            let difference = (slope - gradients[index]).abs();
            assert!(
                difference < 2e-7 * size.max(1.0),
                "{norm} {index}: {slope} {}",
                gradients[index]
            );
        }
    }
}

/// Accumulating the same batch twice doubles the gradients; the weight scales them.
#[test]
fn weight_and_accumulation_scale_gradients() {
    let case = larger(0.0, "LayerNorm", 70);
    let whole = step_on::<f64>(&case, 1, &step());
    let half = step_on::<f64>(
        &case,
        1,
        &PlanStep {
            weight: 0.5,
            ..step()
        },
    );
    let twice: Vec<f64> = half.1.iter().map(|g| 2.0 * g).collect();
    assert_eq!(whole.0, half.0);
    assert!(relative_error(&twice, &whole.1) < 1e-13);
}

#[test]
fn what_a_plan_cannot_do_is_refused_by_name() {
    let mut autoregressive = cases("flow");
    autoregressive.retain(|c| c.architecture.coupling().kind == TransformKind::Autoregressive);
    let case = &autoregressive[0];
    let state: NetworkState<f64> = case.state("state.");
    let trainable = TrainableSet::all(&case.layout);
    let key = PlanKey {
        rows: 8,
        trainable,
        mode: Mode::Training,
    };
    let error = Plan::<f64>::new(&case.architecture, &case.layout, &state.permutations, key);
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("rq-autoregressive") && text.contains("compile: false"),
        "{text}"
    );

    let case = &cases("flow")[2];
    let state: NetworkState<f64> = case.state("state.");
    let rows = Rows::<f64>::new(case);
    let key = |rows, mode| PlanKey {
        rows,
        trainable: TrainableSet::all(&case.layout),
        mode,
    };
    let refused = Plan::<f64>::new(
        &case.architecture,
        &case.layout,
        &state.permutations,
        key(1, Mode::Training),
    );
    assert!(refused.unwrap_err().to_string().contains("at least 2"));
    let mut small = plan(case, &state, key(8, Mode::Evaluation));
    let mut log_prob = vec![0.0; rows.count()];
    let error = small
        .log_prob(
            &state.parameters,
            &state.statistics,
            &rows.batch(),
            &mut log_prob,
            None,
        )
        .unwrap_err();
    assert!(matches!(error, Error::Setting { .. }), "{error}");
    let mut gradients = vec![0.0; state.parameters.len()];
    let error = small
        .loss_and_gradients(
            &state.parameters,
            &mut state.statistics.clone(),
            &mut state.counters.clone(),
            &rows.batch(),
            &step(),
            &mut gradients,
            &LocalReduction,
            &mut |_| {},
        )
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}
