//! Tensors as files hold them.

use crate::{Error, Result};

/// Element type of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Unsigned bytes.
    U8,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl DType {
    /// Every type that is understood.
    pub const ALL: [Self; 5] = [Self::U8, Self::I32, Self::I64, Self::F32, Self::F64];

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Name in a safetensors header.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "U8",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::F32 => "F32",
            Self::F64 => "F64",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether elements are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Elements of a tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is the element type it names")]
pub enum Data {
    U8(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// A Rust type that tensors hold.
pub trait Element: Copy + Send + Sync + 'static {
    /// Its name in files.
    const DTYPE: DType;
    /// Wraps elements.
    fn wrap(values: Vec<Self>) -> Data;
    /// The elements, if they are of this type.
    fn slice(data: &Data) -> Option<&[Self]>;
}

macro_rules! element {
    ($type:ty, $variant:ident) => {
        impl Element for $type {
            const DTYPE: DType = DType::$variant;
            fn wrap(values: Vec<Self>) -> Data {
                Data::$variant(values)
            }
            fn slice(data: &Data) -> Option<&[Self]> {
                if let Data::$variant(values) = data {
                    Some(values)
                } else {
                    None
                }
            }
        }
    };
}

element!(u8, U8);
element!(i32, I32);
element!(i64, I64);
element!(f32, F32);
element!(f64, F64);

/// Applies one expression to the elements, whatever their type.
macro_rules! each {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            $crate::tensor::Data::U8($values) => $body,
            $crate::tensor::Data::I32($values) => $body,
            $crate::tensor::Data::I64($values) => $body,
            $crate::tensor::Data::F32($values) => $body,
            $crate::tensor::Data::F64($values) => $body,
        }
    };
}
pub(crate) use each;

impl Data {
    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(self, values => values.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::U8(_) => DType::U8,
            Self::I32(_) => DType::I32,
            Self::I64(_) => DType::I64,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
        }
    }
}

/// A shape with as many elements as it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    /// A tensor of given elements.
    ///
    /// # Errors
    /// [`Error::Elements`] when their number is not the product of the shape.
    pub fn new<T: Element>(name: &str, shape: &[usize], values: Vec<T>) -> Result<Self> {
        Self::from_data(name, shape, T::wrap(values))
    }

    /// As [`Tensor::new`].
    ///
    /// # Errors
    /// As [`Tensor::new`].
    pub fn from_data(name: &str, shape: &[usize], data: Data) -> Result<Self> {
        let expected = shape
            .iter()
            .try_fold(1usize, |product, &n| product.checked_mul(n));
        if expected != Some(data.len()) {
            return Err(Error::Elements {
                name: name.into(),
                shape: shape.into(),
                found: data.len(),
            });
        }
        Ok(Self {
            shape: shape.into(),
            data,
        })
    }

    /// Shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Elements, if they are of type `T`.
    pub fn slice<T: Element>(&self) -> Option<&[T]> {
        T::slice(&self.data)
    }

    /// Index of the first element that is NaN or infinite, with its value.
    pub fn first_non_finite(&self) -> Option<(usize, f64)> {
        match &self.data {
            Data::F32(values) => first_bad(values, |v| v.is_finite(), f64::from),
            Data::F64(values) => first_bad(values, |v| v.is_finite(), |v| v),
            _ => None,
        }
    }
}

fn first_bad<T: Copy>(
    values: &[T],
    finite: impl Fn(T) -> bool,
    wide: impl Fn(T) -> f64,
) -> Option<(usize, f64)> {
    // Whole chunks first: a reduction without exits vectorises.
    let chunk = 4096;
    let bad = |part: &[T]| !part.iter().fold(true, |all, &v| all & finite(v));
    let start = values.chunks(chunk).position(bad)? * chunk;
    let at = start + values[start..].iter().position(|&v| !finite(v))?;
    Some((at, wide(values[at])))
}
