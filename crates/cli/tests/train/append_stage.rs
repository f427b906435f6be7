//! `append-stage`: what it adds or replaces is what a resumed run trains.

use std::process::Output;

use dunnart_train::{RunState, Settings};

use crate::support::{Case, assert_code, names, text};

const LATEST: &str = "run/model_latest.safetensors";

fn append(case: &Case, stage: &str, out: &str, more: &[&str]) -> Output {
    std::fs::write(case.path("stage.yaml"), stage).unwrap();
    let arguments = [
        "--checkpoint",
        LATEST,
        "--stage-settings",
        "stage.yaml",
        "--out",
        out,
    ];
    let mut command = case.verb("append-stage", &arguments);
    command.args(more).output().unwrap()
}

/// The settings and the state of the run's last checkpoint.
fn saved(case: &Case, name: &str) -> (Settings, RunState) {
    let metadata = case.model("run", name).metadata;
    let (settings, _) = Settings::from_value(&metadata.settings.unwrap()).unwrap();
    (
        settings,
        serde_json::from_value(metadata.run.unwrap()).unwrap(),
    )
}

/// Epochs that the log tells, by stage and learning rate.
fn epochs(case: &Case) -> Vec<(u64, f64)> {
    let log = std::fs::read_to_string(case.path("run/log.jsonl")).unwrap();
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        (
            row["stage"].as_u64().unwrap(),
            row["learning_rate"].as_f64().unwrap(),
        )
    };
    log.lines().map(row).collect()
}

#[test]
fn a_finished_run_trains_the_stage_that_is_added() {
    let case = Case::new();
    case.to_the_end("run");
    let finished = std::fs::read(case.path(LATEST)).unwrap();
    let stage = "{epochs: 2, batch_size: 40, optimizer: {type: sgd, lr: 0.0005}}";
    let output = append(&case, stage, LATEST, &[]);
    assert_code(&output, 0);
    let said = text(&output);
    assert!(
        said.contains("stage 2 added; 3 stages, 2 of them finished"),
        "{said}"
    );
    // What it replaced stays under the previous name.
    let previous = case.path("run/model_latest.previous.safetensors");
    assert_eq!(std::fs::read(previous).unwrap(), finished);
    let (settings, state) = saved(&case, "model_latest");
    assert_eq!(settings.training.stages.len(), 3);
    assert!(!state.finished);
    let before = case.model("run", "model_latest").weights;
    case.to_the_end("run");
    assert_ne!(case.model("run", "model_stage_2").weights, before);
    let (_, state) = saved(&case, "model_latest");
    assert!(state.finished);
    assert_eq!((state.epoch, state.finished_stages.len()), (8, 3));
    assert_eq!(epochs(&case)[6..], [(2, 0.0005), (2, 0.0005)]);
}

#[test]
fn a_planned_stage_is_replaced_and_the_replacement_is_trained() {
    let case = Case::new();
    case.settings("  runtime_limits: {max_epochs_per_run: 2}\n");
    let output = case.train(&["--settings", "settings.yaml", "--train-dir", "run"]);
    assert_code(&output, 0);
    let stage = "{epochs: 1, batch_size: 40, optimizer: {type: adam, lr: 0.00025}}";
    let output = append(&case, stage, LATEST, &["--replace", "1"]);
    assert_code(&output, 0);
    let said = text(&output);
    assert!(
        said.contains("stage 1 replaced; 2 stages, 0 of them finished"),
        "{said}"
    );
    case.to_the_end("run");
    let stages: Vec<u64> = epochs(&case).iter().map(|(stage, _)| *stage).collect();
    assert_eq!(stages, [0, 0, 0, 1]);
    assert_eq!(epochs(&case)[3].1, 0.00025);
    assert!(saved(&case, "model_latest").1.finished);
}

#[test]
fn what_would_leave_a_gap_or_change_the_past_is_refused() {
    let case = Case::new();
    case.settings("  runtime_limits: {max_epochs_per_run: 4}\n");
    let output = case.train(&["--settings", "settings.yaml", "--train-dir", "run"]);
    assert_code(&output, 0);
    let before = std::fs::read(case.path(LATEST)).unwrap();
    let files = names(&case.path("run")).len();
    let good = "{epochs: 1, batch_size: 40, optimizer: {type: adam}}";
    for (stage, replace, expected) in [
        // Stages are 0 and 1: a stage 3 would leave a gap, a stage 2 is what adding makes.
        (
            good,
            Some("3"),
            "stage 3: expected a stage of this run, 0 to 1",
        ),
        (
            good,
            Some("2"),
            "stage 2: expected a stage of this run, 0 to 1",
        ),
        (
            good,
            Some("0"),
            "expected a stage that has not begun, got a finished one",
        ),
        (
            good,
            Some("1"),
            "expected a stage that has not begun, got one under way",
        ),
        (
            "{epochs: 1, batch_size: 40}",
            None,
            "`training.stage_2.optimizer` is missing",
        ),
        ("{epochs: 1", None, "stage.yaml"),
    ] {
        for out in [LATEST, "run/new.safetensors"] {
            let more: Vec<&str> = replace.iter().flat_map(|n| ["--replace", *n]).collect();
            let output = append(&case, stage, out, &more);
            assert_code(&output, 2);
            let said = text(&output);
            assert!(said.contains(expected), "`{expected}` is not in {said}");
        }
        assert_eq!(std::fs::read(case.path(LATEST)).unwrap(), before);
        assert_eq!(names(&case.path("run")).len(), files);
    }
    // A checkpoint of a network that no run has written.
    let mut model = case.model("run", "model_latest");
    model.metadata.settings = None;
    let options = dunnart_files::WriteOptions::default();
    model.write(&case.path(LATEST), &options).unwrap();
    let output = append(&case, good, "run/new.safetensors", &[]);
    assert_code(&output, 2);
    assert!(text(&output).contains("hint:"), "{}", text(&output));
}
