//! Files of named arrays: `.npz` and `.safetensors`.
//!
//! Files are read as if written by somebody hostile: every declared size is checked against what is
//! there before it is believed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use zip::ZipArchive;

use crate::array::{Array, ArrayInfo, NUMBERS, Number, Values};
use crate::error::Error;
use crate::npy::{self, Refusal};

/// The endings [`ArrayFile`] understands.
pub const ARRAY_FORMATS: &str = ".npz, .safetensors";

/// An open file of named arrays.
pub struct ArrayFile {
    path: PathBuf,
    contents: Contents,
}

enum Contents {
    Npz(ZipArchive<BufReader<File>>),
    Safetensors(Vec<u8>),
}

impl ArrayFile {
    /// Opens a `.npz` or `.safetensors` file and checks its directory.
    ///
    /// # Errors
    /// An unknown ending, a file that cannot be read, a damaged archive or header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let contents = match ending(path).as_deref() {
            Some("npz") => {
                let file = File::open(path).map_err(|error| Error::io(path, error))?;
                let archive = ZipArchive::new(BufReader::new(file))
                    .map_err(|error| zip_error(path, error))?;
                Contents::Npz(archive)
            }
            Some("safetensors") => {
                let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
                parse(path, &bytes)?;
                Contents::Safetensors(bytes)
            }
            _ => {
                return Err(Error::UnknownFormat {
                    path: path.into(),
                    expected: ARRAY_FORMATS,
                });
            }
        };
        Ok(Self {
            path: path.into(),
            contents,
        })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the arrays, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &self.contents {
            // A name that is no text belongs to no array that could be asked for.
            Contents::Npz(archive) => archive
                .file_names()
                .filter_map(|name| name.ok()?.strip_suffix(".npy").map(Into::into))
                .collect(),
            Contents::Safetensors(bytes) => parse(&self.path, bytes)
                .map(|tensors| tensors.names().into_iter().map(Into::into).collect())
                .unwrap_or_default(),
        };
        names.sort_unstable();
        names
    }

    /// Whether there is an array of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.names().iter().any(|known| known == name)
    }

    /// Name, element type and shape of every array, sorted by name; no elements are read.
    ///
    /// # Errors
    /// A damaged array header.
    pub fn arrays(&mut self) -> Result<Vec<ArrayInfo>, Error> {
        let mut arrays = Vec::new();
        for name in self.names() {
            let (element_type, shape) = match &mut self.contents {
                Contents::Npz(archive) => {
                    let mut entry = entry(&self.path, archive, &name)?;
                    let header = npy::Header::read(&mut entry)
                        .map_err(|refusal| refused(&self.path, &name, refusal))?;
                    (header.element_type, header.shape)
                }
                Contents::Safetensors(bytes) => {
                    let tensors = parse(&self.path, bytes)?;
                    let tensor = tensor(&self.path, &tensors, &name)?;
                    (format!("{:?}", tensor.dtype()), tensor.shape().to_vec())
                }
            };
            arrays.push(ArrayInfo {
                name,
                element_type,
                shape,
            });
        }
        Ok(arrays)
    }

    /// Reads one array.
    ///
    /// # Numerics
    /// f32 stays f32; f64 and integers become f64 (64-bit integers beyond 2^53 are rounded).
    ///
    /// # Errors
    /// No array of that name, other element types, a declared size that is not there.
    pub fn read(&mut self, name: &str) -> Result<Array, Error> {
        self.require(name)?;
        match &mut self.contents {
            Contents::Npz(archive) => {
                let mut entry = entry(&self.path, archive, name)?;
                npy::read(&mut entry).map_err(|refusal| refused(&self.path, name, refusal))
            }
            Contents::Safetensors(bytes) => {
                let tensors = parse(&self.path, bytes)?;
                let tensor = tensor(&self.path, &tensors, name)?;
                let number = match tensor.dtype() {
                    Dtype::F32 => Number::F32,
                    Dtype::F64 => Number::F64,
                    Dtype::I8 => Number::I8,
                    Dtype::I16 => Number::I16,
                    Dtype::I32 => Number::I32,
                    Dtype::I64 => Number::I64,
                    Dtype::U8 => Number::U8,
                    Dtype::U16 => Number::U16,
                    Dtype::U32 => Number::U32,
                    Dtype::U64 => Number::U64,
                    other => {
                        return Err(Error::ElementType {
                            array: name.into(),
                            expected: NUMBERS,
                            actual: format!("{other:?}"),
                        });
                    }
                };
                let mut values = number.empty();
                number.decode(tensor.data(), false, &mut values);
                let element_type = format!("{:?}", tensor.dtype());
                Ok(Array {
                    shape: tensor.shape().to_vec(),
                    values,
                    element_type,
                })
            }
        }
    }

    /// Reads a list of names: a text array of a `.npz`, or a metadata entry of a `.safetensors`
    /// file that holds a JSON list; `None` where there is none.
    ///
    /// # Errors
    /// An entry of that name that is no list of text.
    pub fn read_names(&mut self, name: &str) -> Result<Option<Vec<String>>, Error> {
        match &mut self.contents {
            Contents::Npz(archive) => {
                if archive.index_for_name(&format!("{name}.npy")).is_none() {
                    return Ok(None);
                }
                let mut entry = entry(&self.path, archive, name)?;
                npy::read_text(&mut entry)
                    .map(Some)
                    .map_err(|refusal| match refusal {
                        Refusal::ElementType(actual) => Error::ElementType {
                            array: name.into(),
                            expected: "fixed-width text",
                            actual,
                        },
                        other => refused(&self.path, name, other),
                    })
            }
            Contents::Safetensors(bytes) => {
                let (_, metadata) = SafeTensors::read_metadata(bytes)
                    .map_err(|error| Error::malformed(&self.path, error.to_string()))?;
                let Some(text) = metadata
                    .metadata()
                    .as_ref()
                    .and_then(|entries| entries.get(name))
                else {
                    return Ok(None);
                };
                serde_json::from_str(text).map(Some).map_err(|error| {
                    Error::malformed(
                        &self.path,
                        format!("metadata `{name}` is no JSON list of text: {error}"),
                    )
                })
            }
        }
    }

    fn require(&self, name: &str) -> Result<(), Error> {
        let names = self.names();
        if names.iter().any(|known| known == name) {
            return Ok(());
        }
        let available = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
        Err(Error::MissingArray {
            path: self.path.clone(),
            array: name.into(),
            available,
        })
    }
}

/// The ending of a file name in lower case.
pub(crate) fn ending(path: &Path) -> Option<String> {
    path.extension()
        .map(|ending| ending.to_string_lossy().to_ascii_lowercase())
}

fn zip_error(path: &Path, error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(source)
            if source.kind() != std::io::ErrorKind::UnexpectedEof
                && source.kind() != std::io::ErrorKind::InvalidData =>
        {
            Error::io(path, source)
        }
        other => Error::malformed(path, format!("not a readable zip archive: {other}")),
    }
}

fn entry<'a>(
    path: &Path,
    archive: &'a mut ZipArchive<BufReader<File>>,
    name: &str,
) -> Result<impl Read + use<'a>, Error> {
    archive
        .by_name(&format!("{name}.npy"))
        .map_err(|error| zip_error(path, error))
}

fn refused(path: &Path, name: &str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Malformed(problem) => Error::malformed(path, format!("array `{name}`: {problem}")),
        Refusal::ElementType(actual) => Error::ElementType {
            array: name.into(),
            expected: NUMBERS,
            actual,
        },
    }
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, Error> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        Error::malformed(path, format!("not a readable safetensors file: {error}"))
    })
}

fn tensor<'a>(path: &Path, tensors: &SafeTensors<'a>, name: &str) -> Result<TensorView<'a>, Error> {
    tensors
        .tensor(name)
        .map_err(|error| Error::malformed(path, error.to_string()))
}

/// Arrays and one list of names as a compressed `.npz` archive; `path` is for messages.
pub(crate) fn npz_bytes(
    path: &Path,
    arrays: &[(&str, &[usize], &Values)],
    names: &[String],
) -> Result<Vec<u8>, Error> {
    let failed = |error: zip::result::ZipError| zip_error(path, error);
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed time stamp keeps equal contents equal files.
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default())
        .large_file(true);
    let mut put = |name: &str, bytes: &[u8]| -> Result<(), Error> {
        archive
            .start_file(format!("{name}.npy"), options)
            .map_err(failed)?;
        archive
            .write_all(bytes)
            .map_err(|error| Error::io(path, error))
    };
    for (name, shape, values) in arrays {
        put(name, &npy::write(shape, values))?;
    }
    put("names", &npy::write_text(names))?;
    Ok(archive.finish().map_err(failed)?.into_inner())
}

/// Arrays as a `.safetensors` file with the names as a JSON list in the metadata; `path` is for
/// messages.
pub(crate) fn safetensors_bytes(
    path: &Path,
    arrays: &[(&str, &[usize], &Values)],
    names: &[String],
) -> Result<Vec<u8>, Error> {
    let malformed = |error: String| Error::malformed(path, error);
    let bytes: Vec<(Dtype, Vec<u8>)> = arrays
        .iter()
        .map(|(_, _, values)| match values {
            Values::F32(values) => (
                Dtype::F32,
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            ),
            Values::F64(values) => (
                Dtype::F64,
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            ),
        })
        .collect();
    let mut views = Vec::new();
    for ((name, shape, _), (dtype, bytes)) in arrays.iter().zip(&bytes) {
        let view = TensorView::new(*dtype, shape.to_vec(), bytes)
            .map_err(|error| malformed(error.to_string()))?;
        views.push((*name, view));
    }
    let names = serde_json::to_string(names).map_err(|error| malformed(error.to_string()))?;
    let metadata = HashMap::from([("names".to_owned(), names)]);
    safetensors::serialize(views, Some(metadata)).map_err(|error| malformed(error.to_string()))
}
