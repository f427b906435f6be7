//! `inspect`: says what a checkpoint or data file is.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `inspect`.
#[derive(Args)]
pub(crate) struct Inspect {
    /// The file to describe.
    file: PathBuf,
}

impl Inspect {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("{}: no file format is readable yet", self.file.display())
    }
}
