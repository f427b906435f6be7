//! Putting a [`Component`] in its folder: download, unpack, finish, rename, mark.
//!
//! An interruption at any moment leaves either the old folder, or a folder without the mark, which the next run replaces.
//! Wheels that arrived whole are kept until the component is in place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::pins::{self, Component};
use crate::tools::{self, Tool};
use crate::{command, environment, lock};

/// Written last; its text says what the folder was made from.
const MARK: &str = ".set-up";

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
pub(crate) fn remove(folder: &Path) -> Result<()> {
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
    use crate::wheels::tests::{TOY, unpacked};

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
