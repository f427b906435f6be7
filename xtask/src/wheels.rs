//! Wheels: fetched by pip with their hashes, opened by python3's own zipfile.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command;
use crate::component::remove;
use crate::pins::{self, Component};

/// Takes the wanted members out of every wheel of a folder.
const UNPACK: &str = r#"
import pathlib, shutil, sys, zipfile
wheels, out = map(pathlib.Path, sys.argv[1:3])
takes = [line.split("\t") for line in sys.stdin.read().splitlines()]
missing = {source for source, _ in takes}
def unpack(archive):
    for member in archive.infolist():
        for source, target in takes:
            if member.is_dir():
                continue
            if member.filename == source:
                path = out / target
            elif source.endswith("/") and member.filename.startswith(source):
                path = out / (target + member.filename[len(source):])
            else:
                continue
            missing.discard(source)
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as read, open(path, "wb") as write:
                shutil.copyfileobj(read, write, 1 << 20)
for wheel in sorted(wheels.glob("*.whl")):
    print("xtask: unpacking", wheel.name, flush=True)
    try:
        with zipfile.ZipFile(wheel) as archive:
            unpack(archive)
    except (OSError, zipfile.BadZipFile) as why:
        sys.exit(f"{wheel}: {why}")
if missing:
    sys.exit("the wheels lack " + ", ".join(sorted(missing)))
"#;

impl Component {
    /// Fetches the wheels one by one, so that an interruption loses one at most; those that are there already are only
    /// checked against their hashes.
    pub(crate) fn download(&self, wheels: &Path) -> Result<()> {
        // What pip has under way goes here instead of the system's folder, so that nothing stays behind there.
        let temporary = wheels.join("under-way");
        remove(&temporary)?;
        fs::create_dir_all(&temporary)
            .with_context(|| format!("folder {} could not be made", temporary.display()))?;
        for wheel in self.wheels {
            let requirements = wheels.join("requirements.txt");
            let line = format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256);
            fs::write(&requirements, line)?;
            if !command::status(&mut pip_download(&requirements, wheels, &temporary))?.success() {
                bail!(
                    "{}: pip could not download {}\n  hint: look at pip's message above and at its settings \
                     (`python3 -m pip config list`), then run `cargo xtask setup` again; wheels that arrived are kept",
                    self.name,
                    wheel.requirement
                );
            }
        }
        Ok(())
    }

    /// Takes what is wanted out of the wheels, into a folder that held nothing before.
    pub(crate) fn unpack(&self, wheels: &Path, fresh: &Path) -> Result<()> {
        remove(fresh)?;
        fs::create_dir_all(fresh)?;
        let takes: String = self
            .wheels
            .iter()
            .flat_map(|wheel| wheel.takes)
            .map(|(source, target)| format!("{source}\t{target}\n"))
            .collect();
        let mut python = Command::new("python3")
            .args(["-c", UNPACK])
            .arg(wheels)
            .arg(fresh)
            .stdin(Stdio::piped())
            .stdout(std::io::stderr())
            .spawn()
            .context("`python3` could not be started")?;
        if let Some(mut input) = python.stdin.take() {
            input.write_all(takes.as_bytes())?;
        }
        if !python.wait()?.success() {
            bail!(
                "{}: the wheels could not be unpacked\n  hint: remove {} and run `cargo xtask setup` again",
                self.name,
                wheels.display()
            );
        }
        Ok(())
    }
}

/// pip, asked for the wheel that the requirements name, for the pinned Python and platforms whatever runs here.
fn pip_download(requirements: &Path, wheels: &Path, temporary: &Path) -> Command {
    let abi = format!("cp{}", pins::PYTHON.replace('.', ""));
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-cache-dir",
        "--only-binary=:all:",
    ])
    .args([
        "--require-hashes",
        "--disable-pip-version-check",
        "--implementation",
        "cp",
    ])
    .args([
        "--python-version",
        pins::PYTHON,
        "--abi",
        &abi,
        "--abi",
        "none",
    ])
    .args(
        pins::PLATFORMS
            .iter()
            .flat_map(|platform| ["--platform", platform]),
    )
    .arg("--requirement")
    .arg(requirements)
    .arg("--dest")
    .arg(wheels)
    .env("TMPDIR", temporary)
    .stdin(Stdio::null())
    .stdout(std::io::stderr());
    pip
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::pins::Wheel;
    use std::path::PathBuf;

    pub(crate) const TOY: Component = Component {
        name: "toy",
        folder: ".toy",
        version: "1.0",
        wheels: &[Wheel {
            requirement: "toy==1.0",
            sha256: "00",
            takes: &[("toy/include/", "include/"), ("toy/lib/a.so", "lib/a.so")],
        }],
        needs: &["lib/a.so", "include/deep/b.h"],
        megabytes: 10,
        recipe: 1,
    };

    /// A wheel as pip leaves it, made by the same zipfile module that reads it.
    fn wheel(folder: &Path, members: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n  [z.writestr(n, 'is ' + n) for n in sys.argv[2:]]";
        let path = folder.join("toy-1.0-py3-none-any.whl");
        let done = Command::new("python3")
            .args(["-c", script])
            .arg(path)
            .args(members)
            .status()
            .unwrap();
        assert!(done.success());
    }

    const MEMBERS: [&str; 4] = [
        "toy/lib/a.so",
        "toy/include/deep/b.h",
        "toy/python.py",
        "toy/lib/c.so",
    ];

    pub(crate) fn unpacked(root: &Path) -> PathBuf {
        let (wheels, fresh) = (root.join("w"), root.join("w.unpacking"));
        wheel(&wheels, &MEMBERS);
        TOY.unpack(&wheels, &fresh).unwrap();
        fresh
    }

    #[test]
    fn only_what_is_wanted_is_taken_out_of_a_wheel() {
        let root = tempfile::tempdir().unwrap();
        let fresh = unpacked(root.path());
        assert_eq!(
            fs::read_to_string(fresh.join("lib/a.so")).unwrap(),
            "is toy/lib/a.so"
        );
        assert_eq!(
            fs::read_to_string(fresh.join("include/deep/b.h")).unwrap(),
            "is toy/include/deep/b.h"
        );
        assert!(!fresh.join("lib/c.so").exists() && !fresh.join("python.py").exists());
    }

    #[test]
    fn unpacking_starts_from_nothing_and_a_lacking_or_cut_wheel_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let (wheels, fresh) = (root.path().join("w"), root.path().join("w.unpacking"));
        fs::create_dir_all(&fresh).unwrap();
        fs::write(fresh.join("left over"), "").unwrap();
        unpacked(root.path());
        assert!(!fresh.join("left over").exists());
        wheel(&wheels, &MEMBERS[..1]);
        assert!(
            TOY.unpack(&wheels, &fresh).is_err(),
            "the headers are lacking"
        );
        let path = wheels.join("toy-1.0-py3-none-any.whl");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(TOY.unpack(&wheels, &fresh).is_err(), "half a wheel");
    }
}
