//! Every golden case through every path: what the network should give, and what it gives.
//!
//! A folder with a [`Manifest`] holds cases; a case holds inputs and what the reference computed from
//! them. A [`Path`] is one form of the network; it returns its values under the keys of the golden
//! file. [`run`] compares them, value by value, and returns one [`Check`] for each tensor.
//!
//! A case's file decides what is compared: a key that a path should give and does not is a failed
//! check, and so is a value no key asks for.

mod bounds;
mod case;
mod check;
mod compare;
mod error;
mod expected;
mod golden;
mod manifest;
mod paths;
mod report;
mod whole;

pub use case::{Case, Kind, Precision};
pub use check::{Check, Rule};
pub use compare::Comparison;
pub use error::Error;
pub use golden::{Golden, GoldenTensor, Values};
pub use manifest::Manifest;
pub use paths::{Computed, Path, all_paths};
pub use report::{Report, Skipped, Verdict};

/// Result with this module's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Runs every case of a folder through every path, and tells each case's checks to `observer`.
///
/// # Errors
/// [`Error`] when the folder, its manifest or a file cannot be read or is incomplete, and when a
/// path cannot compute a case it is for.
pub fn run(
    folder: &std::path::Path,
    paths: &[Box<dyn Path>],
    observer: &mut dyn FnMut(&Verdict),
) -> Result<Report> {
    let manifest = Manifest::read(folder)?;
    let mut report = Report::new(&manifest);
    for path in paths {
        if let Err(reason) = path.available() {
            report.skipped.push(Skipped {
                path: path.name().into(),
                reason,
            });
        }
    }
    for entry in manifest.entries() {
        let case = Case::read(folder, entry)?;
        for path in paths {
            if path.available().is_err() || !path.takes(&case) {
                continue;
            }
            let verdict = expected::checks(&case, path.as_ref())?;
            observer(&verdict);
            report.add(verdict);
        }
    }
    Ok(report)
}
