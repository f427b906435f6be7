//! An open file: its groups and datasets, listed once when it is opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hdf5_pure::{ChunkCacheConfig, FileAccessProperties, FormatError};

use crate::attribute::{self, Attribute};
use crate::dataset::{Dataset, Entry};
use crate::guard::guarded;
use crate::source::{Bytes, Guarded};
use crate::{Error, Result};

/// Groups nested deeper than this are refused: a group may contain itself.
const MAX_DEPTH: usize = 16;
/// Objects listed at most; a large dingo model has 3,100.
const MAX_OBJECTS: usize = 100_000;
/// How often the catalogue and each later call may fetch the whole file.
const TIMES: u64 = 3;

/// An HDF5 file open for reading. Clones share it, and it may be used from several threads.
#[derive(Clone)]
pub struct Hdf5File {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<Bytes>,
    datasets: BTreeMap<String, Arc<Entry>>,
    groups: BTreeMap<String, hdf5_pure::Group>,
    /// The library is called by one thread at a time, so that the budget is the running call's.
    library: Mutex<()>,
}

impl std::fmt::Debug for Hdf5File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hdf5File")
            .field("path", &self.inner.path)
            .field("datasets", &self.inner.datasets.len())
            .finish_non_exhaustive()
    }
}

impl Hdf5File {
    /// Opens `path` and lists what is in it; no data are read.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when the system refuses, [`Error::NotHdf5`], [`Error::Damaged`] when the structure
    /// contradicts itself or leads in circles, [`Error::Unsupported`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let failed = |action, source| Error::File {
            action,
            path: path.clone(),
            source,
        };
        let file = File::open(&path).map_err(|error| failed("open", error))?;
        let metadata = file.metadata().map_err(|error| failed("open", error))?;
        if !metadata.is_file() {
            let source = std::io::Error::other("it is not a regular file");
            return Err(failed("open", source));
        }
        let bytes = Bytes::new(file, metadata.len());
        bytes.grant(TIMES);
        let catalogue = guarded(|| {
            // Whole-dataset reads pass each chunk once; the cache serves lists of rows.
            let access = FileAccessProperties::new()
                .with_chunk_cache(ChunkCacheConfig::new().with_max_bytes(4 << 20));
            let source = Guarded(Arc::clone(&bytes));
            let file = hdf5_pure::File::from_source_with_options(source, access)?;
            let mut catalogue = Catalogue::default();
            catalogue.walk(&file.root(), "", 0)?;
            Ok::<_, hdf5_pure::Error>(catalogue)
        });
        let whole = || "the file's structure".to_owned();
        let catalogue = match catalogue {
            Ok(Ok(catalogue)) => catalogue,
            Ok(Err(hdf5_pure::Error::Format(FormatError::SignatureNotFound))) => {
                return Err(Error::NotHdf5 { path });
            }
            Ok(Err(error)) => return Err(Problem::of(&error).at(&path, whole())),
            Err(reason) => return Err(Problem::Damaged(reason).at(&path, whole())),
        };
        if let Some(problem) = catalogue.problem {
            return Err(problem.at(&path, whole()));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                path,
                bytes,
                datasets: catalogue.datasets,
                groups: catalogue.groups,
                library: Mutex::new(()),
            }),
        })
    }

    /// The file's path as it was opened.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The file's size in bytes.
    pub fn length(&self) -> u64 {
        self.inner.bytes.length
    }

    /// All datasets by their full names, such as `svd/V`, in alphabetical order.
    pub fn datasets(&self) -> impl Iterator<Item = Dataset> {
        let inner = &self.inner;
        let entries = inner.datasets.values();
        entries.map(|entry| Dataset::new(Arc::clone(inner), Arc::clone(entry)))
    }

    /// All groups by their full names, in alphabetical order; the root group is the empty name.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.inner.groups.keys().map(String::as_str)
    }

    /// The datasets that stand directly in `group`, by their last names.
    pub fn datasets_in(&self, group: &str) -> Vec<String> {
        let prefix = if group.is_empty() {
            String::new()
        } else {
            format!("{group}/")
        };
        let names = self.inner.datasets.keys();
        names
            .filter_map(|name| name.strip_prefix(&prefix))
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect()
    }

    /// Whether there is a dataset of this full name.
    pub fn has_dataset(&self, name: &str) -> bool {
        self.inner.datasets.contains_key(name)
    }

    /// The dataset of this full name.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] when there is none; it lists those that stand in the same group.
    pub fn dataset(&self, name: &str) -> Result<Dataset> {
        match self.inner.datasets.get(name) {
            Some(entry) => Ok(Dataset::new(Arc::clone(&self.inner), Arc::clone(entry))),
            None => Err(self.missing("dataset", name)),
        }
    }

    /// The attributes of the group of this full name; the root group is the empty name.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] when there is no such group, [`Error::Damaged`].
    pub fn attributes(&self, group: &str) -> Result<BTreeMap<String, Attribute>> {
        let Some(handle) = self.inner.groups.get(group) else {
            return Err(self.missing("group", group));
        };
        let object = if group.is_empty() {
            "the root group".to_owned()
        } else {
            format!("group `{group}`")
        };
        self.inner.call(&object, || {
            attribute::collect(handle.attrs()?, handle.attr_datatypes()?)
        })
    }

    /// The text of an attribute of the root group.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] when it is not there, [`Error::Type`] when it is no text, [`Error::Damaged`].
    pub fn root_text(&self, name: &str) -> Result<String> {
        let attributes = self.attributes("")?;
        match attributes.get(name) {
            Some(Attribute::Text(text)) => Ok(text.clone()),
            Some(other) => Err(Error::Type {
                path: self.inner.path.clone(),
                object: format!("attribute `{name}`"),
                expected: "text".into(),
                found: other.kind().into(),
            }),
            None => Err(Error::Missing {
                path: self.inner.path.clone(),
                object: format!("attribute `{name}`"),
                found: listed(attributes.keys().map(String::as_str)),
            }),
        }
    }

    fn missing(&self, kind: &str, name: &str) -> Error {
        let group = name.rsplit_once('/').map_or("", |(group, _)| group);
        let found = if kind == "group" {
            listed(self.groups().filter(|name| !name.is_empty()))
        } else if self.inner.groups.contains_key(group) {
            listed(self.datasets_in(group).iter().map(String::as_str))
        } else {
            listed(self.inner.datasets.keys().map(String::as_str))
        };
        Error::Missing {
            path: self.inner.path.clone(),
            object: format!("{kind} `{name}`"),
            found,
        }
    }
}

/// Names for an error message, cut when they are many.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = names.collect();
    let mut text: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.len() > SHOWN {
        text.push(format!("{} more", names.len() - SHOWN));
    }
    if text.is_empty() {
        "none".into()
    } else {
        text.join(", ")
    }
}

impl Inner {
    /// Calls the library about `object` with a fresh budget.
    pub(crate) fn call<T>(
        &self,
        object: &str,
        body: impl FnOnce() -> std::result::Result<T, hdf5_pure::Error>,
    ) -> Result<T> {
        let _turn = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        self.bytes.grant(TIMES);
        match guarded(body) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Problem::of(&error).at(&self.path, object.to_owned())),
            Err(reason) => Err(Problem::Damaged(reason).at(&self.path, object.to_owned())),
        }
    }
}

/// Why something cannot be read, before it is known where it stands.
#[derive(Debug, Clone)]
pub(crate) enum Problem {
    Damaged(String),
    Unsupported(String),
}

impl Problem {
    /// Sorts the library's errors into damage and what it does not do.
    pub(crate) fn of(error: &hdf5_pure::Error) -> Self {
        let hdf5_pure::Error::Format(format) = error else {
            return Self::Damaged(error.to_string());
        };
        match format {
            FormatError::InvalidLayoutVersion(version) => Self::Unsupported(format!(
                "storage layout version {version}, which HDF5 2 writes with libver='latest',"
            )),
            FormatError::UnsupportedExternalStorage => {
                Self::Unsupported("data in other files".into())
            }
            FormatError::UnsupportedVersion(version) => {
                Self::Unsupported(format!("version {version} of the file's superblock"))
            }
            FormatError::UnsupportedFilter(filter) => {
                Self::Unsupported(format!("compression filter {filter}"))
            }
            FormatError::Source(reason) => Self::Damaged(reason.clone()),
            other => Self::Damaged(other.to_string()),
        }
    }

    pub(crate) fn at(&self, path: &Path, object: String) -> Error {
        let path = path.to_owned();
        match self {
            Self::Damaged(reason) => Error::Damaged {
                path,
                object,
                reason: reason.clone(),
            },
            Self::Unsupported(what) => Error::Unsupported {
                path,
                object,
                what: what.clone(),
            },
        }
    }
}

#[derive(Default)]
struct Catalogue {
    datasets: BTreeMap<String, Arc<Entry>>,
    groups: BTreeMap<String, hdf5_pure::Group>,
    problem: Option<Problem>,
}

impl Catalogue {
    fn walk(
        &mut self,
        group: &hdf5_pure::Group,
        name: &str,
        depth: usize,
    ) -> std::result::Result<(), hdf5_pure::Error> {
        if depth > MAX_DEPTH {
            let reason =
                format!("groups are nested deeper than {MAX_DEPTH}, or contain themselves");
            self.problem = Some(Problem::Damaged(reason));
        }
        if self.datasets.len() + self.groups.len() > MAX_OBJECTS {
            let reason = format!("it holds more than {MAX_OBJECTS} objects");
            self.problem = Some(Problem::Damaged(reason));
        }
        if self.problem.is_some() {
            return Ok(());
        }
        let full = |last: &str| {
            if name.is_empty() {
                last.to_owned()
            } else {
                format!("{name}/{last}")
            }
        };
        for (last, dataset) in group.iter_datasets()? {
            let name = full(&last);
            let entry = Entry::describe(name.clone(), dataset);
            self.datasets.insert(name, Arc::new(entry));
        }
        for (last, inner) in group.iter_groups()? {
            self.walk(&inner, &full(&last), depth + 1)?;
        }
        self.groups.insert(name.to_owned(), group.clone());
        Ok(())
    }
}
