//! The bytes of a file as the HDF5 library sees them: read at an offset, with a budget.
//!
//! Every byte the library looks at passes through here, so a structure that leads it in circles or makes
//! it fetch the same block again and again runs out of budget and ends in an error.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdf5_pure::{FormatError, Source};

use crate::scan;

/// What one library call may fetch beyond a multiple of the file's size.
const ALLOWANCE: u64 = 8 << 20;
/// The largest block of metadata; the names of a large model's tensors take 300 kB.
const MAX_BLOCK: usize = 32 << 20;
/// What each request costs beside its bytes, so that endless small requests end too.
const REQUEST_COST: u64 = 32;

/// An open file, its size when it was opened, and what the running library call may still fetch.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) file: File,
    pub(crate) length: u64,
    budget: AtomicU64,
}

impl Bytes {
    pub(crate) fn new(file: File, length: u64) -> Arc<Self> {
        let bytes = Self {
            file,
            length,
            budget: AtomicU64::new(0),
        };
        bytes.grant(1);
        Arc::new(bytes)
    }

    /// Sets the budget of the next call: `times` the file's size and a constant.
    pub(crate) fn grant(&self, times: u64) {
        let budget = self.length.saturating_mul(times).saturating_add(ALLOWANCE);
        self.budget.store(budget, Ordering::Relaxed);
    }

    fn spend(&self, bytes: u64) -> Result<(), FormatError> {
        let cost = bytes.saturating_add(REQUEST_COST);
        let spent = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(cost)
            });
        if spent.is_ok() {
            Ok(())
        } else {
            Err(FormatError::Source(
                "its structure makes the reader fetch more than the file holds".into(),
            ))
        }
    }
}

/// The file, handed to the library.
#[derive(Debug)]
pub(crate) struct Guarded(pub(crate) Arc<Bytes>);

impl Source for Guarded {
    fn len(&self) -> u64 {
        self.0.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FormatError> {
        self.0.spend(buffer.len() as u64)?;
        self.0
            .file
            .read_exact_at(buffer, offset)
            .map_err(|error| FormatError::Source(error.to_string()))
    }

    fn read_metadata_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, FormatError> {
        if length > MAX_BLOCK {
            let reason = format!("it claims a block of metadata of {length} bytes");
            return Err(FormatError::Source(reason));
        }
        let block = self.read_exact_at(offset, length)?;
        scan::datatypes(&block).map_err(FormatError::Source)?;
        Ok(block)
    }
}
