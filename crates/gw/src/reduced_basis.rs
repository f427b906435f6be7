//! Reduced bases: the leading right singular vectors of noise-free training strain, per detector.
//!
//! The strain is made block by block, as often as it is needed, and never stored: a subspace is multiplied
//! with `A^H A` in each pass over the rows until it captures no more of the data, then rotated into the
//! singular vectors. Memory is that of a block and of a few matrices of `F` times the size of the basis.
//! Deliberately not here: how the embedding is initialised with a basis.
//!
//! # Source
//! Halko, Martinsson, Tropp, SIAM Review 53, 217 (2011), algorithm 4.4 and section 5.1; QR and singular
//! value decompositions are faer's.

mod file;
mod subspace;

use crate::pipeline::Draw;
use crate::{Error, Result, WaveformSource};
use subspace::Subspace;

/// Waveforms whose strain is in memory at once.
const BLOCK: usize = 256;

/// Settings of the bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducedBasisSettings {
    /// Vectors per detector.
    pub size: usize,
    /// Waveforms that bases are made from: the first ones of the data set.
    pub training_samples: usize,
    /// Waveforms after those that bases are judged with.
    pub validation_samples: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// The reduced basis of one detector.
#[derive(Clone, Debug, PartialEq)]
pub struct ReducedBasis {
    detector: String,
    /// `[F, n]`.
    v: Vec<[f64; 2]>,
    singular_values: Vec<f64>,
    sizes: Vec<usize>,
    /// `[sizes][validation samples]`.
    mismatches: Vec<Vec<f64>>,
    first: usize,
}

impl ReducedBasis {
    /// The detector's name.
    pub fn detector(&self) -> &str {
        &self.detector
    }

    /// The vectors as columns, over the bins that reach the network: `A = U diag(s) V^H`.
    ///
    /// # Shapes
    /// `[F, n]`, complex numbers as pairs.
    pub fn v(&self) -> &[[f64; 2]] {
        &self.v
    }

    /// Singular values, the largest first, `[n]`.
    pub fn singular_values(&self) -> &[f64] {
        &self.singular_values
    }

    /// The sizes that mismatches are given for: 50, 100, ..., n.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// `1 - Re<d, d V V^H> / (|d| |d V V^H|)` of every validation waveform, for a basis of the size with
    /// that place in [`ReducedBasis::sizes`].
    pub fn mismatches(&self, place: usize) -> &[f64] {
        &self.mismatches[place]
    }
}

/// The bases of all detectors, in their order.
///
/// # Errors
/// [`Error::Data`] when the data set has fewer waveforms than asked for, a basis would have more vectors
/// than its matrix has rows or columns, or strain is not finite; what making strain returns.
pub fn reduced_bases(
    source: &WaveformSource,
    settings: &ReducedBasisSettings,
) -> Result<Vec<ReducedBasis>> {
    let [detectors, _, bins] = source.observation_shape();
    let asked = settings
        .training_samples
        .checked_add(settings.validation_samples);
    if asked.is_none_or(|asked| asked > source.rows()) {
        return Err(Error::Data {
            what: "num_training_samples + num_validation_samples of the reduced basis".into(),
            expected: format!("at most the {} waveforms of the data set", source.rows()),
            actual: format!(
                "{} + {}",
                settings.training_samples, settings.validation_samples
            ),
        });
    }
    let most = settings.training_samples.min(bins);
    if settings.size == 0 || settings.size > most {
        return Err(Error::Data {
            what: "size of the reduced basis".into(),
            expected: format!("1 to {most}, the smaller one of training samples and bins"),
            actual: settings.size.to_string(),
        });
    }
    let draw = Draw {
        seed: settings.seed,
        // No training has this stage.
        stage: u32::MAX,
        epoch: 1,
    };
    let mut passes = Passes::new(source, draw);
    let mut spaces: Vec<Subspace> = (0..detectors)
        .map(|detector| Subspace::new(settings, bins, detector))
        .collect();
    let training = 0..settings.training_samples;
    while spaces.iter().any(|space| !space.is_settled()) {
        passes.each(training.clone(), &mut spaces, |space, rows| {
            space.multiply(rows)
        })?;
        source.spread(&mut spaces, |(_, space)| space.turn());
    }
    passes.each(training, &mut spaces, |space, rows| space.reduce(rows))?;
    let mut bases: Vec<Finished> = spaces
        .into_iter()
        .map(|space| Finished::new(space, settings.size))
        .collect::<Result<_>>()?;
    let validation =
        settings.training_samples..settings.training_samples + settings.validation_samples;
    passes.each(validation, &mut bases, |basis, rows| basis.validate(rows))?;
    let names = source.detectors().iter();
    let finished = names.zip(bases).map(|(detector, basis)| ReducedBasis {
        detector: detector.clone(),
        v: basis.pairs(),
        singular_values: basis.singular_values,
        sizes: basis.sizes,
        mismatches: basis.mismatches,
        first: source.first_bin(),
    });
    Ok(finished.collect())
}

/// Passes over the strain of all detectors, block by block.
struct Passes<'a> {
    source: &'a WaveformSource,
    draw: Draw,
    strain: Vec<f32>,
}

impl<'a> Passes<'a> {
    fn new(source: &'a WaveformSource, draw: Draw) -> Self {
        Self {
            source,
            draw,
            strain: Vec::new(),
        }
    }

    /// Hands every block of rows to every detector's state.
    fn each<S: Send>(
        &mut self,
        rows: std::ops::Range<usize>,
        states: &mut [S],
        work: impl Fn(&mut S, faer::MatRef<'_, faer::c64>) + Sync + Send,
    ) -> Result<()> {
        let [detectors, _, bins] = self.source.observation_shape();
        let mut start = rows.start;
        while start < rows.end {
            let end = rows.end.min(start + BLOCK);
            let samples: Vec<u64> = (start as u64..end as u64).collect();
            self.strain
                .resize(samples.len() * detectors * 2 * bins, 0.0);
            self.source
                .noise_free(&samples, self.draw, &mut self.strain)?;
            let strain = &self.strain;
            // As many rows of zeros as whole numbers: a number that is not finite spoils the sum.
            if strain.iter().map(|x| x * 0.0).sum::<f32>() != 0.0 {
                return Err(Error::Data {
                    what: format!("strain of waveforms {start} to {}", end - 1),
                    expected: "finite numbers".into(),
                    actual: "NaN or infinite".into(),
                });
            }
            let run = |(detector, state): (usize, &mut S)| {
                let matrix = faer::Mat::from_fn(samples.len(), bins, |row, bin| {
                    let at = (row * detectors + detector) * 2 * bins + bin;
                    faer::c64::new(f64::from(strain[at]), f64::from(strain[at + bins]))
                });
                work(state, matrix.as_ref());
            };
            self.source.spread(states, run);
            start = end;
        }
        Ok(())
    }
}

/// A basis that is being judged.
struct Finished {
    v: faer::Mat<faer::c64>,
    singular_values: Vec<f64>,
    sizes: Vec<usize>,
    mismatches: Vec<Vec<f64>>,
}

impl Finished {
    fn new(space: Subspace, size: usize) -> Result<Self> {
        let (v, singular_values) = space.singular_vectors(size)?;
        let mut sizes: Vec<usize> = (50..size).step_by(50).collect();
        sizes.push(size);
        Ok(Self {
            mismatches: vec![Vec::new(); sizes.len()],
            v,
            singular_values,
            sizes,
        })
    }

    /// Adds the mismatches of a block of rows.
    ///
    /// V has orthonormal columns, so `<d, d V V^H> = |d V|^2 = |d V V^H|^2` and the mismatch is
    /// `1 - |d V| / |d|`.
    fn validate(&mut self, rows: faer::MatRef<'_, faer::c64>) {
        let coefficients = rows * &self.v;
        for row in 0..rows.nrows() {
            let norm = rows.row(row).squared_norm_l2();
            let mut captured = 0.0;
            let mut next = 0;
            for (place, &size) in self.sizes.iter().enumerate() {
                for k in next..size {
                    captured += coefficients[(row, k)].norm_sqr();
                }
                next = size;
                // A waveform of zeros is reproduced by any basis.
                let share = if norm > 0.0 { captured / norm } else { 1.0 };
                self.mismatches[place].push(1.0 - share.sqrt());
            }
        }
    }

    fn pairs(&self) -> Vec<[f64; 2]> {
        let (bins, size) = (self.v.nrows(), self.v.ncols());
        let at = |i: usize| self.v[(i / size, i % size)];
        (0..bins * size).map(|i| [at(i).re, at(i).im]).collect()
    }
}

#[cfg(test)]
#[path = "reduced_basis/reduced_basis_tests.rs"]
mod tests;
