//! Phases of the time shift, `exp(-2 pi i f t)`, over blocks of equal steps.
//!
//! Within a band `f = f0 + j df`, so a phase is the product of the phase at the block's first bin and
//! `exp(-2 pi i j df t)`. The first is computed afresh in double precision for each block, the second
//! once for all blocks of a band; no error accumulates along the frequencies.

use std::f64::consts::TAU;

use super::BLOCK;
use crate::pipeline::Grid;

/// Bins of one block that lie in one band.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    /// First bin in the block.
    offset: usize,
    bins: usize,
    /// Frequency of the first bin, Hz.
    start: f64,
    band: usize,
}

/// The kept bins, cut at the ends of blocks and bands.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    blocks: Vec<Vec<Segment>>,
    /// Steps of the bands, Hz.
    steps: Vec<f64>,
}

impl Segments {
    pub(super) fn new(grid: &Grid) -> Self {
        let mut blocks = vec![Vec::new(); grid.kept().div_ceil(BLOCK)];
        let mut before = 0;
        for (index, band) in grid.bands().iter().enumerate() {
            let mut bin = before.max(grid.first());
            let end = before + band.bins;
            while bin < end {
                let kept = bin - grid.first();
                let bins = (BLOCK - kept % BLOCK).min(end - bin);
                blocks[kept / BLOCK].push(Segment {
                    offset: kept % BLOCK,
                    bins,
                    start: band.start + (bin - before) as f64 * band.step,
                    band: index,
                });
                bin += bins;
            }
            before = end;
        }
        Self {
            blocks,
            steps: grid.bands().iter().map(|band| band.step).collect(),
        }
    }
}

/// Real and imaginary parts of `exp(-2 pi i j df t)` for j of a block.
type Table = [[f32; BLOCK]; 2];

/// The phases of a pass: a time for each row.
pub(super) struct PhaseTables<'a> {
    segments: &'a Segments,
    times: Vec<f64>,
    /// `[rows][bands]`.
    tables: Vec<Table>,
}

/// The phases of one segment: first phase times table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase<'a> {
    pub(super) offset: usize,
    pub(super) first: [f32; 2],
    pub(super) re: &'a [f32],
    pub(super) im: &'a [f32],
}

impl<'a> PhaseTables<'a> {
    pub(super) fn new(segments: &'a Segments, times: impl Iterator<Item = f64>) -> Self {
        let times: Vec<f64> = times.collect();
        let mut tables = Vec::with_capacity(times.len() * segments.steps.len());
        for time in &times {
            tables.extend(segments.steps.iter().map(|step| table(step * time)));
        }
        Self {
            segments,
            times,
            tables,
        }
    }

    /// The phases of a row over a block.
    pub(super) fn block(&self, row: usize, block: usize) -> impl Iterator<Item = Phase<'_>> {
        let time = self.times[row];
        let bands = self.segments.steps.len();
        self.segments.blocks[block].iter().map(move |segment| {
            let [re, im] = &self.tables[row * bands + segment.band];
            Phase {
                offset: segment.offset,
                first: phase(segment.start * time).map(|part| part as f32),
                re: &re[..segment.bins],
                im: &im[..segment.bins],
            }
        })
    }
}

/// `exp(-2 pi i turns)`; whole turns are taken off first, which is exact.
fn phase(turns: f64) -> [f64; 2] {
    let (sine, cosine) = (-TAU * (turns - turns.round())).sin_cos();
    [cosine, sine]
}

/// Powers of `exp(-2 pi i turns)`, the length doubled with a factor computed afresh, so that a power is a
/// product of at most eight in double precision.
fn table(turns: f64) -> Table {
    let (mut re, mut im) = ([0.0f64; BLOCK], [0.0f64; BLOCK]);
    re[0] = 1.0;
    let mut length = 1;
    while length < BLOCK {
        let [a, b] = phase(turns * length as f64);
        let ((re, more_re), (im, more_im)) = (re.split_at_mut(length), im.split_at_mut(length));
        for j in 0..length {
            more_re[j] = re[j] * a - im[j] * b;
            more_im[j] = re[j] * b + im[j] * a;
        }
        length *= 2;
    }
    [re.map(|part| part as f32), im.map(|part| part as f32)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Band;

    fn check(grid: &Grid) {
        let segments = Segments::new(grid);
        let frequencies = grid.frequencies();
        let times = [0.0, 0.1, -0.0987654321, 1e-3];
        let tables = PhaseTables::new(&segments, times.into_iter());
        for (row, time) in times.into_iter().enumerate() {
            let mut seen = 0;
            for block in 0..grid.kept().div_ceil(BLOCK) {
                for phase in tables.block(row, block) {
                    assert_eq!(phase.offset, seen % BLOCK);
                    let [a, b] = phase.first;
                    for (re, im) in phase.re.iter().zip(phase.im) {
                        let computed = [a * re - b * im, a * im + b * re];
                        let exact = super::phase(frequencies[grid.first() + seen] * time);
                        for (computed, exact) in computed.into_iter().zip(exact) {
                            // Three roundings to single precision, 6e-8 each.
                            assert!((f64::from(computed) - exact).abs() < 2e-7);
                        }
                        seen += 1;
                    }
                }
            }
            assert_eq!(seen, grid.kept());
        }
    }

    #[test]
    fn phases_are_exact_at_every_bin() {
        check(&Grid::uniform(0.125, 8193, 160).unwrap());
        check(&Grid::uniform(0.1, 300, 7).unwrap());
        check(&Grid::uniform(1.0, 256, 0).unwrap());
        let bands = [
            (20.0, 0.125, 398),
            (70.0, 0.25, 672),
            (238.0, 0.5, 33),
            (255.0, 1.0, 300),
        ];
        let bands = bands.map(|(start, step, bins)| Band { start, step, bins });
        check(&Grid::new(bands.to_vec(), 5, &[1.0]).unwrap());
    }
}
