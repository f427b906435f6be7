//! The verbs of the program.

mod append_stage;
mod inspect;
mod train;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

/// What the program can do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Adds or replaces a planned stage in a checkpoint.
    AppendStage(append_stage::AppendStage),
    /// Says what a checkpoint or data file is.
    Inspect(inspect::Inspect),
    /// Trains from settings or goes on from a checkpoint.
    Train(train::Train),
    /// Compares every form of the network with golden values.
    Verify(verify::Verify),
}

impl Command {
    /// Runs the verb; the exit code is the check's verdict.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::AppendStage(verb) => verb.run(),
            Self::Inspect(verb) => verb.run(),
            Self::Train(verb) => verb.run(),
            Self::Verify(verb) => verb.run(),
        }
    }
}
