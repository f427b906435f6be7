//! Saves that are killed, run out of room or are not allowed: a loadable file stays.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dunnart_checkpoint::Model;
use dunnart_files::{WriteOptions, previous_path};
use dunnart_random::{Key, Purpose};
use serde_json::{Value, json};
use support::model;

const PATH: &str = "DUNNART_TEST_SAVE_TO";
const COUNT: &str = "DUNNART_TEST_SAVES";

/// A network of half a megabyte, so that a save takes a while.
fn settings() -> Value {
    json!({"posterior_kwargs": {
        "input_dim": 4, "context_dim": 8, "num_flow_steps": 4,
        "base_transform_kwargs": {"hidden_dim": 48, "num_transform_blocks": 2, "norm": "BatchNorm"}
    }})
}

/// The process that is killed: saves model after model. Does nothing unless a test starts it.
#[test]
fn child_that_saves() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let count: u64 = std::env::var(COUNT).unwrap().parse().unwrap();
    let options = WriteOptions {
        keep_previous: true,
        ..WriteOptions::default()
    };
    let models = [model::<f32>(&settings(), 0), model::<f32>(&settings(), 1)];
    for round in 0..count {
        if let Err(error) = models[round as usize % 2].write(Path::new(&path), &options) {
            eprintln!("{error}");
            std::process::exit(3);
        }
    }
}

fn child(path: &Path, count: u64, shell: Option<&str>) -> Command {
    let program = std::env::current_exe().unwrap();
    let arguments = [
        "--exact",
        "child_that_saves",
        "--nocapture",
        "--test-threads=1",
    ];
    let mut command = match shell {
        None => Command::new(program),
        Some(limit) => {
            let mut command = Command::new("sh");
            command
                .arg("-c")
                .arg(format!("{limit}; exec \"$0\" \"$@\""))
                .arg(program);
            command
        }
    };
    command
        .args(arguments)
        .env(PATH, path)
        .env(COUNT, count.to_string())
        .stdout(Stdio::null());
    command
}

fn kill_while_saving(rounds: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model latest.safetensors");
    let models = [model::<f32>(&settings(), 0), model::<f32>(&settings(), 1)];
    let start = Instant::now();
    models[0].write(&path, &WriteOptions::default()).unwrap();
    let save = start.elapsed().as_secs_f64();
    let (mut partial, mut changed) = (0, 0);
    for round in 0..rounds {
        let before = std::fs::read(&path).unwrap();
        let mut process = child(&path, u64::MAX, None)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The child must hold the lock before a kill is a test of anything; the file of the one
        // killed before still lies there.
        let lock = folder.path().join(".model latest.safetensors.lock");
        let owner = format!(" {}\n", process.id());
        let begun = || std::fs::read_to_string(&lock).is_ok_and(|text| text.ends_with(&owner));
        while !begun() && process.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let pause = Key::new(round, Purpose::Benchmark).stream(0).uniform() * 4.0 * save;
        std::thread::sleep(Duration::from_secs_f64(pause));
        process.kill().unwrap();
        process.wait().unwrap();
        let read = Model::read(&path).unwrap();
        assert!(models.contains(&read), "round {round}");
        if previous_path(&path).exists() {
            assert!(
                models.contains(&Model::read(&previous_path(&path)).unwrap()),
                "round {round}"
            );
        }
        let leftover = |e: std::io::Result<std::fs::DirEntry>| {
            e.unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".partial")
        };
        partial += u32::from(std::fs::read_dir(folder.path()).unwrap().any(leftover));
        changed += u32::from(std::fs::read(&path).unwrap() != before);
    }
    assert!(partial > 0, "no kill of {rounds} hit a save");
    assert!(changed > 0, "no save of {rounds} was completed");
    // What a killed save left behind hinders nobody and is cleared by the next one.
    models[1].write(&path, &WriteOptions::default()).unwrap();
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".lock") || name == ".model latest.safetensors.partial")
        .collect();
    assert_eq!(names, [""; 0]);
}

#[test]
fn case_27_a_kill_at_any_instant_leaves_a_loadable_file() {
    kill_while_saving(12);
}

#[test]
#[ignore = "takes a minute; cargo xtask test --slow"]
fn case_27_many_kills_leave_loadable_files() {
    kill_while_saving(300);
}

#[test]
fn case_27_a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let good = model::<f32>(&settings(), 5);
    good.write(&path, &WriteOptions::default()).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size > 200_000);
    // Files end after 100 blocks of 512 bytes; without the signal, writing fails as on a full disk.
    let output = child(&path, 1, Some("trap '' XFSZ; ulimit -f 100"))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("m.safetensors") && message.contains("File too large"),
        "{message}"
    );
    assert_eq!(Model::read(&path).unwrap(), good);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn case_27_a_folder_that_must_not_be_written() {
    let good = model::<f32>(&settings(), 6);
    // No user may create files in /proc, not even the one that tests often run as.
    let error = good
        .write(Path::new("/proc/m.safetensors"), &WriteOptions::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("/proc/m.safetensors: cannot"),
        "{error}"
    );
    let error = good.write(
        Path::new("/no/such/m.safetensors"),
        &WriteOptions::default(),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("/no/such/m.safetensors: cannot")
    );
}

#[test]
fn case_27b_two_processes_saving_to_one_name_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let models = [model::<f32>(&settings(), 0), model::<f32>(&settings(), 1)];
    let mut processes: Vec<_> = (0..2)
        .map(|_| {
            child(&path, 30, None)
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut codes = Vec::new();
    for process in &mut processes {
        codes.push(process.wait().unwrap().code());
    }
    // A writer may give up with a message while the other saves; it never writes over it.
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 3))) && codes.contains(&Some(0)));
    assert!(models.contains(&Model::read(&path).unwrap()));
}
