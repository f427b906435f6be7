//! Noise spectra in the form in which training uses them.

use crate::pipeline::{ASD_SCALE, Draw, Grid, choose_asd};
use crate::{Error, Result};

/// `1 / (asd 1e23)` over the kept bins, for every spectrum of every detector.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseSpectra {
    detectors: Vec<String>,
    inverse: Vec<Vec<f32>>,
    kept: usize,
    counts: Vec<usize>,
}

impl NoiseSpectra {
    /// No spectra yet, for a grid.
    pub fn new(grid: &Grid) -> Self {
        Self {
            detectors: Vec::new(),
            inverse: Vec::new(),
            kept: grid.kept(),
            counts: Vec::new(),
        }
    }

    /// Adds a detector with its amplitude spectral densities.
    ///
    /// # Shapes
    /// `asds` is `[spectra, bins]` with all bins of `grid`.
    ///
    /// # Units
    /// 1 / sqrt(Hz).
    ///
    /// # Errors
    /// [`Error::Data`] when there is no spectrum, the shape is another, or a value that reaches the network is
    /// not finite and positive.
    pub fn push(&mut self, detector: &str, asds: &[f32], grid: &Grid) -> Result<()> {
        let wrong = |expected: String, actual: String| {
            Err(Error::Data {
                what: format!("noise spectra of {detector}"),
                expected,
                actual,
            })
        };
        let bins = grid.bins();
        if asds.is_empty() || !asds.len().is_multiple_of(bins) || grid.kept() != self.kept {
            return wrong(
                format!("at least one, of {bins} bins each"),
                format!("{} numbers", asds.len()),
            );
        }
        let mut inverse = Vec::with_capacity(asds.len() / bins * self.kept);
        for (row, asd) in asds.chunks_exact(bins).enumerate() {
            for (bin, &value) in asd.iter().enumerate().skip(grid.first()) {
                let number = (1.0 / (f64::from(value) * ASD_SCALE)) as f32;
                // A subnormal inverse would lose digits, an infinite one is no number.
                if !(value > 0.0 && number.is_normal()) {
                    return wrong(
                        "positive numbers of the order of 1e-23".into(),
                        format!("{value} in spectrum {row}, bin {bin}"),
                    );
                }
                inverse.push(number);
            }
        }
        self.counts.push(inverse.len() / self.kept);
        self.detectors.push(detector.to_owned());
        self.inverse.push(inverse);
        Ok(())
    }

    /// Whether these are the spectra of those detectors, in that order, over as many bins.
    pub(super) fn check(&self, detectors: &[String], kept: usize) -> Result<()> {
        if self.detectors == detectors && self.kept == kept {
            return Ok(());
        }
        Err(Error::Data {
            what: "noise spectra".into(),
            expected: format!("{} over {kept} bins", detectors.join(", ")),
            actual: format!("{} over {} bins", self.detectors.join(", "), self.kept),
        })
    }

    /// The spectra of a sample, one per detector.
    pub(super) fn choose(&self, draw: Draw, sample: u64) -> impl Iterator<Item = &[f32]> {
        let choice = choose_asd(draw, sample, &self.counts);
        let rows = self.inverse.iter().zip(choice);
        rows.map(|(rows, row)| &rows[row * self.kept..(row + 1) * self.kept])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spectra_are_inverted_over_the_kept_bins() {
        let grid = Grid::uniform(1.0, 3, 1).unwrap();
        let mut spectra = NoiseSpectra::new(&grid);
        spectra
            .push("H1", &[1.0, 2e-23, 4e-23, 1.0, 1e-23, 5e-24], &grid)
            .unwrap();
        assert_eq!(spectra.counts, [2]);
        let expected = [0.5, 0.25, 1.0, 2.0f32];
        let pairs = spectra.inverse[0].iter().zip(expected);
        assert!(pairs.into_iter().all(|(a, b)| (a / b - 1.0).abs() < 2e-7));
        assert!(spectra.check(&["H1".into()], 2).is_ok());
        for (names, kept) in [
            (vec!["L1".to_owned()], 2),
            (vec!["H1".to_owned()], 3),
            (vec![], 2),
        ] {
            assert!(spectra.check(&names, kept).is_err());
        }
    }

    #[test]
    fn wrong_spectra_are_named() {
        let grid = Grid::uniform(1.0, 3, 1).unwrap();
        let mut spectra = NoiseSpectra::new(&grid);
        for (asds, part) in [
            (&[][..], "got 0 numbers"),
            (&[1e-23; 4], "got 4 numbers"),
            (&[1.0, 1e-23, 0.0], "got 0 in spectrum 0, bin 2"),
            (&[1.0, 1e-23, -1e-23], "got -0.0000"),
            (&[1.0, f32::NAN, 1e-23], "got NaN in spectrum 0, bin 1"),
            (&[1.0, f32::INFINITY, 1e-23], "got inf"),
        ] {
            let message = spectra.push("H1", asds, &grid).unwrap_err().to_string();
            assert!(
                message.contains(part) && message.contains("H1"),
                "{message}"
            );
        }
        // Below the first kept bin anything may stand.
        spectra
            .push("H1", &[f32::NAN, 1e-23, 1e-23], &grid)
            .unwrap();
    }
}
