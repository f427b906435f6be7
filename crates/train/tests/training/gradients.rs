//! Accumulation, evaluation and precision: what a step and a test pass compute.

use std::sync::Arc;

use dunnart_flow::eager::{EagerBatch, EagerNetwork, EagerStorage, SplinePath};
use dunnart_flow::{Batch, Dropout, NetworkState, TrainableSet};
use dunnart_train::engine::{EngineKind, engine};
use dunnart_train::observer::StoppedClock;
use dunnart_train::optimizer::{Method, Optimizer};
use dunnart_train::samples::{Draw, HostBatch};
use dunnart_train::step::Stepper;
use dunnart_train::storage::Storage;
use dunnart_train::{Job, RunFolder, Start, evaluate};
use serde_json::json;
use tch::Device;

use crate::support::{Problem, Seen, Toy, latest, stage, with};

const DRAW: Draw = Draw {
    seed: 3,
    stage: 0,
    epoch: 0,
};

fn batch(problem: &Problem, samples: &[u64]) -> EagerBatch {
    let mut host = HostBatch::default();
    problem.source.fill(samples, DRAW, &mut host).unwrap();
    EagerBatch::new(&problem.architecture, &host.view(), Device::Cpu).unwrap()
}

fn stepper(problem: &Problem, storage: &Storage) -> Stepper {
    let trainable = TrainableSet::all(&problem.layout);
    let (a, l) = (&problem.architecture, &problem.layout);
    let method = Method::from(problem.training().stages[0].optimizer);
    Stepper {
        engine: engine(EngineKind::Eager, a, l, storage, &trainable, None).unwrap(),
        optimizer: Optimizer::new(method, l, &trainable, storage.options()).unwrap(),
        clip_grad_norm: None,
        autocast: None,
    }
}

fn storage(problem: &Problem) -> Storage {
    Storage::from_state(&problem.layout, &problem.start(3).state, Device::Cpu).unwrap()
}

fn gradient(storage: &Storage) -> Vec<f32> {
    Vec::try_from(&storage.gradients).unwrap()
}

/// Point 24: a window's gradient is that of the mean over all its rows, however it is cut.
#[test]
fn point_24_a_window_is_one_batch_whatever_the_sizes_of_its_parts() {
    let problem = Problem::vectors(None, 0.0, &[stage(1)]);
    let samples: Vec<u64> = (0..36).collect();
    let dropout = Dropout::new(3, 0, 0);
    let mut results = Vec::new();
    for sizes in [vec![36], vec![16, 16, 4], vec![35, 1]] {
        let mut storage = storage(&problem);
        let mut stepper = stepper(&problem, &storage);
        let mut parts = Vec::new();
        let mut rest = samples.as_slice();
        for size in sizes {
            let (part, other) = rest.split_at(size);
            parts.push(batch(&problem, part));
            rest = other;
        }
        stepper.window(&mut storage, &parts, dropout, 1e-3).unwrap();
        results.push(gradient(&storage));
    }
    let largest = results[0].iter().fold(0.0_f32, |m, g| m.max(g.abs()));
    assert!(largest > 0.01);
    for other in &results[1..] {
        for (index, (a, b)) in results[0].iter().zip(other).enumerate() {
            // Sums of 36 float32 terms in another order.
            assert!(
                (a - b).abs() <= 1e-5 * largest,
                "gradient {index}: {a} against {b}"
            );
        }
    }
}

fn test_loss(problem: &Problem, start: Start) -> f64 {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::open(parent.path()).unwrap();
    let job = Job {
        architecture: &problem.architecture,
        layout: &problem.layout,
        training: problem.training(),
        local: &problem.settings.local,
        source: Arc::clone(&problem.source),
        split: &problem.split,
        folder: &folder,
        engine: EngineKind::Eager,
        clock: &StoppedClock,
    };
    let loss = evaluate(&job, start).unwrap();
    assert!(!folder.latest().exists(), "an evaluation saves nothing");
    loss
}

/// Point 22: 100 test samples in batches of 64 with four accumulated batches gave NaN.
#[test]
fn point_22_evaluation_weighs_samples_and_knows_no_accumulation() {
    let mut losses = Vec::new();
    for (batch_size, accumulation) in [(64, 4), (64, 1), (99, 1), (100, 2)] {
        let changes =
            json!({"batch_size": batch_size, "gradient_updates_per_optimizer_step": accumulation});
        let mut problem = Problem::vectors(Some("BatchNorm"), 0.3, &[with(stage(1), changes)]);
        problem.split.test = (100..200).collect();
        losses.push(test_loss(&problem, problem.start(3)));
    }
    let problem = Problem::vectors(Some("BatchNorm"), 0.3, &[stage(1)]);
    let storage = storage(&problem);
    let network =
        EagerNetwork::new(&problem.architecture, &problem.layout, SplinePath::Tensor).unwrap();
    let evaluation = network.evaluation(&storage.network).unwrap();
    let samples: Vec<u64> = (100..200).collect();
    let log_prob: Vec<f32> =
        Vec::try_from(evaluation.log_prob(&batch(&problem, &samples)).unwrap()).unwrap();
    let expected = -log_prob.iter().map(|&v| f64::from(v)).sum::<f64>() / 100.0;
    for loss in losses {
        assert!((loss - expected).abs() < 1e-5, "{loss} against {expected}");
    }
}

/// Point 35: a trained network's float32 densities against the same network in float64.
#[test]
fn point_35_single_precision_densities_are_close_to_double() {
    let problem = Problem::vectors(Some("BatchNorm"), 0.0, &[stage(20)]);
    let parent = tempfile::tempdir().unwrap();
    problem.run(parent.path(), &mut Seen::default()).unwrap();
    let network = latest(parent.path());
    let samples: Vec<u64> = (1000..1500).collect();
    let mut host = HostBatch::default();
    problem.source.fill(&samples, DRAW, &mut host).unwrap();
    let single = log_prob::<f32>(&problem, &network, &host.view());
    let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let (theta, observation) = (wide(&host.theta), wide(&host.observation));
    let double_batch = Batch {
        theta: &theta,
        observation: &observation,
        context_parameters: &[],
        samples: &samples,
    };
    let double = log_prob::<f64>(&problem, &network, &double_batch);
    let worst = single
        .iter()
        .zip(&double)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    assert!(worst < 1e-3, "log q differs by {worst}");
    assert!(worst > 0.0);
}

fn log_prob<T: dunnart_flow::eager::TensorReal + dunnart_checkpoint::Element>(
    problem: &Problem,
    model: &dunnart_checkpoint::Model,
    batch: &Batch<'_, T>,
) -> Vec<f64> {
    let network = model
        .network::<T>(dunnart_checkpoint::Rounding::Refuse)
        .unwrap();
    let state: NetworkState<T> = network.state;
    let storage = EagerStorage::from_state(&problem.layout, &state, Device::Cpu).unwrap();
    let eager =
        EagerNetwork::new(&problem.architecture, &problem.layout, SplinePath::Fused).unwrap();
    let evaluation = eager.evaluation(&storage).unwrap();
    let batch = EagerBatch::new(&problem.architecture, batch, Device::Cpu).unwrap();
    let values = evaluation
        .log_prob(&batch)
        .unwrap()
        .to_kind(tch::Kind::Double);
    Vec::try_from(values).unwrap()
}

/// Case 23: batches, parameters, gradients and moments are float32, whatever the source computed in.
#[test]
fn case_23_everything_that_trains_is_single_precision() {
    let problem = Problem::vectors(None, 0.0, &[stage(1)]);
    let rows = batch(&problem, &[1, 2, 3]);
    let mut storage = storage(&problem);
    let mut stepper = stepper(&problem, &storage);
    let loss = stepper
        .accumulate(&mut storage, &rows, Dropout::new(0, 0, 0), 1.0, true)
        .unwrap();
    stepper.step(&mut storage, 1e-3).unwrap();
    for tensor in [
        &rows.theta,
        rows.observation.as_ref().unwrap(),
        &storage.network.parameters,
        &storage.gradients,
        &loss,
    ] {
        assert_eq!(tensor.kind(), tch::Kind::Float);
    }
    // Moments in another precision would be refused here.
    stepper.optimizer.states::<f32>(&problem.layout).unwrap();
    assert!(stepper.optimizer.states::<f64>(&problem.layout).is_err());
    let _ = Toy {
        width: 3,
        broken: None,
    };
}
