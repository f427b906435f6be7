//! Case 28: a resumed run is the same run, bit for bit.

use std::path::Path;

use dunnart_train::engine::EngineKind;
use dunnart_train::run_state::Limit;
use dunnart_train::{Outcome, Start};
use serde_json::json;

use crate::support::{Problem, Seen, latest, model, stage, with};

/// Everything that must not depend on where a run was interrupted.
fn assert_same(one: &Path, other: &Path) {
    let (a, b) = (latest(one), latest(other));
    assert_eq!(a.weights, b.weights);
    assert_eq!(a.optimizer, b.optimizer);
    assert_eq!(a.metadata.run, b.metadata.run);
    assert_eq!(a.metadata.scheduler, b.metadata.scheduler);
    assert_eq!(a.metadata.early_stopping, b.metadata.early_stopping);
    assert_eq!(a.metadata.history, b.metadata.history);
    let history = |folder: &Path| std::fs::read(folder.join("history.txt")).unwrap();
    assert_eq!(history(one), history(other));
    assert_eq!(
        model(one, "best_model").weights,
        model(other, "best_model").weights
    );
}

fn two_stages(first: usize, second: usize) -> Problem {
    let accumulated = with(
        stage(first),
        json!({"gradient_updates_per_optimizer_step": 3, "clip_grad_norm": 0.5}),
    );
    let plateau = with(
        stage(second),
        json!({
            "optimizer": {"type": "adamw", "lr": 0.003},
            "scheduler": {"type": "reduce_on_plateau", "factor": 0.5, "patience": 0},
            "early_stopping": {"patience": 10},
        }),
    );
    Problem::vectors(Some("BatchNorm"), 0.2, &[accumulated, plateau])
}

#[test]
fn case_28_six_epochs_are_any_number_and_the_rest() {
    for (first, second, engine) in [
        (3, 3, EngineKind::Eager),
        (4, 2, EngineKind::Eager),
        (3, 3, EngineKind::Compiled),
        (4, 2, EngineKind::Compiled),
    ] {
        let mut problem = two_stages(first, second);
        problem.engine = engine;
        let parent = tempfile::tempdir().unwrap();
        let straight = parent.path().join("straight");
        assert_eq!(
            problem.run(&straight, &mut Seen::default()).unwrap(),
            Outcome::Finished
        );
        // Three epochs end at the stage's boundary in the first case and within a stage in the second.
        for epochs in 1..6 {
            let folder = parent.path().join(format!("{epochs}"));
            let local = problem.at_most(epochs);
            let outcome = problem
                .run_with(&folder, problem.start(3), &local, &mut Seen::default())
                .unwrap();
            assert_eq!(outcome, Outcome::Paused(Limit::Epochs));
            let mut seen = Seen::default();
            assert_eq!(
                problem.resume(&folder, &mut seen).unwrap(),
                Outcome::Finished
            );
            assert_eq!(seen.epochs.len(), 6 - epochs);
            assert_same(&straight, &folder);
        }
    }
}

/// Ctrl-C in the middle of an epoch: the epoch is redone from its key.
#[test]
fn a_run_that_was_asked_to_stop_goes_on_to_the_same_end() {
    let problem = two_stages(2, 2);
    let parent = tempfile::tempdir().unwrap();
    let straight = parent.path().join("straight");
    problem.run(&straight, &mut Seen::default()).unwrap();
    // 70 rows in batches of 16, three a window: two steps an epoch; then five.
    for (steps, expected) in [
        (
            1,
            Outcome::Stopped {
                stage: 0,
                epoch: 0,
                step: Some(1),
            },
        ),
        (
            2,
            Outcome::Stopped {
                stage: 0,
                epoch: 1,
                step: None,
            },
        ),
        (
            3,
            Outcome::Stopped {
                stage: 0,
                epoch: 1,
                step: Some(1),
            },
        ),
        (
            4,
            Outcome::Stopped {
                stage: 1,
                epoch: 0,
                step: None,
            },
        ),
        (
            7,
            Outcome::Stopped {
                stage: 1,
                epoch: 0,
                step: Some(3),
            },
        ),
    ] {
        let folder = parent.path().join(format!("{steps}"));
        let mut seen = Seen {
            stop_after: Some(steps),
            ..Seen::default()
        };
        assert_eq!(problem.run(&folder, &mut seen).unwrap(), expected);
        assert_eq!(seen.steps, steps, "the run stops after the step it is at");
        assert_eq!(
            problem.resume(&folder, &mut Seen::default()).unwrap(),
            Outcome::Finished
        );
        assert_same(&straight, &folder);
    }
}

/// Case 29: the optimiser's state goes through the file, for every optimiser there is.
#[test]
fn case_29_every_optimiser_resumes_within_a_stage() {
    for optimizer in [
        json!({"type": "Adam", "lr": 0.005, "weight_decay": 0.01, "fused": true}),
        json!({"type": "AdamW", "lr": 0.005, "betas": [0.8, 0.99]}),
        json!({"type": "SGD", "lr": 0.01, "momentum": 0.9, "nesterov": true, "fused": true}),
        json!({"type": "sgd", "lr": 0.01}),
        json!({"type": "AdaGrad", "lr": 0.02, "lr_decay": 0.1, "fused": true}),
    ] {
        let problem = Problem::vectors(
            None,
            0.0,
            &[with(stage(4), json!({"optimizer": optimizer}))],
        );
        let parent = tempfile::tempdir().unwrap();
        let (straight, folder) = (parent.path().join("a"), parent.path().join("b"));
        problem.run(&straight, &mut Seen::default()).unwrap();
        let before = problem.start(3).state.parameters;
        assert_ne!(
            Start::resume(latest(&straight)).unwrap().state.parameters,
            before
        );
        problem
            .run_with(
                &folder,
                problem.start(3),
                &problem.at_most(2),
                &mut Seen::default(),
            )
            .unwrap();
        problem.resume(&folder, &mut Seen::default()).unwrap();
        assert_same(&straight, &folder);
    }
}

/// A kill between the rows of history and log and the checkpoint leaves a row too many.
#[test]
fn rows_of_an_epoch_that_was_not_saved_are_dropped() {
    let problem = two_stages(2, 2);
    let parent = tempfile::tempdir().unwrap();
    let (straight, folder) = (parent.path().join("a"), parent.path().join("b"));
    problem.run(&straight, &mut Seen::default()).unwrap();
    problem
        .run_with(
            &folder,
            problem.start(3),
            &problem.at_most(2),
            &mut Seen::default(),
        )
        .unwrap();
    let saved = std::fs::read(folder.join("model_latest.safetensors")).unwrap();
    problem
        .run_with(
            &folder,
            Start::resume(latest(&folder)).unwrap(),
            &problem.at_most(1),
            &mut Seen::default(),
        )
        .unwrap();
    std::fs::write(folder.join("model_latest.safetensors"), saved).unwrap();
    problem.resume(&folder, &mut Seen::default()).unwrap();
    assert_same(&straight, &folder);
    let log = std::fs::read_to_string(folder.join("log.jsonl")).unwrap();
    let epochs: Vec<u64> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["epoch"]
                .as_u64()
                .unwrap()
        })
        .collect();
    assert_eq!(epochs, [1, 2, 3, 4]);
}

/// Point 10: which precision every run had.
#[test]
fn the_precision_of_every_run_is_kept() {
    let problem = two_stages(2, 2);
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a");
    problem
        .run_with(
            &folder,
            problem.start(3),
            &problem.at_most(3),
            &mut Seen::default(),
        )
        .unwrap();
    problem.resume(&folder, &mut Seen::default()).unwrap();
    let metadata = latest(&folder).metadata;
    assert_eq!(
        metadata.float32_matmul_precision.as_deref(),
        Some("highest")
    );
    let runs: Vec<u32> = metadata
        .float32_matmul_precision_history
        .iter()
        .map(|run| run.from_epoch)
        .collect();
    assert_eq!(runs, [0, 3]);
}
