//! The verbs of the program.

mod inspect;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

/// What the program can do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Says what a checkpoint or data file is.
    Inspect(inspect::Inspect),
    /// Compares every form of the network with golden values.
    Verify(verify::Verify),
}

impl Command {
    /// Runs the verb; the exit code is the check's verdict.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Inspect(verb) => verb.run(),
            Self::Verify(verb) => verb.run(),
        }
    }
}
