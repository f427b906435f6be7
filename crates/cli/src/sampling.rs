//! Posterior samples of a checkpoint's network, in physical units, with their density.
//!
//! Draw `n` of observation `o` comes from stream `n` of the sampling key at stage `o`, so samples depend
//! neither on the size of a chunk nor on the number of threads, and the draws that rejection keeps are
//! draws that plain sampling returns too.

use anyhow::Context;
use dunnart_checkpoint::{Element, Metadata, Model, Rounding};
use dunnart_data::{Bounds, Standardization};
use dunnart_flow::Architecture;
use dunnart_flow::plan::{Sampler, Scalar};
use dunnart_random::{Key, Purpose};
use rayon::prelude::*;

/// A network that can be sampled.
pub(crate) struct Posterior<T> {
    sampler: Sampler<T>,
    scales: Scales,
    bounds: Option<Bounds>,
}

/// How physical values become the network's and back.
struct Scales {
    theta: Option<Standardization>,
    observation: Option<Standardization>,
    context_parameters: Option<Standardization>,
}

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Samples per observation.
    pub(crate) samples: usize,
    /// Seed of all draws.
    pub(crate) seed: u64,
    /// Draws in memory at a time.
    pub(crate) chunk: usize,
    /// Draws per observation after which rejection gives up; none: nothing is rejected.
    pub(crate) reject_within: Option<u64>,
}

/// Samples of one observation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drawn {
    /// Samples, `[S, D]`, in physical units.
    pub(crate) samples: Vec<f64>,
    /// Their log-density in physical units, `[S]`.
    pub(crate) log_prob: Vec<f64>,
    /// Draws made.
    pub(crate) draws: u64,
    /// Draws inside the bounds; all of them where there are none.
    pub(crate) inside: u64,
}

impl Drawn {
    /// Share of the draws outside the bounds.
    pub(crate) fn mass_outside(&self) -> f64 {
        (self.draws - self.inside) as f64 / self.draws as f64
    }

    /// What the cut at the bounds adds to log_prob, `-ln a` for acceptance `a`, with its standard error
    /// `sqrt((1 - a) / accepted)`; infinite where nothing was accepted.
    pub(crate) fn density_correction(&self) -> (f64, f64) {
        let acceptance = self.inside as f64 / self.draws as f64;
        (
            -acceptance.ln(),
            ((1.0 - acceptance) / self.inside as f64).sqrt(),
        )
    }
}

/// Bounds of the parameters; none where no parameter has any.
pub(crate) fn bounds(metadata: &Metadata) -> anyhow::Result<Option<Bounds>> {
    let parameters = &metadata.parameters;
    if parameters
        .iter()
        .all(|p| p.lower.is_none() && p.upper.is_none())
    {
        return Ok(None);
    }
    let low = parameters
        .iter()
        .map(|p| p.lower.unwrap_or(f64::NEG_INFINITY))
        .collect();
    let high = parameters
        .iter()
        .map(|p| p.upper.unwrap_or(f64::INFINITY))
        .collect();
    Ok(Some(Bounds::new(metadata.parameter_names(), low, high)?))
}

impl Scales {
    fn new(metadata: &Metadata) -> anyhow::Result<Self> {
        let scale = |what: &str, scale: &dunnart_checkpoint::Scale| {
            let names = (0..scale.mean.len())
                .map(|i| format!("{what}[{i}]"))
                .collect();
            Standardization::new(scale.mean.clone(), scale.std.clone(), names)
        };
        let Some(all) = &metadata.standardization else {
            return Ok(Self {
                theta: None,
                observation: None,
                context_parameters: None,
            });
        };
        let optional = |what: &str, s: &Option<dunnart_checkpoint::Scale>| {
            s.as_ref().map(|s| scale(what, s)).transpose()
        };
        Ok(Self {
            theta: Some(scale("theta", &all.theta)?),
            observation: optional("observation", &all.observation)?,
            context_parameters: optional("context_parameters", &all.context_parameters)?,
        })
    }
}

impl<T: Scalar + Element> Posterior<T> {
    /// Rebuilds the network of a checkpoint.
    pub(crate) fn new(model: &Model) -> anyhow::Result<(Architecture, Self)> {
        let network = model.network::<T>(Rounding::Refuse)?;
        let sampler = Sampler::new(&network.architecture, &network.layout, &network.state)?;
        let scales = Scales::new(&model.metadata)?;
        let bounds = bounds(&model.metadata)?;
        Ok((
            network.architecture,
            Self {
                sampler,
                scales,
                bounds,
            },
        ))
    }

    /// Whether any parameter has bounds.
    pub(crate) fn has_bounds(&self) -> bool {
        self.bounds.is_some()
    }

    /// Draws from the posterior of observation number `index`, given in physical units.
    ///
    /// With rejection, only draws inside the bounds are returned, and `log_prob` is corrected by the
    /// acceptance; there are fewer than asked for where the budget ran out.
    pub(crate) fn sample(
        &self,
        index: usize,
        observation: &[f64],
        context_parameters: &[f64],
        request: &Request,
        progress: &mut dyn FnMut(u64),
    ) -> anyhow::Result<Drawn> {
        let observation = standardized(observation, self.scales.observation.as_ref());
        let context_parameters =
            standardized(context_parameters, self.scales.context_parameters.as_ref());
        let context = self.sampler.embed(&observation, &context_parameters)?;
        let prepared = self.sampler.prepare(&context)?;
        let stage = u32::try_from(index).context("there are more observations than keys")?;
        let key = Key::new(request.seed, Purpose::Sampling).stage(stage);
        let d = self.sampler.parameters();
        let budget = request.reject_within.unwrap_or(request.samples as u64);
        let mut drawn = Drawn::default();
        let mut wanted = request.samples;
        while wanted > 0 && drawn.draws < budget {
            let rows = (budget - drawn.draws).min(request.chunk as u64) as usize;
            let (theta, log_prob) = self.draw(&prepared, &key, drawn.draws, rows)?;
            let before = wanted;
            for (theta, &log_prob) in theta.chunks_exact(d).zip(&log_prob) {
                drawn.draws += 1;
                let inside = self.bounds.as_ref().is_none_or(|b| b.contains(theta));
                drawn.inside += u64::from(inside);
                if inside || request.reject_within.is_none() {
                    drawn.samples.extend_from_slice(theta);
                    drawn.log_prob.push(log_prob);
                    wanted -= 1;
                    // The rest of the chunk must not count, or the acceptance depended on its size.
                    if wanted == 0 {
                        break;
                    }
                }
            }
            progress((before - wanted) as u64);
        }
        if request.reject_within.is_some() {
            let (correction, _) = drawn.density_correction();
            drawn
                .log_prob
                .iter_mut()
                .for_each(|value| *value += correction);
        }
        Ok(drawn)
    }

    /// Draws number `first` to `first + rows` in physical units.
    fn draw(
        &self,
        prepared: &dunnart_flow::plan::Prepared<'_, T>,
        key: &Key,
        first: u64,
        rows: usize,
    ) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
        let d = self.sampler.parameters();
        let mut noise = vec![T::ZERO; rows * d];
        noise
            .par_chunks_mut(d)
            .enumerate()
            .for_each(|(row, noise)| {
                let mut stream = key.stream(first + row as u64);
                noise
                    .iter_mut()
                    .for_each(|value| *value = T::from_f64(stream.normal()));
            });
        let (mut theta, mut log_prob) = (vec![T::ZERO; rows * d], vec![T::ZERO; rows]);
        prepared.inverse(&noise, &mut theta, &mut log_prob)?;
        let mut theta: Vec<f64> = theta.iter().map(|v| v.to_f64()).collect();
        let mut log_prob: Vec<f64> = log_prob.iter().map(|v| v.to_f64()).collect();
        if let Some(scale) = &self.scales.theta {
            scale.invert(&mut theta);
            log_prob
                .iter_mut()
                .for_each(|value| *value += scale.log_det());
        }
        let bad = |row: &usize| {
            !log_prob[*row].is_finite() || !theta[row * d..][..d].iter().all(|v| v.is_finite())
        };
        if let Some(row) = (0..rows).find(bad) {
            anyhow::bail!(
                "draw {} is not finite: log_prob {}, parameters {:?}",
                first + row as u64,
                log_prob[row],
                &theta[row * d..][..d]
            );
        }
        Ok((theta, log_prob))
    }
}

fn standardized<T: Scalar>(values: &[f64], scale: Option<&Standardization>) -> Vec<T> {
    let mut values = values.to_vec();
    if let Some(scale) = scale {
        scale.apply(&mut values);
    }
    values.into_iter().map(T::from_f64).collect()
}
