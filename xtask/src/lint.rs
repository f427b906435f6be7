//! `lint`: format, house rules, clippy, documentation, dependencies. Everything runs, then the verdict.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{command, lock, pins, setup, tidy};

/// Runs every check; 1 when one says no.
pub(crate) fn run(root: &Path) -> Result<u8> {
    setup::libtorch(root)?;
    let mut failed = Vec::new();
    let mut check = |name: &'static str, good: bool| {
        if !good {
            failed.push(name);
        }
    };
    check(
        "format",
        command::step(cargo(root).args(["fmt", "--all", "--check"]))?,
    );
    check("house rules", tidy::run(root)?);
    let clippy = [
        "clippy",
        "--locked",
        "--release",
        "--all-targets",
        "--workspace",
    ];
    let deny_warnings = ["--", "--deny", "warnings"];
    check(
        "clippy",
        command::step(
            cargo(root)
                .args(clippy)
                .arg("--all-features")
                .args(deny_warnings),
        )?,
    );
    let without = ["--exclude", "dunnart-torch-shim"];
    check(
        "clippy without torch",
        command::step(cargo(root).args(clippy).args(without).args(deny_warnings))?,
    );
    let mut documentation = cargo(root);
    documentation.args([
        "doc",
        "--locked",
        "--release",
        "--workspace",
        "--all-features",
        "--no-deps",
    ]);
    check(
        "documentation",
        command::step(documentation.env("RUSTDOCFLAGS", "--deny warnings"))?,
    );
    let mut dependencies = Command::new(cargo_deny(root)?);
    dependencies
        .args([
            "--all-features",
            "--locked",
            "check",
            "bans",
            "licenses",
            "sources",
        ])
        .current_dir(root);
    eprintln!("xtask: cargo-deny check bans licenses sources");
    check(
        "dependencies",
        command::status(&mut dependencies)?.success(),
    );
    if failed.is_empty() {
        println!("lint: all good");
    } else {
        println!("lint: failed: {}", failed.join(", "));
    }
    Ok(u8::from(!failed.is_empty()))
}

fn cargo(root: &Path) -> Command {
    let mut cargo = command::cargo();
    cargo.current_dir(root);
    cargo
}

/// The dependency checker, built at its pinned version into an ignored folder unless it is there.
fn cargo_deny(root: &Path) -> Result<PathBuf> {
    let folder = root
        .join(".tools")
        .join(format!("cargo-deny-{}", pins::CARGO_DENY));
    // `cargo install` puts the program in place last, so its being there means that it is whole.
    let program = folder.join("bin/cargo-deny");
    if program.exists() {
        return Ok(program);
    }
    let _lock = lock::take(root, "tools")?;
    if program.exists() {
        return Ok(program);
    }
    let mut install = cargo(root);
    install
        .args(["install", "--locked", "--debug", "--root"])
        .arg(&folder)
        .arg(format!("cargo-deny@{}", pins::CARGO_DENY))
        .arg("--target-dir")
        .arg(folder.join("target"))
        // It runs for a second, so it is not worth optimising.
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    if !command::step(&mut install)? {
        anyhow::bail!(
            "cargo-deny {} could not be built\n  hint: look at cargo's message above, then run `cargo xtask lint` again",
            pins::CARGO_DENY
        );
    }
    // What is left of the build is twenty times as large as the program.
    let _ = std::fs::remove_dir_all(folder.join("target"));
    Ok(program)
}
