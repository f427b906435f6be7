//! What can be wrong with an HDF5 file.

use std::path::PathBuf;

/// What can be wrong with an HDF5 file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to read the file.
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        /// What was tried, such as `open` or `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] dunnart_files::Error),
    /// What is to be written cannot stand in a file.
    #[error("cannot write `{object}`: {reason}")]
    Content {
        /// The dataset, group or attribute.
        object: String,
        /// Why not.
        reason: String,
    },
    /// The file is not HDF5.
    #[error("{}: is not an HDF5 file: its first bytes are not the HDF5 signature", path.display())]
    NotHdf5 {
        /// The file.
        path: PathBuf,
    },
    /// The file contradicts itself or the format.
    #[error("{}: {object}: the file is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part of the file, such as ``dataset `svd/V` ``.
        object: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file uses a part of the format that is not read here.
    #[error(
        "{}: {object}: {what} is not supported\n\
         hint: rewrite the file with h5py's default settings, or with `h5repack -l CONTI -f NONE`",
        path.display()
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        object: String,
        /// What is not supported.
        what: String,
    },
    /// There is no such object.
    #[error("{}: has no {object}; found {found}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What was asked for, such as ``dataset `svd/V` ``.
        object: String,
        /// What stands there instead.
        found: String,
    },
    /// The elements have another type than was asked for.
    #[error("{}: {object}: expected {expected}, got {found}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        object: String,
        /// The type asked for.
        expected: String,
        /// The type stored.
        found: String,
    },
    /// The shape is another one than was asked for.
    #[error("{}: {object}: expected shape {expected}, got {found:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        object: String,
        /// The shape asked for, in words.
        expected: String,
        /// The shape stored.
        found: Vec<u64>,
    },
    /// The file claims more data than it can hold.
    #[error(
        "{}: {object}: claims {claimed} bytes, more than the {limit} bytes that a file of this size may hold",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        object: String,
        /// The bytes claimed; `u64::MAX` when their number overflows.
        claimed: u64,
        /// The most that is read from this file.
        limit: u64,
    },
    /// A row was asked for that does not exist.
    #[error("{}: {object}: there is no row {row}, it has {rows} rows", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        object: String,
        /// The row asked for.
        row: u64,
        /// The rows there are.
        rows: u64,
    },
}
