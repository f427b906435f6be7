//! Set-up, checks and starting the program: one verb per file.
//!
//! Links nothing of the workspace, so that `cargo xtask` works before libtorch is there. Exit codes: 0 good, 1 a check ran
//! and said no, 2 it could not run; a verb that starts the program passes the program's own code on.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program that talks to a person"
)]

mod command;
mod component;
mod doctor;
mod environment;
mod flags;
mod lint;
mod lock;
mod pins;
mod program;
mod setup;
mod test;
mod tidy;
mod tools;
mod version;
mod wheels;

use std::process::ExitCode;

use flags::Verb;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let verb = match flags::parse(&arguments) {
        Ok(verb) => verb,
        Err(answer) => {
            // Help goes to stdout with code 0, a mistake to stderr with code 2.
            let _ = answer.print();
            return ExitCode::from(if answer.use_stderr() { 2 } else { 0 });
        }
    };
    match run(&verb) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(verb: &Verb) -> anyhow::Result<u8> {
    let root = environment::root();
    match verb {
        Verb::Setup { device } => setup::run(&root, *device),
        Verb::Doctor => Ok(doctor::run(&root)),
        Verb::Test { slow, runner } => test::run(&root, *slow, runner),
        Verb::Lint => lint::run(&root),
        Verb::Program {
            verb,
            build,
            arguments,
        } => program::run(&root, verb, *build, arguments),
    }
}
