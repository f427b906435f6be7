//! What can be wrong with a pair of sample sets.

/// Why two sample sets cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The length of a slice is not a multiple of the dimension, or the dimension is 0.
    #[error("{what}: {length} values cannot be rows of {dimension}")]
    Shape {
        /// Which set: `reference` or `samples`.
        what: &'static str,
        /// The length of the slice.
        length: usize,
        /// The number of parameters.
        dimension: usize,
    },
    /// The sets differ in size, which would move the chance level away from one half.
    #[error(
        "sample sets of equal size are needed: {reference} reference rows, {samples} sample rows"
    )]
    Sizes {
        /// Rows of the reference.
        reference: usize,
        /// Rows of the samples.
        samples: usize,
    },
    /// Too few rows for the folds.
    #[error("{rows} rows in each set: at least {needed} are needed")]
    TooFew {
        /// Rows in each set.
        rows: usize,
        /// The smallest number of rows.
        needed: usize,
    },
    /// A value is NaN or infinite.
    #[error("{what}: {count} values are not finite, the first in row {row}, column {column}")]
    NonFinite {
        /// Which set: `reference` or `samples`.
        what: &'static str,
        /// How many values.
        count: usize,
        /// Row of the first one.
        row: usize,
        /// Column of the first one.
        column: usize,
    },
    /// All reference values of a column are equal, so it cannot be z-scored.
    #[error("reference: column {column} is constant ({value})")]
    ConstantColumn {
        /// The column.
        column: usize,
        /// Its value.
        value: f64,
    },
}
