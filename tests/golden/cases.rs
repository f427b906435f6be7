//! Every case that is shipped.

use std::path::PathBuf;

use dunnart_cli::verify::{Report, all_paths, run};

pub(crate) fn shipped() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden")
}

/// Every failed check in words.
pub(crate) fn failures(report: &Report) -> Vec<String> {
    report
        .failed()
        .map(|(verdict, check)| {
            format!(
                "{} through {}: {} differs by {:e}, bound {:e}: {:?} {:?}",
                verdict.case,
                verdict.path,
                check.quantity,
                check.difference,
                check.bound,
                check.comparison,
                check.remark
            )
        })
        .collect()
}

#[test]
fn every_case_agrees_through_every_path() {
    let report = run(&shipped(), &all_paths(), &mut |_| {}).unwrap();
    let failures = failures(&report);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let built: Vec<&str> = report.skipped.iter().map(|s| s.path.as_str()).collect();
    let through = |path: &str| report.verdicts.iter().filter(|v| v.path == path).count();
    // 8 splines, 15 flows, 6 posteriors, 1 training run.
    assert_eq!(through("initialisation"), 6);
    assert_eq!(through("spline"), 8);
    if cfg!(feature = "torch") {
        assert!(built.is_empty(), "{built:?}");
        assert_eq!(through("eager"), 30);
        assert_eq!(through("eager-tensor-spline"), 30);
        assert!(report.checks() > 7000, "{}", report.checks());
    } else {
        assert_eq!(built, ["eager", "eager-tensor-spline"]);
    }
    let cases = report.verdicts.len();
    let summary = format!(
        "verify: {cases} of {cases} cases x paths, {} checks, 0 failed",
        report.checks()
    );
    assert_eq!(report.summary(), summary);
}
