//! `test`: every test, of both builds.
//!
//! The small build's tests run without libtorch in the graph, so that nothing of it can creep in; crates that have a torch
//! feature, and the shim, run once more with it.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use crate::flags::Build;
use crate::{command, program, setup};

/// Crates with something to test under feature `torch`.
const TORCH: [&str; 5] = [
    "dunnart-torch-shim",
    "dunnart-flow",
    "dunnart-train",
    "dunnart-cli",
    "dunnart-tests",
];
/// Their features.
const FEATURES: &str =
    "dunnart-flow/torch,dunnart-train/torch,dunnart-cli/torch,dunnart-tests/torch";

/// Sets up, builds and runs all tests; 1 when one fails.
pub(crate) fn run(root: &Path, slow: bool, runner: &[OsString]) -> Result<u8> {
    setup::all(root)?;
    let libtorch = setup::libtorch(root)?;
    // Tests of the command line start these.
    let programs = [
        ("DUNNART_PROGRAM_SMALL", program::build(root, Build::Small)?),
        ("DUNNART_PROGRAM", program::build(root, Build::Torch)?),
    ];
    let mut good = true;
    for selection in selections() {
        let mut cargo = command::cargo();
        cargo
            .args(["test", "--locked", "--release", "--no-fail-fast"])
            .args(selection)
            .arg("--");
        if slow {
            cargo.arg("--include-ignored");
        }
        cargo
            .args(runner)
            .envs(programs.iter().map(|(name, path)| (name, path)))
            .env("LD_LIBRARY_PATH", libtorch.library_path())
            .current_dir(root);
        good &= command::step(&mut cargo)?;
    }
    if !good {
        eprintln!("xtask: tests failed, see above");
    }
    Ok(u8::from(!good))
}

/// What `cargo test` is told to select: the small build, then what libtorch adds.
fn selections() -> [Vec<&'static str>; 2] {
    let small = vec!["--workspace", "--exclude", "dunnart-torch-shim"];
    let mut torch = vec!["--features", FEATURES];
    torch.extend(TORCH.iter().flat_map(|name| ["--package", name]));
    [small, torch]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_with_a_torch_feature_is_tested_with_it() {
        let root = crate::environment::root();
        let manifests = std::fs::read_dir(root.join("crates"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for folder in manifests.chain([root.join("tests")]) {
            let Ok(text) = std::fs::read_to_string(folder.join("Cargo.toml")) else {
                continue;
            };
            let name = text
                .lines()
                .find_map(|line| line.strip_prefix("name = "))
                .unwrap()
                .trim_matches('"');
            let has_feature = text.lines().any(|line| line.starts_with("torch = ["));
            let feature = format!("{name}/torch");
            assert_eq!(
                has_feature,
                FEATURES.split(',').any(|listed| listed == feature),
                "{name}"
            );
            assert!(!has_feature || TORCH.contains(&name), "{name}");
        }
    }
}
