use super::*;
use crate::pipeline::{Band, Spectrum, add_noise, apply_time_shift, project, repackage, whiten};
use dunnart_random::{Key, Purpose};

/// Largest difference from the reference form, as a share of a row's largest whitened strain: sums of
/// a hundred single-precision products, four more roundings.
const STRAIN_ERROR: f64 = 2e-6;
/// Difference of noise and of inverse spectra, which are rounded once or twice.
const ROUNDING: f64 = 1.2e-7;

const DRAW: Draw = Draw {
    seed: 5,
    stage: 1,
    epoch: 2,
};

/// Data of a small problem with strains and spectra of the size that real ones have.
struct Problem {
    grid: Grid,
    v: Option<(Vec<[f32; 2]>, usize)>,
    plus: Vec<[f32; 2]>,
    cross: Vec<[f32; 2]>,
    asds: Vec<Vec<f32>>,
    inverse: Vec<Vec<f32>>,
    antennas: Vec<Antenna>,
    times: Vec<f64>,
    samples: Vec<u64>,
    detectors: usize,
}

fn normals(index: u64, count: usize) -> Vec<f64> {
    let mut values = vec![0.0; count];
    let mut stream = Key::new(1, Purpose::Benchmark).stream(index);
    stream.fill_normal(&mut values);
    values
}

fn pairs(index: u64, count: usize, factor: f64) -> Vec<[f32; 2]> {
    let values = normals(index, 2 * count);
    let pairs = values.chunks_exact(2);
    pairs
        .map(|p| [(p[0] * factor) as f32, (p[1] * factor) as f32])
        .collect()
}

impl Problem {
    fn new(grid: Grid, size: Option<usize>, samples: usize, detectors: usize) -> Self {
        let (bins, rows) = (grid.bins(), samples * detectors);
        let width = size.unwrap_or(bins);
        let asds: Vec<Vec<f32>> = (0..rows)
            .map(|row| {
                let values = normals(100 + row as u64, bins);
                let asd = values.iter().map(|x| (1e-23 * (0.3 * x).exp()) as f32);
                asd.collect()
            })
            .collect();
        let inverse = asds.iter().map(|asd| {
            let kept = asd[grid.first()..].iter();
            kept.map(|&asd| (1.0 / (f64::from(asd) * 1e23)) as f32)
                .collect()
        });
        let antennas = normals(2, 2 * rows);
        let antennas = antennas.chunks_exact(2).map(|p| Antenna {
            plus: 0.2 * p[0],
            cross: 0.2 * p[1],
        });
        Self {
            v: size.map(|size| (pairs(3, bins * (size + 3), 0.05), size + 3)),
            plus: pairs(4, samples * width, 1e-22),
            cross: pairs(5, samples * width, 1e-22),
            inverse: inverse.collect(),
            asds,
            antennas: antennas.collect(),
            times: normals(6, rows).iter().map(|t| 0.1 * t).collect(),
            samples: (0..samples as u64).map(|i| 1000 + 7 * i).collect(),
            detectors,
            grid,
        }
    }

    fn size(&self) -> Option<usize> {
        self.v.as_ref().map(|(_, columns)| columns - 3)
    }

    fn fused(&self) -> Fused {
        let first = self.grid.first();
        let basis = self.v.as_ref().map(|(v, columns)| {
            let kept = &v[first * columns..];
            Basis::new(kept, (self.grid.kept(), *columns), columns - 3, None).unwrap()
        });
        Fused::new(&self.grid, basis, self.detectors).unwrap()
    }

    fn run(&self, range: std::ops::Range<usize>, noise: Option<Draw>, layout: Layout) -> Vec<f32> {
        let fused = self.fused();
        let width = fused.width();
        let rows = range.start * self.detectors..range.end * self.detectors;
        let draws: Vec<DetectorDraw<'_>> = rows
            .map(|row| DetectorDraw {
                antenna: self.antennas[row],
                time: self.times[row],
                inverse_asd: &self.inverse[row],
            })
            .collect();
        let mut output = vec![f32::NAN; range.len() * fused.row_size(layout)];
        let rows = Rows {
            plus: &self.plus[range.start * width..range.end * width],
            cross: &self.cross[range.start * width..range.end * width],
        };
        let samples = &self.samples[range];
        fused.run(samples, rows, &draws, noise, (layout, &mut output), &mut ());
        output
    }

    /// A polarisation of a sample over the whole grid.
    fn polarisation(&self, rows: &[[f32; 2]], sample: usize) -> Spectrum {
        let bins = self.grid.bins();
        let width = self.size().unwrap_or(bins);
        let row = &rows[sample * width..(sample + 1) * width];
        let mut spectrum = Spectrum::zeros(bins);
        for bin in 0..bins {
            let (re, im) = match &self.v {
                None => (f64::from(row[bin][0]), f64::from(row[bin][1])),
                Some((v, columns)) => {
                    let terms = row.iter().zip(&v[bin * columns..]).map(|(c, v)| {
                        let ([a, b], [x, y]) = (c.map(f64::from), v.map(f64::from));
                        (a * x + b * y, b * x - a * y)
                    });
                    terms.fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1))
                }
            };
            (spectrum.re[bin], spectrum.im[bin]) = (re, im);
        }
        spectrum
    }

    /// A row in the reference form; also the largest whitened strain in it.
    fn reference(&self, row: usize, noise: Option<Draw>) -> (Vec<f32>, f64) {
        let (sample, detector) = (row / self.detectors, row % self.detectors);
        let plus = self.polarisation(&self.plus, sample);
        let cross = self.polarisation(&self.cross, sample);
        let mut strain = project(&plus, &cross, self.antennas[row], 1.0);
        apply_time_shift(&mut strain, &self.grid.frequencies(), self.times[row]);
        let asd: Vec<f64> = self.asds[row].iter().map(|&asd| f64::from(asd)).collect();
        whiten(&mut strain, &asd, self.grid.noise_std());
        let first = self.grid.first();
        let kept = strain.re[first..].iter().chain(&strain.im[first..]);
        let largest = kept.fold(0.0f64, |m, x| m.max(x.abs()));
        if let Some(draw) = noise {
            let (mut re, mut im) = (vec![0.0; self.grid.kept()], vec![0.0; self.grid.kept()]);
            draw_noise(draw, self.samples[sample], detector, 0, &mut re, &mut im);
            let mut noise = Spectrum::zeros(first);
            noise.re.extend(re.iter().map(|&x| f64::from(x)));
            noise.im.extend(im.iter().map(|&x| f64::from(x)));
            add_noise(&mut strain, &noise);
        }
        let mut output = vec![f32::NAN; CHANNELS * self.grid.kept()];
        repackage(&strain, &asd, first, &mut output);
        (output, largest)
    }

    fn check(&self) {
        let (kept, size) = (self.grid.kept(), CHANNELS * self.grid.kept());
        for noise in [None, Some(DRAW)] {
            let output = self.run(0..self.samples.len(), noise, Layout::Network);
            for (row, computed) in output.chunks_exact(size).enumerate() {
                let (expected, largest) = self.reference(row, noise);
                // A sum with noise, of at most 6.7, is rounded to single precision once more.
                let rounding = if noise.is_some() { 6.7 * ROUNDING } else { 0.0 };
                for (i, (computed, expected)) in computed.iter().zip(&expected).enumerate() {
                    let bound = if i < 2 * kept {
                        largest * STRAIN_ERROR + rounding
                    } else {
                        f64::from(*expected) * ROUNDING
                    };
                    let difference = f64::from(computed - expected).abs();
                    assert!(
                        difference <= bound,
                        "row {row}, number {i} of 3 x {kept}: {computed}, expected {expected}, \
                         bound {bound:e}",
                    );
                }
            }
        }
        let strain = self.run(0..self.samples.len(), None, Layout::Strain);
        let network = self.run(0..self.samples.len(), None, Layout::Network);
        for (strain, network) in strain
            .chunks_exact(2 * kept)
            .zip(network.chunks_exact(size))
        {
            assert_eq!(strain, &network[..2 * kept]);
        }
    }
}

fn uniform(bins: usize, first: usize) -> Grid {
    Grid::uniform(0.125, bins, first).unwrap()
}

#[test]
fn compressed_waveforms_agree_with_the_reference_form() {
    Problem::new(uniform(601, 160), Some(100), 5, 2).check();
    Problem::new(uniform(300, 44), Some(1), 7, 1).check();
}

#[test]
fn three_detectors_share_the_polarisations() {
    Problem::new(uniform(601, 33), Some(20), 4, 3).check();
    Problem::new(uniform(300, 0), Some(7), 1, 5).check();
}

#[test]
fn plain_waveforms_agree_with_the_reference_form() {
    for detectors in [1, 2, 3] {
        Problem::new(uniform(530, 17), None, 3, detectors).check();
    }
}

#[test]
fn bands_of_different_steps_agree_with_the_reference_form() {
    let bands = [(20.0, 0.125, 300), (57.5, 0.25, 100), (82.5, 0.5, 150)];
    let bands = bands.map(|(start, step, bins)| Band { start, step, bins });
    let levels: Vec<f64> = bands
        .iter()
        .flat_map(|band| vec![1.0 / (4.0 * band.step).sqrt(); band.bins])
        .collect();
    let grid = Grid::new(bands.to_vec(), 3, &levels).unwrap();
    Problem::new(grid.clone(), Some(30), 3, 2).check();
    Problem::new(grid, None, 2, 3).check();
}

/// A sample gives the same bits alone, in any company, and in any pass.
#[test]
fn a_sample_does_not_depend_on_its_batch() {
    for (size, detectors) in [(Some(40), 2), (Some(40), 3), (Some(40), 1), (None, 2)] {
        let problem = Problem::new(uniform(520, 5), size, 101, detectors);
        let whole = problem.run(0..101, Some(DRAW), Layout::Network);
        let row = whole.len() / 101;
        for range in [0..1, 3..4, 100..101, 2..9, 40..101] {
            let part = problem.run(range.clone(), Some(DRAW), Layout::Network);
            let expected = &whole[range.start * row..range.end * row];
            let same = part
                .iter()
                .zip(expected)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{size:?} {detectors} {range:?}");
        }
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let v = vec![[0.0; 2]; 12];
    assert!(Basis::new(&v, (4, 3), 3, None).is_some());
    assert!(Basis::new(&v, (4, 3), 4, None).is_none());
    assert!(Basis::new(&v, (4, 3), 0, None).is_none());
    assert!(Basis::new(&v, (4, 4), 2, None).is_none());
    assert!(Basis::new(&v, (usize::MAX, 3), 2, None).is_none());
    assert!(Basis::new(&v, (4, 3), 3, Some(&[1.0; 3])).is_none());
    let basis = Basis::new(&v, (4, 3), 3, None);
    assert!(Fused::new(&uniform(6, 2), basis.clone(), 1).is_some());
    assert!(Fused::new(&uniform(6, 2), basis.clone(), 0).is_none());
    assert!(Fused::new(&uniform(6, 1), basis, 1).is_none());
}

/// The scale of a bin stands in the basis; powers of two, so that nothing is rounded.
#[test]
fn a_scaled_basis_scales_the_strain() {
    let problem = Problem::new(uniform(70, 10), Some(4), 2, 2);
    let (v, columns) = problem.v.clone().unwrap();
    let scale: Vec<f64> = (0..60).map(|bin| 0.5f64.powi(bin % 5)).collect();
    let scaled = Basis::new(&v[10 * columns..], (60, columns), 4, Some(&scale)).unwrap();
    let by_hand: Vec<[f32; 2]> = v[10 * columns..]
        .iter()
        .enumerate()
        .map(|(i, pair)| pair.map(|x| x * scale[i / columns] as f32))
        .collect();
    assert_eq!(Basis::new(&by_hand, (60, columns), 4, None), Some(scaled));
}
