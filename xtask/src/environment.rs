//! Where things are: the root of the clone, libtorch, free disk space.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::command;
use crate::pins;

/// The root of the clone, where this program was compiled.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where libtorch is looked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Libtorch {
    /// In the clone, where set-up puts it.
    Own(PathBuf),
    /// Where the variable `LIBTORCH` of the user's environment says.
    Elsewhere(PathBuf),
}

impl Libtorch {
    /// Cargo's configuration sets the variable to the clone's folder unless the user did.
    pub(crate) fn of(root: &Path, variable: Option<OsString>) -> Self {
        let own = root.join(pins::LIBTORCH.folder);
        match variable.map(PathBuf::from) {
            Some(path) if !path.as_os_str().is_empty() && !same(&path, &own) => {
                Self::Elsewhere(path)
            }
            _ => Self::Own(own),
        }
    }

    /// As the environment says now.
    pub(crate) fn current(root: &Path) -> Self {
        Self::of(root, env::var_os("LIBTORCH"))
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Self::Own(path) | Self::Elsewhere(path) => path,
        }
    }

    /// The search path of the run-time linker with libtorch first: the run path in the binaries only reaches the clone's own.
    pub(crate) fn library_path(&self) -> OsString {
        let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let mut paths = vec![self.folder().join("lib")];
        paths.extend(env::split_paths(&before).filter(|path| !path.as_os_str().is_empty()));
        env::join_paths(paths).unwrap_or(before)
    }
}

fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// The version that a libtorch folder says it has: `Err` with the reason when it says nothing.
pub(crate) fn libtorch_version(folder: &Path) -> Result<String, String> {
    if !folder.is_dir() {
        return Err("there is no such folder".into());
    }
    // libtorch's archives and set-up write this file, an installed Python package has another one.
    for (file, quoted) in [("build-version", false), ("version.py", true)] {
        let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
            continue;
        };
        let found = if quoted {
            text.lines()
                .find_map(|line| line.strip_prefix("__version__"))
                .and_then(|rest| rest.split('\'').nth(1))
        } else {
            Some(text.trim())
        };
        if let Some(found) = found.filter(|found| !found.is_empty()) {
            return Ok(found.to_owned());
        }
    }
    Err("it has no file `build-version`".into())
}

/// Whether a version with whatever a build added to it, as in `2.11.0+cu130`, is the pinned one.
pub(crate) fn is_pinned_libtorch(version: &str) -> bool {
    version.split('+').next() == Some(pins::LIBTORCH.version)
}

/// Free space on the disk of a folder, in MB; `None` when `df` does not tell.
pub(crate) fn free_megabytes(folder: &Path) -> Option<u64> {
    let text = command::output("df", ["-Pk".as_ref(), folder.as_os_str()]).ok()?;
    free_in_df(&text)
}

fn free_in_df(text: &str) -> Option<u64> {
    let kilobytes: u64 = text
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    Some(kilobytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_variable_decides_unless_it_is_the_clones_own() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join(".libtorch");
        assert_eq!(Libtorch::of(root.path(), None), Libtorch::Own(own.clone()));
        assert_eq!(
            Libtorch::of(root.path(), Some("".into())),
            Libtorch::Own(own.clone())
        );
        assert_eq!(
            Libtorch::of(root.path(), Some(own.clone().into())),
            Libtorch::Own(own.clone())
        );
        fs::create_dir(&own).unwrap();
        let detour = root.path().join(".").join(".libtorch");
        assert_eq!(
            Libtorch::of(root.path(), Some(detour.into())),
            Libtorch::Own(own)
        );
        let other = PathBuf::from("/opt/libtorch");
        assert_eq!(
            Libtorch::of(root.path(), Some(other.clone().into())),
            Libtorch::Elsewhere(other)
        );
    }

    #[test]
    fn a_libtorch_tells_its_version() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            libtorch_version(&folder.path().join("none"))
                .unwrap_err()
                .contains("no such folder")
        );
        assert!(
            libtorch_version(folder.path())
                .unwrap_err()
                .contains("build-version")
        );
        fs::write(
            folder.path().join("version.py"),
            "from typing import X\n__version__ = '2.12.1+cpu'\n",
        )
        .unwrap();
        assert_eq!(libtorch_version(folder.path()).unwrap(), "2.12.1+cpu");
        fs::write(folder.path().join("build-version"), "2.11.0+cu130\n").unwrap();
        assert_eq!(libtorch_version(folder.path()).unwrap(), "2.11.0+cu130");
        assert!(is_pinned_libtorch("2.11.0+cu130") && is_pinned_libtorch("2.11.0"));
        assert!(!is_pinned_libtorch("2.11.1") && !is_pinned_libtorch("2.12.1+cpu"));
    }

    #[test]
    fn free_space_is_read_from_df() {
        let text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 100 50 4096000 13% /\n";
        assert_eq!(free_in_df(text), Some(4000));
        assert_eq!(free_in_df("nonsense"), None);
        assert!(free_megabytes(Path::new("/")).is_some());
    }
}
