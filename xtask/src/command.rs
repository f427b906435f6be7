//! Starting other programs.

use std::ffi::OsStr;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::environment::{self, Libtorch};

/// What a program prints, when it succeeds.
pub(crate) fn output<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String> {
    let result = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{program}` could not be started"))?;
    if !result.status.success() {
        let text = String::from_utf8_lossy(&result.stderr).trim().to_owned();
        bail!("`{program}` failed with {}: {text}", result.status);
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// A command of cargo's, the one that started us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Libtorch::Own(_) = Libtorch::current(&environment::root()) {
        // Cargo's configuration sets it again. Inherited, it would look like a change to a build that was started by hand,
        // and the bindings would be compiled anew on every turn.
        cargo.env_remove("LIBTORCH");
    }
    cargo
}

/// Runs a command to its end with our input and output.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .status()
        .with_context(|| format!("`{name}` could not be started"))
}

/// Prints a command as a person would type it, and runs it; whether it succeeded.
pub(crate) fn step(command: &mut Command) -> Result<bool> {
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    eprintln!("xtask: cargo {}", words.join(" "));
    Ok(status(command)?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_named() {
        let error = output("no-such-program-here", ["--version"]).unwrap_err();
        assert!(
            error.to_string().contains("no-such-program-here"),
            "{error}"
        );
        let error = output("sh", ["-c", "echo why >&2; exit 3"]).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        assert_eq!(output("sh", ["-c", "echo yes"]).unwrap(), "yes\n");
    }
}
