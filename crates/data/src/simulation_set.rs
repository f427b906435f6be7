//! Simulations in memory: parameters and observations, row by row.

use std::path::Path;

use crate::array::{Array, Values};
use crate::bounds::Bounds;
use crate::error::Error;
use crate::file::ArrayFile;
use crate::standardization::Standardization;

/// What becomes of rows with NaN or infinite values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NonFiniteRows {
    /// They are an error with their count.
    Refuse,
    /// They are dropped and counted; more than this share of them is an error.
    Drop {
        /// The largest share of the rows that may be dropped, 0 to 1.
        at_most: f64,
    },
}

/// How a file is read as a simulation set.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationOptions {
    /// Name of the parameter array, `theta` unless given.
    pub parameters: String,
    /// Name of the observation array, `x` unless given.
    pub observations: String,
    /// Parameter names; otherwise the file's list `names`, otherwise `theta_0`, `theta_1` and so
    /// on.
    pub names: Option<Vec<String>>,
    /// Lower and upper bounds; otherwise the file's arrays `low` and `high`, otherwise none.
    pub bounds: Option<(Vec<f64>, Vec<f64>)>,
    /// Rows that are not finite.
    pub non_finite: NonFiniteRows,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self {
            parameters: "theta".into(),
            observations: "x".into(),
            names: None,
            bounds: None,
            non_finite: NonFiniteRows::Refuse,
        }
    }
}

/// What happened on loading, for the program to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// Rows in the file.
    pub rows_in_file: usize,
    /// Rows dropped because a value was not finite.
    pub dropped_rows: usize,
    /// Of these, rows whose parameters were not finite.
    pub dropped_for_parameters: usize,
    /// Of these, rows whose observations were not finite.
    pub dropped_for_observations: usize,
    /// Element type of the parameter array as the file spells it.
    pub parameter_type: String,
    /// Element type of the observation array as the file spells it.
    pub observation_type: String,
}

/// A set of simulations.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationSet {
    rows: usize,
    parameter_array: String,
    observation_array: String,
    parameter_names: Vec<String>,
    observation_names: Vec<String>,
    parameters: Values,
    observations: Values,
    bounds: Option<Bounds>,
    report: LoadReport,
}

impl SimulationSet {
    /// Reads a `.npz` or `.safetensors` file.
    ///
    /// # Shapes
    /// Parameters [N, D], observations [N, C]; a vector is a matrix of one column.
    ///
    /// # Numerics
    /// f32 stays f32 and f64 stays f64; integers become f64.
    ///
    /// # Errors
    /// A damaged file, missing arrays, other element types, shapes that do not fit, rows that are
    /// not finite (unless they are to be dropped), names or bounds that do not fit.
    pub fn open(path: impl AsRef<Path>, options: &SimulationOptions) -> Result<Self, Error> {
        let mut file = ArrayFile::open(path)?;
        let mut options = options.clone();
        let parameters = file.read(&options.parameters)?;
        let observations = file.read(&options.observations)?;
        if options.names.is_none() {
            options.names = file.read_names("names")?;
        }
        // One without the other is a missing array, not a set without bounds.
        if options.bounds.is_none() && (file.contains("low") || file.contains("high")) {
            let bound = |array: Array| array.values.to_vec();
            options.bounds = Some((bound(file.read("low")?), bound(file.read("high")?)));
        }
        Self::from_arrays(parameters, observations, &options)
    }

    /// Makes a set from arrays in memory; as [`SimulationSet::open`] without a file.
    ///
    /// # Errors
    /// As [`SimulationSet::open`], from the shapes on.
    pub fn from_arrays(
        parameters: Array,
        observations: Array,
        options: &SimulationOptions,
    ) -> Result<Self, Error> {
        let (rows, dimension) = parameters.matrix(&options.parameters)?;
        let (observation_rows, columns) = observations.matrix(&options.observations)?;
        if rows != observation_rows {
            return Err(Error::RowCount {
                parameters: options.parameters.clone(),
                parameter_rows: rows,
                observations: options.observations.clone(),
                observation_rows,
            });
        }
        let numbered = |array: &str, count| (0..count).map(|k| format!("{array}_{k}")).collect();
        let parameter_names = match &options.names {
            Some(names) => checked_names(names, dimension)?,
            None => numbered(&options.parameters, dimension),
        };
        let bounds = match &options.bounds {
            Some((low, high)) => Some(Bounds::new(
                parameter_names.clone(),
                low.clone(),
                high.clone(),
            )?),
            None => None,
        };
        let report = LoadReport {
            rows_in_file: rows,
            dropped_rows: 0,
            dropped_for_parameters: 0,
            dropped_for_observations: 0,
            parameter_type: parameters.element_type,
            observation_type: observations.element_type,
        };
        let mut set = Self {
            rows,
            parameter_array: options.parameters.clone(),
            observation_array: options.observations.clone(),
            parameter_names,
            observation_names: numbered(&options.observations, columns),
            parameters: parameters.values,
            observations: observations.values,
            bounds,
            report,
        };
        set.check_finite(options.non_finite)?;
        if set.rows == 0 {
            return Err(Error::Empty {
                what: "the simulation set".into(),
            });
        }
        Ok(set)
    }

    /// Number of simulations.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Names of the parameters, one a column.
    pub fn parameter_names(&self) -> &[String] {
        &self.parameter_names
    }

    /// Names of the observation's columns.
    pub fn observation_names(&self) -> &[String] {
        &self.observation_names
    }

    /// Parameters, [rows, D].
    pub fn parameters(&self) -> &Values {
        &self.parameters
    }

    /// Observations, [rows, C].
    pub fn observations(&self) -> &Values {
        &self.observations
    }

    /// Bounds of the parameters, where there are any.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
    }

    /// What happened on loading.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// Standardisation of the parameters by the training rows.
    ///
    /// # Errors
    /// A constant column, an index beyond the set, no rows.
    pub fn standardize_parameters(&self, train: &[u64]) -> Result<Standardization, Error> {
        Standardization::fit(
            &self.parameter_array,
            &self.parameters,
            &self.parameter_names,
            train,
        )
    }

    /// Standardisation of the observations by the training rows.
    ///
    /// # Errors
    /// A constant column, an index beyond the set, no rows.
    pub fn standardize_observations(&self, train: &[u64]) -> Result<Standardization, Error> {
        let names = &self.observation_names;
        Standardization::fit(&self.observation_array, &self.observations, names, train)
    }

    /// Refuses or drops the rows that are not finite.
    fn check_finite(&mut self, rule: NonFiniteRows) -> Result<(), Error> {
        if let NonFiniteRows::Drop { at_most } = rule
            && !(0.0..=1.0).contains(&at_most)
        {
            return Err(Error::Setting {
                what: "largest share of dropped rows",
                expected: "a number from 0 to 1".into(),
                actual: at_most.to_string(),
            });
        }
        let parameters = BadRows::find(&self.parameters, self.parameter_names.len());
        let observations = BadRows::find(&self.observations, self.observation_names.len());
        let mut bad: Vec<usize> = [&parameters.rows[..], &observations.rows[..]].concat();
        bad.sort_unstable();
        bad.dedup();
        let Some(&row) = bad.first() else {
            return Ok(());
        };
        match rule {
            NonFiniteRows::Refuse => {
                let in_parameters = parameters.rows.first() == Some(&row);
                let (array, part) = if in_parameters {
                    (&self.parameter_array, &parameters)
                } else {
                    (&self.observation_array, &observations)
                };
                Err(Error::NonFinite {
                    rows: bad.len(),
                    total: self.rows,
                    values: parameters.values + observations.values,
                    row,
                    array: array.clone(),
                    column: part.first_column,
                })
            }
            NonFiniteRows::Drop { at_most } => {
                if bad.len() as f64 > at_most * self.rows as f64 {
                    return Err(Error::TooManyDropped {
                        dropped: bad.len(),
                        total: self.rows,
                        allowed: at_most,
                    });
                }
                remove_rows(&mut self.parameters, self.parameter_names.len(), &bad);
                remove_rows(&mut self.observations, self.observation_names.len(), &bad);
                self.rows -= bad.len();
                self.report.dropped_rows = bad.len();
                self.report.dropped_for_parameters = parameters.rows.len();
                self.report.dropped_for_observations = observations.rows.len();
                Ok(())
            }
        }
    }
}

/// The rows of one array that are not finite.
struct BadRows {
    rows: Vec<usize>,
    values: usize,
    first_column: usize,
}

impl BadRows {
    fn find(values: &Values, columns: usize) -> Self {
        let mut found = Self {
            rows: Vec::new(),
            values: 0,
            first_column: 0,
        };
        for index in 0..values.len() {
            if values.get(index).is_finite() {
                continue;
            }
            let row = index / columns;
            if found.values == 0 {
                found.first_column = index % columns;
            }
            found.values += 1;
            if found.rows.last() != Some(&row) {
                found.rows.push(row);
            }
        }
        found
    }
}

/// Removes sorted rows.
fn remove_rows(values: &mut Values, columns: usize, rows: &[usize]) {
    fn remove<T: Copy>(values: &mut Vec<T>, columns: usize, rows: &[usize]) {
        let mut gone = rows.iter().peekable();
        let mut kept = 0;
        for row in 0..values.len() / columns {
            if gone.next_if_eq(&&row).is_none() {
                values.copy_within(row * columns..(row + 1) * columns, kept * columns);
                kept += 1;
            }
        }
        values.truncate(kept * columns);
    }
    match values {
        Values::F32(values) => remove(values, columns, rows),
        Values::F64(values) => remove(values, columns, rows),
    }
}

fn checked_names(names: &[String], dimension: usize) -> Result<Vec<String>, Error> {
    if names.len() != dimension {
        return Err(Error::Length {
            what: "parameter names".into(),
            expected: dimension,
            actual: names.len(),
        });
    }
    for (position, name) in names.iter().enumerate() {
        let problem = match () {
            () if name.trim().is_empty() => "empty",
            () if names[..position].contains(name) => "used twice",
            () => continue,
        };
        return Err(Error::Name {
            name: name.clone(),
            problem,
        });
    }
    Ok(names.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(
        theta: Vec<f64>,
        x: Vec<f64>,
        rows: usize,
        options: &SimulationOptions,
    ) -> Result<SimulationSet, Error> {
        let array = |values: Vec<f64>| Array::f64(vec![rows, values.len() / rows.max(1)], values);
        SimulationSet::from_arrays(array(theta), array(x), options)
    }

    /// Case 22: 1,000 rows with three NaN in x and one infinity in theta.
    #[test]
    fn case_22_rows_that_are_not_finite_are_counted() {
        let mut theta: Vec<f64> = (0..2000).map(f64::from).collect();
        let mut x: Vec<f64> = (0..3000).map(f64::from).collect();
        theta[2 * 900 + 1] = f64::INFINITY;
        (x[3 * 7 + 2], x[3 * 7 + 1], x[3 * 900]) = (f64::NAN, f64::NAN, f64::NAN);
        let options = SimulationOptions::default();
        let error = set(theta.clone(), x.clone(), 1000, &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 of 1000 rows hold values that are not finite (4 in all), the first in row 7, array \
             `x`, column 1"
        );
        let dropping = |at_most| SimulationOptions {
            non_finite: NonFiniteRows::Drop { at_most },
            ..Default::default()
        };
        let kept = set(theta.clone(), x.clone(), 1000, &dropping(0.002)).unwrap();
        assert_eq!(
            (
                kept.rows(),
                kept.parameters().len(),
                kept.observations().len()
            ),
            (998, 1996, 2994)
        );
        let report = kept.report();
        assert_eq!((report.rows_in_file, report.dropped_rows), (1000, 2));
        assert_eq!(
            (
                report.dropped_for_parameters,
                report.dropped_for_observations
            ),
            (1, 2)
        );
        // Row 6 stays, row 7 of the kept set is row 8 of the file, row 997 is row 999.
        assert_eq!(
            (kept.parameters().get(12), kept.observations().get(18)),
            (12.0, 18.0)
        );
        assert_eq!(
            (kept.parameters().get(14), kept.observations().get(21)),
            (16.0, 24.0)
        );
        assert_eq!(
            (kept.parameters().get(1995), kept.observations().get(2993)),
            (1999.0, 2999.0)
        );
        assert!(matches!(
            set(theta.clone(), x.clone(), 1000, &dropping(0.001)),
            Err(Error::TooManyDropped {
                dropped: 2,
                total: 1000,
                ..
            })
        ));
        assert!(matches!(
            set(theta, x, 1000, &dropping(1.5)),
            Err(Error::Setting { .. })
        ));
        assert!(matches!(
            set(vec![f64::NAN], vec![1.0], 1, &dropping(1.0)),
            Err(Error::Empty { .. })
        ));
    }

    #[test]
    fn shapes_names_and_bounds() {
        let options = SimulationOptions::default();
        let one = set(vec![1.0, 2.0], vec![3.0, 4.0, 5.0, 6.0], 2, &options).unwrap();
        assert_eq!(one.parameter_names(), ["theta_0"]);
        assert_eq!(one.observation_names(), ["x_0", "x_1"]);
        assert_eq!(one.bounds(), None);
        let vector = SimulationSet::from_arrays(
            Array::f64(vec![3], vec![1.0, 2.0, 3.0]),
            Array::f64(vec![3, 1], vec![1.0, 2.0, 3.0]),
            &options,
        );
        assert_eq!(vector.unwrap().rows(), 3);
        let build = |theta: Vec<usize>, x: Vec<usize>, options: &SimulationOptions| {
            let array = |shape: Vec<usize>| {
                let values = vec![1.0; shape.iter().product()];
                Array::f64(shape, values)
            };
            SimulationSet::from_arrays(array(theta), array(x), options)
        };
        assert!(matches!(
            build(vec![3, 1], vec![2, 1], &options),
            Err(Error::RowCount {
                parameter_rows: 3,
                observation_rows: 2,
                ..
            })
        ));
        for shape in [vec![], vec![2, 0], vec![2, 1, 1]] {
            let error = build(shape.clone(), vec![2, 1], &options).unwrap_err();
            assert!(matches!(error, Error::Shape { actual, .. } if actual == shape));
        }
        assert!(matches!(
            build(vec![0, 2], vec![0, 3], &options),
            Err(Error::Empty { .. })
        ));
        let named = |names: &[&str]| SimulationOptions {
            names: Some(names.iter().map(|name| (*name).into()).collect()),
            bounds: Some((vec![0.0, 0.0], vec![2.0, 2.0])),
            ..Default::default()
        };
        let good = build(vec![2, 2], vec![2, 1], &named(&["a", "b"])).unwrap();
        assert_eq!(good.bounds().unwrap().names(), ["a", "b"]);
        for (names, text) in [
            (&["a"][..], "parameter names: expected 2 entries, got 1"),
            (&["a", "a"], "parameter name `a` is used twice"),
            (&["a", " "], "parameter name ` ` is empty"),
        ] {
            let error = build(vec![2, 2], vec![2, 1], &named(names)).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }
}
