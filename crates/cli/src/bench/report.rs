//! Rows of a benchmark, as a table and as JSON.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::machine::Machine;

/// One line of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What was timed.
    pub(crate) what: &'static str,
    /// Size of the network.
    pub(crate) size: &'static str,
    /// Implementation.
    pub(crate) mode: String,
    /// Threads.
    pub(crate) threads: u16,
    /// Timed steps.
    pub(crate) steps: usize,
    /// Elements of the network's parameters.
    pub(crate) parameters: usize,
    /// Rows of a batch.
    pub(crate) rows: usize,
    /// Median milliseconds of a step.
    pub(crate) step_ms_median: f64,
    /// Shortest step in milliseconds.
    pub(crate) step_ms_min: f64,
    /// Milliseconds (median) or counts of the step's parts.
    pub(crate) parts: Map<String, Value>,
}

/// Median and minimum of times in seconds, in milliseconds.
pub(crate) fn median_and_minimum(seconds: &[f64]) -> (f64, f64) {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => 0.5 * (sorted[middle - 1] + sorted[middle]),
    };
    (
        1e3 * median,
        1e3 * sorted.first().copied().unwrap_or(f64::NAN),
    )
}

/// Prints the rows and, where asked for, writes them.
///
/// # Errors
/// When the file cannot be written.
#[allow(clippy::print_stdout, reason = "the table is what the verb is for")]
pub(crate) fn show(machine: &Machine, rows: &[Row], json: Option<&Path>) -> anyhow::Result<()> {
    println!("{}", machine.line());
    println!(
        "{:<6} {:<7} {:<20} {:>7} {:>6} {:>11} {:>11}  parts",
        "what", "size", "mode", "threads", "steps", "median ms", "minimum ms"
    );
    for row in rows {
        let parts: Vec<String> = row.parts.iter().map(|(k, v)| format!("{k} {v}")).collect();
        println!(
            "{:<6} {:<7} {:<20} {:>7} {:>6} {:>11.2} {:>11.2}  {}",
            row.what,
            row.size,
            row.mode,
            row.threads,
            row.steps,
            row.step_ms_median,
            row.step_ms_min,
            parts.join(", ")
        );
    }
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&json!({"machine": machine, "rows": rows}))?;
        let options = dunnart_files::WriteOptions::default();
        dunnart_files::atomic_write(path, &options, |file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::median_and_minimum;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median_and_minimum(&[0.003, 0.001, 0.002]), (2.0, 1.0));
        assert_eq!(
            median_and_minimum(&[0.004, 0.001, 0.002, 0.003]),
            (2.5, 1.0)
        );
    }
}
