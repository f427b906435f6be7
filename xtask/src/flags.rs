//! The whole command line: raw arguments become a [`Verb`].
//!
//! Verbs of the program are recognised by name and everything after them is left as it stands, `--help` included.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Which build of the program a verb needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// Without libtorch.
    Small,
    /// With libtorch.
    Torch,
}

/// What libtorch is set up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// CPU only.
    Cpu,
    /// CPU and NVIDIA GPUs.
    Cuda,
}

/// A command, understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Put libtorch and ONNX Runtime in place.
    Setup { device: Device },
    /// Say what is there and what does not fit.
    Doctor,
    /// Run the tests.
    Test { slow: bool, runner: Vec<OsString> },
    /// Check format, lints, documentation, dependencies and house rules.
    Lint,
    /// Build the program and start it.
    Program {
        verb: &'static str,
        build: Build,
        arguments: Vec<OsString>,
    },
}

/// The program's verbs: name, build, what they do.
const PROGRAM: [(&str, Build, &str); 7] = [
    ("train", Build::Torch, "Train a posterior, or resume a run"),
    (
        "append-stage",
        Build::Small,
        "Add a stage to a run, or replace a planned one",
    ),
    (
        "verify",
        Build::Torch,
        "Compare every path with the golden values",
    ),
    ("bench", Build::Torch, "Measure times"),
    (
        "inspect",
        Build::Small,
        "Say what a checkpoint or data file is",
    ),
    (
        "sample",
        Build::Small,
        "Draw posterior samples for observations",
    ),
    (
        "c2st",
        Build::Small,
        "Tell two sets of samples apart, or not",
    ),
];

/// Understands the arguments after `cargo xtask`.
///
/// # Errors
/// Help and mistakes, both ready to be printed.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Verb, clap::Error> {
    if let Some((first, rest)) = arguments.split_first() {
        let named = PROGRAM.iter().find(|(name, ..)| first == name);
        if let Some(&(verb, build, _)) = named {
            return Ok(Verb::Program {
                verb,
                build,
                arguments: rest.to_vec(),
            });
        }
    }
    let matches = command().try_get_matches_from(arguments)?;
    Ok(match matches.subcommand() {
        Some(("setup", flags)) => Verb::Setup {
            device: device(flags),
        },
        Some(("test", flags)) => {
            let runner = flags
                .get_many("runner")
                .unwrap_or_default()
                .cloned()
                .collect();
            Verb::Test {
                slow: flags.get_flag("slow"),
                runner,
            }
        }
        Some(("lint", _)) => Verb::Lint,
        _ => Verb::Doctor,
    })
}

fn device(flags: &ArgMatches) -> Device {
    match flags.get_one::<String>("device").map(String::as_str) {
        Some("cuda") => Device::Cuda,
        _ => Device::Cpu,
    }
}

fn command() -> Command {
    let device = Arg::new("device")
        .long("device")
        .value_parser(PossibleValuesParser::new(["cpu", "cuda"]))
        .default_value("cpu")
        .help("What libtorch is for");
    let slow = Arg::new("slow")
        .long("slow")
        .action(ArgAction::SetTrue)
        .help("Run the tests that take minutes, too");
    let runner = Arg::new("runner")
        .num_args(0..)
        .last(true)
        .value_parser(clap::value_parser!(OsString))
        .help("Handed to every test runner, after `--`");
    let mut command = Command::new("cargo xtask")
        .no_binary_name(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .about("Sets up, checks and starts dunnart")
        .after_help("train, append-stage, verify, bench, inspect, sample and c2st build the program first, with all the set-up \
                     that takes, and hand it every flag as it stands: `cargo xtask train --help`.")
        .subcommand(Command::new("setup").about("Put libtorch and ONNX Runtime in place").arg(device))
        .subcommand(Command::new("doctor").about("Say what is there, what does not fit and how to mend it"))
        .subcommand(Command::new("test").about("Run the tests").arg(slow).arg(runner))
        .subcommand(
            Command::new("lint").about("Check format, lints, documentation, dependencies and house rules"),
        );
    for (name, _, about) in PROGRAM {
        command = command.subcommand(Command::new(name).about(about));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Verb, clap::Error> {
        parse(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_of_the_program_pass_untouched() {
        let line = [
            "train",
            "--settings",
            "a b.yaml",
            "--help",
            "--",
            "-x",
            "--",
            "--device=cuda",
            "",
        ];
        let Ok(Verb::Program {
            verb,
            build,
            arguments,
        }) = parsed(&line)
        else {
            panic!("a verb of the program")
        };
        assert_eq!((verb, build), ("train", Build::Torch));
        assert_eq!(
            arguments,
            line[1..].iter().map(OsString::from).collect::<Vec<_>>()
        );
    }

    #[test]
    fn only_what_needs_libtorch_takes_the_build_with_it() {
        let needs = |name: &str| match parsed(&[name]) {
            Ok(Verb::Program { build, .. }) => build,
            other => panic!("{name}: {other:?}"),
        };
        for name in ["train", "verify", "bench"] {
            assert_eq!(needs(name), Build::Torch, "{name}");
        }
        for name in ["inspect", "sample", "c2st", "append-stage"] {
            assert_eq!(needs(name), Build::Small, "{name}");
        }
    }

    #[test]
    fn own_verbs_and_flags_are_understood() {
        assert_eq!(
            parsed(&["setup"]).unwrap(),
            Verb::Setup {
                device: Device::Cpu
            }
        );
        assert_eq!(
            parsed(&["setup", "--device", "cuda"]).unwrap(),
            Verb::Setup {
                device: Device::Cuda
            }
        );
        assert_eq!(parsed(&["doctor"]).unwrap(), Verb::Doctor);
        assert_eq!(parsed(&["lint"]).unwrap(), Verb::Lint);
        let runner = vec!["--nocapture".into(), "spline".into()];
        assert_eq!(
            parsed(&["test", "--slow", "--", "--nocapture", "spline"]).unwrap(),
            Verb::Test { slow: true, runner }
        );
    }

    #[test]
    fn mistakes_are_named_and_help_is_none() {
        let mistake = parsed(&["setup", "--device", "tpu"]).unwrap_err();
        let text = mistake.to_string();
        assert!(
            mistake.use_stderr() && text.contains("tpu") && text.contains("cuda"),
            "{text}"
        );
        for line in [&["trian"][..], &["lint", "--fast"], &["--settings"]] {
            assert!(parsed(line).unwrap_err().use_stderr(), "{line:?}");
        }
        assert!(!parsed(&["--help"]).unwrap_err().use_stderr());
        let help = parsed(&["--help"]).unwrap_err().to_string();
        for name in [
            "setup", "doctor", "test", "lint", "train", "verify", "inspect", "sample", "bench",
            "c2st",
        ] {
            assert!(help.contains(&format!("  {name} ")), "{name} in {help}");
        }
    }
}
