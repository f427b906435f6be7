//! The native format: one safetensors file with one metadata entry.
//!
//! The container is read and written here rather than through a library, because every kind of damage is
//! an error of its own, duplicate keys must be seen, and tensors stream between file and model without
//! a second copy. The tests read what is written here with the reference implementation.

mod header;
mod read;
mod write;

pub use read::{Header, TensorInfo};
pub(crate) use read::{layout, read, read_header};
pub(crate) use write::{to_bytes, write};

/// Key of the metadata entry that holds our canonical JSON.
const METADATA_KEY: &str = "dunnart";

/// Key of the checksum inside that JSON.
const CHECKSUM_KEY: &str = "checksum";

/// Largest accepted header in bytes, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

/// Bytes of the header's length.
const LENGTH_BYTES: u64 = 8;
