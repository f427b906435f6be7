//! What a stage trains, and how it ends.

use std::sync::atomic::AtomicU32;

use dunnart_flow::TrainableSet;
use dunnart_train::run_state::StageEnding;
use dunnart_train::{Outcome, Start};
use serde_json::json;

use crate::support::{Keeping, Problem, Seen, file, latest, model, stage, with};

/// Case 34: the frozen layer stays bit-identical, the freed one moves in every epoch.
#[test]
fn case_34_a_frozen_layer_stays_and_a_freed_one_moves() {
    let problem = Problem::strains(&[
        with(stage(2), json!({"freeze_rb_layer": true})),
        with(stage(2), json!({"freeze_rb_layer": false})),
    ]);
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    let mut keeping = Keeping(folder.into(), AtomicU32::new(0));
    assert_eq!(
        problem.run(folder, &mut keeping).unwrap(),
        Outcome::Finished
    );
    let mut before = problem.start(3).state.parameters;
    for epoch in 0..4 {
        let kept = model(folder, &format!("kept_{epoch}"));
        let moments = kept.optimizer.clone();
        let after = Start::resume(kept).unwrap().state.parameters;
        for spec in problem.layout.parameters() {
            let frozen = epoch < 2 && spec.name.contains("layers_rb");
            let same = before[spec.range()] == after[spec.range()];
            assert_eq!(same, frozen, "epoch {epoch}, {}", spec.name);
            assert_eq!(
                moments.get(&spec.name).is_none(),
                frozen,
                "moments of {}",
                spec.name
            );
        }
        before = after;
    }
}

/// A stage that says nothing keeps the set of the stage before.
#[test]
fn a_stage_that_says_nothing_trains_what_the_one_before_did() {
    let problem = Problem::strains(&[with(stage(1), json!({"freeze_rb_layer": true})), stage(1)]);
    let parent = tempfile::tempdir().unwrap();
    problem.run(parent.path(), &mut Seen::default()).unwrap();
    let (start, end) = (
        problem.start(3).state,
        Start::resume(latest(parent.path())).unwrap().state,
    );
    let all = TrainableSet::all(&problem.layout);
    for index in all.indices() {
        let spec = &problem.layout.parameters()[index];
        let same = start.parameter(spec) == end.parameter(spec);
        assert_eq!(same, spec.name.contains("layers_rb"), "{}", spec.name);
    }
}

/// Points 20 and 21, case 25: an early stop ends its stage and nothing else.
#[test]
fn case_25_an_early_stop_is_the_end_of_its_stage_and_of_nothing_else() {
    // Nothing can be better by a thousand, so that the second epoch is worse and ends the stage.
    let stopping = with(
        stage(30),
        json!({"early_stopping": {"patience": 1, "delta": 1000.0}}),
    );
    let next = with(
        stage(3),
        json!({"optimizer": {"type": "adam", "lr": 0.002}}),
    );
    let last = with(
        stage(9),
        json!({"early_stopping": {"patience": 1, "delta": 1000.0}}),
    );
    let problem = Problem::vectors(None, 0.0, &[stopping, next, last]);
    let parent = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    assert_eq!(
        problem.run(parent.path(), &mut seen).unwrap(),
        Outcome::Finished
    );
    let stages: Vec<usize> = seen.epochs.iter().map(|epoch| epoch.stage).collect();
    assert_eq!(stages, [0, 0, 1, 1, 1, 2, 2]);
    assert_eq!(
        seen.epochs[2].learning_rate, 0.002,
        "the next stage has its own learning rate"
    );
    for stage in 0..3 {
        assert!(file(parent.path(), &format!("model_stage_{stage}")).exists());
    }
    let run: dunnart_train::RunState =
        serde_json::from_value(latest(parent.path()).metadata.run.unwrap()).unwrap();
    assert!(run.finished);
    let endings: Vec<_> = run
        .finished_stages
        .iter()
        .map(|s| (s.epochs, s.ending))
        .collect();
    use StageEnding::{Completed, EarlyStopped};
    assert_eq!(
        endings,
        [(2, EarlyStopped), (3, Completed), (2, EarlyStopped)]
    );
    // A finished run stays finished: resuming trains nothing and writes nothing.
    let before = std::fs::read(file(parent.path(), "model_latest")).unwrap();
    let mut seen = Seen::default();
    assert_eq!(
        problem.resume(parent.path(), &mut seen).unwrap(),
        Outcome::Finished
    );
    assert_eq!(seen.steps, 0);
    assert_eq!(
        std::fs::read(file(parent.path(), "model_latest")).unwrap(),
        before
    );
}

/// Point 31: no scheduler and a null one are both a constant learning rate.
#[test]
fn point_31_a_stage_without_a_scheduler_keeps_its_learning_rate() {
    let mut absent = stage(2);
    absent.as_object_mut().unwrap().remove("scheduler");
    let problem = Problem::vectors(
        None,
        0.0,
        &[absent, with(stage(2), json!({"scheduler": null}))],
    );
    let parent = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    problem.run(parent.path(), &mut seen).unwrap();
    assert!(seen.epochs.iter().all(|epoch| epoch.learning_rate == 0.005));
}

/// Point 12: `fused` is a word of the stage; the numbers are the same with and without it.
#[test]
fn point_12_fused_changes_no_number() {
    let parent = tempfile::tempdir().unwrap();
    let run = |fused: bool| {
        let optimizer = json!({"type": "adam", "lr": 0.005, "fused": fused});
        let problem = Problem::vectors(
            None,
            0.0,
            &[with(stage(1), json!({"optimizer": optimizer}))],
        );
        let folder = parent.path().join(fused.to_string());
        problem.run(&folder, &mut Seen::default()).unwrap();
        latest(&folder).weights
    };
    assert_eq!(run(true), run(false));
}

/// Half-precision products change the losses a little and nothing else.
#[test]
fn automatic_mixed_precision_trains() {
    let parent = tempfile::tempdir().unwrap();
    let run = |half: bool| {
        let changed = with(stage(3), json!({"automatic_mixed_precision": half}));
        let problem = Problem::vectors(Some("BatchNorm"), 0.0, &[changed]);
        let mut seen = Seen::default();
        problem
            .run(&parent.path().join(half.to_string()), &mut seen)
            .unwrap();
        seen.epochs.last().unwrap().train_loss
    };
    let (half, single) = (run(true), run(false));
    assert_ne!(half, single);
    assert!((half - single).abs() < 0.05, "{half} against {single}");
}

/// Case 18 in a run: said once, and no sample is lost where two rows are left.
#[test]
fn case_18_a_single_trailing_row_is_left_out_and_said_once() {
    // 70 training rows in batches of 23 leave one.
    let changed = with(stage(3), json!({"batch_size": 23}));
    for (norm, steps, notes) in [(Some("BatchNorm"), 3, 1), (None, 4, 0)] {
        let problem = Problem::vectors(norm, 0.0, std::slice::from_ref(&changed));
        let parent = tempfile::tempdir().unwrap();
        let mut seen = Seen::default();
        problem.run(parent.path(), &mut seen).unwrap();
        assert!(
            seen.epochs.iter().all(|epoch| epoch.steps == steps),
            "{:?}",
            seen.epochs
        );
        let said = seen
            .notes
            .iter()
            .filter(|note| note.contains("one sample"))
            .count();
        assert_eq!(said, notes, "{:?}", seen.notes);
    }
    let problem = Problem::vectors(
        Some("BatchNorm"),
        0.0,
        &[with(stage(1), json!({"batch_size": 1}))],
    );
    let parent = tempfile::tempdir().unwrap();
    let error = problem
        .run(parent.path(), &mut Seen::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("training.stage_0.batch_size"), "{error}");
}

/// Numbered checkpoints come every `checkpoint_epochs` epochs of the run.
#[test]
fn numbered_checkpoints_count_the_epochs_of_the_run() {
    let problem = Problem::vectors(None, 0.0, &[stage(3), stage(2)]);
    let parent = tempfile::tempdir().unwrap();
    problem.run(parent.path(), &mut Seen::default()).unwrap();
    let numbered: Vec<bool> = (1..=5)
        .map(|epoch| file(parent.path(), &format!("model_{epoch:03}")).exists())
        .collect();
    assert_eq!(numbered, [false, true, false, true, false]);
}
