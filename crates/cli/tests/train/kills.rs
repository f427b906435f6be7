//! Point 27 and case 28: a run that is killed at any instant resumes to the same end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use dunnart_random::{Key, Purpose};

use crate::support::{Case, names};

/// When a run is killed.
enum Kill {
    After(Duration),
    /// As soon as a file is being written, after so many that were seen before.
    InsideWrite(usize),
}

/// Starts the run (or goes on with it), kills it, and says whether a half-written file was left.
fn kill(case: &Case, run: &str, when: &Kill) -> bool {
    let latest = case.path(run).join("model_latest.safetensors");
    let mut command = if latest.exists() {
        case.command(&["--checkpoint", latest.to_str().unwrap(), "--train-dir", run])
    } else {
        case.command(&["--settings", "settings.yaml", "--train-dir", run])
    };
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let folder = case.path(run);
    let half = || {
        names(&folder)
            .into_iter()
            .any(|name| name.ends_with(".partial"))
    };
    match when {
        Kill::After(time) => std::thread::sleep(*time),
        Kill::InsideWrite(before) => {
            let begun = Instant::now();
            let (mut seen, mut writing) = (0, false);
            while begun.elapsed() < Duration::from_secs(30) && child.try_wait().unwrap().is_none() {
                let now = half();
                seen += usize::from(now && !writing);
                writing = now;
                if seen > *before {
                    break;
                }
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    half()
}

#[test]
fn point_27_twenty_kills_resume_to_the_same_end() {
    let case = Case::new();
    let begun = Instant::now();
    case.to_the_end("straight");
    let whole = begun.elapsed();
    let mut stream = Key::new(20, Purpose::Benchmark).stream(0);
    let mut half_written = 0;
    for round in 0..20 {
        let run = format!("killed_{round}");
        let when = if round % 4 == 0 {
            Kill::InsideWrite(stream.below(6) as usize)
        } else {
            Kill::After(whole.mul_f64(stream.uniform()))
        };
        half_written += usize::from(kill(&case, &run, &when));
        case.to_the_end(&run);
        case.assert_same("straight", &run);
        let left = names(&case.path(&run));
        assert!(
            !left.iter().any(|name| name.ends_with(".partial")),
            "{left:?}"
        );
    }
    assert!(half_written > 0, "no kill fell into a write");
}

/// Kills one after the other in the same run.
#[test]
fn a_run_that_is_killed_again_and_again_resumes_to_the_same_end() {
    let case = Case::new();
    let begun = Instant::now();
    case.to_the_end("straight");
    let whole = begun.elapsed();
    let mut stream = Key::new(21, Purpose::Benchmark).stream(0);
    for _ in 0..5 {
        kill(
            &case,
            "killed",
            &Kill::After(whole.mul_f64(0.6 * stream.uniform())),
        );
    }
    case.to_the_end("killed");
    case.assert_same("straight", "killed");
}
