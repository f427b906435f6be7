//! How good the trained posterior is: the classifier two-sample test against reference samples.

#![allow(clippy::print_stdout, reason = "this is where training speaks")]

use anyhow::{Context, Result, bail};
use dunnart_checkpoint::Model;
use dunnart_data::ArrayFile;
use dunnart_diagnostics::{Pair, c2st_all};
use dunnart_train::RunFolder;
use dunnart_train::settings::DataSettings;
use serde_json::json;

use super::setup::{Setup, write_text};
use crate::sampling::{Posterior, Request};

/// Draws for one sample inside the bounds, on average, after which an observation is given up.
const BUDGET: u64 = 20;

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
    let seed = setup.found.local.seed;
    let (_, posterior) = Posterior::<f32>::new(&Model::read(&folder.best())?)?;
    let budget = BUDGET * rows as u64;
    let request = Request {
        samples: rows,
        seed,
        chunk: rows,
        reject_within: posterior.has_bounds().then_some(budget),
    };
    let observed = observed.values.to_vec::<f64>();
    let reference = reference.values.to_vec::<f32>();
    let mut samples = Vec::with_capacity(reference.len());
    let mut outside = Vec::with_capacity(count);
    for (index, observation) in observed.chunks_exact(columns).enumerate() {
        let drawn = posterior
            .sample(index, observation, &[], &request, &mut |_| {})
            .with_context(|| format!("observation {index}"))?;
        if drawn.log_prob.len() < rows {
            bail!(
                "observation {index}: only {} of {} samples are inside the bounds; the network has not learnt them",
                drawn.inside,
                drawn.draws
            );
        }
        outside.push(drawn.mass_outside());
        samples.extend(drawn.samples.iter().map(|&value| value as f32));
    }
    let block = rows * d;
    let pairs: Vec<Pair<'_, f32>> = (0..count)
        .map(|i| Pair {
            reference: &reference[i * block..][..block],
            samples: &samples[i * block..][..block],
            dimension: d,
        })
        .collect();
    let results = c2st_all(&pairs, seed)?;
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
