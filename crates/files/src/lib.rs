//! Files that are whole or absent: atomic writes, one writer a path.
//!
//! Here: [`atomic_write`] (temporary name, flush, rename, folder flushed, bounded retries) and
//! [`Lock`] (one writer a path, with host and process in a lock file). Deliberately not here: what
//! the files contain, and any clock: a retry sleeps for a fixed time and measures nothing.

mod atomic;
mod error;
mod lock;

pub use atomic::{Retry, WriteOptions, atomic_write, previous_path};
pub use error::Error;
pub use lock::Lock;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
