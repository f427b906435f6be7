//! The file formats: told apart by their content on reading and by their ending on writing.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use dunnart_files::WriteOptions;

use crate::safetensors::Header;
use crate::{Error, Model, Result, pt, safetensors};

/// How torch began its files before 1.6: the pickle of a number.
const OLD_TORCH: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46";

/// A file format of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The native format: one safetensors file.
    Safetensors,
    /// dingo's `.pt`: torch's zip archive around a pickle.
    Pt,
    /// dingo's HDF5 file for distribution: weights and settings, nothing of the training.
    Hdf5,
}

impl Format {
    /// The format of a path's ending.
    ///
    /// # Errors
    /// [`Error::Ending`] for another ending.
    pub fn of_ending(path: &Path) -> Result<Self> {
        let ending = path
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("safetensors") => Ok(Self::Safetensors),
            Some("pt") => Ok(Self::Pt),
            Some("hdf5" | "h5") => Ok(Self::Hdf5),
            _ => Err(Error::Ending),
        }
    }

    /// The format of a file's content; what is not recognised is taken for safetensors, whose first
    /// bytes are a length.
    ///
    /// # Errors
    /// [`Error::NotAFile`], [`Error::OldTorch`], [`Error::Io`].
    pub fn of_file(path: &Path) -> Result<Self> {
        Opened::new(path).map(|opened| opened.format)
    }
}

/// An open file with its format and size.
struct Opened {
    file: BufReader<File>,
    bytes: u64,
    format: Format,
}

impl Opened {
    fn new(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        let information = file.metadata()?;
        if !information.is_file() {
            return Err(Error::NotAFile);
        }
        let mut start = Vec::new();
        (&mut file).take(8).read_to_end(&mut start)?;
        file.rewind()?;
        let format = match start.as_slice() {
            [b'P', b'K', 3, 4, ..] => Format::Pt,
            b"\x89HDF\r\n\x1a\n" => Format::Hdf5,
            OLD_TORCH => return Err(Error::OldTorch),
            _ => Format::Safetensors,
        };
        Ok(Self {
            file: BufReader::new(file),
            bytes: information.len(),
            format,
        })
    }
}

/// Reads and checks a whole model.
pub(crate) fn read(path: &Path) -> Result<Model> {
    let opened = Opened::new(path)?;
    match opened.format {
        Format::Safetensors => safetensors::read(path),
        Format::Pt => pt::Parts::open(opened.file, opened.bytes)?.model(),
        Format::Hdf5 => Err(Error::OtherFormat {
            found: "an HDF5 file",
        }),
    }
}

/// Writes a model that was checked.
pub(crate) fn write(model: &Model, path: &Path, options: &WriteOptions) -> Result<()> {
    match Format::of_ending(path)? {
        Format::Safetensors => safetensors::write(model, path, options),
        Format::Pt => pt::write(model, path, options),
        Format::Hdf5 => Err(Error::Ending),
    }
}

/// Reads what a checkpoint says without reading its data; checksums are not looked at.
///
/// # Errors
/// [`Error::File`] with the path and what is wrong.
pub fn read_header(path: &Path) -> Result<Header> {
    let read = || {
        let opened = Opened::new(path)?;
        match opened.format {
            Format::Safetensors => safetensors::read_header(path),
            Format::Pt => pt::Parts::open(opened.file, opened.bytes)?.header(),
            Format::Hdf5 => Err(Error::OtherFormat {
                found: "an HDF5 file",
            }),
        }
    };
    read().map_err(|fault| Error::File {
        path: path.into(),
        fault: Box::new(fault),
        previous: None,
    })
}
