//! What can be wrong with an HDF5 file.

use std::path::PathBuf;

/// What can be wrong with an HDF5 file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to read or write the file.
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
