//! `bench`: how fast the program is on this machine.
//!
//! Random weights and random data, nothing skipped: a training step is forward, backward and the
//! optimiser's step, as in training. Nothing is judged; the numbers are printed and written.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Arguments of `bench`.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

/// What is timed.
#[derive(Subcommand)]
enum What {
    /// A training step of a flow given its context: forward, backward, fused Adam.
    Train(Train),
}

/// Arguments of `bench train`.
#[derive(Args)]
pub(crate) struct Train {
    /// Sizes to time, in this order.
    #[arg(long, value_delimiter = ',', default_value = "small")]
    pub(crate) size: Vec<String>,
    /// Implementations to time, one step of each in turn.
    #[arg(long, value_delimiter = ',', default_value = "eager")]
    pub(crate) mode: Vec<String>,
    /// Threads of libtorch and of our kernels.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: u16,
    /// Timed steps of each; as many as the size is worth when absent.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: Option<u32>,
    /// Seed of weights and data.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Also writes the rows to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

impl Bench {
    #[cfg(feature = "torch")]
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Train(arguments) => crate::bench::train::run(&arguments),
        }
    }

    #[cfg(not(feature = "torch"))]
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let What::Train(_) = self.what;
        anyhow::bail!(
            "this build of the program has no libtorch, which training needs\n  \
             hint: `cargo xtask bench` builds the program with it"
        )
    }
}
