//! What refuses to start, and what a folder protects.

use std::sync::Arc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use dunnart_train::Error;
use dunnart_train::observer::Clock;
use dunnart_train::samples::{Draw, HostBatch, Samples};
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

/// A source that takes its time.
struct Slow(Arc<dyn Samples>, Duration);

impl Samples for Slow {
    fn fill(
        &self,
        samples: &[u64],
        draw: Draw,
        batch: &mut HostBatch,
    ) -> Result<(), dunnart_data::Error> {
        std::thread::sleep(self.1);
        self.0.fill(samples, draw, batch)
    }
}

/// Time as it passes.
struct Watch;

impl Clock for Watch {
    fn seconds(&self) -> f64 {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGIN.elapsed().as_secs_f64()
    }
}

/// Case 41: steps that wait for their data are a remark, once a run.
#[test]
fn case_41_a_run_that_waits_for_its_data_says_so_once() {
    let parent = tempfile::tempdir().unwrap();
    let mut problem = Problem::vectors(None, 0.0, &[stage(3)]);
    problem.source = Arc::new(Slow(Arc::clone(&problem.source), Duration::from_millis(50)));
    let told = |problem: &Problem, name: &str| {
        let mut seen = Seen::default();
        problem.run(&parent.path().join(name), &mut seen).unwrap();
        let waited = seen
            .notes
            .iter()
            .filter(|note| note.contains("waited for data"));
        (waited.count(), seen.epochs[0].waiting)
    };
    // Without a clock nothing is measured and nothing is said.
    assert_eq!(told(&problem, "a"), (0, 0.0));
    problem.clock = &Watch;
    let (notes, share) = told(&problem, "b");
    assert!(share > 0.1, "{share}");
    assert_eq!(notes, 1);
}
