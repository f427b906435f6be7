//! What can be wrong with data, and what the user can do about it.

use std::path::PathBuf;

/// Why a file, a set or a request was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file could not be written; what stood there before is untouched.
    #[error(transparent)]
    Write(#[from] dunnart_files::Error),
    /// The ending of a file name names no format of ours.
    #[error("{path}: unknown file format, expected one of {expected}", path = path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The endings that are understood here.
        expected: &'static str,
    },
    /// The file is truncated, damaged or not what its name says.
    #[error("{path}: {problem}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with expected and actual values.
        problem: String,
    },
    /// No array of that name.
    #[error("{path}: no array `{array}`, the file has {available}", path = path.display())]
    MissingArray {
        /// The file.
        path: PathBuf,
        /// The array asked for.
        array: String,
        /// The names that are there.
        available: String,
    },
    /// The type of an array's elements cannot be used.
    #[error("array `{array}`: element type {actual} is not supported, expected {expected}")]
    ElementType {
        /// The array.
        array: String,
        /// The types that can be used.
        expected: &'static str,
        /// Its type as the file spells it.
        actual: String,
    },
    /// The shape of an array does not fit.
    #[error("array `{array}`: expected shape {expected}, got {actual:?}")]
    Shape {
        /// The array.
        array: String,
        /// What was expected, with names for free dimensions.
        expected: String,
        /// Its shape.
        actual: Vec<usize>,
    },
    /// Parameter and observation arrays have different numbers of rows.
    #[error(
        "`{parameters}` has {parameter_rows} rows, `{observations}` has {observation_rows}: \
         one row a simulation is expected in both"
    )]
    RowCount {
        /// Name of the parameter array.
        parameters: String,
        /// Its rows.
        parameter_rows: usize,
        /// Name of the observation array.
        observations: String,
        /// Its rows.
        observation_rows: usize,
    },
    /// Rows hold NaN or infinite values.
    #[error(
        "{rows} of {total} rows hold values that are not finite ({values} in all), the first in \
         row {row}, array `{array}`, column {column}"
    )]
    NonFinite {
        /// Rows concerned.
        rows: usize,
        /// Rows in all.
        total: usize,
        /// Values concerned.
        values: usize,
        /// The first row concerned.
        row: usize,
        /// The array of the first such value.
        array: String,
        /// Its column.
        column: usize,
    },
    /// More rows than allowed would have been dropped.
    #[error("{dropped} of {total} rows are not finite, more than the allowed share of {allowed}")]
    TooManyDropped {
        /// Rows that are not finite.
        dropped: usize,
        /// Rows in all.
        total: usize,
        /// The allowed share.
        allowed: f64,
    },
    /// No rows are left.
    #[error("{what} has no rows")]
    Empty {
        /// The set or part.
        what: String,
    },
    /// A column does not vary, so it cannot be standardised.
    #[error("`{array}`: column {column} (`{name}`) is constant ({value}) in the training part")]
    ConstantColumn {
        /// The array.
        array: String,
        /// The column.
        column: usize,
        /// Its name.
        name: String,
        /// Its value.
        value: f64,
    },
    /// The statistics of a column overflow.
    #[error("`{array}`: mean or standard deviation of column {column} (`{name}`) is not finite")]
    Overflow {
        /// The array.
        array: String,
        /// The column.
        column: usize,
        /// Its name.
        name: String,
    },
    /// A list has the wrong number of entries.
    #[error("{what}: expected {expected} entries, got {actual}")]
    Length {
        /// The list.
        what: String,
        /// Entries expected.
        expected: usize,
        /// Entries found.
        actual: usize,
    },
    /// Two parameters share a name, or a name is empty.
    #[error("parameter name `{name}` is {problem}")]
    Name {
        /// The name.
        name: String,
        /// `empty` or `used twice`.
        problem: &'static str,
    },
    /// A bound is NaN, or the lower is not below the upper.
    #[error("bounds of `{name}`: expected low < high, got [{low}, {high}]")]
    Bounds {
        /// The parameter.
        name: String,
        /// Its lower bound.
        low: f64,
        /// Its upper bound.
        high: f64,
    },
    /// A setting lies outside its domain.
    #[error("{what}: expected {expected}, got {actual}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its domain.
        expected: String,
        /// Its value.
        actual: String,
    },
    /// A sample index beyond the set.
    #[error("sample index {index} is beyond the set's {rows} rows")]
    Index {
        /// The index.
        index: u64,
        /// Rows of the set.
        rows: usize,
    },
    /// The thread that prepares batches ended without a result.
    #[error("the thread that prepares batches failed")]
    Worker,
}

impl Error {
    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn malformed(path: &std::path::Path, problem: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}
