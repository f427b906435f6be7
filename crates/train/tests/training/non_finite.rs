//! Point 23 and case 16 in a run: a loss that is no number ends it and overwrites nothing.

use std::sync::Arc;

use dunnart_train::Error;
use dunnart_train::run_state::RunState;

use crate::support::{Problem, Seen, Toy, file, latest, stage};

fn broken(row: u64, from: (u32, u32)) -> Problem {
    let mut problem = Problem::vectors(Some("BatchNorm"), 0.0, &[stage(4)]);
    problem.source = Arc::new(Toy {
        width: 3,
        broken: Some((row, from)),
    });
    problem
}

fn run_and_check(problem: &Problem, what: &str, has_step: bool) {
    let parent = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    let error = problem.run(parent.path(), &mut seen).unwrap_err();
    let Error::Diverged {
        stage,
        epoch,
        step,
        found,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((*stage, *epoch, step.is_some()), (0, 3, has_step));
    assert!(found.is_nan());
    let text = error.to_string();
    assert!(
        text.contains(what) && text.contains("stage 0, epoch 3"),
        "{text}"
    );
    assert_eq!(seen.epochs.len(), 2);
    // What two epochs left behind is what a run of two epochs leaves behind.
    let other = tempfile::tempdir().unwrap();
    let local = problem.at_most(2);
    problem
        .run_with(other.path(), problem.start(3), &local, &mut Seen::default())
        .unwrap();
    assert_eq!(latest(parent.path()).weights, latest(other.path()).weights);
    let best = |folder: &std::path::Path| std::fs::read(file(folder, "best_model")).unwrap();
    assert_eq!(best(parent.path()), best(other.path()));
    let run: RunState =
        serde_json::from_value(latest(parent.path()).metadata.run.unwrap()).unwrap();
    assert_eq!(run.epoch, 2);
    let history = std::fs::read_to_string(parent.path().join("history.txt")).unwrap();
    assert_eq!(history.lines().count(), 2);
    assert!(!history.contains("nan"), "{history}");
}

#[test]
fn point_23_a_training_loss_that_is_no_number_ends_the_run() {
    let problem = broken(0, (0, 2));
    let row = problem.split.train[11];
    run_and_check(&broken(row, (0, 2)), "training loss", true);
}

#[test]
fn point_23_a_test_loss_that_is_no_number_ends_the_run() {
    let problem = broken(0, (0, 2));
    let row = problem.split.test[5];
    run_and_check(&broken(row, (0, 2)), "test loss", false);
}
