//! One set-up or build at a time in a clone.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// Holds a lock until it is dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock of the clone, waiting for whoever has it and saying so.
pub(crate) fn take(root: &Path, name: &str) -> Result<Lock> {
    let folder = root.join(".downloads");
    fs::create_dir_all(&folder)
        .with_context(|| format!("folder {} could not be made", folder.display()))?;
    let path = folder.join(format!("{name}.lock"));
    let file =
        File::create(&path).with_context(|| format!("{} could not be opened", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("xtask: waiting for another `cargo xtask` in this clone ({name}) to finish");
            file.lock()
                .with_context(|| format!("{} could not be locked", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("{} could not be locked", path.display()));
        }
    }
    Ok(Lock { _file: file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn the_second_waits_for_the_first() {
        let root = tempfile::tempdir().unwrap();
        let first = take(root.path(), "setup").unwrap();
        let _other_name = take(root.path(), "build").unwrap();
        let (sender, receiver) = mpsc::channel();
        let path = root.path().to_path_buf();
        let waiter = std::thread::spawn(move || {
            let lock = take(&path, "setup").unwrap();
            sender.send(()).unwrap();
            drop(lock);
        });
        assert!(
            receiver.recv_timeout(Duration::from_millis(100)).is_err(),
            "it did not wait"
        );
        drop(first);
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        waiter.join().unwrap();
    }
}
