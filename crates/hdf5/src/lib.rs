//! HDF5 files as dingo and h5py write them, over the pure-Rust `hdf5-pure`.
//!
//! Here: opening a file that nobody vouches for, and reading arrays, compound records, complex numbers,
//! strings and attributes from it with every size compared with the file before anything is allocated;
//! writing the same objects. Deliberately not here: what the objects mean.
//!
//! Reading is guarded in four places. The library sees the file through a source with a budget, so that
//! no structure can lead it in circles; each block of metadata is looked through for datatypes that
//! would exhaust the stack or the memory; a panic inside the library becomes an error; and what a
//! dataset claims to hold is compared with the file before it is read. Data in one piece, as dingo writes
//! them, are read straight from the file at their offset, from any number of threads.

mod attribute;
mod dataset;
mod element;
mod error;
mod file;
mod guard;
mod read;
mod record;
mod scan;
mod source;
mod write;

pub use attribute::Attribute;
pub use dataset::Dataset;
pub use element::{Element, ElementType, Field, Number};
pub use error::Error;
pub use file::Hdf5File;
pub use record::{Column, Values};
pub use write::{Content, Data};

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
