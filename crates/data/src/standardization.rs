//! Mean and standard deviation of the columns, and the map they define.

use serde::{Deserialize, Serialize};

use crate::array::{Scalar, Values};
use crate::error::Error;

/// The affine map `z = (x - mean) / std`, column by column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Standardization {
    mean: Vec<f64>,
    std: Vec<f64>,
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Unchecked {
    mean: Vec<f64>,
    std: Vec<f64>,
    names: Vec<String>,
}

impl TryFrom<Unchecked> for Standardization {
    type Error = Error;

    fn try_from(unchecked: Unchecked) -> Result<Self, Error> {
        Self::new(unchecked.mean, unchecked.std, unchecked.names)
    }
}

impl Standardization {
    /// A map from given statistics.
    ///
    /// # Errors
    /// Lists of different length, a mean that is not finite, a deviation that is not finite and
    /// positive.
    pub fn new(mean: Vec<f64>, std: Vec<f64>, names: Vec<String>) -> Result<Self, Error> {
        for (what, actual) in [("means", mean.len()), ("standard deviations", std.len())] {
            if actual != names.len() {
                return Err(Error::Length {
                    what: what.into(),
                    expected: names.len(),
                    actual,
                });
            }
        }
        for (column, name) in names.iter().enumerate() {
            if !usable(mean[column], std[column]) {
                return Err(Error::Setting {
                    what: "standardization",
                    expected: format!("a finite mean and a positive deviation for `{name}`"),
                    actual: format!("{} and {}", mean[column], std[column]),
                });
            }
        }
        Ok(Self { mean, std, names })
    }

    /// Statistics of the given rows: mean and sample standard deviation (ddof 1).
    ///
    /// # Numerics
    /// Two passes in f64 with the rounding of the mean taken out, in the order of `rows`.
    ///
    /// # Errors
    /// No rows, an index beyond the array, a constant column, statistics that overflow.
    pub(crate) fn fit(
        array: &str,
        values: &Values,
        names: &[String],
        rows: &[u64],
    ) -> Result<Self, Error> {
        let columns = names.len();
        let total = values.len().checked_div(columns).unwrap_or(0);
        if let Some(&index) = rows.iter().find(|&&row| row >= total as u64) {
            return Err(Error::Index { index, rows: total });
        }
        if rows.is_empty() {
            return Err(Error::Empty {
                what: format!("the training part of `{array}`"),
            });
        }
        let count = rows.len() as f64;
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        for (column, name) in names.iter().enumerate() {
            let column_values = || {
                rows.iter()
                    .map(|&row| values.get(row as usize * columns + column))
            };
            let first = values.get(rows[0] as usize * columns + column);
            if column_values().all(|value| value == first) {
                return Err(Error::ConstantColumn {
                    array: array.into(),
                    column,
                    name: name.clone(),
                    value: first,
                });
            }
            let rough = column_values().sum::<f64>() / count;
            let (sum, squares) = column_values().fold((0.0, 0.0), |(sum, squares), value| {
                let difference = value - rough;
                (sum + difference, squares + difference * difference)
            });
            let mean = rough + sum / count;
            let deviation = ((squares - sum * sum / count) / (count - 1.0)).sqrt();
            if !usable(mean, deviation) {
                return Err(Error::Overflow {
                    array: array.into(),
                    column,
                    name: name.clone(),
                });
            }
            means.push(mean);
            deviations.push(deviation);
        }
        Self::new(means, deviations, names.to_vec())
    }

    /// Means of the columns.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Standard deviations of the columns.
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.names.len()
    }

    /// One standardised value, `(x - mean) / std`, in f64.
    #[inline]
    pub(crate) fn value(&self, column: usize, value: f64) -> f64 {
        (value - self.mean[column]) / self.std[column]
    }

    /// Standardises rows in place: `z = (x - mean) / std`, in f64, rounded once.
    ///
    /// # Shapes
    /// `rows` [any, columns]; a last incomplete row is treated as the beginning of one.
    pub fn apply<T: Scalar>(&self, rows: &mut [T]) {
        for row in rows.chunks_mut(self.columns().max(1)) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = T::from_f64(self.value(column, value.into_f64()));
            }
        }
    }

    /// The inverse of [`Standardization::apply`]: `x = mean + std z`.
    pub fn invert<T: Scalar>(&self, rows: &mut [T]) {
        for row in rows.chunks_mut(self.columns().max(1)) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = T::from_f64(self.mean[column] + self.std[column] * value.into_f64());
            }
        }
    }

    /// Log-det of [`Standardization::apply`], `-sum ln std`: a density of standardised rows becomes
    /// the density of the raw rows by adding it to log_prob.
    pub fn log_det(&self) -> f64 {
        -self.std.iter().map(|std| std.ln()).sum::<f64>()
    }
}

/// Whether a column with these statistics can be standardised; NaN cannot.
fn usable(mean: f64, std: f64) -> bool {
    mean.is_finite() && std > 0.0 && std.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|column| format!("theta_{column}")).collect()
    }

    #[test]
    fn statistics_of_the_chosen_rows() {
        let values = Values::F64(vec![1.0, 10.0, 2.0, 20.0, 4.0, 60.0, 1e9, -1e9]);
        let fitted = Standardization::fit("theta", &values, &names(2), &[2, 0, 1]).unwrap();
        assert_eq!(fitted.mean(), [7.0 / 3.0, 30.0]);
        let expected = [(7.0f64 / 3.0).sqrt(), 700f64.sqrt()];
        for (actual, expected) in fitted.std().iter().zip(expected) {
            assert!(
                (actual / expected - 1.0).abs() < 1e-15,
                "{actual} {expected}"
            );
        }
        assert!((fitted.log_det() + (expected[0] * expected[1]).ln()).abs() < 1e-14);
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        let values = Values::F64((0..1001).map(|k| 1e9 + f64::from(k)).collect());
        let rows: Vec<u64> = (0..1001).collect();
        let fitted = Standardization::fit("x", &values, &names(1), &rows).unwrap();
        // Variance of 0..n-1 with ddof 1 is n (n + 1) / 12.
        let expected = (1001.0f64 * 1002.0 / 12.0).sqrt();
        assert!((fitted.std()[0] / expected - 1.0).abs() < 1e-14);
        assert_eq!(fitted.mean()[0], 1e9 + 500.0);
    }

    #[test]
    fn refusals() {
        let values = Values::F32(vec![0.1, 1.0, 0.1, 2.0, 0.1, 3.0]);
        let error = Standardization::fit("theta", &values, &names(2), &[0, 1, 2]).unwrap_err();
        assert!(
            matches!(&error, Error::ConstantColumn { column: 0, name, .. } if name == "theta_0")
        );
        // One row is constant in every column.
        assert!(matches!(
            Standardization::fit("theta", &Values::F64(vec![1.0]), &names(1), &[0]),
            Err(Error::ConstantColumn { .. })
        ));
        assert!(matches!(
            Standardization::fit("theta", &values, &names(2), &[3]),
            Err(Error::Index { index: 3, rows: 3 })
        ));
        let huge = Values::F64(vec![1e308, -1e308, 1e308]);
        assert!(matches!(
            Standardization::fit("theta", &huge, &names(1), &[0, 1, 2]),
            Err(Error::Overflow { .. })
        ));
        assert!(Standardization::new(vec![0.0], vec![0.0], names(1)).is_err());
        assert!(Standardization::new(vec![f64::NAN], vec![1.0], names(1)).is_err());
        assert!(Standardization::new(vec![0.0, 1.0], vec![1.0], names(1)).is_err());
        let json = r#"{"mean":[0],"std":[-1],"names":["a"]}"#;
        assert!(serde_json::from_str::<Standardization>(json).is_err());
    }

    proptest! {
        #[test]
        fn invert_undoes_apply(
            mean in -1e3..1e3f64, std in 1e-3..1e3f64, value in -1e4..1e4f64,
        ) {
            let map = Standardization::new(vec![mean], vec![std], names(1)).unwrap();
            let mut row = [value];
            map.apply(&mut row);
            prop_assert_eq!(row[0], (value - mean) / std);
            map.invert(&mut row);
            // Each of four roundings is relative to the largest magnitude on the way.
            let bound = 4.0 * f64::EPSILON * (value.abs() + mean.abs());
            prop_assert!((row[0] - value).abs() <= bound);
        }

        #[test]
        fn json_round_trip(mean in -1e30..1e30f64, std in 1e-30..1e30f64) {
            let map = Standardization::new(vec![mean], vec![std], names(1)).unwrap();
            let text = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(serde_json::from_str::<Standardization>(&text).unwrap(), map);
        }
    }
}
