//! From views of storages to tensors: checked, gathered into rows, in a type that models hold.
//!
//! float16 and bfloat16 become float32, bool becomes `U8`, int8 and int16 become `I32`: every value
//! stays what it was.

use std::collections::HashMap;

use super::archive::Archive;
use super::globals::StorageKind;
use super::half::{from_bfloat16, from_half};
use super::value::TensorRef;
use crate::tensor::{DType, Data, Tensor};
use crate::{Error, Result};

/// Bytes of elements that small files may expand to, by strides of 0 and shared storages.
const BASE_ELEMENTS: u64 = 16 << 20;

/// How many times the file's size the elements may take.
const MAX_EXPANSION: u64 = 3;

impl StorageKind {
    /// The type its elements have in a model.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::Double => DType::F64,
            Self::Float | Self::Half | Self::BFloat16 => DType::F32,
            Self::Long => DType::I64,
            Self::Int | Self::Short | Self::Char => DType::I32,
            Self::Byte | Self::Bool => DType::U8,
        }
    }
}

impl TensorRef {
    /// Its shape, if it is a shape.
    pub(crate) fn checked_shape(&self, name: &str) -> Result<Vec<usize>> {
        let shape: Option<_> = self
            .shape
            .iter()
            .map(|&n| usize::try_from(n).ok())
            .collect();
        shape.ok_or_else(|| self.fault(name, "has a negative size".into()))
    }

    fn fault(&self, name: &str, reason: String) -> Error {
        Error::View {
            name: name.into(),
            shape: self.shape.to_vec(),
            strides: self.strides.to_vec(),
            offset: self.offset,
            reason,
        }
    }

    /// Shape, strides and offset, if every element lies inside the storage.
    fn checked(&self, name: &str) -> Result<View> {
        let shape = self.checked_shape(name)?;
        let strides: Option<Vec<_>> = self
            .strides
            .iter()
            .map(|&s| usize::try_from(s).ok())
            .collect();
        let (Some(strides), Ok(offset)) = (strides, usize::try_from(self.offset)) else {
            return Err(self.fault(name, "goes backwards".into()));
        };
        let product = |product: usize, &n: &usize| product.checked_mul(n);
        let Some(elements) = shape.iter().try_fold(1, product) else {
            return Err(self.fault(name, "has more elements than can be counted".into()));
        };
        let stored = usize::try_from(self.storage.elements)
            .map_err(|_| self.fault(name, "has a storage of negative size".into()))?;
        // A stride that is never taken may be anything.
        let taken = shape
            .iter()
            .zip(strides)
            .map(|(&n, s)| if n > 1 { s } else { 0 });
        let strides: Vec<_> = taken.collect();
        if elements > 0 {
            let mut steps = shape.iter().zip(&strides);
            let last = steps.try_fold(offset, |last, (&n, &stride)| {
                last.checked_add((n - 1).checked_mul(stride)?)
            });
            if last.is_none_or(|last| last >= stored) {
                let reason = format!("reaches beyond its storage of {stored} elements");
                return Err(self.fault(name, reason));
            }
        }
        Ok(View {
            shape,
            strides,
            offset,
            elements,
            stored,
        })
    }
}

/// A view that lies inside its storage.
struct View {
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
    elements: usize,
    /// Elements of the storage.
    stored: usize,
}

impl View {
    /// Whether the elements follow each other in the storage.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&n, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if n != 1 && stride != expected {
                return false;
            }
            // The product of the shape was counted before.
            expected *= n;
        }
        true
    }

    /// The elements in row-major order.
    fn gather<T, const N: usize>(&self, bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
        let element = |bytes: &[u8]| {
            let mut fixed = [0; N];
            fixed.copy_from_slice(bytes);
            from(fixed)
        };
        if self.elements == 0 {
            return Vec::new();
        }
        if self.is_contiguous() {
            let range = self.offset * N..(self.offset + self.elements) * N;
            return bytes[range].chunks_exact(N).map(element).collect();
        }
        let mut values = Vec::with_capacity(self.elements);
        let mut index = vec![0; self.shape.len()];
        let mut at = self.offset;
        loop {
            values.push(element(&bytes[at * N..(at + 1) * N]));
            // Counts the index up, the last dimension fastest.
            let mut dimension = self.shape.len();
            loop {
                if dimension == 0 {
                    return values;
                }
                dimension -= 1;
                index[dimension] += 1;
                at += self.strides[dimension];
                if index[dimension] < self.shape[dimension] {
                    break;
                }
                at -= self.strides[dimension] * self.shape[dimension];
                index[dimension] = 0;
            }
        }
    }
}

/// Reads tensors; a storage that several share is read once.
pub(crate) struct Loader<'a> {
    archive: &'a mut Archive,
    /// Tensors that are still to come, by storage.
    uses: HashMap<Box<str>, usize>,
    shared: HashMap<Box<str>, Vec<u8>>,
    /// Bytes of elements that may still be made.
    left: u64,
    limit: u64,
}

impl<'a> Loader<'a> {
    /// A loader for these tensors.
    pub(crate) fn new<'t>(
        archive: &'a mut Archive,
        tensors: impl Iterator<Item = &'t TensorRef>,
    ) -> Self {
        let mut uses: HashMap<Box<str>, usize> = HashMap::new();
        for tensor in tensors {
            *uses.entry(tensor.storage.key.clone()).or_default() += 1;
        }
        let limit = MAX_EXPANSION
            .saturating_mul(archive.bytes())
            .saturating_add(BASE_ELEMENTS);
        Self {
            archive,
            uses,
            shared: HashMap::new(),
            left: limit,
            limit,
        }
    }

    /// One tensor.
    ///
    /// # Errors
    /// [`Error::View`] when it reaches outside its storage, [`Error::Member`] when the storage is
    /// missing, damaged or of another size, [`Error::OutOfProportion`].
    pub(crate) fn load(&mut self, name: &str, tensor: &TensorRef) -> Result<Tensor> {
        let view = tensor.checked(name)?;
        let key = &tensor.storage.key;
        let kind = tensor.storage.kind;
        let made = view.elements.saturating_mul(kind.dtype().bytes()) as u64;
        self.left = self.left.checked_sub(made).ok_or(Error::OutOfProportion {
            what: "the tensors",
            limit: self.limit,
        })?;
        let needed = view.stored.saturating_mul(kind.bytes()) as u64;
        let found = self.archive.storage_size(key);
        if found != Some(needed) {
            let reason = match found {
                None => format!("is missing; tensor `{name}` lies in it"),
                Some(found) => format!(
                    "has {found} bytes, but its {} elements of {} take {needed}",
                    view.stored,
                    kind.name()
                ),
            };
            return Err(Error::Member {
                name: format!("data/{key}"),
                reason,
            });
        }
        let bytes = match self.shared.remove(key) {
            Some(bytes) => bytes,
            None => self.archive.storage(key)?,
        };
        let data = match kind {
            StorageKind::Double => Data::F64(view.gather(&bytes, f64::from_le_bytes)),
            StorageKind::Float => Data::F32(view.gather(&bytes, f32::from_le_bytes)),
            StorageKind::Half => {
                Data::F32(view.gather(&bytes, |b| from_half(u16::from_le_bytes(b))))
            }
            StorageKind::BFloat16 => {
                Data::F32(view.gather(&bytes, |b| from_bfloat16(u16::from_le_bytes(b))))
            }
            StorageKind::Long => Data::I64(view.gather(&bytes, i64::from_le_bytes)),
            StorageKind::Int => Data::I32(view.gather(&bytes, i32::from_le_bytes)),
            StorageKind::Short => Data::I32(view.gather(&bytes, |b| i16::from_le_bytes(b).into())),
            StorageKind::Char => Data::I32(view.gather(&bytes, |b| i8::from_le_bytes(b).into())),
            StorageKind::Byte => Data::U8(view.gather(&bytes, |[b]: [u8; 1]| b)),
            StorageKind::Bool => Data::U8(view.gather(&bytes, |[b]: [u8; 1]| u8::from(b != 0))),
        };
        let left = self.uses.get_mut(key).map(|uses| {
            *uses = uses.saturating_sub(1);
            *uses
        });
        if left.is_some_and(|left| left > 0) {
            self.shared.insert(key.clone(), bytes);
        }
        Tensor::from_data(name, &view.shape, data)
    }
}
