//! Means and standard deviations of what the network sees.

use super::Waveforms;
use super::chain::{Chain, SampleDraws};
use super::columns::{Column, Columns};
use crate::pipeline::{Draw, Extrinsic};
use crate::{Moments, Result, Standardization};

/// Waveforms that are pushed through the first three steps for derived parameters, at most.
const SAMPLES: usize = 100_000;

/// Whose draws they get: no training has this stage.
const DRAW: Draw = Draw {
    seed: 0,
    stage: u32::MAX,
    epoch: 0,
};

/// The statistics of every column.
///
/// Intrinsic parameters: mean and sample standard deviation over the whole data set. Drawn parameters: the
/// prior's moments, also where proxies make the time a relative one. Derived parameters: mean and population
/// standard deviation over up to 100,000 waveforms with draws of a fixed key.
pub(super) fn compute(
    chain: &Chain,
    columns: &Columns,
    waveforms: &dyn Waveforms,
) -> Result<Standardization> {
    let derived = |column: &Column| !matches!(column, Column::Intrinsic(_) | Column::Extrinsic(_));
    let draws: Vec<SampleDraws> = if columns.columns().iter().any(derived) {
        let samples = waveforms.rows().min(SAMPLES) as u64;
        (0..samples)
            .map(|sample| chain.draw(DRAW, sample, None))
            .collect()
    } else {
        Vec::new()
    };
    let entries = columns
        .names()
        .zip(columns.columns())
        .map(|(name, column)| {
            let moments = match column {
                Column::Intrinsic(place) => Moments::of_column(waveforms.parameter(*place)),
                Column::Extrinsic(place) => {
                    let prior = chain.priors().prior(Extrinsic::NAMES[*place]);
                    // Every drawn parameter has a prior.
                    prior.map_or(
                        Moments {
                            mean: 0.0,
                            std: f64::NAN,
                        },
                        |prior| prior.moments(),
                    )
                }
                derived => {
                    let values = draws.iter().map(|drawn| derived.value(drawn, |_| f32::NAN));
                    Moments::of(&values.collect::<Vec<_>>())
                }
            };
            (name.clone(), moments)
        });
    // A name that is inferred and conditioned on has one entry.
    let mut unique: Vec<(String, Moments)> = Vec::new();
    for entry in entries {
        if unique.iter().all(|(name, _)| *name != entry.0) {
            unique.push(entry);
        }
    }
    Standardization::new(unique)
}
