//! `sample`: draws from the posteriors of one or many observations.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use dunnart_checkpoint::{DType, Element, Model};
use dunnart_data::{Observations, PosteriorSamples, SAMPLE_FORMATS, Values};
use dunnart_flow::Architecture;
use dunnart_flow::plan::Scalar;

use crate::failure::InFile;
use crate::output::{Progress, remark, say};
use crate::sampling::{Drawn, Posterior, Request};

/// Arguments of `sample`.
#[derive(Args)]
pub(crate) struct Sample {
    /// The trained network.
    #[arg(long)]
    checkpoint: PathBuf,
    /// Observations, a row each (.npz, .safetensors, .csv), in physical units; none for a network without
    /// context.
    #[arg(long)]
    observations: Option<PathBuf>,
    /// Name of the array of observations, where the file has several.
    #[arg(long)]
    array: Option<String>,
    /// Samples per observation.
    #[arg(long, value_parser = positive)]
    num_samples: usize,
    /// Where samples go (.npz, .safetensors, .csv); an existing file is replaced.
    #[arg(long)]
    out: PathBuf,
    /// Seed of the draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Draws in memory at a time; does not change the samples.
    #[arg(long, default_value = "16384", value_parser = positive)]
    chunk: usize,
    /// Computing threads; does not change the samples. Default: one a core.
    #[arg(long, value_parser = positive)]
    threads: Option<usize>,
    /// Compute in float64 even if the network was trained in float32.
    #[arg(long)]
    float64: bool,
    /// Keep only samples inside the parameters' bounds and correct log_prob for the cut.
    #[arg(long)]
    reject_outside: bool,
    /// Draws per observation after which rejection gives up. Default: 100 for each sample wanted.
    #[arg(long, requires = "reject_outside", value_parser = clap::value_parser!(u64).range(1..))]
    max_draws: Option<u64>,
    /// When rejection gives up, write what was found, missing rows as NaN.
    #[arg(long, requires = "reject_outside")]
    partial: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(0) => Err("expected a positive number".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

impl Sample {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.check_output()?;
        let model = Model::read(&self.checkpoint)?;
        let precision = model.check()?;
        let mut pool = rayon::ThreadPoolBuilder::new();
        if let Some(threads) = self.threads {
            pool = pool.num_threads(threads);
        }
        let pool = pool.build().context("cannot start the computing threads")?;
        pool.install(|| match precision {
            DType::F32 if !self.float64 => self.sample::<f32>(&model),
            _ => self.sample::<f64>(&model),
        })
    }

    /// Refuses what could only fail after all samples are drawn.
    fn check_output(&self) -> anyhow::Result<()> {
        let ending = self
            .out
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase());
        if !matches!(ending.as_deref(), Some("npz" | "safetensors" | "csv")) {
            bail!(
                "--out {}: expected one of {SAMPLE_FORMATS}",
                self.out.display()
            );
        }
        let folder = match self.out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            bail!(
                "--out {}: there is no folder {}",
                self.out.display(),
                folder.display()
            );
        }
        let out = std::fs::canonicalize(&self.out).ok();
        for input in [Some(&self.checkpoint), self.observations.as_ref()]
            .into_iter()
            .flatten()
        {
            if out.is_some() && out == std::fs::canonicalize(input).ok() {
                bail!("--out {}: is one of the inputs", self.out.display());
            }
        }
        Ok(())
    }

    fn sample<T: Scalar + Element>(&self, model: &Model) -> anyhow::Result<ExitCode> {
        let (architecture, posterior) = Posterior::<T>::new(model)
            .with_context(|| format!("{}: cannot be sampled", self.checkpoint.display()))?;
        let observations = self.read_observations(&architecture)?;
        if self.reject_outside && !posterior.has_bounds() {
            bail!(
                "--reject-outside: {} has no bounds for its parameters",
                self.checkpoint.display()
            );
        }
        if model.metadata.standardization.is_none() {
            remark("the checkpoint has no standardisation: values are taken as the network's own");
        }
        let count = self.num_samples;
        let request = Request {
            samples: count,
            seed: self.seed,
            chunk: self.chunk,
            reject_within: self
                .reject_outside
                .then(|| self.max_draws.unwrap_or((count as u64).saturating_mul(100))),
        };
        let mut progress = Progress::new("samples", (observations.len() * count) as u64);
        let mut drawn = Vec::with_capacity(observations.len());
        for (index, (observation, context_parameters)) in observations.iter().enumerate() {
            let add = &mut |n| progress.add(n);
            let one = posterior
                .sample(index, observation, context_parameters, &request, add)
                .with_context(|| format!("observation {index}"))?;
            drawn.push(one);
        }
        drop(progress);
        self.report(&drawn, posterior.has_bounds())?;
        self.write(model, drawn, posterior.has_bounds())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Each observation with its context parameters.
    fn read_observations(
        &self,
        architecture: &Architecture,
    ) -> anyhow::Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let columns = architecture.observation();
        let path = match (&self.observations, columns) {
            (None, 0) => return Ok(vec![(Vec::new(), Vec::new())]),
            (None, _) => bail!(
                "--observations is missing: the network expects {columns} values an observation"
            ),
            (Some(path), 0) => {
                bail!(
                    "--observations {}: the network has no context",
                    path.display()
                )
            }
            (Some(path), _) => path,
        };
        let observations =
            Observations::read(path, self.array.as_deref(), columns).in_file(path)?;
        let extra = architecture.context_parameters();
        let parameters = if extra == 0 {
            None
        } else {
            let read = Observations::read(path, Some("context_parameters"), extra);
            Some(read.in_file(path)?)
        };
        if let Some(parameters) = &parameters
            && parameters.rows() != observations.rows()
        {
            bail!(
                "--observations {}: {} observations, but context parameters for {}",
                path.display(),
                observations.rows(),
                parameters.rows()
            );
        }
        let row = |of: &Observations, row| of.row::<f64>(row).unwrap_or_default();
        Ok((0..observations.rows())
            .map(|i| {
                let extra = parameters.as_ref().map(|p| row(p, i)).unwrap_or_default();
                (row(&observations, i), extra)
            })
            .collect())
    }

    /// Says what lies outside the bounds, and refuses incomplete samples unless they are wanted.
    fn report(&self, drawn: &[Drawn], bounded: bool) -> anyhow::Result<()> {
        if !bounded {
            say("no bounds: the mass outside was not looked at");
            return Ok(());
        }
        let mut short = Vec::new();
        for (index, one) in drawn.iter().enumerate() {
            let mut line = format!(
                "observation {index}: mass outside {:.6}",
                one.mass_outside()
            );
            if self.reject_outside {
                let (correction, error) = one.density_correction();
                line += &format!(
                    ", {} of {} draws accepted, log_prob corrected by {correction:.6} +- {error:.6}",
                    one.inside, one.draws
                );
                if one.log_prob.len() < self.num_samples {
                    short.push(index);
                }
            }
            say(line);
        }
        if short.is_empty() {
            return Ok(());
        }
        let budget = drawn.iter().map(|one| one.draws).max().unwrap_or(0);
        let listed: Vec<_> = short.iter().take(10).map(usize::to_string).collect();
        let listed = format!(
            "{} of {} observations have fewer than {} samples inside the bounds after {budget} \
             draws (observations {}{})",
            short.len(),
            drawn.len(),
            self.num_samples,
            listed.join(", "),
            if short.len() > listed.len() {
                ", .."
            } else {
                ""
            }
        );
        if self.partial {
            remark(format!("warning: {listed}; missing rows are NaN"));
            return Ok(());
        }
        bail!(
            "{listed}; nothing was written\n  hint: raise --max-draws, take --partial, or sample \
             without --reject-outside"
        )
    }

    fn write(&self, model: &Model, drawn: Vec<Drawn>, bounded: bool) -> anyhow::Result<()> {
        let names = model.metadata.parameter_names();
        let observations = drawn.len();
        let mut arrays: Vec<(&str, Vec<f64>)> = Vec::new();
        if bounded {
            arrays.push((
                "mass_outside",
                drawn.iter().map(Drawn::mass_outside).collect(),
            ));
        }
        if self.reject_outside {
            let corrections = drawn.iter().map(Drawn::density_correction);
            let (values, errors) = corrections.unzip();
            arrays.push(("log_prob_correction", values));
            arrays.push(("log_prob_correction_standard_error", errors));
        }
        let (mut samples, mut log_prob) = (Vec::new(), Vec::new());
        for one in drawn {
            let found = one.log_prob.len();
            samples.extend(one.samples);
            log_prob.extend(one.log_prob);
            samples.resize(
                samples.len() + (self.num_samples - found) * names.len(),
                f64::NAN,
            );
            log_prob.resize(log_prob.len() + self.num_samples - found, f64::NAN);
        }
        let mut output = PosteriorSamples::new(
            observations,
            self.num_samples,
            names,
            Values::F64(samples),
            Values::F64(log_prob),
        )?;
        for (name, values) in arrays {
            output = output.with_per_observation(name, values)?;
        }
        output.write(&self.out)?;
        say(format!(
            "wrote {observations} x {} samples to {}",
            self.num_samples,
            self.out.display()
        ));
        Ok(())
    }
}
