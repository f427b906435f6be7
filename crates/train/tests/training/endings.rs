//! What refuses to start, and what a folder protects.

use dunnart_train::Error;
use serde_json::json;

use crate::support::{Problem, Seen, stage, with};

/// Case 24: a device that is not there is an error that names it, never a silent CPU run.
#[test]
fn case_24_a_device_that_is_not_there_is_refused_by_name() {
    let problem = Problem::vectors(None, 0.0, &[stage(1)]);
    let parent = tempfile::tempdir().unwrap();
    let mut local = problem.settings.local.clone();
    local.device = dunnart_train::settings::Device::Cuda(1_000);
    let error = problem
        .run_with(
            parent.path(),
            problem.start(3),
            &local,
            &mut Seen::default(),
        )
        .unwrap_err();
    assert!(matches!(error, Error::Setting { .. }));
    let text = error.to_string();
    assert!(
        text.contains("local.device") && text.contains("cuda:1000"),
        "{text}"
    );
}

#[test]
fn what_this_version_cannot_do_is_refused_by_name() {
    let problem = Problem::vectors(None, 0.0, &[stage(1)]);
    let parent = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut dunnart_train::settings::LocalSettings)| {
        let mut local = problem.settings.local.clone();
        change(&mut local);
        problem
            .run_with(
                parent.path(),
                problem.start(3),
                &local,
                &mut Seen::default(),
            )
            .unwrap_err()
            .to_string()
    };
    let error = refused(&|local| local.num_gpus = 2);
    assert!(error.contains("local.num_gpus"), "{error}");
}

/// Dropout's masks follow from the key: neither the batch size nor accumulation changes a row's mask.
#[test]
fn runs_depend_on_the_seed_and_on_nothing_else() {
    let problem = Problem::vectors(Some("BatchNorm"), 0.2, &[with(stage(2), json!({}))]);
    let parent = tempfile::tempdir().unwrap();
    let run = |name: &str, seed: u64| {
        let folder = parent.path().join(name);
        let local = &problem.settings.local;
        problem
            .run_with(&folder, problem.start(seed), local, &mut Seen::default())
            .unwrap();
        crate::support::latest(&folder).weights
    };
    let first = run("a", 1);
    assert_eq!(first, run("b", 1));
    assert_ne!(first, run("c", 2));
}
