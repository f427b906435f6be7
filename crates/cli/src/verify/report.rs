//! What came out of a run.

use serde_json::{Value, json};

use super::check::Check;
use super::manifest::Manifest;

/// One case through one path.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Name of the case.
    pub case: String,
    /// Name of the path.
    pub path: String,
    /// One check a tensor.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }

    /// Checks that belong together (all gradients, all final weights), with the worst of each group:
    /// the one that is nearest to its bound or farthest beyond it.
    pub fn groups(&self) -> Vec<(String, usize, &Check)> {
        let mut groups: Vec<(String, usize, &Check)> = Vec::new();
        for check in &self.checks {
            let name = check.group();
            match groups.iter_mut().find(|(group, ..)| *group == name) {
                Some((_, count, worst)) => {
                    *count += 1;
                    if check.share() > worst.share() {
                        *worst = check;
                    }
                }
                None => groups.push((name, 1, check)),
            }
        }
        groups
    }
}

/// A path that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Name of the path.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// All verdicts of a run.
#[derive(Clone, Debug)]
pub struct Report {
    folder: String,
    /// Cases through paths, in the order they ran.
    pub verdicts: Vec<Verdict>,
    /// Paths that did not run.
    pub skipped: Vec<Skipped>,
    /// Batches of the data pipeline, which no path computes.
    pub uncovered: usize,
}

impl Report {
    pub(super) fn new(manifest: &Manifest) -> Self {
        Self {
            folder: manifest
                .path()
                .parent()
                .map_or_else(String::new, |folder| folder.display().to_string()),
            verdicts: Vec::new(),
            skipped: Vec::new(),
            uncovered: manifest.uncovered(),
        }
    }

    pub(super) fn add(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    /// Number of checks.
    pub fn checks(&self) -> usize {
        self.verdicts.iter().map(|v| v.checks.len()).sum()
    }

    /// Checks that failed, with their case and path.
    pub fn failed(&self) -> impl Iterator<Item = (&Verdict, &Check)> {
        self.verdicts.iter().flat_map(|verdict| {
            let failed = verdict.checks.iter().filter(|check| !check.passed);
            failed.map(move |check| (verdict, check))
        })
    }

    /// `verify: N of N cases x paths, M checks, 0 failed`.
    pub fn summary(&self) -> String {
        let passed = self.verdicts.iter().filter(|v| v.passed()).count();
        format!(
            "verify: {passed} of {} cases x paths, {} checks, {} failed",
            self.verdicts.len(),
            self.checks(),
            self.failed().count()
        )
    }

    /// Everything, for a machine to read.
    pub fn to_json(&self) -> Value {
        let checks = self.verdicts.iter().flat_map(|verdict| {
            verdict.checks.iter().map(|check| {
                let mut value = check.to_json();
                value["case"] = json!(verdict.case);
                value["path"] = json!(verdict.path);
                value
            })
        });
        json!({
            "folder": self.folder,
            "summary": self.summary(),
            "cases_times_paths": self.verdicts.len(),
            "failed": self.failed().count(),
            "not_covered": self.uncovered,
            "not_built": self.skipped.iter()
                .map(|s| json!({"path": s.path, "reason": s.reason})).collect::<Vec<_>>(),
            "checks": checks.collect::<Vec<_>>(),
        })
    }
}
