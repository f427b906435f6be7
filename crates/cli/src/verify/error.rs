//! Why a comparison could not run.

use std::path::PathBuf;

/// A reason for which nothing can be said about a case: never a mere difference.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system or the format says.
        reason: String,
    },
    /// The manifest does not describe what this program knows.
    #[error("{}: {what}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A golden file lacks a tensor.
    #[error("{file}: tensor `{key}` is missing")]
    Missing {
        /// The file.
        file: String,
        /// The key.
        key: String,
    },
    /// A tensor has another shape than its case needs.
    #[error("{file}: tensor `{key}`: expected shape {expected}, got {found:?}")]
    Shape {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// The shape needed.
        expected: String,
        /// The shape found.
        found: Vec<usize>,
    },
    /// A path failed where it should have computed.
    #[error("{file}, path {path}: {reason}")]
    Path {
        /// The file of the case.
        file: String,
        /// Name of the path.
        path: String,
        /// What it says.
        reason: String,
    },
}
