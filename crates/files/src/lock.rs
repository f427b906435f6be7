//! One writer a path: a lock file beside it, with host and process in it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::atomic::sibling;
use crate::{Error, Result};

/// The right to write one path, given up when dropped.
///
/// The lock is the operating system's lock on the file `.NAME.lock` in the same folder, so a process
/// that dies gives it up whatever the file still says. Host and process stand in the file for the
/// message to the others, and decide alone on file systems that have no locks.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of `path` (a file or a folder), or says who holds it.
    ///
    /// # Errors
    /// [`Error::Locked`], and [`Error::Io`] where the lock file cannot be made.
    pub fn acquire(path: &Path) -> Result<Self> {
        let lock = sibling(path, "lock")?;
        let fault = |source| Error::Io {
            path: path.into(),
            action: "make its lock file",
            attempts: 1,
            source,
        };
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&lock)
                .map_err(fault)?;
            let held = match file.try_lock() {
                Ok(()) => false,
                Err(TryLockError::WouldBlock) => true,
                // Without locks in the file system, what the file says is all there is.
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {
                    owner_lives(&read_owner(&mut file))
                }
                Err(TryLockError::Error(source)) => return Err(fault(source)),
            };
            if held {
                let owner = read_owner(&mut file);
                let owner = if owner.is_empty() {
                    "unknown".into()
                } else {
                    owner
                };
                return Err(Error::Locked {
                    path: path.into(),
                    lock,
                    owner,
                });
            }
            // The former owner removes the file before it gives up the lock: what was locked here
            // may no longer be the file of that name.
            if !same_file(&file, &lock) {
                continue;
            }
            file.set_len(0).map_err(fault)?;
            file.seek(SeekFrom::Start(0)).map_err(fault)?;
            writeln!(file, "{} {}", host(), std::process::id()).map_err(fault)?;
            return Ok(Self { file, path: lock });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while still locked, so that nobody removes a successor's file. A file that stays
        // behind hinders nobody.
        if same_file(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

fn read_owner(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0));
    // A lock file is a line; more than that is not ours to show.
    let _ = file.take(300).read_to_string(&mut text);
    text.trim().to_string()
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown-host".into()
    } else {
        name.into()
    }
}

/// Whether the process that a lock file names may still run: surely not when it ran on this host
/// and there is no such process, or when the file names nobody.
fn owner_lives(owner: &str) -> bool {
    let Some((owner_host, process)) = owner.rsplit_once(' ') else {
        return !owner.is_empty();
    };
    owner_host != host() || Path::new("/proc").join(process).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_27b_second_writer_is_told_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a model");
        let first = Lock::acquire(&path).unwrap();
        let text = Lock::acquire(&path).unwrap_err().to_string();
        assert!(
            text.contains(&format!("{} {}", host(), std::process::id())),
            "{text}"
        );
        drop(first);
        drop(Lock::acquire(&path).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_dead_writers_lock_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        std::fs::write(
            folder.path().join(".model.lock"),
            format!("{} 4194305\n", host()),
        )
        .unwrap();
        drop(Lock::acquire(&path).unwrap());
    }

    #[test]
    fn only_the_dead_of_this_host_are_surely_dead() {
        assert!(!owner_lives(""));
        assert!(!owner_lives(&format!("{} 4194305", host())));
        assert!(owner_lives(&format!("{} {}", host(), std::process::id())));
        assert!(owner_lives("elsewhere 4194305"));
    }

    #[test]
    fn many_threads_one_holder() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let Ok(lock) = Lock::acquire(&path) else {
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert!(taken.load(Ordering::SeqCst) > 0);
    }
}
