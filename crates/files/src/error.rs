//! What can go wrong while a file is written.

use std::path::PathBuf;

/// An error of this crate; every variant names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused, after as many attempts as were allowed.
    #[error("{path}: cannot {action} (attempt {attempts}): {source}", path = path.display())]
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// The step that failed.
        action: &'static str,
        /// Attempts made.
        attempts: u32,
        /// What the system said to the last attempt.
        source: std::io::Error,
    },
    /// Another writer holds the path.
    #[error(
        "{path}: another process writes it ({owner}, lock file {lock})",
        path = path.display(),
        lock = lock.display()
    )]
    Locked {
        /// The file that was to be written.
        path: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// Host and process that hold it, as the lock file says.
        owner: String,
    },
    /// The path cannot name a file to write.
    #[error("{path}: cannot be written: {reason}", path = path.display())]
    Target {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
}
