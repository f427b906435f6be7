//! Training samples made on the fly: waveforms of a data set through all transforms.

mod chain;
mod columns;
mod spectra;
mod statistics;

use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::pipeline::{Basis, Draw, Fused, Grid, Layout, Rows};
use crate::{Error, Result, Standardization};
use chain::{Chain, SampleDraws};
use columns::Columns;

pub use spectra::NoiseSpectra;

/// What the source needs of a waveform data set, narrowed to the domain that is trained on.
pub trait Waveforms: Send + Sync {
    /// Number of waveforms.
    fn rows(&self) -> usize;

    /// The frequency grid.
    fn grid(&self) -> &Grid;

    /// The basis over the grid's kept bins if waveforms are compressed.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn basis(&self) -> Result<Option<Basis>>;

    /// Names of the intrinsic parameters.
    fn parameter_names(&self) -> &[String];

    /// All values of the intrinsic parameter with that place in [`Waveforms::parameter_names`].
    fn parameter(&self, place: usize) -> &[f32];

    /// Reads both polarisations of some rows, complex numbers as pairs.
    ///
    /// # Shapes
    /// `[rows, width]`: the coefficients where there is a basis, otherwise the grid's bins.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    fn read(&self, rows: &[u64], plus: &mut [[f32; 2]], cross: &mut [[f32; 2]]) -> Result<()>;
}

/// What is done to waveforms, as the `data` block of training settings says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSettings {
    /// Detectors, in the order of the network's detector axis.
    pub detectors: Vec<String>,
    /// Priors of extrinsic parameters other than the defaults.
    pub extrinsic_prior: Map<String, Value>,
    /// GPS time at which the sky is projected, s.
    pub reference_time: f64,
    /// What is inferred, in the order of theta's columns.
    pub inference_parameters: Vec<String>,
    /// What the network is conditioned on, before the proxies' names are appended.
    pub context_parameters: Vec<String>,
    /// Time proxies: kernel and whether the equivariance is exact.
    pub time_shifts: Option<(String, bool)>,
    /// No detector noise.
    pub zero_noise: bool,
}

impl SourceSettings {
    /// The parameters that `inference_parameters: default` stands for.
    pub const DEFAULT_INFERENCE_PARAMETERS: [&'static str; 15] = [
        "chirp_mass",
        "mass_ratio",
        "phase",
        "a_1",
        "a_2",
        "tilt_1",
        "tilt_2",
        "phi_12",
        "phi_jl",
        "theta_jn",
        "luminosity_distance",
        "geocent_time",
        "ra",
        "dec",
        "psi",
    ];
}

/// Rows that the network is trained on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Standardised parameters, `[B, D]`.
    pub theta: Vec<f32>,
    /// Strain and spectra, `[B, I, 3, F]`.
    pub observation: Vec<f32>,
    /// Standardised context parameters, `[B, P]`.
    pub context: Vec<f32>,
}

/// Samples that a thread takes at once, at most: a whole number of rows of the product, and few enough that
/// a batch is shared out evenly.
const PIECE: usize = 48;

/// The distance of the waveforms that a reduced basis is made from, Mpc.
const BASIS_DISTANCE: f64 = 100.0;

/// Makes samples from waveforms, spectra, settings and a key.
///
/// A sample's numbers depend on its index and the key alone, not on its batch nor on the number of
/// threads.
pub struct WaveformSource {
    waveforms: Arc<dyn Waveforms>,
    chain: Chain,
    columns: Columns,
    standardization: Standardization,
    spectra: NoiseSpectra,
    fused: Fused,
    pool: Option<ThreadPool>,
    zero_noise: bool,
}

impl WaveformSource {
    /// A source; without a `standardization` its statistics are computed.
    ///
    /// `threads` of 0 or 1 works on the calling thread, more on a pool of the source's own.
    ///
    /// # Errors
    /// [`Error`] when settings name unknown things, data do not fit, or a parameter has no spread.
    pub fn new(
        waveforms: Arc<dyn Waveforms>,
        spectra: NoiseSpectra,
        settings: &SourceSettings,
        standardization: Option<Standardization>,
        threads: usize,
    ) -> Result<Self> {
        let chain = Chain::new(settings, waveforms.as_ref())?;
        let columns = Columns::new(settings, &chain, waveforms.as_ref())?;
        let standardization = match standardization {
            Some(given) => given,
            None => statistics::compute(&chain, &columns, waveforms.as_ref())?,
        };
        let columns = columns.with_moments(&standardization)?;
        let grid = waveforms.grid();
        let fused = Fused::new(grid, waveforms.basis()?, settings.detectors.len());
        let fused = fused.ok_or_else(|| Error::Data {
            what: "basis of the waveforms".into(),
            expected: format!("{} bins and at least one detector", grid.kept()),
            actual: "another number".into(),
        })?;
        spectra.check(&settings.detectors, grid.kept())?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = (threads > 1).then(|| pool.build()).transpose();
        Ok(Self {
            pool: pool.map_err(|error| Error::Data {
                what: "threads".into(),
                expected: threads.to_string(),
                actual: error.to_string(),
            })?,
            zero_noise: settings.zero_noise,
            waveforms,
            chain,
            columns,
            standardization,
            spectra,
            fused,
        })
    }

    /// Replaces the noise spectra, as a new stage does.
    ///
    /// # Errors
    /// [`Error::Data`] when they are of other detectors or another grid.
    pub fn set_spectra(&mut self, spectra: NoiseSpectra) -> Result<()> {
        spectra.check(self.chain.detectors(), self.fused.kept())?;
        self.spectra = spectra;
        Ok(())
    }

    /// Number of waveforms.
    pub fn rows(&self) -> usize {
        self.waveforms.rows()
    }

    /// Names of theta's columns.
    pub fn inference_parameters(&self) -> &[String] {
        self.columns.inference()
    }

    /// Names of the context parameters, proxies included.
    pub fn context_parameters(&self) -> &[String] {
        self.columns.context()
    }

    /// Shape of an observation: detectors, channels, kept bins.
    pub fn observation_shape(&self) -> [usize; 3] {
        let detectors = self.chain.detectors().len();
        [detectors, Layout::Network.channels(), self.fused.kept()]
    }

    /// Names of the detectors.
    pub fn detectors(&self) -> &[String] {
        self.chain.detectors()
    }

    /// Number of the grid's first bin that reaches the network.
    pub(crate) fn first_bin(&self) -> usize {
        self.waveforms.grid().first()
    }

    /// Does work on every element of a list, on the source's threads.
    pub(crate) fn spread<S: Send>(
        &self,
        states: &mut [S],
        work: impl Fn((usize, &mut S)) + Sync + Send,
    ) {
        match &self.pool {
            None => states.iter_mut().enumerate().for_each(work),
            Some(pool) => pool.install(|| states.par_iter_mut().enumerate().for_each(work)),
        }
    }

    /// Means and standard deviations of all parameters that the network sees.
    pub fn standardization(&self) -> &Standardization {
        &self.standardization
    }

    /// Replaces what `out` holds by the samples with these row numbers, in that order.
    ///
    /// # Errors
    /// [`Error::Data`] for a row that does not exist or holds no finite numbers, and what reading rows
    /// returns.
    pub fn fill(&self, samples: &[u64], draw: Draw, out: &mut Samples) -> Result<()> {
        self.check(samples)?;
        let size = self.fused.row_size(Layout::Network);
        let (inference, context) = (self.columns.inference().len(), self.columns.context().len());
        out.theta.clear();
        out.context.clear();
        out.theta.reserve(samples.len() * inference);
        out.context.reserve(samples.len() * context);
        let mut draws = Vec::with_capacity(samples.len());
        for &sample in samples {
            let drawn = self.chain.draw(draw, sample, None);
            let intrinsic = |place: usize| self.waveforms.parameter(place)[sample as usize];
            self.columns
                .fill(&drawn, intrinsic, &mut out.theta, &mut out.context);
            draws.push(drawn);
        }
        out.observation.resize(samples.len() * size, 0.0);
        let noise = (!self.zero_noise).then_some(draw);
        self.strains(
            samples,
            &draws,
            draw,
            noise,
            Layout::Network,
            &mut out.observation,
        )
    }

    /// Whitened strain without noise at 100 Mpc, from which a reduced basis is made.
    ///
    /// # Shapes
    /// `out` is `[samples, I, 2, F]`: real part, imaginary part.
    ///
    /// # Errors
    /// As [`WaveformSource::fill`]; also for another length of `out`.
    pub fn noise_free(&self, samples: &[u64], draw: Draw, out: &mut [f32]) -> Result<()> {
        self.check(samples)?;
        let size = self.fused.row_size(Layout::Strain);
        if out.len() != samples.len() * size {
            return Err(Error::Data {
                what: "strain without noise".into(),
                expected: format!("{} numbers", samples.len() * size),
                actual: out.len().to_string(),
            });
        }
        let draws: Vec<SampleDraws> = samples
            .iter()
            .map(|&sample| self.chain.draw(draw, sample, Some(BASIS_DISTANCE)))
            .collect();
        self.strains(samples, &draws, draw, None, Layout::Strain, out)
    }

    fn check(&self, samples: &[u64]) -> Result<()> {
        let rows = self.waveforms.rows();
        match samples.iter().find(|&&sample| sample >= rows as u64) {
            None => Ok(()),
            Some(sample) => Err(Error::Data {
                what: "number of a waveform".into(),
                expected: format!("less than {rows}"),
                actual: sample.to_string(),
            }),
        }
    }

    /// Steps 4 to 9 for samples whose other draws are made, in pieces shared out to the threads.
    fn strains(
        &self,
        samples: &[u64],
        draws: &[SampleDraws],
        draw: Draw,
        noise: Option<Draw>,
        layout: Layout,
        out: &mut [f32],
    ) -> Result<()> {
        let size = self.fused.row_size(layout);
        let Some(pool) = &self.pool else {
            return self.piece(samples, draws, draw, noise, (layout, out));
        };
        let piece = samples
            .len()
            .div_ceil(pool.current_num_threads())
            .clamp(1, PIECE);
        pool.install(|| {
            samples
                .par_chunks(piece)
                .zip(draws.par_chunks(piece))
                .zip(out.par_chunks_mut(piece * size))
                .try_for_each(|((samples, draws), out)| {
                    self.piece(samples, draws, draw, noise, (layout, out))
                })
        })
    }

    fn piece(
        &self,
        samples: &[u64],
        draws: &[SampleDraws],
        draw: Draw,
        noise: Option<Draw>,
        target: (Layout, &mut [f32]),
    ) -> Result<()> {
        let width = self.fused.width();
        let mut plus = vec![[0.0; 2]; samples.len() * width];
        let mut cross = plus.clone();
        self.waveforms.read(samples, &mut plus, &mut cross)?;
        for (i, sample) in samples.iter().enumerate() {
            let range = i * width..(i + 1) * width;
            let numbers = plus[range.clone()].iter().chain(&cross[range]);
            // NaN and infinity stay what they are when multiplied by zero; the sum is then no zero.
            let zeros = numbers.map(|pair| pair[0] * 0.0 + pair[1] * 0.0);
            if zeros.sum::<f32>() != 0.0 {
                return Err(Error::Data {
                    what: format!("waveform {sample}"),
                    expected: "finite numbers".into(),
                    actual: "NaN or infinite".into(),
                });
            }
        }
        let detectors = self.chain.detectors().len();
        let mut rows = Vec::with_capacity(samples.len() * detectors);
        for (sample, drawn) in samples.iter().zip(draws) {
            let distance = self
                .chain
                .reference_distance(self.waveforms.as_ref(), *sample);
            rows.extend(drawn.detectors(distance, self.spectra.choose(draw, *sample)));
        }
        let polarisations = Rows {
            plus: &plus,
            cross: &cross,
        };
        self.fused
            .run(samples, polarisations, &rows, noise, target, &mut ());
        Ok(())
    }
}

#[cfg(test)]
#[path = "source/source_tests.rs"]
mod tests;
