//! HDF5 files as dingo and h5py write them, over the pure-Rust `hdf5-pure`.
//!
//! Here: opening a file that nobody vouches for, and reading arrays, compound records, complex numbers,
//! strings and attributes from it with every size compared with the file before anything is allocated;
//! writing the same objects. Deliberately not here: what the objects mean.

mod error;

pub use error::Error;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
