//! `train`: trains from settings or goes on from a checkpoint, then judges the posterior.
//!
//! Exit codes: 0 when the stages are over or a limit of the settings is reached, 1 when the training
//! ran and failed (a loss that is not finite) or was stopped before its end, 2 when it could not run.

#[cfg(feature = "torch")]
mod interrupt;
#[cfg(feature = "torch")]
mod loss_plot;
#[cfg(feature = "torch")]
mod progress;
#[cfg(feature = "torch")]
mod report;
#[cfg(feature = "torch")]
mod session;
#[cfg(feature = "torch")]
mod setup;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `train`.
#[derive(Args)]
pub(crate) struct Train {
    /// The settings of a new run.
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "settings_file",
        alias = "settings-file"
    )]
    settings: Option<PathBuf>,
    /// The folder of the run: history, log and checkpoints are written there.
    #[arg(long, value_name = "DIR", visible_alias = "train_dir")]
    train_dir: PathBuf,
    /// Go on from this checkpoint, with its settings and the folder's local_settings.yaml.
    #[arg(long, value_name = "FILE", conflicts_with = "settings")]
    checkpoint: Option<PathBuf>,
    /// Run by `sh` when every stage is over.
    #[arg(long, value_name = "CMD", visible_alias = "exit_command")]
    exit_command: Option<String>,
    /// Seed of the run, instead of the settings' `local.seed`.
    #[arg(long, value_name = "N", conflicts_with = "checkpoint")]
    seed: Option<u64>,
}

impl Train {
    #[cfg(not(feature = "torch"))]
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self {
            settings: _,
            train_dir: _,
            checkpoint: _,
            exit_command: _,
            seed: _,
        } = self;
        anyhow::bail!(
            "this program was built without training\nhint: `cargo xtask train` builds and starts the one that has it"
        )
    }

    #[cfg(feature = "torch")]
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(self)
    }
}
