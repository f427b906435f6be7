//! Arrays as files hold them: a shape and f32 or f64 values, row by row.

use crate::error::Error;

/// A floating-point type that rows are handed out in.
///
/// Statistics and conversions run in f64; f32 values are the rounded f64 ones.
pub trait Scalar: Copy + Default + Send + Sync + 'static {
    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// The value in f64, exactly.
    fn into_f64(self) -> f64;
}

impl Scalar for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn into_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Scalar for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
    fn into_f64(self) -> f64 {
        self
    }
}

/// The values of an array in the precision the file holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision; integers are converted to it.
    F64(Vec<f64>),
}

impl Values {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One element in f64.
    ///
    /// # Domain
    /// `index` below [`Values::len`].
    #[inline]
    pub fn get(&self, index: usize) -> f64 {
        match self {
            Self::F32(values) => f64::from(values[index]),
            Self::F64(values) => values[index],
        }
    }

    /// All elements in another precision.
    pub fn to_vec<T: Scalar>(&self) -> Vec<T> {
        match self {
            Self::F32(values) => values.iter().map(|&v| T::from_f64(f64::from(v))).collect(),
            Self::F64(values) => values.iter().map(|&v| T::from_f64(v)).collect(),
        }
    }
}

/// An array of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Lengths of the dimensions, the slowest first.
    pub shape: Vec<usize>,
    /// Elements in C order.
    pub values: Values,
    /// The element type as the file spelled it.
    pub element_type: String,
}

impl Array {
    /// An f64 array; the product of the shape must be the number of values.
    pub(crate) fn f64(shape: Vec<usize>, values: Vec<f64>) -> Self {
        Self {
            shape,
            values: Values::F64(values),
            element_type: "<f8".into(),
        }
    }

    /// Rows and columns of a matrix; a vector is a matrix of one column.
    ///
    /// # Errors
    /// Any other number of dimensions.
    pub(crate) fn matrix(&self, name: &str) -> Result<(usize, usize), Error> {
        match self.shape[..] {
            [rows] => Ok((rows, 1)),
            [rows, columns] if columns > 0 => Ok((rows, columns)),
            _ => Err(Error::Shape {
                array: name.into(),
                expected: "[rows, columns]".into(),
                actual: self.shape.clone(),
            }),
        }
    }
}

/// What a file says about one of its arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    /// Name of the array.
    pub name: String,
    /// Element type as the file spells it.
    pub element_type: String,
    /// Lengths of the dimensions.
    pub shape: Vec<usize>,
}

/// The number types that are understood, shared by all formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// The list of [`Number`]s for messages.
pub(crate) const NUMBERS: &str = "32- or 64-bit floats or integers";

impl Number {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    pub(crate) fn empty(self) -> Values {
        if self == Self::F32 {
            Values::F32(Vec::new())
        } else {
            Values::F64(Vec::new())
        }
    }

    /// Appends whole elements from bytes of the given order.
    pub(crate) fn decode(self, bytes: &[u8], big_endian: bool, values: &mut Values) {
        match values {
            Values::F32(values) => values.extend(
                bytes
                    .chunks_exact(4)
                    .map(|chunk| f32::from_bits(word(chunk, big_endian) as u32)),
            ),
            Values::F64(values) => {
                values.extend(bytes.chunks_exact(self.bytes()).map(|chunk| {
                    let bits = word(chunk, big_endian);
                    match self {
                        Self::F32 => f64::from(f32::from_bits(bits as u32)),
                        Self::F64 => f64::from_bits(bits),
                        Self::I8 => f64::from(bits as i8),
                        Self::I16 => f64::from(bits as i16),
                        Self::I32 => f64::from(bits as i32),
                        Self::I64 => (bits as i64) as f64,
                        Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits as f64,
                    }
                }));
            }
        }
    }
}

/// Up to eight bytes as an unsigned word.
fn word(bytes: &[u8], big_endian: bool) -> u64 {
    let join = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
    if big_endian {
        bytes.iter().fold(0, join)
    } else {
        bytes.iter().rev().fold(0, join)
    }
}

/// The product of a shape, `None` where it does not fit.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    // A zero anywhere makes the product zero, whatever the other lengths.
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1usize, |product, &length| product.checked_mul(length))
}

/// Reorders column-major values into rows.
pub(crate) fn from_fortran(shape: &[usize], values: Values) -> Values {
    fn reorder<T: Copy>(shape: &[usize], values: &[T]) -> Vec<T> {
        let mut strides = vec![1; shape.len()];
        for axis in 1..shape.len() {
            strides[axis] = strides[axis - 1] * shape[axis - 1];
        }
        let mut index = vec![0; shape.len()];
        let mut reordered = Vec::with_capacity(values.len());
        for _ in 0..values.len() {
            reordered.push(
                values[index
                    .iter()
                    .zip(&strides)
                    .map(|(i, s)| i * s)
                    .sum::<usize>()],
            );
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        reordered
    }
    match values {
        Values::F32(values) => Values::F32(reorder(shape, &values)),
        Values::F64(values) => Values::F64(reorder(shape, &values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_byte_orders() {
        let cases: [(Number, bool, &[u8], f64); 8] = [
            (Number::I8, false, &[0xff], -1.0),
            (Number::U8, false, &[0xff], 255.0),
            (Number::I16, true, &[0xff, 0xfe], -2.0),
            (Number::U16, false, &[0x01, 0x02], 513.0),
            (Number::I32, true, &[0, 0, 1, 0], 256.0),
            (
                Number::I64,
                false,
                &[0xfd, 255, 255, 255, 255, 255, 255, 255],
                -3.0,
            ),
            (
                Number::U64,
                true,
                &[0x80, 0, 0, 0, 0, 0, 0, 0],
                9_223_372_036_854_775_808.0,
            ),
            (Number::F64, true, &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0], 1.5),
        ];
        for (number, big_endian, bytes, expected) in cases {
            let mut values = number.empty();
            number.decode(bytes, big_endian, &mut values);
            assert_eq!(values, Values::F64(vec![expected]), "{number:?}");
        }
        let mut values = Number::F32.empty();
        Number::F32.decode(&[0x3f, 0xc0, 0, 0], true, &mut values);
        assert_eq!(values, Values::F32(vec![1.5]));
    }

    #[test]
    fn element_counts() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[3, 4]), Some(12));
        assert_eq!(elements(&[usize::MAX, 2]), None);
        assert_eq!(elements(&[usize::MAX, 2, 0]), Some(0));
    }

    #[test]
    fn fortran_order() {
        // Column-major [2, 3] of rows 0 1 2 / 3 4 5.
        let values = Values::F32(vec![0., 3., 1., 4., 2., 5.]);
        let expected = Values::F32(vec![0., 1., 2., 3., 4., 5.]);
        assert_eq!(from_fortran(&[2, 3], values), expected);
    }
}
