//! How good the trained posterior is: the classifier two-sample test against reference samples.

#![allow(clippy::print_stdout, reason = "this is where training speaks")]

use anyhow::{Context, Result, bail};
use dunnart_checkpoint::{Model, Rounding};
use dunnart_data::{ArrayFile, Bounds, Standardization};
use dunnart_diagnostics::{Pair, c2st_all};
use dunnart_flow::Batch;
use dunnart_flow::eager::{EagerBatch, EagerNetwork, EagerStorage, SplinePath};
use dunnart_random::{Key, Purpose};
use dunnart_train::RunFolder;
use dunnart_train::settings::DataSettings;
use serde_json::json;
use tch::Device;

use super::setup::{Setup, write_text};

/// Draws for one sample inside the bounds, on average, after which an observation is given up.
const BUDGET: usize = 20;

/// Samples the best network for every reference observation and prints how well a classifier tells
/// them from the reference samples; nothing where the settings name no reference.
pub(super) fn report(folder: &RunFolder, setup: &Setup) -> Result<()> {
    let DataSettings::Simulations(data) = &setup.found.data else {
        return Ok(());
    };
    let Some(path) = &data.reference else {
        return Ok(());
    };
    let mut file = ArrayFile::open(path)?;
    let observed = file.read("observation")?;
    let reference = file.read("reference_posterior")?;
    let d = setup.architecture.parameters();
    let columns = setup.source.set().observation_names().len();
    let (count, rows) = match (&observed.shape[..], &reference.shape[..]) {
        (&[count, c], &[count_too, rows, d_too])
            if count == count_too && c == columns && d_too == d =>
        {
            (count, rows)
        }
        (found, found_too) => bail!(
            "{}: expected `observation` [O, {columns}] and `reference_posterior` [O, S, {d}], got {found:?} and {found_too:?}",
            path.display()
        ),
    };
    let model = Model::read(&folder.best())?;
    let network = model.network::<f32>(Rounding::Refuse)?;
    let storage = EagerStorage::from_state(&network.layout, &network.state, Device::Cpu)?;
    let eager = EagerNetwork::new(&network.architecture, &network.layout, SplinePath::Fused)?;
    let sampler = Sampler {
        evaluation: eager.evaluation(&storage)?,
        setup,
        seed: setup.found.local.seed,
    };
    let observed = observed.values.to_vec::<f32>();
    let reference = reference.values.to_vec::<f32>();
    let mut samples = Vec::with_capacity(reference.len());
    let mut outside = Vec::with_capacity(count);
    for (index, observation) in observed.chunks_exact(columns).enumerate() {
        let (drawn, share) = sampler
            .draw(index, observation, rows)
            .with_context(|| format!("observation {index}"))?;
        samples.extend(drawn);
        outside.push(share);
    }
    let block = rows * d;
    let pairs: Vec<Pair<'_, f32>> = (0..count)
        .map(|i| Pair {
            reference: &reference[i * block..][..block],
            samples: &samples[i * block..][..block],
            dimension: d,
        })
        .collect();
    let results = c2st_all(&pairs, setup.found.local.seed)?;
    for (index, (result, outside)) in results.iter().zip(&outside).enumerate() {
        println!(
            "observation {index}: C2ST {:.3}, {:.2} % of the samples were outside the bounds",
            result.accuracy,
            100.0 * outside
        );
    }
    let accuracies: Vec<f64> = results.iter().map(|result| result.accuracy).collect();
    let mean = accuracies.iter().sum::<f64>() / count as f64;
    let text = serde_json::to_string_pretty(&json!({
        "model": folder.best().file_name().map(|name| name.to_string_lossy()),
        "samples_per_observation": rows,
        "c2st": accuracies,
        "outside_bounds": outside,
        "mean_c2st": mean,
    }))?;
    write_text(&folder.path().join("report.json"), &(text + "\n"))?;
    println!("mean C2ST: {mean:.3}");
    Ok(())
}

struct Sampler<'a> {
    evaluation: dunnart_flow::eager::Evaluation,
    setup: &'a Setup,
    seed: u64,
}

impl Sampler<'_> {
    /// `rows` samples of one observation, inside the bounds where there are any, and the share of
    /// the draws that was outside.
    fn draw(&self, index: usize, observation: &[f32], rows: usize) -> Result<(Vec<f32>, f64)> {
        let d = self.setup.architecture.parameters();
        let bounds: Option<&Bounds> = self.setup.source.set().bounds();
        let theta_scale: &Standardization = self.setup.source.parameters();
        let mut context = observation.to_vec();
        self.setup.source.observations().apply(&mut context);
        let mut stream = Key::new(self.seed, Purpose::Sampling).stream(index as u64);
        let mut kept = Vec::with_capacity(rows * d);
        let (mut drawn, mut inside) = (0, 0);
        while kept.len() < rows * d {
            if drawn >= BUDGET * rows {
                bail!(
                    "only {inside} of {drawn} samples are inside the bounds; the network has not learnt them"
                );
            }
            let mut theta = self.inverse(&context, &mut stream, rows)?;
            theta_scale.invert(&mut theta);
            for row in theta.chunks_exact(d) {
                drawn += 1;
                if bounds.is_none_or(|bounds| bounds.contains(row)) {
                    inside += 1;
                    kept.extend_from_slice(row);
                }
            }
        }
        kept.truncate(rows * d);
        Ok((kept, 1.0 - inside as f64 / drawn as f64))
    }

    /// Standardised parameters of `rows` draws of base noise.
    fn inverse(
        &self,
        context: &[f32],
        stream: &mut dunnart_random::Stream,
        rows: usize,
    ) -> Result<Vec<f32>> {
        let d = self.setup.architecture.parameters();
        let mut noise = vec![0.0_f32; rows * d];
        stream.fill_normal_f32(&mut noise);
        // The parameters of this batch are not looked at, only its context is.
        let batch = Batch {
            theta: &vec![0.0; rows * d],
            observation: &context.repeat(rows),
            context_parameters: &[],
            samples: &[],
        };
        let batch = EagerBatch::new(&self.setup.architecture, &batch, Device::Cpu)?;
        let context = self.evaluation.embed(&batch)?;
        let noise = dunnart_torch_shim::tensor_from_vec(noise, &[rows as i64, d as i64])?;
        let (theta, _) = self.evaluation.sample(&noise, context.as_ref())?;
        let theta = theta.contiguous();
        Ok(dunnart_torch_shim::as_slice::<f32>(&theta)?.to_vec())
    }
}
