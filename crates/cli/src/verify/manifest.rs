//! What a folder of golden files holds.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::case::Kind;
use super::{Error, Result};

/// One case as the manifest describes it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which list it stands in.
    pub(super) kind: Kind,
    /// Name of the file, relative to the manifest.
    pub(super) file: String,
    /// The whole description.
    pub(super) description: Value,
}

/// The cases of a folder, from its `manifest.json`.
#[derive(Clone, Debug)]
pub struct Manifest {
    path: PathBuf,
    entries: Vec<Entry>,
    uncovered: usize,
}

/// Keys of the manifest that describe how the values were made.
const NOTES: [&str; 4] = ["seed", "torch", "glasflow", "dingo-gw"];

/// Batches of the data pipeline: known, and computed by no path.
const DATA: &str = "data";

impl Manifest {
    /// Reads `manifest.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Read`], and [`Error::Manifest`] for unknown kinds, an entry without a file, or a
    /// manifest without any case.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("manifest.json");
        let text = std::fs::read_to_string(&path).map_err(|error| Error::Read {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let refuse = |what: String| Error::Manifest {
            path: path.clone(),
            what,
        };
        let value: Value =
            serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        let object = value
            .as_object()
            .ok_or_else(|| refuse("expected an object of lists of cases".into()))?;
        let mut entries = Vec::new();
        let mut uncovered = 0;
        for (name, list) in object {
            if NOTES.contains(&name.as_str()) {
                continue;
            }
            let list = list
                .as_array()
                .ok_or_else(|| refuse(format!("`{name}`: expected a list of cases")))?;
            if name == DATA {
                uncovered = list.len();
                continue;
            }
            let kind = Kind::from_name(name).ok_or_else(|| {
                refuse(format!(
                    "unknown kind `{name}`, expected one of spline, flow, posterior, training, data"
                ))
            })?;
            for description in list {
                let file = description["file"].as_str().ok_or_else(|| {
                    refuse(format!("`{name}`: a case without a `file`: {description}"))
                })?;
                entries.push(Entry {
                    kind,
                    file: file.into(),
                    description: description.clone(),
                });
            }
        }
        if entries.is_empty() && uncovered == 0 {
            return Err(refuse("it lists no case".into()));
        }
        Ok(Self {
            path,
            entries,
            uncovered,
        })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cases, in the manifest's order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Batches of the data pipeline, which no path computes.
    pub fn uncovered(&self) -> usize {
        self.uncovered
    }
}
