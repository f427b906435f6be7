//! The box a prior allows, and how much of a posterior lies outside.

use serde::{Deserialize, Serialize};

use crate::array::Scalar;
use crate::error::Error;

/// A closed interval for each parameter; infinite ends leave a side open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Bounds {
    names: Vec<String>,
    low: Vec<f64>,
    high: Vec<f64>,
}

#[derive(Deserialize)]
struct Unchecked {
    names: Vec<String>,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl TryFrom<Unchecked> for Bounds {
    type Error = Error;

    fn try_from(unchecked: Unchecked) -> Result<Self, Error> {
        Self::new(unchecked.names, unchecked.low, unchecked.high)
    }
}

impl Bounds {
    /// Bounds of the named parameters.
    ///
    /// # Errors
    /// Lists of different length, NaN, a lower bound that is not below the upper one.
    pub fn new(names: Vec<String>, low: Vec<f64>, high: Vec<f64>) -> Result<Self, Error> {
        for (what, actual) in [("lower bounds", low.len()), ("upper bounds", high.len())] {
            if actual != names.len() {
                return Err(Error::Length {
                    what: what.into(),
                    expected: names.len(),
                    actual,
                });
            }
        }
        for ((name, &low), &high) in names.iter().zip(&low).zip(&high) {
            // Written so that NaN is refused too.
            if !matches!(low.partial_cmp(&high), Some(std::cmp::Ordering::Less)) {
                return Err(Error::Bounds {
                    name: name.clone(),
                    low,
                    high,
                });
            }
        }
        Ok(Self { names, low, high })
    }

    /// The parameters' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Lower bounds.
    pub fn low(&self) -> &[f64] {
        &self.low
    }

    /// Upper bounds.
    pub fn high(&self) -> &[f64] {
        &self.high
    }

    /// Whether a row lies inside, ends included; NaN lies outside.
    ///
    /// # Shapes
    /// `row` `[D]`.
    pub fn contains<T: Scalar>(&self, row: &[T]) -> bool {
        row.len() == self.names.len()
            && row
                .iter()
                .zip(&self.low)
                .zip(&self.high)
                .all(|((&value, &low), &high)| {
                    let value = value.into_f64();
                    low <= value && value <= high
                })
    }

    /// The share of each observation's samples outside the box.
    ///
    /// # Shapes
    /// `samples` [O, S, D] with `per_observation` = S; the result has O entries.
    ///
    /// # Errors
    /// A length that is no multiple of S D, or S = 0.
    pub fn mass_outside<T: Scalar>(
        &self,
        samples: &[T],
        per_observation: usize,
    ) -> Result<Vec<f64>, Error> {
        let block = per_observation.saturating_mul(self.names.len());
        if block == 0 || !samples.len().is_multiple_of(block) {
            return Err(Error::Shape {
                array: "samples".into(),
                expected: format!("[observations, {per_observation}, {}]", self.names.len()),
                actual: vec![samples.len()],
            });
        }
        let share = |block: &[T]| {
            let rows = block.chunks_exact(self.names.len());
            rows.filter(|row| !self.contains(row)).count() as f64 / per_observation as f64
        };
        Ok(samples.chunks_exact(block).map(share).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["a".into(), "b".into()]
    }

    #[test]
    fn shares_outside() {
        let bounds = Bounds::new(names(), vec![-1.0, 0.0], vec![1.0, f64::INFINITY]).unwrap();
        let samples = [1.0, 0.0, -1.0, 1e300, 1.0f64.next_up(), 1.0, 0.0, -0.1];
        assert_eq!(bounds.mass_outside(&samples, 2).unwrap(), [0.0, 1.0]);
        assert_eq!(bounds.mass_outside(&samples, 4).unwrap(), [0.5]);
        assert_eq!(bounds.mass_outside(&[f32::NAN, 1.0], 1).unwrap(), [1.0]);
        assert!(bounds.mass_outside(&samples, 3).is_err());
        assert!(bounds.mass_outside(&samples, 0).is_err());
    }

    #[test]
    fn refusals() {
        let refuse = |low: &[f64], high: &[f64]| {
            Bounds::new(names(), low.into(), high.into())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refuse(&[0.0], &[1.0, 1.0]),
            "lower bounds: expected 2 entries, got 1"
        );
        assert!(refuse(&[0.0, 1.0], &[1.0, 1.0]).contains("`b`: expected low < high, got [1, 1]"));
        assert!(refuse(&[f64::NAN, 0.0], &[1.0, 1.0]).contains("`a`"));
        let json = r#"{"names":["a"],"low":[2],"high":[1]}"#;
        assert!(serde_json::from_str::<Bounds>(json).is_err());
    }
}
