//! The `dunnart` program: one verb per file in `commands`.
//!
//! Exit codes: 0 good, 1 a check ran and said no, 2 it could not run.

#[cfg(feature = "torch")]
mod bench;
mod commands;
mod failure;
mod output;
mod sampling;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Trains neural spline flows, checks them against golden values and samples them.
#[derive(Parser)]
#[command(name = "dunnart", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // Clap prints help and version to stdout with exit code 0, mistakes to stderr with exit code 2.
    let arguments = Arguments::parse();
    match arguments.command.run() {
        Ok(code) => code,
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

/// Prints an error with its causes, the outermost first.
#[allow(
    clippy::print_stderr,
    reason = "this is the program's one place for errors"
)]
fn report(error: &anyhow::Error) {
    for (index, line) in failure::lines(error).iter().enumerate() {
        let word = if index == 0 { "error" } else { "  because" };
        eprintln!("{word}: {line}");
    }
}
