//! The zip archive around a pickle and its storages.
//!
//! The folder inside the archive may have any name: torch takes the file's name at the time it was
//! saved. Members are stored, as torch writes them, or deflated, as other tools rewrite them.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};

use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::{Error, Result};

/// Bytes that small files may unpack to.
const BASE_UNPACKED: u64 = 4 << 20;

/// How many times its size a file may unpack to.
const MAX_EXPANSION: u64 = 2;

/// Name of the pickle inside the folder.
const PICKLE: &str = "data.pkl";

/// An open `.pt` file.
pub(crate) struct Archive {
    zip: ZipArchive<BufReader<File>>,
    /// The folder, with its slash.
    folder: String,
    bytes: u64,
}

impl Archive {
    /// Checks the archive's directory.
    ///
    /// # Errors
    /// [`Error::Archive`] for a damaged archive, [`Error::OtherFormat`] for one without a pickle,
    /// [`Error::OutOfProportion`] for one that unpacks to far more than its size,
    /// [`Error::ByteOrder`].
    pub(crate) fn open(file: BufReader<File>, bytes: u64) -> Result<Self> {
        let config = Config {
            archive_offset: ArchiveOffset::Known(0),
        };
        let mut zip = ZipArchive::with_config(config, file).map_err(directory_fault)?;
        if zip.has_duplicate_names() {
            return Err(Error::Archive("two members have one name".into()));
        }
        let mut unpacked = 0u64;
        let limit = MAX_EXPANSION
            .saturating_mul(bytes)
            .saturating_add(BASE_UNPACKED);
        let mut folder = None;
        for index in 0..zip.len() {
            let member = zip.by_index_data(index).map_err(directory_fault)?;
            let name = member.name().map_err(directory_fault)?.into_owned();
            let fault = |reason: &str| {
                Err(Error::Member {
                    name: name.clone(),
                    reason: reason.into(),
                })
            };
            if member.encrypted() {
                return fault("is encrypted");
            }
            match member.compression() {
                CompressionMethod::Stored if member.size() != member.compressed_size() => {
                    return fault("is stored in another number of bytes than it has");
                }
                CompressionMethod::Stored | CompressionMethod::Deflated => {}
                _ => return fault("is neither stored nor deflated"),
            }
            unpacked = unpacked.saturating_add(member.size());
            if unpacked > limit {
                return Err(Error::OutOfProportion {
                    what: "the unpacked archive",
                    limit,
                });
            }
            if let Some(before) = name.strip_suffix(PICKLE)
                && (before.is_empty() || before.ends_with('/'))
                && folder.replace(before.to_owned()).is_some()
            {
                return Err(Error::Archive(format!("holds {PICKLE} twice")));
            }
        }
        let Some(folder) = folder else {
            return Err(Error::OtherFormat {
                found: "a zip archive without data.pkl (.npz?)",
            });
        };
        if zip.has_overlapping_entries().map_err(directory_fault)? {
            return Err(Error::Archive("members overlap".into()));
        }
        let mut archive = Self { zip, folder, bytes };
        if archive.find("byteorder").is_some() {
            let order = archive.read("byteorder")?;
            if order.trim_ascii() != b"little" {
                return Err(Error::ByteOrder {
                    found: String::from_utf8_lossy(&order[..order.len().min(16)]).into(),
                });
            }
        }
        Ok(archive)
    }

    /// Size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pickle.
    pub(crate) fn pickle(&mut self) -> Result<Vec<u8>> {
        self.read(PICKLE)
    }

    /// Size of a storage.
    pub(crate) fn storage_size(&self, key: &str) -> Option<u64> {
        let index = self.find(&format!("data/{key}"))?;
        self.zip
            .by_index_data(index)
            .ok()
            .map(|member| member.size())
    }

    /// The bytes of a storage.
    pub(crate) fn storage(&mut self, key: &str) -> Result<Vec<u8>> {
        self.read(&format!("data/{key}"))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.zip.index_for_name(&format!("{}{name}", self.folder))
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let fault = |reason: String| Error::Member {
            name: name.into(),
            reason,
        };
        let index = self.find(name).ok_or_else(|| fault("is missing".into()))?;
        let member = self.zip.by_index(index).map_err(|e| fault(e.to_string()))?;
        // The sizes of all members together were compared with the file's.
        let size = member.size();
        let mut bytes = Vec::with_capacity(size as usize);
        let read = member.take(size + 1).read_to_end(&mut bytes);
        match read {
            Ok(_) if bytes.len() as u64 == size => Ok(bytes),
            Ok(found) => Err(fault(format!("has {found} bytes, expected {size}"))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(fault(format!("ends early, expected {size} bytes")))
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(fault(format!(
                "is damaged, or was saved without checksums: {error}"
            ))),
            Err(error) => Err(Error::Io(error)),
        }
    }
}

fn directory_fault(error: ZipError) -> Error {
    match error {
        ZipError::Io(error) if error.kind() != ErrorKind::UnexpectedEof => Error::Io(error),
        error => Error::Archive(format!("its directory cannot be read: {error}")),
    }
}
