//! Posterior samples to be written.

use std::io::Write;
use std::path::Path;

use crate::array::Values;
use crate::atomic::write_atomically;
use crate::error::Error;
use crate::file::{ending, write_npz, write_safetensors};

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
        match ending(path).as_deref() {
            Some("npz") => {
                write_atomically(path, |file| write_npz(path, file, &arrays, &self.names))
            }
            Some("safetensors") => write_atomically(path, |file| {
                write_safetensors(path, file, &arrays, &self.names)
            }),
            Some("csv") => {
                self.check_names()?;
                write_atomically(path, |file| {
                    self.write_table(file)
                        .map_err(|error| Error::io(path, error))
                })
            }
            _ => Err(Error::UnknownFormat {
                path: path.into(),
                expected: SAMPLE_FORMATS,
            }),
        }
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

    fn write_table(&self, file: &mut std::fs::File) -> std::io::Result<()> {
        let mut out = std::io::BufWriter::new(file);
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
                write_number(&mut out, &self.samples, row * self.names.len() + column)?;
            }
            write!(out, ",")?;
            write_number(&mut out, &self.log_prob, row)?;
            for (_, values) in &self.extra {
                write!(out, ",")?;
                write_number(&mut out, values, row / self.per_observation)?;
            }
            writeln!(out)?;
        }
        out.flush()
    }
}

/// The shortest text that reads back to the same value in its own precision.
fn write_number(out: &mut impl Write, values: &Values, index: usize) -> std::io::Result<()> {
    match values {
        Values::F32(values) => write!(out, "{:?}", values[index]),
        Values::F64(values) => write!(out, "{:?}", values[index]),
    }
}
