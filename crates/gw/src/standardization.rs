//! Means and standard deviations that parameters are standardised with.

use serde_json::{Map, Value};

use crate::pipeline::standardize;
use crate::{Error, Moments, Result};

/// Means and standard deviations by the name of the parameter, in an order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standardization {
    names: Vec<String>,
    moments: Vec<Moments>,
}

impl Standardization {
    /// From pairs of name and moments.
    ///
    /// # Errors
    /// [`Error::Standardization`] for a name that stands twice, a mean that is not finite, and a
    /// standard deviation that is zero, negative or not finite.
    pub fn new(entries: impl IntoIterator<Item = (String, Moments)>) -> Result<Self> {
        let mut all = Self::default();
        for (name, moments) in entries {
            let refuse = |name: &str, reason: String| {
                Err(Error::Standardization {
                    name: name.to_owned(),
                    reason,
                })
            };
            if all.names.contains(&name) {
                return refuse(&name, "it is given twice".into());
            }
            if !moments.mean.is_finite() {
                return refuse(&name, format!("its mean is {}", moments.mean));
            }
            if moments.std == 0.0 {
                return refuse(
                    &name,
                    "its standard deviation is 0, as it has one value only; it cannot be inferred, \
                     leave it out"
                        .into(),
                );
            }
            if !(moments.std > 0.0 && moments.std.is_finite()) {
                return refuse(&name, format!("its standard deviation is {}", moments.std));
            }
            all.names.push(name);
            all.moments.push(moments);
        }
        Ok(all)
    }

    /// From the two mappings that settings hold, `mean` and `std`.
    ///
    /// # Errors
    /// As [`Standardization::new`]; also where the mappings have different names.
    pub fn from_maps(mean: &Map<String, Value>, std: &Map<String, Value>) -> Result<Self> {
        let number = |map: &Map<String, Value>, which: &str, name: &str| {
            let value = map.get(name).and_then(Value::as_f64);
            value.ok_or_else(|| Error::Standardization {
                name: name.to_owned(),
                reason: format!("`{which}` has no number for it"),
            })
        };
        let mut entries = Vec::new();
        for name in mean.keys() {
            let moments = Moments {
                mean: number(mean, "mean", name)?,
                std: number(std, "std", name)?,
            };
            entries.push((name.clone(), moments));
        }
        if let Some(name) = std.keys().find(|name| !mean.contains_key(*name)) {
            number(mean, "mean", name)?;
        }
        Self::new(entries)
    }

    /// The two mappings `mean` and `std`.
    pub fn to_maps(&self) -> (Map<String, Value>, Map<String, Value>) {
        let map = |part: fn(&Moments) -> f64| {
            let pairs = self.names.iter().zip(&self.moments);
            pairs
                .map(|(name, moments)| (name.clone(), Value::from(part(moments))))
                .collect()
        };
        (map(|m| m.mean), map(|m| m.std))
    }

    /// Names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Mean and standard deviation of a parameter.
    ///
    /// # Errors
    /// [`Error::Standardization`] if there are none.
    pub fn get(&self, name: &str) -> Result<Moments> {
        let place = self.names.iter().position(|known| known == name);
        place
            .map(|place| self.moments[place])
            .ok_or_else(|| Error::Standardization {
                name: name.to_owned(),
                reason: format!("there is none, only of {}", self.names.join(", ")),
            })
    }
}

impl Moments {
    /// `(value - mean) / std`.
    pub fn standardize(&self, value: f64) -> f32 {
        standardize(value, self.mean, self.std)
    }

    /// Mean and sample standard deviation (divided by one less than the count) of a data set's column.
    pub fn of_column(values: &[f32]) -> Self {
        let shift = f64::from(values.first().copied().unwrap_or(0.0));
        let count = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x) - shift).sum::<f64>() / count;
        let squares = values
            .iter()
            .map(|&x| (f64::from(x) - shift - mean).powi(2));
        let squares: f64 = squares.sum();
        Self {
            mean: shift + mean,
            // One value has no spread.
            std: if values.len() < 2 {
                0.0
            } else {
                (squares / (count - 1.0)).sqrt()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(name: &str, mean: f64, std: f64) -> (String, Moments) {
        (name.to_owned(), Moments { mean, std })
    }

    #[test]
    fn maps_and_back() {
        let all = Standardization::new([entry("b", 1.5, 2.0), entry("a", -1.0, 0.25)]).unwrap();
        assert_eq!(all.names(), ["b", "a"]);
        let (mean, std) = all.to_maps();
        assert_eq!(json!(mean), json!({"b": 1.5, "a": -1.0}));
        assert_eq!(Standardization::from_maps(&mean, &std).unwrap(), all);
        assert_eq!(all.get("a").unwrap().standardize(0.0), 4.0);
    }

    #[test]
    fn what_cannot_standardise_is_named() {
        for (entries, part) in [
            (
                vec![entry("a", 0.0, 0.0)],
                "`a`: its standard deviation is 0",
            ),
            (vec![entry("a", 0.0, -1.0)], "is -1"),
            (vec![entry("a", 0.0, f64::NAN)], "is NaN"),
            (vec![entry("a", f64::INFINITY, 1.0)], "mean is inf"),
            (
                vec![entry("a", 0.0, 1.0), entry("a", 0.0, 1.0)],
                "given twice",
            ),
        ] {
            let message = Standardization::new(entries).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        let maps = |mean: Value, std: Value| {
            let error =
                Standardization::from_maps(mean.as_object().unwrap(), std.as_object().unwrap());
            error.unwrap_err().to_string()
        };
        assert!(maps(json!({"a": 1}), json!({})).contains("`std` has no number"));
        assert!(maps(json!({}), json!({"a": 1})).contains("`mean` has no number"));
        let message = Standardization::default().get("x").unwrap_err().to_string();
        assert!(message.contains("`x`"));
    }

    #[test]
    fn columns_have_the_sample_standard_deviation() {
        let moments = Moments::of_column(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(moments.mean, 2.5);
        assert!((moments.std - (5.0f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(
            Moments::of_column(&[100.0; 7]),
            Moments {
                mean: 100.0,
                std: 0.0
            }
        );
        assert_eq!(Moments::of_column(&[3.0]).std, 0.0);
        // A far offset does not swallow the spread.
        let far = Moments::of_column(&[1e7, 1e7 + 1.0]);
        assert!((far.std - 0.5f64.sqrt()).abs() < 1e-12);
    }
}
