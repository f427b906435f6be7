//! Tensors of a golden file.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors};

use super::{Error, Result};

/// The elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Real numbers; float32 ones are widened, which is exact.
    Reals(Vec<f64>),
    /// int64 numbers.
    Integers(Vec<i64>),
}

impl Values {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Reals(values) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One tensor of a golden file.
#[derive(Clone, Debug, PartialEq)]
pub struct GoldenTensor {
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Elements.
    pub values: Values,
}

/// All tensors of a golden file, by key.
#[derive(Clone, Debug, PartialEq)]
pub struct Golden {
    file: String,
    tensors: BTreeMap<String, GoldenTensor>,
}

fn chunks<const N: usize, T>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (whole, _) = bytes.as_chunks::<N>();
    whole.iter().map(|chunk| number(*chunk)).collect()
}

impl Golden {
    /// Reads a safetensors file of float32, float64 and int64 tensors.
    ///
    /// # Errors
    /// [`Error::Read`] when it cannot be read, is damaged, or holds another dtype.
    pub fn read(path: &std::path::Path) -> Result<Self> {
        let refuse = |reason: String| Error::Read {
            path: path.to_owned(),
            reason,
        };
        let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| refuse(error.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (key, view) in file.tensors() {
            let data = view.data();
            let values = match view.dtype() {
                Dtype::F64 => Values::Reals(chunks(data, f64::from_le_bytes)),
                Dtype::F32 => Values::Reals(chunks(data, |b| f64::from(f32::from_le_bytes(b)))),
                Dtype::I64 => Values::Integers(chunks(data, i64::from_le_bytes)),
                other => {
                    return Err(refuse(format!(
                        "tensor `{key}`: expected dtype F32, F64 or I64, got {other:?}"
                    )));
                }
            };
            let shape = view.shape().to_vec();
            tensors.insert(key, GoldenTensor { shape, values });
        }
        Ok(Self {
            file: path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            tensors,
        })
    }

    /// Name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// All keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The tensor of that key, if there is one.
    pub fn find(&self, key: &str) -> Option<&GoldenTensor> {
        self.tensors.get(key)
    }

    /// The tensor of that key.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn tensor(&self, key: &str) -> Result<&GoldenTensor> {
        self.find(key).ok_or_else(|| Error::Missing {
            file: self.file.clone(),
            key: key.into(),
        })
    }

    /// The real elements of that key.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Shape`] when the tensor holds integers.
    pub fn reals(&self, key: &str) -> Result<&[f64]> {
        let tensor = self.tensor(key)?;
        match &tensor.values {
            Values::Reals(values) => Ok(values),
            Values::Integers(_) => Err(Error::Shape {
                file: self.file.clone(),
                key: key.into(),
                expected: "of real numbers".into(),
                found: tensor.shape.clone(),
            }),
        }
    }

    /// Checks the shape of a tensor; `None` stands for any length.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Shape`].
    pub fn check_shape(&self, key: &str, expected: &[Option<usize>]) -> Result<()> {
        let found = &self.tensor(key)?.shape;
        let fits = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(f, e)| e.is_none_or(|e| e == *f));
        if fits {
            return Ok(());
        }
        let expected: Vec<String> = expected
            .iter()
            .map(|e| e.map_or_else(|| "any".into(), |e| e.to_string()))
            .collect();
        Err(Error::Shape {
            file: self.file.clone(),
            key: key.into(),
            expected: format!("[{}]", expected.join(", ")),
            found: found.clone(),
        })
    }
}
