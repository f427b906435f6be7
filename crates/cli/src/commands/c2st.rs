//! `c2st`: how well a classifier tells samples from reference samples.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use dunnart_data::{Array, ArrayFile};
use dunnart_diagnostics::{Pair, c2st_all};
use serde_json::json;

use crate::failure::InFile;
use crate::output::say;

/// Arguments of `c2st`.
#[derive(Args)]
pub(crate) struct C2st {
    /// Samples to be judged (.npz, .safetensors): [rows, D] or [observations, rows, D].
    #[arg(long)]
    samples: PathBuf,
    /// Reference samples of the same shape.
    #[arg(long)]
    reference: PathBuf,
    /// Name of the array of samples. Default: `samples`, or the only array.
    #[arg(long)]
    samples_array: Option<String>,
    /// Name of the array of reference samples. Default: `reference_posterior`,
    /// `samples`, or the only array.
    #[arg(long)]
    reference_array: Option<String>,
    /// Rows of each set that are used, from the first.
    #[arg(long, default_value_t = 2500)]
    rows: usize,
    /// Seed of the classifier.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Exit with 1 where the mean accuracy is above this.
    #[arg(long)]
    at_most: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Sample sets of one or many observations.
struct Sets {
    observations: usize,
    rows: usize,
    dimension: usize,
    values: Vec<f64>,
}

impl Sets {
    fn read(path: &Path, array: Option<&str>, usual: &[&str]) -> anyhow::Result<Self> {
        let mut file = ArrayFile::open(path)?;
        let names = file.names();
        let name = match (array, &names[..]) {
            (Some(name), _) => name.to_string(),
            (None, [only]) => only.clone(),
            (None, _) => {
                let found = usual.iter().find(|usual| file.contains(usual));
                let Some(found) = found else {
                    bail!(
                        "{}: expected an array called {}, the file has {}",
                        path.display(),
                        usual.join(" or "),
                        names.join(", ")
                    );
                };
                (*found).into()
            }
        };
        let array = file.read(&name).in_file(path)?;
        Self::new(path, &name, array)
    }

    fn new(path: &Path, name: &str, array: Array) -> anyhow::Result<Self> {
        let (observations, rows, dimension) = match array.shape[..] {
            [rows, dimension] => (1, rows, dimension),
            [observations, rows, dimension] => (observations, rows, dimension),
            _ => bail!(
                "{}: array `{name}`: expected shape [rows, D] or [observations, rows, D], got {:?}",
                path.display(),
                array.shape
            ),
        };
        Ok(Self {
            observations,
            rows,
            dimension,
            values: array.values.to_vec(),
        })
    }

    /// The first rows of one observation.
    fn first(&self, observation: usize, rows: usize) -> &[f64] {
        &self.values[observation * self.rows * self.dimension..][..rows * self.dimension]
    }
}

impl C2st {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let samples = Sets::read(&self.samples, self.samples_array.as_deref(), &["samples"])?;
        let usual = ["reference_posterior", "samples"];
        let reference = Sets::read(&self.reference, self.reference_array.as_deref(), &usual)?;
        let shape = |sets: &Sets| (sets.observations, sets.dimension);
        if shape(&samples) != shape(&reference) {
            bail!(
                "{} has {} observations of {} parameters, {} has {} of {}",
                self.samples.display(),
                samples.observations,
                samples.dimension,
                self.reference.display(),
                reference.observations,
                reference.dimension
            );
        }
        let rows = self.rows.min(samples.rows).min(reference.rows);
        let pairs: Vec<_> = (0..samples.observations)
            .map(|observation| Pair {
                reference: reference.first(observation, rows),
                samples: samples.first(observation, rows),
                dimension: samples.dimension,
            })
            .collect();
        if pairs.is_empty() {
            bail!("{}: there are no observations", self.samples.display());
        }
        let results = c2st_all(&pairs, self.seed)?;
        let accuracies: Vec<f64> = results.iter().map(|result| result.accuracy).collect();
        let mean = accuracies.iter().sum::<f64>() / accuracies.len() as f64;
        if self.json {
            say(json!({"rows": rows, "c2st": accuracies, "mean": mean}).to_string());
        } else {
            for (observation, accuracy) in accuracies.iter().enumerate() {
                say(format!(
                    "observation {observation}: C2ST {accuracy:.4} ({rows} rows)"
                ));
            }
            say(format!("mean C2ST: {mean:.4}"));
        }
        match self.at_most {
            Some(bound) if mean > bound => {
                say(format!("mean C2ST {mean:.4} is above {bound}"));
                Ok(ExitCode::from(1))
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}
