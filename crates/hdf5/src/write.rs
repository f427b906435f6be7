//! Writing: groups, datasets in one piece, and attributes, as dingo's own files have them.

use std::collections::BTreeMap;
use std::path::Path;

use dunnart_files::{WriteOptions, atomic_write};
use hdf5_pure::{AttrValue, CompoundTypeBuilder, FileBuilder, LibVer};

use crate::attribute::Attribute;
use crate::guard::guarded;
use crate::record::{Column, Values};
use crate::{Error, Result};

/// What a dataset is to hold.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Data {
    /// float32.
    F32(Vec<f32>),
    /// float64.
    F64(Vec<f64>),
    /// int64.
    I64(Vec<i64>),
    /// complex64, as real and imaginary part.
    Complex64(Vec<[f32; 2]>),
    /// complex128, as real and imaginary part.
    Complex128(Vec<[f64; 2]>),
    /// A record with these columns, one row for each value.
    Columns(Vec<Column>),
    /// One text of any length.
    Text(String),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Complex64(values) => values.len(),
            Self::Complex128(values) => values.len(),
            Self::Columns(columns) => columns.first().map_or(0, |column| column.values.len()),
            Self::Text(_) => 1,
        }
    }
}

#[derive(Default)]
struct Node {
    attributes: Vec<(String, Attribute)>,
    groups: BTreeMap<String, Node>,
    datasets: BTreeMap<String, Stored>,
}

struct Stored {
    shape: Vec<u64>,
    data: Data,
    attributes: Vec<(String, Attribute)>,
}

/// The content of a file to be written, held in memory until [`Content::write`].
#[derive(Default)]
pub struct Content {
    root: Node,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

impl Content {
    /// An empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group, such as `asds`, and the groups above it.
    ///
    /// # Errors
    ///
    /// [`Error::Content`] when the name has an empty part.
    pub fn group(&mut self, name: &str) -> Result<()> {
        self.node(name).map(|_| ())
    }

    /// Adds a dataset, such as `svd/V`, and the groups above it; the empty shape is a scalar.
    ///
    /// # Errors
    ///
    /// [`Error::Content`] when the shape does not fit the data, the name is taken or has an empty part,
    /// columns differ in length, or a text holds a NUL.
    pub fn dataset(&mut self, name: &str, shape: &[u64], data: Data) -> Result<()> {
        let refuse = |reason: String| {
            let object = name.to_owned();
            Err(Error::Content { object, reason })
        };
        let elements = crate::dataset::product(shape.iter().map(|&one| Some(one)));
        if elements != Some(data.len() as u64) {
            return refuse(format!(
                "shape {shape:?} does not fit {} values",
                data.len()
            ));
        }
        match &data {
            Data::Columns(columns) => {
                if columns.is_empty() {
                    return refuse("a record needs a column".into());
                }
                if let Some(odd) = columns.iter().find(|c| c.values.len() != data.len()) {
                    return refuse(format!(
                        "column `{}` has {} values, the first has {}",
                        odd.name,
                        odd.values.len(),
                        data.len()
                    ));
                }
            }
            Data::Text(text) if text.contains('\0') => {
                return refuse("a text must not hold a NUL".into());
            }
            _ => {}
        }
        let (group, last) = name.rsplit_once('/').unwrap_or(("", name));
        let node = self.node(group)?;
        if last.is_empty() || node.datasets.contains_key(last) || node.groups.contains_key(last) {
            return refuse("the name is empty or taken".into());
        }
        let stored = Stored {
            shape: shape.to_vec(),
            data,
            attributes: Vec::new(),
        };
        node.datasets.insert(last.to_owned(), stored);
        Ok(())
    }

    /// Adds an attribute to a dataset or a group of this name; the root group is the empty name.
    ///
    /// # Errors
    ///
    /// [`Error::Content`] when there is no such object or the value cannot be written.
    pub fn attribute(&mut self, object: &str, name: &str, value: Attribute) -> Result<()> {
        if let Attribute::Other(_) = value {
            let object = format!("{object}@{name}");
            let reason = "a value that was not read cannot be written".to_owned();
            return Err(Error::Content { object, reason });
        }
        let (group, last) = object.rsplit_once('/').unwrap_or(("", object));
        let mut node = Some(&mut self.root);
        for part in group.split('/').filter(|part| !part.is_empty()) {
            node = node.and_then(|node| node.groups.get_mut(part));
        }
        let found = node.and_then(|node| {
            if last.is_empty() {
                Some(&mut node.attributes)
            } else if node.datasets.contains_key(last) {
                node.datasets
                    .get_mut(last)
                    .map(|stored| &mut stored.attributes)
            } else {
                node.groups.get_mut(last).map(|node| &mut node.attributes)
            }
        });
        let Some(attributes) = found else {
            let object = object.to_owned();
            let reason = format!("there is no such object for attribute `{name}`");
            return Err(Error::Content { object, reason });
        };
        attributes.push((name.to_owned(), value));
        Ok(())
    }

    /// Writes the file; the name shows the old content or the whole new one.
    ///
    /// # Errors
    ///
    /// [`Error::Write`], and [`Error::Content`] when the library refuses a name or a value.
    pub fn write(self, path: impl AsRef<Path>, options: &WriteOptions) -> Result<()> {
        let path = path.as_ref();
        let refused = |reason| Error::Content {
            object: path.display().to_string(),
            reason,
        };
        let bytes = guarded(|| self.build())
            .map_err(refused)?
            .map_err(refused)?;
        Ok(atomic_write(path, options, |out| out.write_all(&bytes))?)
    }

    fn build(self) -> std::result::Result<Vec<u8>, String> {
        let mut file = FileBuilder::new();
        file.with_libver_bounds(LibVer::Earliest, LibVer::V18);
        for (name, value) in self.root.attributes {
            file.set_attr(&name, attribute(value));
        }
        for (name, stored) in self.root.datasets {
            stored.build(file.create_dataset(&name))?;
        }
        for (name, node) in self.root.groups {
            let mut group = file.create_group(&name);
            node.build(&mut group)?;
            file.add_group(group.finish());
        }
        file.finish().map_err(|error| error.to_string())
    }

    fn node(&mut self, group: &str) -> Result<&mut Node> {
        let mut node = &mut self.root;
        if group.is_empty() {
            return Ok(node);
        }
        for part in group.split('/') {
            if part.is_empty() || node.datasets.contains_key(part) {
                return Err(Error::Content {
                    object: group.to_owned(),
                    reason: "a group's name has an empty part, or is a dataset".into(),
                });
            }
            node = node.groups.entry(part.to_owned()).or_default();
        }
        Ok(node)
    }
}

impl Node {
    fn build(self, group: &mut hdf5_pure::GroupBuilder) -> std::result::Result<(), String> {
        for (name, value) in self.attributes {
            group.set_attr(&name, attribute(value));
        }
        for (name, stored) in self.datasets {
            stored.build(group.create_dataset(&name))?;
        }
        for (name, node) in self.groups {
            let mut inner = group.create_group(&name);
            node.build(&mut inner)?;
            group.add_group(inner.finish());
        }
        Ok(())
    }
}

impl Stored {
    fn build(self, dataset: &mut hdf5_pure::DatasetBuilder) -> std::result::Result<(), String> {
        let count = self.data.len() as u64;
        let complex = |single: bool| {
            let builder = CompoundTypeBuilder::new();
            let builder = if single {
                builder.f32_field("r").f32_field("i")
            } else {
                builder.f64_field("r").f64_field("i")
            };
            builder.build().map_err(|error| error.to_string())
        };
        match self.data {
            Data::F32(values) => {
                dataset.with_f32_data(&values);
            }
            Data::F64(values) => {
                dataset.with_f64_data(&values);
            }
            Data::I64(values) => {
                dataset.with_i64_data(&values);
            }
            Data::Complex64(values) => {
                let bytes = values.iter().flatten().flat_map(|part| part.to_le_bytes());
                dataset.with_compound_data(complex(true)?, bytes.collect(), count);
            }
            Data::Complex128(values) => {
                let bytes = values.iter().flatten().flat_map(|part| part.to_le_bytes());
                dataset.with_compound_data(complex(false)?, bytes.collect(), count);
            }
            Data::Columns(columns) => {
                let mut record = CompoundTypeBuilder::new();
                for column in &columns {
                    record = match column.values {
                        Values::F64(_) => record.f64_field(&column.name),
                        Values::F32(_) => record.f32_field(&column.name),
                        Values::I64(_) => record.i64_field(&column.name),
                    };
                }
                let record = record.build().map_err(|error| error.to_string())?;
                dataset.with_compound_data(record, rows(&columns, count as usize), count);
            }
            Data::Text(text) => {
                dataset.with_vlen_strings(&[&text]);
            }
        }
        dataset.with_shape(&self.shape);
        for (name, value) in self.attributes {
            dataset.set_attr(&name, attribute(value));
        }
        Ok(())
    }
}

/// The columns' values row by row, as they stand in a record.
fn rows(columns: &[Column], count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * columns.len() * 8);
    for row in 0..count {
        for column in columns {
            match &column.values {
                Values::F64(values) => bytes.extend(values[row].to_le_bytes()),
                Values::F32(values) => bytes.extend(values[row].to_le_bytes()),
                Values::I64(values) => bytes.extend(values[row].to_le_bytes()),
            }
        }
    }
    bytes
}

fn attribute(value: Attribute) -> AttrValue {
    match value {
        Attribute::Text(text) | Attribute::Other(text) => AttrValue::VarLenString(text),
        Attribute::Texts(texts) => AttrValue::VarLenStringArray(texts),
        Attribute::Integer(integer) => AttrValue::I64(integer),
        Attribute::Integers(integers) => AttrValue::I64Array(integers),
        Attribute::Float(float) => AttrValue::F64(float),
        Attribute::Floats(floats) => AttrValue::F64Array(floats),
    }
}
