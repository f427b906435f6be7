//! Reading a dataset's elements: all of them, a range of rows, or rows by number.

use std::ops::Range;

use crate::dataset::{Dataset, Storage};
use crate::element::{Element, ElementType, decode_into};
use crate::{Error, Result};

/// Neighbouring rows of a list are fetched together up to this many bytes.
const RUN: u64 = 256 << 10;

impl Dataset {
    /// All elements in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when the stored type is not `T`, [`Error::TooLarge`], [`Error::Damaged`],
    /// [`Error::Unsupported`], [`Error::File`].
    pub fn read<T: Element>(&self) -> Result<Vec<T>> {
        self.read_rows(0..self.rows()?)
    }

    /// The elements of a range of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] when the range reaches past the last row, and those of [`Self::read`].
    pub fn read_rows<T: Element>(&self, rows: Range<u64>) -> Result<Vec<T>> {
        self.expect::<T>()?;
        self.storage()?;
        let count = rows.end.saturating_sub(rows.start) as usize;
        // The sizes have been compared with the file by `storage`, so this reservation is in proportion.
        let mut all = Vec::with_capacity(if rows.end <= self.rows()? {
            count * self.row_length()?
        } else {
            0
        });
        self.visit(rows, |_, elements| all.extend_from_slice(elements))?;
        Ok(all)
    }

    /// Passes a range of rows to `each` a window at a time: the number of the window's first row and its
    /// elements. About a megabyte is held at once.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read_rows`].
    pub fn visit<T: Element>(
        &self,
        rows: Range<u64>,
        mut each: impl FnMut(u64, &[T]),
    ) -> Result<()> {
        let big_endian = self.expect::<T>()?;
        let mut elements = Vec::new();
        self.visit_bytes(rows, |first, bytes| {
            elements.clear();
            decode_into(bytes, big_endian, &mut elements);
            each(first, &elements);
            Ok(())
        })
    }

    /// Passes the bytes of a range of rows to `each` a window at a time.
    pub(crate) fn visit_bytes(
        &self,
        rows: Range<u64>,
        mut each: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (storage, row_bytes) = (self.storage()?, self.row_bytes()?);
        let end = rows.end;
        if end > self.rows()? {
            return Err(self.no_row(end - 1));
        }
        if storage == Storage::Empty {
            return Ok(());
        }
        let window = self.window(storage, row_bytes);
        let mut buffer = Vec::new();
        let mut first = rows.start;
        while first < end {
            // Windows end where chunks end, so that no chunk is decoded twice.
            let count = (window - first % window).min(end - first);
            self.fetch(storage, row_bytes, first, count, &mut buffer)?;
            each(first, &buffer)?;
            first += count;
        }
        Ok(())
    }

    /// Passes the listed rows to `each`, in the order they stand in the file: the row's position in the
    /// list and its elements. Neighbouring rows are fetched together; a quarter of a megabyte, or one row,
    /// or the rows of one chunk are held at once.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] when a row does not exist, and those of [`Self::read`].
    pub fn visit_list<T: Element>(
        &self,
        rows: &[u64],
        mut each: impl FnMut(usize, &[T]),
    ) -> Result<()> {
        let big_endian = self.expect::<T>()?;
        let (storage, row_bytes) = (self.storage()?, self.row_bytes()?);
        let there = self.rows()?;
        if let Some(&row) = rows.iter().find(|&&row| row >= there) {
            return Err(self.no_row(row));
        }
        let mut order: Vec<(u64, usize)> = rows.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let longest = (RUN / row_bytes.max(1)).max(1);
        let (mut buffer, mut elements) = (Vec::new(), Vec::new());
        let mut left = order.as_slice();
        while let Some(&(first, _)) = left.first() {
            let together = |last: u64, row: u64| match storage {
                Storage::Chunks(chunk) => row / chunk == first / chunk,
                _ => row <= last + 1 && row - first < longest,
            };
            let mut run = 1;
            while run < left.len() && together(left[run - 1].0, left[run].0) {
                run += 1;
            }
            let count = left[run - 1].0 - first + 1;
            self.fetch(storage, row_bytes, first, count, &mut buffer)?;
            for &(row, position) in &left[..run] {
                let start = ((row - first) * row_bytes) as usize;
                elements.clear();
                // A row of no elements has no bytes to take.
                if storage != Storage::Empty {
                    let bytes = &buffer[start..start + row_bytes as usize];
                    decode_into(bytes, big_endian, &mut elements);
                }
                each(position, &elements);
            }
            left = &left[run..];
        }
        Ok(())
    }

    fn no_row(&self, row: u64) -> Error {
        Error::Row {
            path: self.file.path.clone(),
            object: self.object(),
            row,
            rows: self.rows().unwrap_or(0),
        }
    }

    /// The text of a scalar, or of a dataset with one element.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there are several elements, and those of [`Self::texts`].
    pub fn text(&self) -> Result<String> {
        let mut texts = self.texts()?;
        match texts.pop() {
            Some(text) if texts.is_empty() => Ok(text),
            _ => Err(self.shape_error("[] (one text)")),
        }
    }

    /// The texts of all elements, of fixed or variable length. A fixed text ends at its first NUL.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when the elements are no text, [`Error::Damaged`] when a text is no UTF-8, and
    /// those of [`Self::read`].
    pub fn texts(&self) -> Result<Vec<String>> {
        let no_text = || self.damaged("a text is not UTF-8");
        match *self.element()? {
            ElementType::FixedText(size) => {
                self.storage()?;
                self.afford((size_of::<String>() + size) as u64)?;
                let mut texts = Vec::with_capacity(self.rows()? as usize * self.row_length()?);
                self.visit_bytes(0..self.rows()?, |_, bytes| {
                    for one in bytes.chunks_exact(size.max(1)) {
                        let end = one.iter().position(|&byte| byte == 0).unwrap_or(size);
                        let text = std::str::from_utf8(&one[..end]).map_err(|_| no_text())?;
                        texts.push(text.to_owned());
                    }
                    Ok(())
                })?;
                Ok(texts)
            }
            ElementType::Text => {
                if self.storage()? == Storage::Empty {
                    return Ok(Vec::new());
                }
                // Raw reference, parsed reference and the text itself, whatever its length.
                self.afford(4 * size_of::<String>() as u64)?;
                let payload = usize::try_from(self.file.bytes.length * 2).unwrap_or(usize::MAX);
                let options =
                    hdf5_pure::VlenStringReadOptions::new().with_max_payload_bytes(payload);
                let handle = &self.entry.handle;
                let texts = self
                    .file
                    .call(&self.object(), || handle.read_vlen_strings(options))?;
                if texts.iter().any(|text| text.contains('\u{fffd}')) {
                    return Err(no_text());
                }
                Ok(texts)
            }
            _ => Err(self.type_error("text")),
        }
    }
}
