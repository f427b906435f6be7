//! Arguments, messages and exit codes.

use std::process::{Command, Stdio};

use crate::support::{Case, assert_code, names, text};

fn new_run(case: &Case, run: &str) -> std::process::Output {
    case.train(&["--settings", "settings.yaml", "--train-dir", run])
}

#[test]
fn a_run_leaves_its_files_and_says_what_it_did() {
    let case = Case::new();
    let output = new_run(&case, "run");
    assert_code(&output, 0);
    let said = text(&output);
    for part in [
        "data: 160 rows for training, 40 for testing",
        "0 reduced basis, 0 embedding,",
        "stage 0: 3 epochs",
        "stage 1 epoch 3/3: train",
        "waiting for data",
        "finished: every stage is over",
    ] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "no terminal, no escapes:\n{said}");
    let files = names(&case.path("run"));
    for name in [
        "history.txt",
        "log.jsonl",
        "local_settings.yaml",
        "loss.svg",
        "best_model.safetensors",
        "model_002.safetensors",
        "model_004.safetensors",
        "model_006.safetensors",
        "model_latest.safetensors",
        "model_stage_0.safetensors",
        "model_stage_1.safetensors",
    ] {
        assert!(
            files.iter().any(|file| file == name),
            "no {name} in {files:?}"
        );
    }
    let history = std::fs::read_to_string(case.path("run/history.txt")).unwrap();
    assert_eq!(history.matches("\r\n").count(), 6, "{history:?}");
    let log = std::fs::read_to_string(case.path("run/log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 6);
}

/// Point 26: at once, not after an epoch, and nothing of the other run is touched.
#[test]
fn point_26_the_folder_of_another_run_is_refused() {
    let case = Case::new();
    std::fs::create_dir(case.path("run")).unwrap();
    std::fs::write(case.path("run/history.txt"), "mine").unwrap();
    let output = new_run(&case, "run");
    assert_code(&output, 2);
    let said = text(&output);
    assert!(
        said.contains("history.txt") && said.contains("hint:"),
        "{said}"
    );
    assert_eq!(
        std::fs::read_to_string(case.path("run/history.txt")).unwrap(),
        "mine"
    );
    assert_eq!(names(&case.path("run")), ["history.txt"]);
}

#[test]
fn limits_pause_and_the_checkpoint_goes_on_with_edited_local_settings() {
    let case = Case::new();
    assert_code(&new_run(&case, "straight"), 0);
    case.settings("  runtime_limits: {max_epochs_per_run: 2}\n");
    let output = case.train(&[
        "--settings",
        "settings.yaml",
        "--train-dir",
        "run",
        "--exit-command",
        "touch done",
    ]);
    assert_code(&output, 0);
    assert!(
        text(&output).contains("paused: max_epochs_per_run"),
        "{}",
        text(&output)
    );
    assert!(
        !case.path("done").exists(),
        "the exit command waits for the end"
    );
    let local = case.path("run/local_settings.yaml");
    let edited = std::fs::read_to_string(&local)
        .unwrap()
        .replace("max_epochs_per_run: 2", "max_epochs_per_run: 100");
    std::fs::write(&local, edited).unwrap();
    let output = case.train(&[
        "--checkpoint",
        "run/model_latest.safetensors",
        "--train_dir",
        "run",
        "--exit_command",
        "touch done",
    ]);
    assert_code(&output, 0);
    assert!(case.path("done").exists());
    case.assert_same("straight", "run");
}

/// Point 21: a finished run runs the exit command again, trains nothing and stays finished.
#[test]
fn point_21_a_finished_run_says_so_when_resumed() {
    let case = Case::new();
    assert_code(&new_run(&case, "run"), 0);
    let before = case.model("run", "model_latest");
    let output = case.train(&[
        "--checkpoint",
        "run/model_latest.safetensors",
        "--train-dir",
        "run",
        "--exit-command",
        "touch done",
    ]);
    assert_code(&output, 0);
    assert!(
        text(&output).contains("finished: every stage is over"),
        "{}",
        text(&output)
    );
    assert!(!text(&output).contains("epoch 1/3"), "{}", text(&output));
    assert!(case.path("done").exists());
    assert_eq!(case.model("run", "model_latest"), before);
}

#[test]
fn interrupting_saves_and_says_how_to_go_on() {
    let case = Case::new();
    assert_code(&new_run(&case, "straight"), 0);
    let child = case
        .command(&["--settings", "settings.yaml", "--train-dir", "run"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first checkpoint stands at the beginning of the first epoch.
    let latest = case.path("run/model_latest.safetensors");
    let begun = std::time::Instant::now();
    while !latest.exists() && begun.elapsed() < std::time::Duration::from_secs(60) {
        std::thread::yield_now();
    }
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert_code(&output, 1);
    assert!(said.contains("stopped in stage"), "{said}");
    assert!(said.contains("hint: dunnart train --checkpoint"), "{said}");
    case.to_the_end("run");
    case.assert_same("straight", "run");
}

#[test]
fn a_test_only_run_saves_nothing() {
    let case = Case::new();
    case.settings("  test_only: true\n");
    let output = new_run(&case, "run");
    assert_code(&output, 0);
    assert!(text(&output).contains("test loss: "), "{}", text(&output));
    assert!(!case.path("run").exists());
}

#[test]
fn a_run_that_cannot_begin_leaves_no_folder() {
    let case = Case::new();
    case.settings("  num_gpus: 2\n");
    let output = new_run(&case, "runs/first");
    assert_code(&output, 2);
    assert!(
        text(&output).contains("local.num_gpus"),
        "{}",
        text(&output)
    );
    assert!(!case.path("runs").exists());
    // A folder that was there stays, and so do the files in it.
    std::fs::create_dir(case.path("run")).unwrap();
    std::fs::write(case.path("run/notes.txt"), "mine").unwrap();
    assert_code(&new_run(&case, "run"), 2);
    assert_eq!(names(&case.path("run")), ["notes.txt"]);
}

/// An error and its causes say each thing once.
#[test]
fn a_missing_file_is_told_in_one_line() {
    let case = Case::new();
    for arguments in [
        ["--checkpoint", "none.safetensors", "--train-dir", "run"],
        ["--settings", "none.yaml", "--train-dir", "run"],
    ] {
        let output = case.train(&arguments);
        assert_code(&output, 2);
        let said = text(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(said.matches(arguments[1]).count(), 1, "{said}");
        assert_eq!(said.matches("No such file").count(), 1, "{said}");
        assert!(!case.path("run").exists());
    }
}

#[test]
fn what_cannot_run_exits_with_2_and_names_the_fault() {
    let case = Case::new();
    for (arguments, part) in [
        (vec!["--train-dir", "run"], "--settings FILE"),
        (
            vec!["--settings", "none.yaml", "--train-dir", "run"],
            "none.yaml",
        ),
        (
            vec!["--checkpoint", "none.safetensors", "--train-dir", "run"],
            "none.safetensors",
        ),
        (
            vec!["--settings", "a", "--checkpoint", "b", "--train-dir", "run"],
            "cannot be used with",
        ),
    ] {
        let output = case.train(&arguments);
        assert_code(&output, 2);
        assert!(
            text(&output).contains(part),
            "{arguments:?}: {}",
            text(&output)
        );
    }
}

/// Case 22: rows that are not finite are counted and refused, and left out when told so.
#[test]
fn case_22_rows_that_are_not_finite_are_refused_or_left_out() {
    let case = Case::new();
    let file = case.path("simulations.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&file, bytes).unwrap();
    let output = new_run(&case, "broken");
    assert_code(&output, 2);
    let said = text(&output);
    assert!(said.contains("1 of 200 rows"), "{said}");
    assert_eq!(said.matches("simulations.safetensors").count(), 1, "{said}");
    assert!(!case.path("broken").exists());
    let settings = case.path("settings.yaml");
    let dropping = std::fs::read_to_string(&settings)
        .unwrap()
        .replace("train_fraction", "drop_nonfinite: true, train_fraction");
    std::fs::write(&settings, dropping).unwrap();
    let output = new_run(&case, "whole");
    assert_code(&output, 0);
    assert!(
        text(&output).contains("1 of 200 rows left out"),
        "{}",
        text(&output)
    );
}
