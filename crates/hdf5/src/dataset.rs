//! One dataset: what it holds, and where its bytes stand.

use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use hdf5_pure::{Chunk, ChunkIndex, Layout};

use crate::attribute::{self, Attribute};
use crate::element::{Element, ElementType};
use crate::file::{Inner, Problem};
use crate::{Error, Result};

/// Bytes read at once when a whole dataset passes by.
const WINDOW: u64 = 1 << 20;

/// What the catalogue knows of a dataset.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) info: std::result::Result<Info, Problem>,
    pub(crate) handle: hdf5_pure::Dataset,
}

pub(crate) struct Info {
    pub(crate) element: ElementType,
    pub(crate) element_size: u64,
    pub(crate) shape: Vec<u64>,
    layout: Layout,
    filters: Vec<hdf5_pure::Filter>,
    /// Set once the stored chunks have been found whole.
    chunks_checked: OnceLock<()>,
}

impl Entry {
    pub(crate) fn describe(name: String, handle: hdf5_pure::Dataset) -> Self {
        let info = Info::of(&handle).map_err(|error| Problem::of(&error));
        Self { name, info, handle }
    }
}

impl Info {
    fn of(handle: &hdf5_pure::Dataset) -> std::result::Result<Self, hdf5_pure::Error> {
        let datatype = handle.datatype()?;
        Ok(Self {
            element: ElementType::of(&datatype),
            element_size: u64::from(datatype.type_size()),
            shape: handle.shape()?,
            layout: handle.layout()?,
            filters: handle.filter_pipeline(),
            chunks_checked: OnceLock::new(),
        })
    }
}

/// Where a dataset's bytes stand, after its sizes have been checked against the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Storage {
    /// In one piece at this offset of the file.
    At(u64),
    /// In the dataset's header.
    Inline,
    /// In chunks of so many rows.
    Chunks(u64),
    /// There are no elements.
    Empty,
}

/// A dataset of an open file. Clones share it, and it may be read from several threads at once.
#[derive(Clone)]
pub struct Dataset {
    pub(crate) file: Arc<Inner>,
    pub(crate) entry: Arc<Entry>,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataset")
            .field("name", &self.entry.name)
            .finish_non_exhaustive()
    }
}

impl Dataset {
    pub(crate) fn new(file: Arc<Inner>, entry: Arc<Entry>) -> Self {
        Self { file, entry }
    }

    /// Its full name, such as `svd/V`.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its shape, outermost dimension first; a scalar has none.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] or [`Error::Unsupported`] when the dataset's header cannot be read.
    pub fn shape(&self) -> Result<&[u64]> {
        Ok(&self.info()?.shape)
    }

    /// The shape of a dataset that must have `rank` dimensions; `meaning` names them for the error, as in
    /// `[waveforms, coefficients]`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when it has another number of dimensions, and those of [`Self::shape`].
    pub fn shape_of_rank(&self, rank: usize, meaning: &str) -> Result<&[u64]> {
        let shape = self.shape()?;
        if shape.len() == rank {
            Ok(shape)
        } else {
            Err(self.shape_error(meaning))
        }
    }

    /// An error that says the shape should have been `expected`.
    pub fn shape_error(&self, expected: &str) -> Error {
        Error::Shape {
            path: self.file.path.clone(),
            object: self.object(),
            expected: expected.to_owned(),
            found: self.shape().map(<[u64]>::to_vec).unwrap_or_default(),
        }
    }

    /// The type of its elements.
    ///
    /// # Errors
    ///
    /// Those of [`Self::shape`].
    pub fn element(&self) -> Result<&ElementType> {
        Ok(&self.info()?.element)
    }

    /// Its rows: the outermost dimension, or 1 for a scalar.
    ///
    /// # Errors
    ///
    /// Those of [`Self::shape`].
    pub fn rows(&self) -> Result<u64> {
        Ok(self.shape()?.first().copied().unwrap_or(1))
    }

    /// Elements in one row.
    ///
    /// # Errors
    ///
    /// Those of [`Self::shape`], and [`Error::TooLarge`] when the number overflows.
    pub fn row_length(&self) -> Result<usize> {
        let inner = self.shape()?.get(1..).unwrap_or_default();
        product(inner.iter().map(|&one| Some(one)))
            .and_then(|length| usize::try_from(length).ok())
            .ok_or_else(|| self.too_large(u64::MAX))
    }

    /// Its attributes by name.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`].
    pub fn attributes(&self) -> Result<std::collections::BTreeMap<String, Attribute>> {
        let handle = &self.entry.handle;
        self.file.call(&self.object(), || {
            attribute::collect(handle.attrs()?, handle.attr_datatypes()?)
        })
    }

    pub(crate) fn object(&self) -> String {
        format!("dataset `{}`", self.entry.name)
    }

    pub(crate) fn info(&self) -> Result<&Info> {
        let info = self.entry.info.as_ref();
        info.map_err(|problem| problem.at(&self.file.path, self.object()))
    }

    pub(crate) fn damaged(&self, reason: impl Into<String>) -> Error {
        Problem::Damaged(reason.into()).at(&self.file.path, self.object())
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> Error {
        Problem::Unsupported(what.into()).at(&self.file.path, self.object())
    }

    pub(crate) fn type_error(&self, expected: &str) -> Error {
        let found = self.element().map(ToString::to_string);
        Error::Type {
            path: self.file.path.clone(),
            object: self.object(),
            expected: expected.to_owned(),
            found: found.unwrap_or_else(|_| "unknown".into()),
        }
    }

    fn too_large(&self, claimed: u64) -> Error {
        Error::TooLarge {
            path: self.file.path.clone(),
            object: self.object(),
            claimed,
            limit: self.limit(),
        }
    }

    /// What a compressed dataset may hold: four times the file and 32 MiB. With the buffers beside it a
    /// read stays within eight times the file and 64 MiB.
    fn limit(&self) -> u64 {
        (self.file.bytes.length.saturating_mul(4)).saturating_add(32 << 20)
    }

    /// Refuses what would take more memory once it is read than is allowed for the file.
    pub(crate) fn afford(&self, bytes_each: u64) -> Result<()> {
        let needed = product([Some(bytes_each), Some(self.rows()?)].into_iter());
        let needed = needed.and_then(|bytes| bytes.checked_mul(self.row_length().ok()? as u64));
        match needed {
            Some(bytes) if bytes <= self.limit().saturating_add(3 * self.file.bytes.length) => {
                Ok(())
            }
            other => Err(self.too_large(other.unwrap_or(u64::MAX))),
        }
    }

    /// Checks that the stored type is `T` and says if its bytes are big-endian.
    pub(crate) fn expect<T: Element>(&self) -> Result<bool> {
        let info = self.info()?;
        match T::accepts(&info.element) {
            Some(big_endian) if info.element_size == T::SIZE as u64 => Ok(big_endian),
            _ => Err(self.type_error(T::NAME)),
        }
    }

    /// Bytes of one row.
    pub(crate) fn row_bytes(&self) -> Result<u64> {
        let factors = [self.row_length()? as u64, self.info()?.element_size];
        product(factors.map(Some).into_iter()).ok_or_else(|| self.too_large(u64::MAX))
    }

    /// Bytes of all rows, compared with what the file can hold, and where they stand.
    pub(crate) fn storage(&self) -> Result<Storage> {
        let info = self.info()?;
        let factors = [self.row_bytes()?, self.rows()?];
        let total = product(factors.map(Some).into_iter());
        let total = total.ok_or_else(|| self.too_large(u64::MAX))?;
        if total == 0 {
            return Ok(Storage::Empty);
        }
        let file = self.file.bytes.length;
        match &info.layout {
            Layout::Compact { size } if *size == total => Ok(Storage::Inline),
            Layout::Contiguous {
                address: Some(address),
                size,
            } if *size == total => {
                if address.checked_add(total).is_none_or(|end| end > file) {
                    return Err(self.damaged(format!(
                        "its {total} bytes at {address} reach past the end of the file at {file}; \
                         the file is truncated"
                    )));
                }
                Ok(Storage::At(*address))
            }
            Layout::Compact { size }
            | Layout::Contiguous {
                address: Some(_),
                size,
            } => Err(self.damaged(format!(
                "its shape {:?} of {} takes {total} bytes, but {size} are stored",
                info.shape, info.element
            ))),
            Layout::Contiguous { address: None, .. } => {
                Err(self.damaged("its data were never written, or stand in another file"))
            }
            Layout::Chunked { chunk_shape, index } => self.chunked(total, chunk_shape, *index),
            _ => Err(self.unsupported("virtual storage")),
        }
    }

    fn chunked(&self, total: u64, chunk_shape: &[u64], index: ChunkIndex) -> Result<Storage> {
        let info = self.info()?;
        for filter in &info.filters {
            // Deflate, shuffle, Fletcher's checksum and LZF: what h5py writes on request.
            if !matches!(filter.id, 1 | 2 | 3 | 32000) {
                return Err(self.unsupported(format!("compression with {filter}")));
            }
        }
        if index == ChunkIndex::BTreeV2 {
            return Err(self.unsupported("chunks indexed by a version 2 B-tree"));
        }
        if chunk_shape.is_empty()
            || chunk_shape.len() != info.shape.len()
            || chunk_shape.contains(&0)
        {
            return Err(self.damaged(format!(
                "its chunks have shape {chunk_shape:?}, itself has {:?}",
                info.shape
            )));
        }
        if total > self.limit() {
            return Err(self.too_large(total));
        }
        let pairs = || info.shape.iter().zip(chunk_shape);
        // Every chunk has an entry of at least eight bytes in the index; a whole row of chunks is decoded
        // at once and may take half of what is allowed.
        let chunks = product(pairs().map(|(&all, &one)| Some(all.div_ceil(one))));
        let padded = pairs().skip(1);
        let padded = product(padded.map(|(&all, &one)| all.div_ceil(one).checked_mul(one)));
        let slab = product([padded, Some(chunk_shape[0]), Some(info.element_size)].into_iter());
        let file = self.file.bytes.length;
        let chunks =
            chunks.filter(|chunks| chunks.checked_mul(8).is_some_and(|bytes| bytes <= file));
        let Some(chunks) = chunks else {
            return Err(self.damaged("it claims more chunks than the file can hold"));
        };
        match slab {
            Some(slab) if slab <= self.limit() / 2 => {}
            _ => return Err(self.too_large(slab.unwrap_or(u64::MAX))),
        }
        if info.chunks_checked.get().is_none() {
            let handle = &self.entry.handle;
            let stored = self.file.call(&self.object(), || handle.chunks())?;
            self.check_chunks(&stored, chunk_shape, chunks)?;
            let _ = info.chunks_checked.set(());
        }
        Ok(Storage::Chunks(chunk_shape[0]))
    }

    /// Checks that every chunk of the grid is stored once, inside the file.
    fn check_chunks(&self, stored: &[Chunk], chunk_shape: &[u64], expected: u64) -> Result<()> {
        let file = self.file.bytes.length;
        let shape = &self.info()?.shape;
        let mut places = Vec::with_capacity(stored.len());
        for chunk in stored {
            let end = chunk.address.checked_add(chunk.storage_size);
            if end.is_none_or(|end| end > file) {
                return Err(self.damaged(format!(
                    "a chunk of {} bytes at {} reaches past the end of the file at {file}",
                    chunk.storage_size, chunk.address
                )));
            }
            let mut steps = chunk.offset.iter().zip(chunk_shape).zip(shape);
            let place = steps.try_fold(0u64, |place, ((&offset, &step), &all)| {
                let inside = offset % step == 0 && offset < all;
                let row = place.checked_mul(all.div_ceil(step))?;
                inside.then(|| row + offset / step)
            });
            places.extend(place.filter(|_| chunk.offset.len() == shape.len()));
        }
        places.sort_unstable();
        places.dedup();
        if places.len() as u64 == expected && stored.len() as u64 == expected {
            return Ok(());
        }
        let written = places.len();
        Err(self.damaged(format!("{written} of its {expected} chunks were written")))
    }

    /// Rows to read at once so that the buffer stays small.
    pub(crate) fn window(&self, storage: Storage, row_bytes: u64) -> u64 {
        let rows = (WINDOW / row_bytes.max(1)).max(1);
        match storage {
            Storage::Chunks(chunk) => rows.next_multiple_of(chunk.max(1)).max(chunk),
            _ => rows,
        }
    }

    /// Reads the bytes of `rows` rows from `start` on into `buffer`, which they fill.
    pub(crate) fn fetch(
        &self,
        storage: Storage,
        row_bytes: u64,
        start: u64,
        rows: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let bytes = (rows * row_bytes) as usize;
        match storage {
            Storage::Empty => buffer.clear(),
            Storage::At(address) => {
                buffer.resize(bytes, 0);
                let offset = address + start * row_bytes;
                let read = self.file.bytes.file.read_exact_at(buffer, offset);
                read.map_err(|source| Error::File {
                    action: "read",
                    path: self.file.path.clone(),
                    source,
                })?;
            }
            Storage::Inline | Storage::Chunks(_) => {
                let handle = &self.entry.handle;
                *buffer = self
                    .file
                    .call(&self.object(), || handle.read_raw_rows(start, rows))?;
                if buffer.len() != bytes {
                    return Err(self.damaged(format!(
                        "{rows} rows from {start} on take {bytes} bytes, but {} are stored",
                        buffer.len()
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The product of all factors; `None` when a factor is missing or the product overflows.
pub(crate) fn product(mut factors: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    factors.try_fold(1u64, |all, one| all.checked_mul(one?))
}
