//! `verify`: every golden case through every path.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use dunnart_cli::verify::{Check, Report, Verdict, all_paths, run};

/// Compares every form of the network with golden values, case by case.
#[derive(Args)]
pub(crate) struct Verify {
    /// Folder with a manifest.json and the files it lists.
    #[arg(long, value_name = "DIR", default_value = "fixtures/golden")]
    golden: PathBuf,
    /// Also writes every check to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Prints a line for every tensor, not only the worst one of each group.
    #[arg(long)]
    all: bool,
}

/// One line: case, path, quantity, largest difference, bound, verdict.
fn line(verdict: &Verdict, quantity: &str, check: &Check) -> String {
    let word = if check.passed { "ok" } else { "FAILED" };
    format!(
        "{:<42} {:<20} {:<44} {:>9.2e} {:>9.2e} {word}",
        verdict.case, verdict.path, quantity, check.difference, check.bound
    )
}

/// What stands beside a failed check.
fn details(check: &Check) -> String {
    match (&check.comparison, &check.remark) {
        (_, Some(remark)) => format!("    {remark}"),
        (Some(c), None) => format!(
            "    {} values, worst at {}: computed {:e}, expected {:e}",
            c.count, c.worst, c.computed, c.expected
        ),
        (None, None) => String::new(),
    }
}

impl Verify {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{:<42} {:<20} {:<44} {:>9} {:>9}",
            "case", "path", "quantity", "largest", "bound"
        )?;
        let mut failure = Ok(());
        let report = run(&self.golden, &all_paths(), &mut |verdict| {
            if failure.is_ok() {
                failure = self.print(&mut out, verdict);
            }
        })
        .with_context(|| {
            format!(
                "comparing with the golden values in {}",
                self.golden.display()
            )
        })?;
        failure?;
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&report.to_json())?;
            let options = dunnart_files::WriteOptions::default();
            dunnart_files::atomic_write(path, &options, |file| file.write_all(text.as_bytes()))?;
        }
        Self::close(&mut out, &report)
    }

    fn print(&self, out: &mut impl Write, verdict: &Verdict) -> std::io::Result<()> {
        if self.all {
            for check in &verdict.checks {
                writeln!(out, "{}", line(verdict, &check.quantity, check))?;
                if !check.passed {
                    writeln!(out, "{}", details(check))?;
                }
            }
            return Ok(());
        }
        for (group, count, worst) in verdict.groups() {
            let quantity = match count {
                1 => worst.quantity.clone(),
                _ => format!("{group} (worst of {count})"),
            };
            writeln!(out, "{}", line(verdict, &quantity, worst))?;
        }
        for check in verdict.checks.iter().filter(|check| !check.passed) {
            writeln!(out, "{}", line(verdict, &check.quantity, check))?;
            writeln!(out, "{}", details(check))?;
        }
        Ok(())
    }

    fn close(out: &mut impl Write, report: &Report) -> anyhow::Result<ExitCode> {
        for skipped in &report.skipped {
            writeln!(out, "path {} did not run: {}", skipped.path, skipped.reason)?;
        }
        if report.uncovered > 0 {
            writeln!(
                out,
                "{} batches of the data pipeline are listed; no path computes them, they are not covered",
                report.uncovered
            )?;
        }
        writeln!(out, "{}", report.summary())?;
        let good = report.failed().next().is_none();
        Ok(ExitCode::from(u8::from(!good)))
    }
}
