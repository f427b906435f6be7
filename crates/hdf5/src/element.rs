//! Element types as they are stored, and the Rust types that read them without reinterpretation.

use std::fmt;

use hdf5_pure::{Datatype, DatatypeByteOrder, FloatingPointLayout};

/// A number as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Signed, one byte.
    I8,
    /// Signed, two bytes.
    I16,
    /// Signed, four bytes.
    I32,
    /// Signed, eight bytes.
    I64,
    /// Unsigned, one byte.
    U8,
    /// Unsigned, two bytes.
    U16,
    /// Unsigned, four bytes.
    U32,
    /// Unsigned, eight bytes.
    U64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Number {
    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// NumPy's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }
}

/// One field of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The byte of the record where it begins.
    pub offset: usize,
    /// What it holds.
    pub element: ElementType,
}

/// What one element of a dataset is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElementType {
    /// A number, and whether its bytes stand in big-endian order.
    Number(Number, bool),
    /// h5py's `bool`: an enumeration of FALSE = 0 and TRUE = 1 in one byte.
    Bool,
    /// A compound of `r` and `i` of the given number type: h5py's complex numbers.
    Complex(Number, bool),
    /// Text of at most this many bytes.
    FixedText(usize),
    /// Text of any length, in the file's global heap.
    Text,
    /// A record of named fields.
    Record(Vec<Field>),
    /// Anything else, in words.
    Other(String),
}

impl ElementType {
    /// The type as the library describes it.
    pub(crate) fn of(datatype: &Datatype) -> Self {
        let big_endian = |order: &DatatypeByteOrder| match order {
            DatatypeByteOrder::LittleEndian => Some(false),
            DatatypeByteOrder::BigEndian => Some(true),
            _ => None,
        };
        match datatype {
            Datatype::FixedPoint {
                size,
                byte_order,
                layout,
            } => {
                let number = match (layout.signed, size) {
                    (true, 1) => Some(Number::I8),
                    (true, 2) => Some(Number::I16),
                    (true, 4) => Some(Number::I32),
                    (true, 8) => Some(Number::I64),
                    (false, 1) => Some(Number::U8),
                    (false, 2) => Some(Number::U16),
                    (false, 4) => Some(Number::U32),
                    (false, 8) => Some(Number::U64),
                    _ => None,
                };
                let whole = layout.bit_offset == 0 && u32::from(layout.bit_precision) == size * 8;
                match (number, big_endian(byte_order)) {
                    (Some(number), Some(big)) if whole => Self::Number(number, big),
                    _ => Self::Other(format!("an integer of {} bits", layout.bit_precision)),
                }
            }
            Datatype::FloatingPoint {
                size,
                byte_order,
                layout,
            } => match (size, big_endian(byte_order)) {
                (4, Some(big)) if *layout == FloatingPointLayout::IEEE754_BINARY32 => {
                    Self::Number(Number::F32, big)
                }
                (8, Some(big)) if *layout == FloatingPointLayout::IEEE754_BINARY64 => {
                    Self::Number(Number::F64, big)
                }
                _ => Self::Other(format!(
                    "a floating-point number of {} bits that is neither float32 nor float64",
                    u64::from(*size) * 8
                )),
            },
            Datatype::String { size, .. } => Self::FixedText(*size as usize),
            Datatype::VariableLength {
                is_string: true, ..
            } => Self::Text,
            Datatype::Enumeration {
                base_type, members, ..
            } if base_type.type_size() == 1
                && members.len() == 2
                && (members[0].name.as_str(), members[0].value.as_slice()) == ("FALSE", &[0])
                && (members[1].name.as_str(), members[1].value.as_slice()) == ("TRUE", &[1]) =>
            {
                Self::Bool
            }
            Datatype::Compound { size, members } => Self::compound(*size as usize, members),
            Datatype::Enumeration { .. } => Self::Other("an enumeration".into()),
            Datatype::Array { .. } => Self::Other("an array in each element".into()),
            Datatype::VariableLength { .. } => Self::Other("lists of different lengths".into()),
            Datatype::Reference { .. } => Self::Other("references to other objects".into()),
            Datatype::Opaque { .. } => Self::Other("opaque bytes".into()),
            Datatype::BitField { .. } => Self::Other("bit fields".into()),
            Datatype::Time { .. } => Self::Other("times".into()),
            _ => Self::Other("a type of a newer format".into()),
        }
    }

    fn compound(size: usize, members: &[hdf5_pure::CompoundMember]) -> Self {
        let mut fields = Vec::with_capacity(members.len());
        for member in members {
            let element = Self::of(&member.datatype);
            let width = member.datatype.type_size() as usize;
            let offset = usize::try_from(member.byte_offset).unwrap_or(usize::MAX);
            if offset.checked_add(width).is_none_or(|end| end > size) {
                return Self::Other(format!(
                    "a record whose field `{}` reaches past its end",
                    member.name
                ));
            }
            fields.push(Field {
                name: member.name.clone(),
                offset,
                element,
            });
        }
        if let [real, imaginary] = fields.as_slice()
            && let (ElementType::Number(number, big), true) =
                (&real.element, real.element == imaginary.element)
            && matches!(number, Number::F32 | Number::F64)
            && (real.name.as_str(), imaginary.name.as_str()) == ("r", "i")
            && (real.offset, imaginary.offset, size) == (0, number.size(), 2 * number.size())
        {
            return Self::Complex(*number, *big);
        }
        Self::Record(fields)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = |big: bool| if big { " (big-endian)" } else { "" };
        match self {
            Self::Number(number, big) => write!(f, "{}{}", number.name(), order(*big)),
            Self::Bool => f.write_str("bool"),
            Self::Complex(number, big) => {
                write!(f, "complex{}{}", number.size() * 16, order(*big))
            }
            Self::FixedText(size) => write!(f, "text of {size} bytes"),
            Self::Text => f.write_str("text"),
            Self::Record(fields) => write!(f, "a record of {} fields", fields.len()),
            Self::Other(what) => f.write_str(what),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that reads elements of exactly one stored type.
///
/// `[f32; 2]` and `[f64; 2]` read complex64 and complex128 as real and imaginary part.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// NumPy's name of the stored type.
    const NAME: &'static str;
    /// Bytes of one stored element.
    const SIZE: usize;

    /// Whether the stored type is this one; the answer says if its bytes are big-endian.
    #[doc(hidden)]
    fn accepts(element: &ElementType) -> Option<bool>;

    /// The value of one element; `bytes` has [`Self::SIZE`] of them.
    #[doc(hidden)]
    fn decode(bytes: &[u8], big_endian: bool) -> Self;
}

macro_rules! number {
    ($($rust:ty, $number:ident, $name:literal;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const NAME: &'static str = $name;
            const SIZE: usize = size_of::<$rust>();
            fn accepts(element: &ElementType) -> Option<bool> {
                match element {
                    ElementType::Number(Number::$number, big) => Some(*big),
                    _ => None,
                }
            }
            #[inline]
            fn decode(bytes: &[u8], big_endian: bool) -> Self {
                let mut word = [0; size_of::<$rust>()];
                word.copy_from_slice(bytes);
                if big_endian { Self::from_be_bytes(word) } else { Self::from_le_bytes(word) }
            }
        }
    )*};
}

number! {
    i8, I8, "int8";
    i16, I16, "int16";
    i32, I32, "int32";
    i64, I64, "int64";
    u8, U8, "uint8";
    u16, U16, "uint16";
    u32, U32, "uint32";
    u64, U64, "uint64";
    f32, F32, "float32";
    f64, F64, "float64";
}

macro_rules! complex {
    ($($rust:ty, $number:ident, $name:literal;)*) => {$(
        impl sealed::Sealed for [$rust; 2] {}
        impl Element for [$rust; 2] {
            const NAME: &'static str = $name;
            const SIZE: usize = 2 * size_of::<$rust>();
            fn accepts(element: &ElementType) -> Option<bool> {
                match element {
                    ElementType::Complex(Number::$number, big) => Some(*big),
                    _ => None,
                }
            }
            #[inline]
            fn decode(bytes: &[u8], big_endian: bool) -> Self {
                let (real, imaginary) = bytes.split_at(size_of::<$rust>());
                [<$rust>::decode(real, big_endian), <$rust>::decode(imaginary, big_endian)]
            }
        }
    )*};
}

complex! {
    f32, F32, "complex64";
    f64, F64, "complex128";
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const NAME: &'static str = "bool";
    const SIZE: usize = 1;
    fn accepts(element: &ElementType) -> Option<bool> {
        matches!(element, ElementType::Bool).then_some(false)
    }
    fn decode(bytes: &[u8], _: bool) -> Self {
        bytes[0] != 0
    }
}

/// Appends the elements in `bytes`, whose length is a multiple of the element's size.
pub(crate) fn decode_into<T: Element>(bytes: &[u8], big_endian: bool, out: &mut Vec<T>) {
    if big_endian {
        out.extend(bytes.chunks_exact(T::SIZE).map(|one| T::decode(one, true)));
    } else {
        out.extend(bytes.chunks_exact(T::SIZE).map(|one| T::decode(one, false)));
    }
}
