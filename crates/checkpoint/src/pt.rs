//! dingo's `.pt` files: torch's zip archive around a pickle, without torch and without executing anything.
//!
//! A file goes [`archive`] (zip, sizes) -> [`pickle`] (values in a heap) -> `dingo` (what they mean) ->
//! [`tensor`] (elements). Every step compares what the file says with the file's size before it allocates.
//! Deliberately not here: the format before torch 1.6, big-endian files, sparse and quantised tensors.

mod archive;
mod call;
mod encode;
mod globals;
mod half;
mod pickle;
mod read;
mod tensor;
mod to_json;
mod value;
mod write;

use std::fs::File;
use std::io::BufReader;

use archive::Archive;
pub(crate) use read::Parts;
use tensor::Loader;
pub(crate) use to_json::{TAG, ToJson, Tuples};
use value::{Heap, TensorRef, Value};

pub(crate) use write::{to_bytes, write};

use crate::Result;

/// An open file: its values, and the archive that holds their storages.
pub(crate) struct Document {
    pub(crate) archive: Archive,
    pub(crate) heap: Heap,
    pub(crate) root: Value,
}

impl Document {
    /// Reads everything but the storages.
    pub(crate) fn open(file: BufReader<File>, bytes: u64) -> Result<Self> {
        let mut archive = Archive::open(file, bytes)?;
        let pickle = archive.pickle()?;
        let (heap, root) = pickle::load(&pickle, bytes)?;
        Ok(Self {
            archive,
            heap,
            root,
        })
    }
}

#[cfg(test)]
#[path = "pt/tests.rs"]
mod tests;
