//! The verbs of the program.

mod append_stage;
pub(crate) mod bench;
mod c2st;
mod inspect;
mod sample;
mod train;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

/// What the program can do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Adds or replaces a planned stage in a checkpoint.
    AppendStage(append_stage::AppendStage),
    /// Times the program on this machine.
    Bench(bench::Bench),
    /// Says what a checkpoint or data file is.
    Inspect(inspect::Inspect),
    /// Trains from settings or goes on from a checkpoint.
    Train(train::Train),
    /// Compares every form of the network with golden values.
    Verify(verify::Verify),
    /// Draws from the posteriors of one or many observations.
    Sample(sample::Sample),
    /// Says how well a classifier tells samples from reference samples.
    C2st(c2st::C2st),
}

impl Command {
    /// Runs the verb; the exit code is the check's verdict.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::AppendStage(verb) => verb.run(),
            Self::Bench(verb) => verb.run(),
            Self::Inspect(verb) => verb.run(),
            Self::Train(verb) => verb.run(),
            Self::Verify(verb) => verb.run(),
            Self::Sample(verb) => verb.run(),
            Self::C2st(verb) => verb.run(),
        }
    }
}
