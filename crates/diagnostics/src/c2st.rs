//! The classifier two-sample test.

use dunnart_random::{Key, Purpose};
use rayon::prelude::*;

use crate::classifier::{Classifier, Samples};
use crate::error::Error;

/// Folds of the cross-validation.
pub const FOLDS: usize = 5;

/// Two sample sets to be told apart, row by row.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a, T> {
    /// Samples of the reference posterior, `[rows, dimension]`.
    pub reference: &'a [T],
    /// Samples to be judged, `[rows, dimension]`.
    pub samples: &'a [T],
    /// Number of parameters.
    pub dimension: usize,
}

/// The outcome of one test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct C2st {
    /// Mean accuracy over the folds: 0.5 for equal distributions, 1 for separable ones.
    pub accuracy: f64,
    /// Accuracy on each held-out fold.
    pub folds: [f64; FOLDS],
}

/// The classifier two-sample test: how well a small network tells samples from reference samples.
///
/// Both sets are z-scored by the reference's mean and standard deviation (ddof 1), labelled 0 and
/// 1, shuffled and split into five folds; on each four folds a network with two hidden layers of
/// `10 D` ReLU units is trained by Adam to convergence, and its accuracy on the fifth is taken. The
/// folds run in parallel on the current rayon pool.
///
/// # Shapes
/// `reference` and `samples` [rows, D], equal in size; the published numbers use 2,500 rows.
///
/// # Numerics
/// The network runs in f32. The result depends on the samples and `seed` alone, not on threads.
/// Against the benchmark's own classifier: `tests/reference_pairs.rs` holds 0.02, and 0.08 where
/// that classifier itself scatters.
///
/// # Errors
/// Shapes that do not fit, fewer than five rows, non-finite values, a constant column of the
/// reference.
///
/// # Source
/// Lopez-Paz and Oquab, "Revisiting classifier two-sample tests", ICLR 2017; Lueckmann et al.,
/// "Benchmarking simulation-based inference", AISTATS 2021.
pub fn c2st<T: Copy + Into<f64> + Sync>(pair: Pair<'_, T>, seed: u64) -> Result<C2st, Error> {
    indexed(pair, seed, 0)
}

/// [`c2st`] of several pairs (one an observation), in parallel; pair `i` draws from its own
/// streams.
///
/// # Errors
/// The first pair's error, in order; see [`c2st`].
pub fn c2st_all<T: Copy + Into<f64> + Sync>(
    pairs: &[Pair<'_, T>],
    seed: u64,
) -> Result<Vec<C2st>, Error> {
    let results: Vec<_> = pairs
        .par_iter()
        .enumerate()
        .map(|(index, &pair)| indexed(pair, seed, index as u32))
        .collect();
    results.into_iter().collect()
}

fn indexed<T: Copy + Into<f64> + Sync>(
    pair: Pair<'_, T>,
    seed: u64,
    index: u32,
) -> Result<C2st, Error> {
    let samples = standardized(pair)?;
    // The stage names the pair; epoch 0 splits the folds, epoch f + 1 belongs to fold f.
    let key = Key::new(seed, Purpose::Classifier).stage(index);
    let count = samples.labels.len();
    let mut order: Vec<u32> = (0..count as u32).collect();
    key.stream(0).shuffle(&mut order);
    let accuracies: Vec<f64> = (0..FOLDS)
        .into_par_iter()
        .map(|fold| {
            // Sizes differ by one at most, the first folds being the larger ones.
            let start = fold * (count / FOLDS) + fold.min(count % FOLDS);
            let end = start + count / FOLDS + usize::from(fold < count % FOLDS);
            let training = [&order[..start], &order[end..]].concat();
            let key = key.epoch(fold as u32 + 1);
            let mut classifier = Classifier::new(pair.dimension, &mut key.stream(0));
            classifier.fit(&samples, training, &mut key.stream(1));
            classifier.accuracy(&samples, &order[start..end])
        })
        .collect();
    let mut folds = [0.0; FOLDS];
    folds.copy_from_slice(&accuracies);
    Ok(C2st {
        accuracy: folds.iter().sum::<f64>() / FOLDS as f64,
        folds,
    })
}

/// Checks the pair, z-scores it by the reference and lays it out feature by feature, reference rows
/// first.
fn standardized<T: Copy + Into<f64>>(pair: Pair<'_, T>) -> Result<Samples, Error> {
    let dimension = pair.dimension;
    let rows = rows_of("reference", pair.reference, dimension)?;
    let samples = rows_of("samples", pair.samples, dimension)?;
    if rows != samples {
        return Err(Error::Sizes {
            reference: rows,
            samples,
        });
    }
    if rows < FOLDS {
        return Err(Error::TooFew {
            rows,
            needed: FOLDS,
        });
    }
    check_finite("reference", pair.reference, dimension)?;
    check_finite("samples", pair.samples, dimension)?;
    let mut features = Vec::with_capacity(2 * rows * dimension);
    for column in 0..dimension {
        let values = |set: &'_ [T]| {
            set.iter()
                .skip(column)
                .step_by(dimension)
                .map(|&v| v.into())
                .collect()
        };
        let reference: Vec<f64> = values(pair.reference);
        let samples: Vec<f64> = values(pair.samples);
        let mean = reference.iter().sum::<f64>() / rows as f64;
        let squares: f64 = reference.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (rows - 1) as f64).sqrt();
        if reference.iter().all(|&value| value == reference[0]) {
            return Err(Error::ConstantColumn {
                column,
                value: reference[0],
            });
        }
        features.extend(
            reference
                .iter()
                .chain(&samples)
                .map(|value| ((value - mean) / deviation) as f32),
        );
    }
    let labels = (0..2 * rows)
        .map(|row| if row < rows { 0.0 } else { 1.0 })
        .collect();
    Ok(Samples { features, labels })
}

fn rows_of<T>(what: &'static str, set: &[T], dimension: usize) -> Result<usize, Error> {
    if dimension == 0 || !set.len().is_multiple_of(dimension) {
        return Err(Error::Shape {
            what,
            length: set.len(),
            dimension,
        });
    }
    Ok(set.len() / dimension)
}

fn check_finite<T: Copy + Into<f64>>(
    what: &'static str,
    set: &[T],
    dimension: usize,
) -> Result<(), Error> {
    let bad = |&(_, &value): &(usize, &T)| !value.into().is_finite();
    let Some((first, _)) = set.iter().enumerate().find(bad) else {
        return Ok(());
    };
    let count = set.iter().enumerate().filter(bad).count();
    Err(Error::NonFinite {
        what,
        count,
        row: first / dimension,
        column: first % dimension,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normals(stream: u64, shift: f64) -> Vec<f64> {
        let mut values = vec![0.0; 600];
        Key::new(3, Purpose::Benchmark)
            .stream(stream)
            .fill_normal(&mut values);
        values
            .iter_mut()
            .step_by(2)
            .for_each(|value| *value = 5.0 + 3.0 * (*value + shift));
        values
    }

    fn pair<'a>(reference: &'a [f64], samples: &'a [f64]) -> Pair<'a, f64> {
        Pair {
            reference,
            samples,
            dimension: 2,
        }
    }

    #[test]
    fn separable_and_equal_sets() {
        let reference = normals(0, 0.0);
        let far = c2st(pair(&reference, &normals(1, 20.0)), 1).unwrap();
        assert!(far.accuracy > 0.99, "{far:?}");
        let same = c2st(pair(&reference, &normals(1, 0.0)), 1).unwrap();
        // Five standard errors of 600 fair coins.
        assert!(
            (same.accuracy - 0.5).abs() < 5.0 * 0.5 / 600f64.sqrt(),
            "{same:?}"
        );
    }

    #[test]
    fn threads_and_company_do_not_matter() {
        let (reference, samples) = (normals(0, 0.0), normals(1, 1.0));
        let alone = c2st(pair(&reference, &samples), 7).unwrap();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        let one = pool
            .install(|| c2st(pair(&reference, &samples), 7))
            .unwrap();
        assert_eq!(alone, one);
        let other = normals(2, 0.0);
        let all = c2st_all(&[pair(&reference, &samples), pair(&reference, &other)], 7).unwrap();
        assert_eq!(all[0], alone);
        assert_ne!(c2st(pair(&reference, &samples), 8).unwrap(), alone);
    }

    #[test]
    fn units_do_not_matter() {
        let (reference, samples) = (normals(0, 0.0), normals(1, 0.5));
        let scale = |values: &[f64]| {
            values
                .iter()
                .map(|value| 1024.0 * value)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            c2st(pair(&reference, &samples), 7).unwrap(),
            c2st(pair(&scale(&reference), &scale(&samples)), 7).unwrap()
        );
    }

    #[test]
    fn refusals() {
        let good = normals(0, 0.0);
        let refuse = |reference: &[f64], samples: &[f64]| c2st(pair(reference, samples), 0);
        assert_eq!(
            refuse(&good, &good[1..]),
            Err(Error::Shape {
                what: "samples",
                length: 599,
                dimension: 2
            })
        );
        assert_eq!(
            refuse(&good, &good[2..]),
            Err(Error::Sizes {
                reference: 300,
                samples: 299
            })
        );
        assert_eq!(
            refuse(&good[..8], &good[..8]),
            Err(Error::TooFew { rows: 4, needed: 5 })
        );
        let mut bad = good.clone();
        bad[7] = f64::NAN;
        bad[20] = f64::INFINITY;
        assert_eq!(
            refuse(&good, &bad),
            Err(Error::NonFinite {
                what: "samples",
                count: 2,
                row: 3,
                column: 1
            })
        );
        let mut constant = good.clone();
        constant
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|value| *value = 0.1);
        assert_eq!(
            refuse(&constant, &good),
            Err(Error::ConstantColumn {
                column: 1,
                value: 0.1
            })
        );
        // No dimension at all is a shape, not a division by zero.
        assert!(
            c2st(
                Pair {
                    reference: &good,
                    samples: &good,
                    dimension: 0
                },
                0
            )
            .is_err()
        );
    }
}
