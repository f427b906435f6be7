//! The folder of a run: which files it has, and who may write into it.

use std::fs;
use std::path::{Path, PathBuf};

use dunnart_files::Lock;

use crate::{Error, Result};

/// Ending of checkpoint files.
const ENDING: &str = "safetensors";

/// A run's folder, locked against a second writer for as long as the value lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    // The system gives the lock back when the process ends, however it ends.
    _lock: Lock,
    // Dropped after the lock, whose file lies in the folder.
    _made: Made,
}

/// Folders that were made for a run, the innermost first; those in which nothing came to lie go away again.
#[derive(Debug)]
struct Made(Vec<PathBuf>);

impl Made {
    /// The folders that are still to be made for `path` to exist.
    fn missing(path: &Path) -> Self {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        Self(
            path.ancestors()
                .take_while(missing)
                .map(Path::to_path_buf)
                .collect(),
        )
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // A folder that holds anything is not removed.
            let _ = fs::remove_dir(folder);
        }
    }
}

impl RunFolder {
    /// The folder of a new run; created where it does not exist.
    ///
    /// # Errors
    /// [`Error::RunFolderExists`] when a run was started in it before, [`Error::Files`] when another
    /// process writes into it, [`Error::File`].
    pub fn create(path: &Path) -> Result<Self> {
        let folder = Self::open(path)?;
        match folder.trace()? {
            Some(found) => Err(Error::RunFolderExists {
                path: path.into(),
                found,
            }),
            None => Ok(folder),
        }
    }

    /// The folder of a run that goes on; created where it does not exist, and taken away again if nothing was
    /// written into it.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::File`].
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::File {
            action: "create",
            path: path.into(),
            source,
        };
        let made = Made::missing(path);
        fs::create_dir_all(path).map_err(failed)?;
        let lock = Lock::acquire(&path.join("run"))?;
        Ok(Self {
            path: path.into(),
            _lock: lock,
            _made: made,
        })
    }

    /// The first file that a run has left here, if any.
    fn trace(&self) -> Result<Option<String>> {
        let failed = |source| Error::File {
            action: "read",
            path: self.path.clone(),
            source,
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            let checkpoint = (name.starts_with("model_") || name.starts_with("best_model"))
                && name.ends_with(ENDING);
            if checkpoint || name == "history.txt" {
                found.push(name);
            }
        }
        found.sort();
        Ok(found.into_iter().next())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The checkpoint after the last epoch that was finished.
    pub fn latest(&self) -> PathBuf {
        self.path.join(format!("model_latest.{ENDING}"))
    }

    /// The checkpoint kept for an epoch of the run.
    pub fn numbered(&self, epoch: u64) -> PathBuf {
        self.path.join(format!("model_{epoch:03}.{ENDING}"))
    }

    /// The checkpoint after a stage.
    pub fn stage(&self, stage: usize) -> PathBuf {
        self.path.join(format!("model_stage_{stage}.{ENDING}"))
    }

    /// The checkpoint of the best loss, without an optimiser.
    pub fn best(&self) -> PathBuf {
        self.path.join(format!("best_model.{ENDING}"))
    }

    /// One row per epoch, as dingo writes it.
    pub fn history(&self) -> PathBuf {
        self.path.join("history.txt")
    }

    /// One JSON object per line: what happened in the run.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.jsonl")
    }

    /// The `local` block; read again by a resumed run.
    pub fn local_settings(&self) -> PathBuf {
        self.path.join("local_settings.yaml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 26: the reference noticed an existing history after a whole epoch.
    #[test]
    fn point_26_a_folder_with_a_run_is_refused_at_once() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a folder/run");
        fs::create_dir_all(&path).unwrap();
        for name in [
            "history.txt",
            "model_latest.safetensors",
            "model_stage_0.safetensors",
            "best_model.safetensors",
        ] {
            drop(RunFolder::create(&path).unwrap());
            fs::write(path.join(name), "").unwrap();
            let error = RunFolder::create(&path).unwrap_err();
            assert!(matches!(error, Error::RunFolderExists { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
            drop(RunFolder::open(&path).unwrap());
            fs::remove_file(path.join(name)).unwrap();
        }
        fs::write(path.join("notes.txt"), "mine").unwrap();
        RunFolder::create(&path).unwrap();
    }

    #[test]
    fn a_folder_that_stays_empty_is_taken_away_again() {
        let parent = tempfile::tempdir().unwrap();
        let outer = parent.path().join("runs");
        let path = outer.join("first");
        drop(RunFolder::create(&path).unwrap());
        assert!(!outer.exists());
        // What was there before stays, empty or not.
        fs::create_dir(&outer).unwrap();
        drop(RunFolder::open(&path).unwrap());
        assert!(outer.exists() && !path.exists());
        let folder = RunFolder::create(&path).unwrap();
        fs::write(folder.history(), "").unwrap();
        drop(folder);
        assert!(path.join("history.txt").exists());
    }

    #[test]
    fn two_writers_do_not_share_a_folder() {
        let parent = tempfile::tempdir().unwrap();
        let first = RunFolder::create(parent.path()).unwrap();
        let error = RunFolder::open(parent.path()).unwrap_err();
        assert!(matches!(error, Error::Files(_)), "{error}");
        drop(first);
        RunFolder::open(parent.path()).unwrap();
    }
}
