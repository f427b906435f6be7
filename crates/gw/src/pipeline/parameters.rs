//! Step 8: parameters by name, picked in order and standardised.

/// Values of one sample by the name of the parameter; a later value replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParameterTable {
    names: Vec<String>,
    values: Vec<f64>,
}

impl ParameterTable {
    /// Sets a parameter.
    pub fn set(&mut self, name: &str, value: f64) {
        match self.names.iter().position(|known| known == name) {
            Some(place) => self.values[place] = value,
            None => {
                self.names.push(name.to_owned());
                self.values.push(value);
            }
        }
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<f64> {
        let place = self.names.iter().position(|known| known == name)?;
        Some(self.values[place])
    }
}

/// `(value - mean) / std` in single precision.
pub fn standardize(value: f64, mean: f64, std: f64) -> f32 {
    ((value - mean) / std) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_values_replace_earlier_ones() {
        let mut table = ParameterTable::default();
        table.set("luminosity_distance", 100.0);
        table.set("chirp_mass", 30.0);
        table.set("luminosity_distance", 500.0);
        assert_eq!(table.get("luminosity_distance"), Some(500.0));
        assert_eq!(table.get("chirp_mass"), Some(30.0));
        assert_eq!(table.get("phase"), None);
        assert_eq!(standardize(500.0, 300.0, 100.0), 2.0);
    }
}
