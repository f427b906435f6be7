//! Building the `dunnart` program, with or without libtorch, and becoming it.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::environment::Libtorch;
use crate::flags::Build;
use crate::{command, lock, setup};

impl Build {
    /// The folder of its own under `target/programs`: cargo writes both builds to the same place, so each is copied away.
    fn folder(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Torch => "torch",
        }
    }
}

/// Builds the program and turns this process into it, so that signals and the exit code are its own.
pub(crate) fn run(root: &Path, verb: &str, kind: Build, arguments: &[OsString]) -> Result<u8> {
    let program = build(root, kind)?;
    let mut command = Command::new(&program);
    command.arg(verb).args(arguments);
    if kind == Build::Torch {
        command.env("LD_LIBRARY_PATH", Libtorch::current(root).library_path());
    }
    let error = command.exec();
    Err(error).with_context(|| format!("{} could not be started", program.display()))
}

/// Builds the program, with all the set-up that takes; where it is.
pub(crate) fn build(root: &Path, kind: Build) -> Result<PathBuf> {
    if kind == Build::Torch {
        setup::libtorch(root)?;
    }
    let _lock = lock::take(root, "build")?;
    let mut cargo = command::cargo();
    cargo
        .args(["build", "--locked", "--release", "--package", "dunnart-cli"])
        .args([
            "--bin",
            "dunnart",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if kind == Build::Torch {
        cargo.args(["--features", "torch"]);
    }
    let mut child = cargo.spawn().context("cargo could not be started")?;
    let mut built = None;
    if let Some(messages) = child.stdout.take() {
        for line in BufReader::new(messages).lines() {
            built = executable(&line.context("cargo's messages could not be read")?).or(built);
        }
    }
    if !child.wait()?.success() {
        bail!(
            "the program could not be built\n  hint: `cargo xtask doctor` looks for what is missing"
        );
    }
    let built = built.context("cargo did not say where it put the program")?;
    keep(&built, kind)
}

/// The path in a message of cargo's that announces the program.
fn executable(message: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once(r#""executable":""#)?;
    let mut path = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(path.into()),
            '\\' => path.push(characters.next()?),
            other => path.push(other),
        }
    }
}

/// Copies the program to a place that the other build does not overwrite.
fn keep(built: &Path, kind: Build) -> Result<PathBuf> {
    let target = built
        .parent()
        .and_then(Path::parent)
        .context("the target folder is unknown")?;
    let folder = target.join("programs").join(kind.folder());
    fs::create_dir_all(&folder)
        .with_context(|| format!("folder {} could not be made", folder.display()))?;
    let (fresh, kept) = (folder.join("dunnart.new"), folder.join("dunnart"));
    // A running program cannot be written to, but its name can be given to another file.
    fs::copy(built, &fresh)
        .and_then(|_| fs::rename(&fresh, &kept))
        .with_context(|| format!("the program could not be copied to {}", kept.display()))?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_path_is_found_in_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","target":{"kind":["bin"]},"executable":"/a b/tar\"get/release/dunnart","fresh":true}"#;
        assert_eq!(
            executable(message),
            Some("/a b/tar\"get/release/dunnart".into())
        );
        assert_eq!(
            executable(r#"{"reason":"compiler-artifact","executable":null}"#),
            None
        );
        assert_eq!(
            executable(r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }

    #[test]
    fn the_two_builds_are_kept_apart() {
        let target = tempfile::tempdir().unwrap();
        let built = target.path().join("release/dunnart");
        fs::create_dir(target.path().join("release")).unwrap();
        fs::write(&built, "small").unwrap();
        let small = keep(&built, Build::Small).unwrap();
        fs::write(&built, "torch").unwrap();
        let torch = keep(&built, Build::Torch).unwrap();
        assert_eq!(fs::read_to_string(&small).unwrap(), "small");
        assert_eq!(fs::read_to_string(&torch).unwrap(), "torch");
        // The run path in the binary reaches `.libtorch` beside the target folder from here.
        assert_eq!(torch, target.path().join("programs/torch/dunnart"));
    }
}
