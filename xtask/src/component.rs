//! Putting a [`Component`] in its folder: download, unpack, finish, rename, mark.
//!
//! An interruption at any moment leaves either the old folder, or a folder without the mark, which the next run replaces.
//! Wheels that arrived whole are kept until the component is in place.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::pins::{self, Component};
use crate::tools::{self, Tool};
use crate::{command, environment, lock};

/// Written last; its text says what the folder was made from.
const MARK: &str = ".set-up";

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

/// What is in a component's folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// Something that an interrupted set-up left, or that lost a file: which, or why.
    Broken(String),
    /// Another version or recipe, whole.
    Other(String),
    /// What is wanted.
    Ready,
}

impl Component {
    /// Its folder in a clone.
    pub(crate) fn path(&self, root: &Path) -> PathBuf {
        root.join(self.folder)
    }

    /// Everything that decides what the folder holds.
    fn fingerprint(&self) -> String {
        let hashes: Vec<_> = self.wheels.iter().map(|wheel| wheel.sha256).collect();
        format!(
            "{} {}, recipe {}\n{}\n",
            self.name,
            self.version,
            self.recipe,
            hashes.join("\n")
        )
    }

    /// What is in the folder now.
    pub(crate) fn state(&self, root: &Path) -> State {
        let path = self.path(root);
        if !path.exists() {
            return State::Absent;
        }
        let Ok(mark) = fs::read_to_string(path.join(MARK)) else {
            return State::Broken("set-up was interrupted".into());
        };
        if mark != self.fingerprint() {
            return State::Other(mark.lines().next().unwrap_or_default().to_owned());
        }
        match self.needs.iter().find(|file| !path.join(file).exists()) {
            Some(file) => State::Broken(format!("{file} is missing")),
            None => State::Ready,
        }
    }

    /// Puts the component in place unless it is there already; progress goes to stderr.
    ///
    /// # Errors
    /// Whatever is missing on the machine, or failed, with a hint how to mend it. The next run goes on from there.
    pub(crate) fn ensure(&self, root: &Path) -> Result<()> {
        if self.state(root) == State::Ready {
            return Ok(());
        }
        let _lock = lock::take(root, "setup")?;
        // Whoever had the lock may have done it all.
        match self.state(root) {
            State::Ready => return Ok(()),
            State::Absent => {}
            State::Broken(why) => eprintln!("xtask: {} is made anew: {why}", self.folder),
            State::Other(found) => {
                eprintln!("xtask: {} is replaced: it holds {found}", self.folder)
            }
        }
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!(
                "{}: wheels are pinned for x86-64 Linux only\n  hint: set LIBTORCH to a libtorch {} of your own",
                self.name,
                pins::LIBTORCH.version
            );
        }
        for tool in [&tools::PYTHON, &tools::PIP, &tools::CC, &tools::STRIP] {
            require(tool)?;
        }
        self.require_space(root, environment::free_megabytes(root))?;
        let started = std::time::Instant::now();
        eprintln!(
            "xtask: setting up {} {} in {}",
            self.name, self.version, self.folder
        );
        let name = format!("{}-{}", self.folder.trim_start_matches('.'), self.version);
        let wheels = root.join(".downloads").join(&name);
        self.download(&wheels)?;
        let fresh = root.join(".downloads").join(format!("{name}.unpacking"));
        self.unpack(&wheels, &fresh)?;
        if self.folder == pins::LIBTORCH.folder {
            finish_libtorch(&fresh)?;
        }
        fs::write(fresh.join("build-version"), format!("{}\n", self.version))?;
        self.install(root, &fresh)?;
        remove(&wheels)?;
        eprintln!(
            "xtask: {} {} is in place after {:.0} s",
            self.name,
            self.version,
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn require_space(&self, root: &Path, free: Option<u64>) -> Result<()> {
        match free {
            Some(free) if free < self.megabytes => bail!(
                "{}: expected {} MB free on the disk of {}, found {free} MB\n  hint: make room, then run `cargo xtask setup` again",
                self.name,
                self.megabytes,
                root.display()
            ),
            _ => Ok(()),
        }
    }

    /// Fetches the wheels one by one, so that an interruption loses one at most; those that are there already are only
    /// checked against their hashes.
    fn download(&self, wheels: &Path) -> Result<()> {
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
    fn unpack(&self, wheels: &Path, fresh: &Path) -> Result<()> {
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

    /// Puts the finished folder in place and marks it, in this order.
    fn install(&self, root: &Path, fresh: &Path) -> Result<()> {
        let path = self.path(root);
        let aside = root.join(".downloads");
        fs::create_dir_all(&aside)?;
        let old = aside.join(format!("{}.old", self.folder.trim_start_matches('.')));
        remove(&old)?;
        if path.exists() {
            fs::rename(&path, &old)
                .with_context(|| format!("{} could not be moved away", path.display()))?;
        }
        fs::rename(fresh, &path)
            .with_context(|| format!("{} could not be put in place", path.display()))?;
        fs::write(path.join(MARK), self.fingerprint())?;
        match self.state(root) {
            State::Ready => remove(&old),
            state => bail!("{}: set-up ended with {state:?}", self.name),
        }
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

fn require(tool: &Tool) -> Result<()> {
    tool.look().map(drop).map_err(|why| {
        anyhow::anyhow!(
            "{} ({}): {why}\n  hint: {}; `cargo xtask doctor` looks at everything",
            tool.name,
            tool.purpose,
            tool.mend
        )
    })
}

/// Makes the unpacked libtorch smaller and complete.
fn finish_libtorch(folder: &Path) -> Result<()> {
    let lib = folder.join("lib");
    let mut strip = Command::new("strip");
    strip
        .arg("--strip-unneeded")
        .args(["libtorch_cpu.so", "libc10.so"])
        .current_dir(&lib);
    if !command::status(&mut strip)?.success() {
        bail!("libtorch: `strip` failed");
    }
    // The bindings link with `-ltorch`. In the wheel that library needs the CUDA ones, so this one takes its place: it holds
    // nothing and needs the other two.
    let mut link = Command::new("cc");
    link.args([
        "-shared",
        "-x",
        "c",
        "-",
        "-o",
        "libtorch.so",
        "-Wl,-soname,libtorch.so",
        "-Wl,--no-as-needed",
    ])
    .args([
        "-Wl,--disable-new-dtags",
        "-Wl,-rpath,$ORIGIN",
        "-L.",
        "-l:libtorch_cpu.so",
        "-l:libc10.so",
    ])
    .current_dir(&lib)
    .stdin(Stdio::null());
    if !command::status(&mut link)?.success() {
        bail!("libtorch: `cc` could not link the stand-in for libtorch.so");
    }
    Ok(())
}

/// Removes a folder with all that is in it, if there is one.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} could not be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::Wheel;

    const TOY: Component = Component {
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

    fn unpacked(root: &Path) -> PathBuf {
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

    #[test]
    fn the_mark_comes_last_and_decides() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(TOY.state(root), State::Absent);
        fs::rename(unpacked(root), TOY.path(root)).unwrap();
        assert!(
            matches!(TOY.state(root), State::Broken(_)),
            "all files, but no mark"
        );
        TOY.install(root, &unpacked(root)).unwrap();
        assert_eq!(TOY.state(root), State::Ready);
        assert!(
            !root.join(".downloads/toy.old").exists(),
            "what was there before is gone"
        );
        fs::remove_file(TOY.path(root).join("lib/a.so")).unwrap();
        assert_eq!(TOY.state(root), State::Broken("lib/a.so is missing".into()));
        let next = Component {
            version: "1.1",
            ..TOY
        };
        assert_eq!(next.state(root), State::Other("toy 1.0, recipe 1".into()));
        assert!(matches!(
            Component { recipe: 2, ..TOY }.state(root),
            State::Other(_)
        ));
    }

    #[test]
    fn an_unpacked_folder_that_lacks_a_file_is_not_called_ready() {
        let root = tempfile::tempdir().unwrap();
        let fresh = unpacked(root.path());
        fs::remove_file(fresh.join("lib/a.so")).unwrap();
        let error = TOY.install(root.path(), &fresh).unwrap_err().to_string();
        assert!(error.contains("lib/a.so is missing"), "{error}");
    }

    #[test]
    fn too_little_space_is_told_before_anything_is_fetched() {
        let root = Path::new("/somewhere");
        let error = TOY.require_space(root, Some(9)).unwrap_err().to_string();
        assert!(
            error.contains("expected 10 MB")
                && error.contains("found 9 MB")
                && error.contains("hint:"),
            "{error}"
        );
        TOY.require_space(root, Some(10)).unwrap();
        TOY.require_space(root, None).unwrap();
    }

    #[test]
    fn the_pins_are_whole() {
        for component in [&pins::LIBTORCH, &pins::ONNXRUNTIME] {
            for wheel in component.wheels {
                assert!(wheel.requirement.contains("=="), "{}", wheel.requirement);
                assert_eq!(wheel.sha256.len(), 64, "{}", wheel.requirement);
                assert!(
                    wheel.sha256.chars().all(|c| c.is_ascii_hexdigit()),
                    "{}",
                    wheel.requirement
                );
            }
            assert!(component.wheels[0].requirement.ends_with(component.version));
        }
    }
}
