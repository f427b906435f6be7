//! Observations to sample posteriors for, a row each.

use std::path::Path;

use crate::array::{Array, Scalar, Values};
use crate::error::Error;
use crate::file::{ArrayFile, ending};
use crate::table;

/// Array names looked for, in this order, where none is given and the file has several.
const USUAL_NAMES: [&str; 2] = ["observation", "x"];

/// Observations, [rows, columns].
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    rows: usize,
    columns: usize,
    values: Values,
}

impl Observations {
    /// Reads observations from a `.npz`, `.safetensors` or `.csv` file.
    ///
    /// Of an array file, the array called `array` is taken; without that, the only one,
    /// `observation`, or `x`. A vector is one observation of `columns` values, or many where
    /// `columns` is 1.
    ///
    /// # Errors
    /// A damaged file, another number of columns, no rows, NaN or infinite values.
    pub fn read(
        path: impl AsRef<Path>,
        array: Option<&str>,
        columns: usize,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let (name, array) = match ending(path).as_deref() {
            Some("csv") => {
                let table = table::read(path)?;
                let shape = vec![table.values.len() / table.columns, table.columns];
                ("table".to_owned(), Array::f64(shape, table.values))
            }
            Some("npz" | "safetensors") => {
                let mut file = ArrayFile::open(path)?;
                let name = choose(&file, array)?;
                let array = file.read(&name)?;
                (name, array)
            }
            _ => {
                return Err(Error::UnknownFormat {
                    path: path.into(),
                    expected: ".npz, .safetensors, .csv",
                });
            }
        };
        Self::new(&name, array, columns)
    }

    /// Checks an array of observations.
    ///
    /// # Errors
    /// As [`Observations::read`], from the number of columns on.
    pub fn new(name: &str, array: Array, columns: usize) -> Result<Self, Error> {
        let rows = match array.shape[..] {
            [length] if columns != 1 && length == columns => 1,
            [rows] if columns == 1 => rows,
            [rows, actual] if actual == columns => rows,
            _ => {
                return Err(Error::Shape {
                    array: name.into(),
                    expected: format!("[observations, {columns}]"),
                    actual: array.shape,
                });
            }
        };
        if rows == 0 || columns == 0 {
            return Err(Error::Empty {
                what: format!("the observations `{name}`"),
            });
        }
        let bad = |index: &usize| !array.values.get(*index).is_finite();
        if let Some(first) = (0..array.values.len()).find(bad) {
            let bad: Vec<usize> = (0..array.values.len()).filter(bad).collect();
            let mut bad_rows: Vec<usize> = bad.iter().map(|index| index / columns).collect();
            bad_rows.dedup();
            return Err(Error::NonFinite {
                rows: bad_rows.len(),
                total: rows,
                values: bad.len(),
                row: first / columns,
                array: name.into(),
                column: first % columns,
            });
        }
        Ok(Self {
            rows,
            columns,
            values: array.values,
        })
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values of an observation.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values, [rows, columns].
    pub fn to_vec<T: Scalar>(&self) -> Vec<T> {
        self.values.to_vec()
    }

    /// One observation; `None` beyond the last.
    pub fn row<T: Scalar>(&self, row: usize) -> Option<Vec<T>> {
        (row < self.rows).then(|| {
            (0..self.columns)
                .map(|column| T::from_f64(self.values.get(row * self.columns + column)))
                .collect()
        })
    }
}

fn choose(file: &ArrayFile, array: Option<&str>) -> Result<String, Error> {
    let names = file.names();
    if let Some(array) = array {
        return Ok(array.into());
    }
    if let [only] = &names[..] {
        return Ok(only.clone());
    }
    let usual = USUAL_NAMES
        .into_iter()
        .find(|usual| names.iter().any(|name| name == usual));
    usual.map(Into::into).ok_or_else(|| Error::MissingArray {
        path: file.path().into(),
        array: USUAL_NAMES.join("` or `"),
        available: names.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let new = |shape: &[usize], columns| {
            let values = vec![0.5; shape.iter().product()];
            Observations::new("x", Array::f64(shape.to_vec(), values), columns)
        };
        let rows = |shape: &[usize], columns| new(shape, columns).map(|o| o.rows()).ok();
        assert_eq!(rows(&[4, 3], 3), Some(4));
        assert_eq!(rows(&[3], 3), Some(1));
        assert_eq!(rows(&[3], 1), Some(3));
        assert_eq!(rows(&[1, 1], 1), Some(1));
        for (shape, columns) in [
            (&[4, 3][..], 4),
            (&[3], 2),
            (&[2, 3, 1], 3),
            (&[], 1),
            (&[0, 3], 3),
        ] {
            assert_eq!(rows(shape, columns), None, "{shape:?}");
        }
        let error = new(&[4, 3], 8).unwrap_err().to_string();
        assert_eq!(
            error,
            "array `x`: expected shape [observations, 8], got [4, 3]"
        );
    }

    #[test]
    fn values_that_are_not_finite_are_named() {
        let mut values = vec![0.0; 12];
        (values[7], values[8], values[11]) = (f64::NAN, f64::INFINITY, f64::NAN);
        let error = Observations::new("x", Array::f64(vec![4, 3], values), 3).unwrap_err();
        assert!(matches!(
            error,
            Error::NonFinite {
                rows: 2,
                total: 4,
                values: 3,
                row: 2,
                column: 1,
                ..
            }
        ));
    }

    #[test]
    fn from_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o.CSV");
        std::fs::write(&path, "a,b\n1,2.5\n-3,4\n").unwrap();
        let observations = Observations::read(&path, None, 2).unwrap();
        assert_eq!(observations.to_vec::<f32>(), [1.0, 2.5, -3.0, 4.0]);
        assert_eq!(observations.row::<f64>(1), Some(vec![-3.0, 4.0]));
        assert_eq!(observations.row::<f64>(2), None);
        std::fs::write(&path, "1,nan\n").unwrap();
        assert!(matches!(
            Observations::read(&path, None, 2),
            Err(Error::NonFinite {
                row: 0,
                column: 1,
                ..
            })
        ));
        std::fs::write(&path, "a,b\n").unwrap();
        assert!(matches!(
            Observations::read(&path, None, 2),
            Err(Error::Empty { .. })
        ));
        assert!(matches!(
            Observations::read("o.txt", None, 2),
            Err(Error::UnknownFormat { .. })
        ));
    }
}
