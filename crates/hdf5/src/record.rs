//! Records: datasets of named columns, as NumPy's structured arrays are stored.

use crate::dataset::Dataset;
use crate::element::{Element, ElementType, Number};
use crate::{Error, Result};

/// The values of one column.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// float64.
    F64(Vec<f64>),
    /// float32.
    F32(Vec<f32>),
    /// Integers of up to 64 bits and truth values; uint64 only as far as they fit.
    I64(Vec<i64>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values in double precision; integers beyond 2^53 are rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F64(values) => values.clone(),
            Self::F32(values) => values.iter().map(|&value| f64::from(value)).collect(),
            Self::I64(values) => values.iter().map(|&value| value as f64).collect(),
        }
    }
}

/// One named column of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its values, one a row.
    pub values: Values,
}

impl Column {
    /// A column of float64.
    pub fn f64(name: impl Into<String>, values: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            values: Values::F64(values),
        }
    }

    /// A column of float32.
    pub fn f32(name: impl Into<String>, values: Vec<f32>) -> Self {
        Self {
            name: name.into(),
            values: Values::F32(values),
        }
    }
}

impl Dataset {
    /// The names of a record's columns, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when the elements are no records, [`Error::Damaged`].
    pub fn column_names(&self) -> Result<Vec<String>> {
        let ElementType::Record(fields) = self.element()? else {
            return Err(self.type_error("a record of named columns"));
        };
        Ok(fields.iter().map(|field| field.name.clone()).collect())
    }

    /// All columns of a one-dimensional record.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when the elements are no records or a column holds no numbers,
    /// [`Error::Shape`] when it is not one-dimensional, [`Error::Damaged`] when two columns overlap or
    /// share a name, and those of [`Self::read`].
    pub fn columns(&self) -> Result<Vec<Column>> {
        let ElementType::Record(fields) = self.element()? else {
            return Err(self.type_error("a record of named columns"));
        };
        self.shape_of_rank(1, "[rows]")?;
        let size = self.info()?.element_size as usize;
        let mut readers = Vec::with_capacity(fields.len());
        let (mut width, mut names) = (0, std::collections::BTreeSet::new());
        for field in fields {
            let (number, big_endian) = match field.element {
                ElementType::Number(number, big_endian) => (number, big_endian),
                ElementType::Bool => (Number::U8, false),
                _ => {
                    return Err(Error::Type {
                        path: self.file.path.clone(),
                        object: format!("{}, column `{}`", self.object(), field.name),
                        expected: "a number".into(),
                        found: field.element.to_string(),
                    });
                }
            };
            width += number.size();
            if width > size {
                return Err(self.damaged("its columns overlap"));
            }
            if !names.insert(field.name.as_str()) {
                return Err(self.damaged(format!("it has two columns `{}`", field.name)));
            }
            readers.push((field.offset, number, big_endian));
        }
        self.storage()?;
        self.afford(8 * readers.len() as u64)?;
        let rows = self.rows()? as usize;
        let mut columns: Vec<Values> = readers
            .iter()
            .map(|&(_, number, _)| match number {
                Number::F64 => Values::F64(Vec::with_capacity(rows)),
                Number::F32 => Values::F32(Vec::with_capacity(rows)),
                _ => Values::I64(Vec::with_capacity(rows)),
            })
            .collect();
        self.visit_bytes(0..rows as u64, |_, bytes| {
            for (&(offset, number, big), values) in readers.iter().zip(&mut columns) {
                let places = bytes
                    .chunks_exact(size)
                    .map(|record| &record[offset..offset + number.size()]);
                match (number, values) {
                    (Number::F64, Values::F64(values)) => {
                        values.extend(places.map(|place| f64::decode(place, big)));
                    }
                    (Number::F32, Values::F32(values)) => {
                        values.extend(places.map(|place| f32::decode(place, big)));
                    }
                    (_, Values::I64(values)) => {
                        for place in places {
                            values.push(integer(place, number, big).ok_or_else(|| {
                                self.damaged("an unsigned integer is beyond 2^63")
                            })?);
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        let names = fields.iter().map(|field| field.name.clone());
        Ok(names
            .zip(columns)
            .map(|(name, values)| Column { name, values })
            .collect())
    }
}

fn integer(place: &[u8], number: Number, big: bool) -> Option<i64> {
    Some(match number {
        Number::I8 => i8::decode(place, big).into(),
        Number::I16 => i16::decode(place, big).into(),
        Number::I32 => i32::decode(place, big).into(),
        Number::I64 => i64::decode(place, big),
        Number::U8 => u8::decode(place, big).into(),
        Number::U16 => u16::decode(place, big).into(),
        Number::U32 => u32::decode(place, big).into(),
        Number::U64 => u64::decode(place, big).try_into().ok()?,
        Number::F32 | Number::F64 => return None,
    })
}
