//! Which rows train and which test.

use dunnart_random::torch_randperm;

use crate::error::Error;

/// The seed of the split, the reference's own; see [`Split::new`].
pub const SPLIT_SEED: u64 = 42;

/// The rows of the training and of the test part, in the order of the permutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Global sample indices for training.
    pub train: Vec<u64>,
    /// Global sample indices for testing.
    pub test: Vec<u64>,
}

impl Split {
    /// Splits `0..rows` as the reference does: torch's `randperm` with seed 42, the first
    /// `int(fraction * rows)` train.
    ///
    /// The split depends on nothing else, so every run and every stage tests on the same rows.
    ///
    /// # Domain
    /// `fraction` between 0 and 1 such that both parts have rows.
    ///
    /// # Errors
    /// A fraction outside its domain, a part without rows.
    pub fn new(rows: usize, fraction: f64) -> Result<Self, Error> {
        if !(fraction > 0.0 && fraction < 1.0) {
            return Err(Error::Setting {
                what: "train_fraction",
                expected: "a number between 0 and 1".into(),
                actual: fraction.to_string(),
            });
        }
        let training = (fraction * rows as f64) as usize;
        for (what, size) in [("training", training), ("test", rows - training)] {
            if size == 0 {
                let what = format!("the {what} part ({rows} rows, train_fraction {fraction})");
                return Err(Error::Empty { what });
            }
        }
        let mut train: Vec<u64> = torch_randperm(SPLIT_SEED, rows)
            .into_iter()
            .map(|index| index as u64)
            .collect();
        let test = train.split_off(training);
        Ok(Self { train, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_rows_as_torch_splits_them() {
        let split = Split::new(10, 0.75).unwrap();
        assert_eq!(split.train, [2, 6, 1, 8, 4, 5, 0]);
        assert_eq!(split.test, [9, 3, 7]);
    }

    #[test]
    fn the_size_is_cut_off_as_python_cuts_it() {
        // 0.29 * 100 is 28.999999999999996 in binary.
        assert_eq!(Split::new(100, 0.29).unwrap().train.len(), 28);
        assert_eq!(Split::new(100_000, 0.95).unwrap().train.len(), 95_000);
    }

    #[test]
    fn refusals() {
        for fraction in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(
                matches!(Split::new(10, fraction), Err(Error::Setting { .. })),
                "{fraction}"
            );
        }
        let error = Split::new(3, 0.1).unwrap_err().to_string();
        assert!(error.contains("the training part (3 rows"), "{error}");
        assert!(matches!(Split::new(0, 0.5), Err(Error::Empty { .. })));
    }
}
