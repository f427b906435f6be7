//! What the transforms need to know of a domain: frequencies, the first bin kept, the noise level.

/// Bins with equal steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Frequency of the first bin, Hz.
    pub start: f64,
    /// Step, Hz.
    pub step: f64,
    /// Number of bins.
    pub bins: usize,
}

/// Frequency bins, band after band.
///
/// A uniform domain is one band; a multibanded one has a band for every step.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    bands: Vec<Band>,
    first: usize,
    bins: usize,
    noise_std: Vec<f64>,
}

impl Grid {
    /// A grid of bands, of whose bins those from number `first` on reach the network.
    ///
    /// `noise_std` is the standard deviation of whitened noise: one value per bin, or one for all.
    /// Returns `None` where the numbers of bins do not agree, or one is not finite and positive where it
    /// has to be.
    pub fn new(bands: Vec<Band>, first: usize, noise_std: &[f64]) -> Option<Self> {
        let bins = bands
            .iter()
            .try_fold(0usize, |sum, band| sum.checked_add(band.bins))?;
        let sound = |band: &Band| {
            band.start >= 0.0 && band.start.is_finite() && band.step > 0.0 && band.step.is_finite()
        };
        let levels = noise_std.iter().all(|&s| s > 0.0 && s.is_finite());
        let noise_std = match noise_std {
            [level] => vec![*level; bins],
            levels => levels.to_vec(),
        };
        (bands.iter().all(sound) && levels && noise_std.len() == bins && first < bins).then_some(
            Self {
                bands,
                first,
                bins,
                noise_std,
            },
        )
    }

    /// The grid 0, step, 2 step, ... of a uniform domain, with noise level `1 / sqrt(4 step)`.
    ///
    /// Returns `None` as [`Grid::new`].
    pub fn uniform(step: f64, bins: usize, first: usize) -> Option<Self> {
        let band = Band {
            start: 0.0,
            step,
            bins,
        };
        Self::new(vec![band], first, &[1.0 / (4.0 * step).sqrt()])
    }

    /// The bands.
    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Number of the first bin that reaches the network.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Number of bins that reach the network.
    pub fn kept(&self) -> usize {
        self.bins - self.first
    }

    /// Standard deviation of whitened noise per bin.
    pub fn noise_std(&self) -> &[f64] {
        &self.noise_std
    }

    /// Frequencies of the bins, Hz.
    pub fn frequencies(&self) -> Vec<f64> {
        self.bands
            .iter()
            .flat_map(|band| (0..band.bins).map(|i| band.start + i as f64 * band.step))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_run_through_the_bands() {
        let grid = Grid::uniform(0.25, 5, 2).unwrap();
        assert_eq!(grid.frequencies(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!((grid.bins(), grid.first(), grid.kept()), (5, 2, 3));
        assert_eq!(grid.noise_std(), [1.0; 5]);
        let band = |start, step, bins| Band { start, step, bins };
        let grid = Grid::new(
            vec![band(1.0, 0.5, 2), band(2.25, 1.0, 2)],
            0,
            &[1.0, 1.0, 2.0, 2.0],
        );
        assert_eq!(grid.unwrap().frequencies(), [1.0, 1.5, 2.25, 3.25]);
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        assert_eq!(Grid::uniform(0.25, 5, 5), None);
        assert_eq!(Grid::uniform(0.0, 5, 0), None);
        assert_eq!(Grid::uniform(f64::NAN, 5, 0), None);
        let band = Band {
            start: 0.0,
            step: 1.0,
            bins: 3,
        };
        assert_eq!(Grid::new(vec![band], 0, &[1.0, 1.0]), None);
        assert_eq!(Grid::new(vec![band], 0, &[0.0]), None);
        assert_eq!(
            Grid::new(
                vec![Band {
                    start: -1.0,
                    ..band
                }],
                0,
                &[1.0]
            ),
            None
        );
        let huge = Band {
            bins: usize::MAX,
            ..band
        };
        assert_eq!(Grid::new(vec![huge, band], 0, &[1.0; 3]), None);
    }
}
