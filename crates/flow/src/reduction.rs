//! Sums over the rows of a batch, and how batch norm joins them over workers.
//!
//! A batch may be split over workers, each holding some of its rows. Batch norm is the one layer
//! whose rows meet: its forward needs mean and variance of all rows, its backward two sums over all
//! rows. Both go through [`BatchReduction`]; every form of the network uses the same trait, and a
//! single worker uses [`LocalReduction`].
//!
//! Deliberately not here: how workers talk to each other, and the reduction of parameter gradients.

use std::fmt::Debug;

use crate::{Error, Result};

/// Number of rows, mean and sum of squared deviations from the mean, for each feature.
///
/// # Numerics
/// Always f64, whatever the network's precision. Sums of squares are never formed: they lose every
/// digit where the mean is large against the spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Rows B the moments are of.
    pub rows: u64,
    /// Mean of each feature, `[H]`.
    pub mean: Vec<f64>,
    /// Sum over the rows of the squared deviation from the mean, `[H]`.
    pub deviations: Vec<f64>,
}

impl Moments {
    /// Moments of no rows at all.
    pub fn none(features: usize) -> Self {
        Self {
            rows: 0,
            mean: vec![0.0; features],
            deviations: vec![0.0; features],
        }
    }

    /// Adds the moments of other rows.
    ///
    /// With n = n1 + n2 and d = mean2 - mean1: `mean = mean1 + d n2 / n`,
    /// `deviations = deviations1 + deviations2 + d^2 n1 n2 / n`.
    ///
    /// # Errors
    /// [`Error::Length`] when the numbers of features differ.
    ///
    /// # Source
    /// Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    /// variances", 1979.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        for (name, found) in [
            ("means to merge", other.mean.len()),
            ("deviations to merge", other.deviations.len()),
        ] {
            if found != self.mean.len() {
                return Err(Error::Length {
                    name: name.into(),
                    expected: self.mean.len(),
                    found,
                });
            }
        }
        let rows = self.rows + other.rows;
        if other.rows == 0 {
            return Ok(());
        }
        let (n1, n2) = (self.rows as f64, other.rows as f64);
        let share = n2 / rows as f64;
        for (feature, mean) in self.mean.iter_mut().enumerate() {
            let difference = other.mean[feature] - *mean;
            *mean += difference * share;
            self.deviations[feature] +=
                other.deviations[feature] + difference * difference * n1 * share;
        }
        self.rows = rows;
        Ok(())
    }
}

/// Joins batch norm's sums over the workers that share a batch.
///
/// All workers call the same methods in the same order, once for each batch norm and pass. An
/// implementation joins the contributions in the order of the workers, so that every worker gets
/// the same bits.
pub trait BatchReduction: Debug + Send + Sync {
    /// Whether this worker holds all rows; both methods then leave their arguments alone, and a
    /// caller may leave them out.
    fn is_local(&self) -> bool;

    /// Replaces the moments of this worker's rows by those of all rows.
    ///
    /// # Errors
    /// [`Error::Reduction`] when another worker cannot be reached or disagrees on the sizes.
    fn moments(&self, moments: &mut Moments) -> Result<()>;

    /// Replaces this worker's sums over rows by the sums over all rows, element by element.
    ///
    /// In the backward direction of batch norm `y = weight xhat + bias` with upstream gradient g the
    /// slice is `[sum g | sum g xhat]`, `[2H]`. Only the gradient of the layer's input needs the
    /// global sums; the gradients of weight and bias are local sums, joined later with all other
    /// parameter gradients.
    ///
    /// # Errors
    /// [`Error::Reduction`] when another worker cannot be reached or disagrees on the sizes.
    fn sums(&self, sums: &mut [f64]) -> Result<()>;
}

/// The reduction of a single worker: its rows are all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalReduction;

impl BatchReduction for LocalReduction {
    fn is_local(&self) -> bool {
        true
    }

    fn moments(&self, _: &mut Moments) -> Result<()> {
        Ok(())
    }

    fn sums(&self, _: &mut [f64]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two passes over `rows` of one feature.
    fn moments(rows: &[f64]) -> Moments {
        let mean = rows.iter().sum::<f64>() / rows.len() as f64;
        let deviations = rows.iter().map(|x| (x - mean) * (x - mean)).sum();
        Moments {
            rows: rows.len() as u64,
            mean: vec![mean],
            deviations: vec![deviations],
        }
    }

    #[test]
    fn merged_moments_are_those_of_all_rows_however_large_the_mean() {
        let offset = 1e8;
        let rows: Vec<f64> = (0..101).map(|i| offset + f64::from(i * i % 37)).collect();
        let mut merged = Moments::none(1);
        for part in [&rows[..1], &rows[1..60], &rows[60..60], &rows[60..]] {
            let part = if part.is_empty() {
                Moments::none(1)
            } else {
                moments(part)
            };
            merged.merge(&part).unwrap();
        }
        let whole = moments(&rows);
        assert_eq!(merged.rows, 101);
        assert!((merged.mean[0] - whole.mean[0]).abs() <= 1e-7);
        let relative = (merged.deviations[0] / whole.deviations[0] - 1.0).abs();
        assert!(
            relative < 1e-9,
            "{} against {}",
            merged.deviations[0],
            whole.deviations[0]
        );
    }

    #[test]
    fn moments_of_other_features_are_refused() {
        let error = Moments::none(2).merge(&Moments::none(3)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "means to merge: expected 2 elements, got 3"
        );
    }

    #[test]
    fn a_single_worker_keeps_its_sums() {
        let mut own = moments(&[1.0, 2.0, 4.0]);
        let before = own.clone();
        LocalReduction.moments(&mut own).unwrap();
        assert_eq!(own, before);
        let mut sums = [1.0, 2.0];
        LocalReduction.sums(&mut sums).unwrap();
        assert_eq!(sums, [1.0, 2.0]);
        assert!(LocalReduction.is_local());
    }
}
