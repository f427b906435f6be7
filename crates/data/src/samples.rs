//! Posterior samples to be written.

use std::io::Write;
use std::path::Path;

use dunnart_files::{WriteOptions, atomic_write};

use crate::array::Values;
use crate::error::Error;
use crate::file::{ending, npz_bytes, safetensors_bytes};

/// The endings [`PosteriorSamples::write`] understands.
pub const SAMPLE_FORMATS: &str = ".npz, .safetensors, .csv";

/// Samples of one or many posteriors with their log_prob.
#[derive(Clone, Debug, PartialEq)]
pub struct PosteriorSamples {
    observations: usize,
    per_observation: usize,
    names: Vec<String>,
    samples: Values,
    log_prob: Values,
    extra: Vec<(String, Values)>,
}

impl PosteriorSamples {
    /// Joins samples, their log_prob and the parameters' names.
    ///
    /// # Shapes
    /// `samples` `[O, S, D]`, `log_prob` `[O, S]`, `names` `[D]`.
    ///
    /// # Errors
    /// Lengths that do not fit. Rows of NaN are allowed: they stand for samples that were not
    /// found.
    pub fn new(
        observations: usize,
        per_observation: usize,
        names: Vec<String>,
        samples: Values,
        log_prob: Values,
    ) -> Result<Self, Error> {
        let rows = observations.saturating_mul(per_observation);
        for (what, actual, expected) in [
            ("samples", samples.len(), rows.saturating_mul(names.len())),
            ("log_prob", log_prob.len(), rows),
        ] {
            if actual != expected {
                return Err(Error::Length {
                    what: what.into(),
                    expected,
                    actual,
                });
            }
        }
        Ok(Self {
            observations,
            per_observation,
            names,
            samples,
            log_prob,
            extra: Vec::new(),
        })
    }

    /// Adds a number for each observation, such as the mass outside the bounds.
    ///
    /// Array files get one more array of shape `[O]`; a table gets one more column.
    ///
    /// # Errors
    /// A list that has not one entry per observation.
    pub fn with_per_observation(mut self, name: &str, values: Vec<f64>) -> Result<Self, Error> {
        if values.len() != self.observations {
            return Err(Error::Length {
                what: name.into(),
                expected: self.observations,
                actual: values.len(),
            });
        }
        self.extra.push((name.into(), Values::F64(values)));
        Ok(self)
    }

    /// Writes the file whole or not at all; an existing file is replaced.
    ///
    /// `.npz` and `.safetensors` hold the arrays `samples` [O, S, D] and `log_prob` [O, S] and the
    /// list `names` (text array or JSON metadata). `.csv` has the columns `observation`, the
    /// parameters, `log_prob`; its numbers are the shortest that read back to the same bits.
    ///
    /// # Errors
    /// An unknown ending, a file that cannot be written, names that a table cannot hold.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let rows = [self.observations, self.per_observation];
        let shape = [self.observations, self.per_observation, self.names.len()];
        let mut arrays: Vec<(&str, &[usize], &Values)> = vec![
            ("samples", &shape, &self.samples),
            ("log_prob", &rows, &self.log_prob),
        ];
        for (name, values) in &self.extra {
            arrays.push((name, &rows[..1], values));
        }
        let options = WriteOptions::default();
        let bytes = match ending(path).as_deref() {
            Some("npz") => npz_bytes(path, &arrays, &self.names)?,
            Some("safetensors") => safetensors_bytes(path, &arrays, &self.names)?,
            Some("csv") => {
                self.check_names()?;
                // A table is written as it is made: as text it is larger than the samples.
                return Ok(atomic_write(path, &options, |out| self.write_table(out))?);
            }
            _ => {
                return Err(Error::UnknownFormat {
                    path: path.into(),
                    expected: SAMPLE_FORMATS,
                });
            }
        };
        Ok(atomic_write(path, &options, |out| out.write_all(&bytes))?)
    }

    fn check_names(&self) -> Result<(), Error> {
        match self
            .names
            .iter()
            .find(|name| name.contains([',', '"', '\n', '\r']))
        {
            Some(name) => Err(Error::Name {
                name: name.clone(),
                problem: "not fit for a table: it has a comma, a quote or a line break",
            }),
            None => Ok(()),
        }
    }

    fn write_table(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write!(out, "observation")?;
        for name in &self.names {
            write!(out, ",{name}")?;
        }
        write!(out, ",log_prob")?;
        for (name, _) in &self.extra {
            write!(out, ",{name}")?;
        }
        writeln!(out)?;
        for row in 0..self.observations * self.per_observation {
            write!(out, "{}", row / self.per_observation)?;
            for column in 0..self.names.len() {
                write!(out, ",")?;
                write_number(out, &self.samples, row * self.names.len() + column)?;
            }
            write!(out, ",")?;
            write_number(out, &self.log_prob, row)?;
            for (_, values) in &self.extra {
                write!(out, ",")?;
                write_number(out, values, row / self.per_observation)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// The shortest text that reads back to the same value in its own precision.
fn write_number(out: &mut dyn Write, values: &Values, index: usize) -> std::io::Result<()> {
    match values {
        Values::F32(values) => write!(out, "{:?}", values[index]),
        Values::F64(values) => write!(out, "{:?}", values[index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(first: f64) -> PosteriorSamples {
        let values = Values::F64(vec![first, 2.0]);
        let log_prob = Values::F64(vec![0.0]);
        PosteriorSamples::new(1, 1, vec!["a".into(), "b".into()], values, log_prob).unwrap()
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["s.npz", "s.safetensors", "s.csv"] {
            let path = folder.path().join(name);
            samples(1.0).write(&path).unwrap();
            let before = std::fs::read(&path).unwrap();
            samples(3.0).write(&path).unwrap();
            assert_ne!(std::fs::read(&path).unwrap(), before);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["nowhere/a.npz", "nowhere/a.safetensors", "nowhere/a.csv"] {
            let error = samples(1.0).write(folder.path().join(name)).unwrap_err();
            assert!(matches!(error, Error::Write(_)), "{error:?}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
