//! Steps 4 to 9 in one pass: from a data set's rows to the rows that the network reads.
//!
//! The kept bins are walked through in blocks. For a block, the coefficients of a few rows at a time are
//! multiplied with the basis; time shift, whitening, noise and repackaging follow while the strain is in
//! the first-level cache, and the result is written once. Everything is single precision except the
//! angles of the time shift, which are reduced in double precision.
//!
//! Strain is linear in the coefficients, so for one or two detectors these are projected and each
//! detector is decompressed; for more, the two polarisations are.
//!
//! A sample's numbers depend neither on the samples beside it nor on how many threads there are: every
//! element is a sum of its own, in the same order wherever it stands. The last digits differ between
//! machines with and without fused multiply-add.

mod basis;
mod coefficients;
mod finish;
mod multiply;
mod phases;

pub use basis::Basis;

use super::noise::draw_noise;
use super::{CHANNELS, Draw, Grid, whitening_scale};
use crate::Antenna;
use coefficients::Coefficients;
use finish::{Finish, Strain};
use multiply::{ROWS, multiply};
use phases::{PhaseTables, Segments};

/// Bins of a block, at most.
pub(crate) const BLOCK: usize = 256;
/// Samples whose rows share a pass over the basis, at most.
const SAMPLES: usize = 96;

/// Parts of the pass, as [`Observer`] is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Coefficients and phases of a pass, once per sample.
    Prepare,
    /// Coefficients times basis.
    Decompress,
    /// The noise of a row's block.
    Noise,
    /// Time shift, whitening, adding the noise, writing.
    Finish,
}

/// Is told when a part of the pass is over, for measurements.
pub trait Observer {
    /// `stage` is over.
    fn done(&mut self, stage: Stage);
}

impl Observer for () {
    #[inline(always)]
    fn done(&mut self, _: Stage) {}
}

/// Waveforms of a few samples as a data set stores them, complex numbers as pairs.
///
/// # Shapes
/// `[rows, width]`, where the width is the basis's size, or the grid's number of bins without a basis.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Plus polarisation.
    pub plus: &'a [[f32; 2]],
    /// Cross polarisation.
    pub cross: &'a [[f32; 2]],
}

/// What was drawn for one detector of one sample.
#[derive(Clone, Copy, Debug)]
pub struct DetectorDraw<'a> {
    /// Antenna pattern times the ratio of distances.
    pub antenna: Antenna,
    /// The time that the strain is shifted to, s.
    pub time: f64,
    /// `1 / (asd 1e23)` of every kept bin.
    pub inverse_asd: &'a [f32],
}

/// What each row of the output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[3, F]`: real part, imaginary part, inverse spectrum.
    Network,
    /// `[2, F]`: real part, imaginary part.
    Strain,
}

impl Layout {
    /// Rows of F numbers for a detector.
    pub fn channels(self) -> usize {
        match self {
            Self::Network => CHANNELS,
            Self::Strain => 2,
        }
    }
}

/// Steps 4 to 9 for one grid, basis and number of detectors.
#[derive(Clone, Debug)]
pub struct Fused {
    basis: Option<Basis>,
    bins: usize,
    first: usize,
    kept: usize,
    detectors: usize,
    scale: Vec<f32>,
    segments: Segments,
}

impl Fused {
    /// A pass over a grid; without a basis, rows hold the polarisations themselves.
    ///
    /// Returns `None` where the basis belongs to another grid or there is no detector.
    pub fn new(grid: &Grid, basis: Option<Basis>, detectors: usize) -> Option<Self> {
        if basis
            .as_ref()
            .is_some_and(|basis| basis.bins() != grid.kept())
            || detectors == 0
        {
            return None;
        }
        let scale = &grid.noise_std()[grid.first()..];
        Some(Self {
            basis,
            bins: grid.bins(),
            first: grid.first(),
            kept: grid.kept(),
            detectors,
            scale: scale.iter().map(|&std| whitening_scale(std)).collect(),
            segments: Segments::new(grid),
        })
    }

    /// Complex numbers of a row of each polarisation.
    pub fn width(&self) -> usize {
        self.basis.as_ref().map_or(self.bins, Basis::size)
    }

    /// Kept bins.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Numbers that a sample has in the output.
    pub fn row_size(&self, layout: Layout) -> usize {
        self.detectors * layout.channels() * self.kept
    }

    /// The output rows of samples, see [`Layout`].
    ///
    /// # Shapes
    /// `samples` names the noise of each row; `draws` is `[samples, detectors]`; `output` is
    /// `[samples, detectors, channels, F]`.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn run<O: Observer>(
        &self,
        samples: &[u64],
        rows: Rows<'_>,
        draws: &[DetectorDraw<'_>],
        noise: Option<Draw>,
        (layout, output): (Layout, &mut [f32]),
        observer: &mut O,
    ) {
        let (width, size) = (self.width(), self.row_size(layout));
        assert_eq!(rows.plus.len(), samples.len() * width, "plus polarisation");
        assert_eq!(
            rows.cross.len(),
            samples.len() * width,
            "cross polarisation"
        );
        assert_eq!(draws.len(), samples.len() * self.detectors, "draws");
        assert_eq!(output.len(), samples.len() * size, "output");
        if samples.is_empty() {
            return;
        }
        let passes = samples.len().div_ceil(SAMPLES);
        let chunk = samples.len().div_ceil(passes).next_multiple_of(ROWS);
        for (i, samples) in samples.chunks(chunk).enumerate() {
            let start = i * chunk;
            let end = start + samples.len();
            let pass = Pass {
                fused: self,
                samples,
                rows: Rows {
                    plus: &rows.plus[start * width..end * width],
                    cross: &rows.cross[start * width..end * width],
                },
                draws: &draws[start * self.detectors..end * self.detectors],
                noise,
                layout,
            };
            pass.run(&mut output[start * size..end * size], observer);
        }
    }
}

/// Samples that go through the blocks together.
struct Pass<'a> {
    fused: &'a Fused,
    samples: &'a [u64],
    rows: Rows<'a>,
    draws: &'a [DetectorDraw<'a>],
    noise: Option<Draw>,
    layout: Layout,
}

/// Strain of the rows of a group over one block.
pub(crate) type Tile = [[f32; BLOCK]; ROWS];

impl Pass<'_> {
    fn run<O: Observer>(&self, output: &mut [f32], observer: &mut O) {
        let fused = self.fused;
        let phases = PhaseTables::new(&fused.segments, self.draws.iter().map(|draw| draw.time));
        let coefficients = fused
            .basis
            .as_ref()
            .map(|basis| Coefficients::new(self.rows, basis.size(), self.draws, fused.detectors));
        let (mut re, mut im): (Box<Tile>, Box<Tile>) = (
            Box::new([[0.0; BLOCK]; ROWS]),
            Box::new([[0.0; BLOCK]; ROWS]),
        );
        observer.done(Stage::Prepare);
        for block in 0..fused.kept.div_ceil(BLOCK) {
            if let (Some(basis), Some(coefficients)) = (&fused.basis, &coefficients) {
                for group in 0..coefficients.groups() {
                    multiply(
                        coefficients.group(group),
                        basis.block(block),
                        basis.size(),
                        &mut re,
                        &mut im,
                    );
                    observer.done(Stage::Decompress);
                    let rows = coefficients.rows(group);
                    self.finish(
                        block,
                        &phases,
                        (rows, coefficients.is_projected()),
                        (&re, &im),
                        output,
                        observer,
                    );
                }
            } else {
                self.finish_polarisations(block, &phases, (&mut re, &mut im), output, observer);
            }
        }
    }

    /// The samples of a group of decompressed rows.
    fn finish<O: Observer>(
        &self,
        block: usize,
        phases: &PhaseTables<'_>,
        (rows, projected): (std::ops::Range<usize>, bool),
        (re, im): (&Tile, &Tile),
        output: &mut [f32],
        observer: &mut O,
    ) {
        let detectors = self.fused.detectors;
        if projected {
            for (place, row) in rows.enumerate() {
                self.finish_row(
                    block,
                    phases,
                    row,
                    Strain::Projected((&re[place], &im[place])),
                    output,
                    observer,
                );
            }
            return;
        }
        // Two rows a sample: its polarisations.
        for (place, sample) in (rows.start / 2..rows.end / 2).enumerate() {
            let (plus, cross) = (2 * place, 2 * place + 1);
            for row in sample * detectors..(sample + 1) * detectors {
                let strain = Strain::Polarisations(
                    (&re[plus], &im[plus]),
                    (&re[cross], &im[cross]),
                    self.draws[row].antenna,
                );
                self.finish_row(block, phases, row, strain, output, observer);
            }
        }
    }

    /// All samples, from the stored polarisations.
    fn finish_polarisations<O: Observer>(
        &self,
        block: usize,
        phases: &PhaseTables<'_>,
        (re, im): (&mut Tile, &mut Tile),
        output: &mut [f32],
        observer: &mut O,
    ) {
        let fused = self.fused;
        let start = fused.first + block * BLOCK;
        let end = (start + BLOCK).min(fused.bins);
        for sample in 0..self.samples.len() {
            let range = sample * fused.bins + start..sample * fused.bins + end;
            for (place, pairs) in [&self.rows.plus[range.clone()], &self.rows.cross[range]]
                .into_iter()
                .enumerate()
            {
                for ((re, im), pair) in re[place].iter_mut().zip(&mut im[place]).zip(pairs) {
                    (*re, *im) = (pair[0], pair[1]);
                }
            }
            observer.done(Stage::Decompress);
            for row in sample * fused.detectors..(sample + 1) * fused.detectors {
                let antenna = self.draws[row].antenna;
                let strain = Strain::Polarisations((&re[0], &im[0]), (&re[1], &im[1]), antenna);
                self.finish_row(block, phases, row, strain, output, observer);
            }
        }
    }

    /// One block of one detector of one sample.
    fn finish_row<O: Observer>(
        &self,
        block: usize,
        phases: &PhaseTables<'_>,
        row: usize,
        strain: Strain<'_>,
        output: &mut [f32],
        observer: &mut O,
    ) {
        let fused = self.fused;
        let start = block * BLOCK;
        let bins = BLOCK.min(fused.kept - start);
        let (sample, detector) = (self.samples[row / fused.detectors], row % fused.detectors);
        let (mut noise_re, mut noise_im) = ([0.0; BLOCK], [0.0; BLOCK]);
        if let Some(draw) = self.noise {
            let (re, im) = (&mut noise_re[..bins], &mut noise_im[..bins]);
            draw_noise(draw, sample, detector, start, re, im);
            observer.done(Stage::Noise);
        }
        let size = self.layout.channels() * fused.kept;
        let (out_re, rest) = output[row * size..(row + 1) * size].split_at_mut(fused.kept);
        let (out_im, out_inverse) = rest.split_at_mut(fused.kept);
        let range = start..start + bins;
        let inverse = &self.draws[row].inverse_asd[range.clone()];
        let finish = Finish {
            strain,
            phases: phases.block(row, block),
            inverse,
            scale: &fused.scale[range.clone()],
            noise: (&noise_re[..bins], &noise_im[..bins]),
            output: (&mut out_re[range.clone()], &mut out_im[range.clone()]),
        };
        finish.run();
        if self.layout == Layout::Network {
            out_inverse[range].copy_from_slice(inverse);
        }
        observer.done(Stage::Finish);
    }
}

#[cfg(test)]
#[path = "fused/fused_tests.rs"]
mod tests;
