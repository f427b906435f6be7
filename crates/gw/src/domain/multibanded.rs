//! The multibanded grid: bands of a uniform grid whose bins are averaged, twice as many in each next band.

use serde_json::{Map, Value, json};

use super::{Bounds, Cut, UniformFrequencyDomain, number, only, wrong};
use crate::Result;
use crate::pipeline::Band;

/// A uniform base grid, averaged over `df_j / df_base` bins in band j, where `df_j = 2^j df_0`.
///
/// Band j covers `[nodes_j, nodes_{j+1})`; a bin stands at the middle of the base bins it averages. The
/// arithmetic is in single precision, as dingo's is.
#[derive(Debug, Clone)]
pub struct MultibandedFrequencyDomain {
    nodes: Vec<f32>,
    base: UniformFrequencyDomain,
    node_indices: Vec<usize>,
    steps: Vec<f32>,
    factors: Vec<usize>,
    band_bins: Vec<usize>,
    lower: Vec<f32>,
    upper: Vec<f32>,
    frequencies: Vec<f32>,
    narrowed: bool,
}

impl PartialEq for MultibandedFrequencyDomain {
    /// The same grid, wherever it came from.
    fn eq(&self, other: &Self) -> bool {
        (&self.nodes, &self.base, &self.steps) == (&other.nodes, &other.base, &other.steps)
    }
}

impl MultibandedFrequencyDomain {
    /// The names that settings use for it.
    pub const NAMES: [&str; 2] = ["MultibandedFrequencyDomain", "MFD"];

    /// Bands between `nodes`, the first in steps of `delta_f_initial`.
    ///
    /// # Units
    ///
    /// Hz.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`](crate::Error::Domain) when there are fewer than two nodes, they do not rise, a step
    /// is smaller than the base grid's, or the ends are no points of the base grid.
    pub fn new(nodes: &[f64], delta_f_initial: f64, base: UniformFrequencyDomain) -> Result<Self> {
        let nodes = nodes.iter().map(|&node| node as f32).collect();
        Self::with_nodes(nodes, delta_f_initial as f32, base)
    }

    fn with_nodes(nodes: Vec<f32>, first: f32, base: UniformFrequencyDomain) -> Result<Self> {
        const MAX_BANDS: usize = 32;
        if nodes.len() < 2 || nodes.len() > MAX_BANDS + 1 {
            return wrong(format!(
                "expected 2 to {} nodes, got {}",
                MAX_BANDS + 1,
                nodes.len()
            ));
        }
        let last = base.f_max() as f32 + base.delta_f() as f32;
        if !nodes.is_sorted_by(|low, high| low < high)
            || nodes[0] < 0.0
            || nodes[nodes.len() - 1] > last
        {
            return wrong(format!(
                "nodes must rise from 0 or more to {} Hz, where the base domain ends, got {nodes:?}",
                base.f_max()
            ));
        }
        let step = base.delta_f() as f32;
        let node_indices: Vec<usize> = nodes.iter().map(|node| (node / step) as usize).collect();
        let steps: Vec<f32> = (0..nodes.len() - 1)
            .map(|band| first * (1u64 << band) as f32)
            .collect();
        let factors: Vec<usize> = steps.iter().map(|one| (one / step) as usize).collect();
        if !first.is_finite() || factors[0] == 0 {
            return wrong(format!(
                "delta_f_initial = {first} must not be smaller than the base domain's delta_f = {step}"
            ));
        }
        let widths = node_indices.windows(2).map(|pair| pair[1] - pair[0]);
        let band_bins: Vec<usize> = widths
            .zip(&factors)
            .map(|(width, factor)| width / factor)
            .collect();
        let mut domain = Self {
            nodes,
            base,
            node_indices,
            steps,
            factors,
            band_bins,
            lower: Vec::new(),
            upper: Vec::new(),
            frequencies: Vec::new(),
            narrowed: false,
        };
        domain.place_bins()?;
        Ok(domain)
    }

    /// Where the bins begin, end and stand.
    fn place_bins(&mut self) -> Result<()> {
        let bins: usize = self.band_bins.iter().sum();
        if bins == 0 {
            return wrong(format!("no bin fits between the nodes {:?}", self.nodes));
        }
        let start = self.nodes[0];
        let base = self.base.delta_f() as f32;
        let mut passed = 0.0f32;
        for (&count, &step) in self.band_bins.iter().zip(&self.steps) {
            for _ in 0..count {
                self.lower.push(start + passed);
                passed += step;
                self.upper.push(start + passed - base);
            }
        }
        let middle = |(low, high): (&f32, &f32)| (high + low) / 2.0;
        self.frequencies = self.lower.iter().zip(&self.upper).map(middle).collect();
        for end in [self.f_min(), self.f_max()] {
            if !self.base.contains(end) {
                return wrong(format!(
                    "its end at {end} Hz is no point of the base domain up to {} Hz in steps of {} Hz",
                    self.base.f_max(),
                    self.base.delta_f()
                ));
            }
        }
        Ok(())
    }

    pub(super) fn from_settings(settings: &Map<String, Value>) -> Result<Self> {
        only(
            settings,
            &["type", "nodes", "delta_f_initial", "base_domain"],
        )?;
        let nodes: Option<Vec<f64>> = settings
            .get("nodes")
            .and_then(Value::as_array)
            .and_then(|nodes| nodes.iter().map(Value::as_f64).collect());
        let Some(nodes) = nodes else {
            return wrong("`nodes` must be a list of numbers");
        };
        match super::Domain::from_settings(settings.get("base_domain").unwrap_or(&Value::Null))? {
            super::Domain::Uniform(base) => {
                Self::new(&nodes, number(settings, "delta_f_initial")?, base)
            }
            super::Domain::Multibanded(_) => {
                wrong("`base_domain` must be a UniformFrequencyDomain")
            }
        }
    }

    pub(super) fn settings(&self) -> Value {
        json!({
            "type": Self::NAMES[0],
            "nodes": self.nodes.iter().map(|&node| f64::from(node)).collect::<Vec<_>>(),
            "delta_f_initial": f64::from(self.steps[0]),
            "base_domain": self.base.settings(),
        })
    }

    pub(super) fn update(&mut self, settings: &Map<String, Value>) -> Result<Cut> {
        if settings.contains_key("type") {
            // All settings: those of this domain, or of what it becomes when its base is narrowed.
            let target = Self::from_settings(settings)?;
            if *self == target {
                return Ok(self.whole());
            }
            let mut narrowed = self.clone();
            let cut = narrowed.narrow(Bounds {
                f_min: Some(target.base.f_min()),
                f_max: Some(target.base.f_max()),
            })?;
            if narrowed != target {
                return wrong(format!(
                    "the update {} does not follow from {}",
                    Value::Object(settings.clone()),
                    self.settings()
                ));
            }
            *self = narrowed;
            return Ok(cut);
        }
        only(settings, &["f_min", "f_max"])?;
        self.narrow(Bounds::of(settings)?)
    }

    fn whole(&self) -> Cut {
        Cut {
            stored: self.bins(),
            start: 0,
            end: self.bins(),
            fill: 0,
        }
    }

    /// Keeps the bins whose base bins all lie in the range.
    fn narrow(&mut self, bounds: Bounds) -> Result<Cut> {
        if bounds == Bounds::default() {
            return Ok(self.whole());
        }
        if self.narrowed {
            return wrong("a multibanded domain can be narrowed only once");
        }
        let last = self.bins() - 1;
        let outside = |name: &str, value: f64, low: f32, high: f32| {
            wrong(format!("{name} = {value} is outside [{low}, {high}] Hz"))
        };
        let mut start = 0;
        if let Some(f_min) = bounds.f_min {
            let (low, high) = (self.lower[0], self.lower[last]);
            if !(low..=high).contains(&(f_min as f32)) {
                return outside("f_min", f_min, low, high);
            }
            start = self.lower.partition_point(|&lower| lower < f_min as f32);
        }
        let mut end = last;
        if let Some(f_max) = bounds.f_max {
            let (low, high) = (self.upper[0], self.upper[last]);
            if !(low..=high).contains(&(f_max as f32)) {
                return outside("f_max", f_max, low, high);
            }
            end = self.upper.partition_point(|&upper| upper <= f_max as f32) - 1;
        }
        if start > end {
            return wrong("no bin lies in the new range");
        }
        let (first, final_band) = (self.band(start), self.band(end));
        let mut nodes = self.nodes[first..=final_band + 1].to_vec();
        nodes[0] = self.lower[start];
        let behind = nodes.len() - 1;
        nodes[behind] = self.upper[end] + self.base.delta_f() as f32;
        let mut base = self.base.clone();
        base.narrow(bounds)?;
        let mut narrowed = Self::with_nodes(nodes, self.steps[first], base)?;
        if narrowed.bins() != end - start + 1 {
            return wrong("the new range does not fall on whole bins");
        }
        narrowed.narrowed = true;
        let stored = self.bins();
        *self = narrowed;
        Ok(Cut {
            stored,
            start,
            end: end + 1,
            fill: 0,
        })
    }

    /// The band that a bin belongs to.
    fn band(&self, bin: usize) -> usize {
        let mut behind = 0;
        let contains = |count: &usize| {
            behind += count;
            bin < behind
        };
        self.band_bins
            .iter()
            .position(contains)
            .unwrap_or(self.band_bins.len() - 1)
    }

    /// Averages data of the base domain, which may begin at 0 Hz or at the base domain's `f_min`.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`](crate::Error::Domain) when the data have another length, begin above the first node,
    /// or a band is no whole number of bins wide.
    pub fn decimate(&self, data: &[f64]) -> Result<Vec<f64>> {
        let (full, skipped) = (self.base.bins(), self.base.min_index());
        let offset = match data.len() {
            length if length == full => 0,
            length if length == full - skipped => skipped,
            length => {
                return wrong(format!(
                    "data of {length} bins do not fit the base domain of {full} bins, {} from f_min on",
                    full - skipped
                ));
            }
        };
        let mut averages = Vec::with_capacity(self.bins());
        for (ends, &factor) in self.node_indices.windows(2).zip(&self.factors) {
            let band = match (ends[0].checked_sub(offset), ends[1].checked_sub(offset)) {
                (Some(start), Some(end)) => data.get(start..end),
                _ => None,
            };
            let Some(band) = band else {
                return wrong(format!(
                    "the data do not cover the base bins {} to {}",
                    ends[0], ends[1]
                ));
            };
            if band.len() % factor != 0 {
                return wrong(format!(
                    "a band of {} base bins is no multiple of the {factor} bins it averages",
                    band.len()
                ));
            }
            let mean = |bins: &[f64]| bins.iter().sum::<f64>() / factor as f64;
            averages.extend(band.chunks_exact(factor).map(mean));
        }
        Ok(averages)
    }

    /// The uniform grid that is averaged.
    pub fn base(&self) -> &UniformFrequencyDomain {
        &self.base
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.frequencies.len()
    }

    /// Number of bins of each band.
    pub fn band_bins(&self) -> &[usize] {
        &self.band_bins
    }

    /// Where the base bins of the first bin begin, Hz.
    pub fn f_min(&self) -> f64 {
        self.lower.first().copied().unwrap_or_default().into()
    }

    /// Where the base bins of the last bin end, Hz.
    pub fn f_max(&self) -> f64 {
        self.upper.last().copied().unwrap_or_default().into()
    }

    /// The frequency of each bin, Hz.
    pub fn sample_frequencies(&self) -> &[f32] {
        &self.frequencies
    }

    /// Standard deviation of whitened noise in each bin, `1 / sqrt(4 df)` of the bin's step.
    pub fn noise_std(&self) -> Vec<f64> {
        let bands = self.band_bins.iter().zip(&self.steps);
        bands
            .flat_map(|(&bins, &step)| {
                std::iter::repeat_n(f64::from(1.0 / (4.0 * step).sqrt()), bins)
            })
            .collect()
    }

    /// The bands, by the frequency of their first bin.
    pub(super) fn bands(&self) -> Vec<Band> {
        let mut first = 0;
        let mut bands = Vec::with_capacity(self.steps.len());
        for (&bins, &step) in self.band_bins.iter().zip(&self.steps) {
            if bins > 0 {
                bands.push(Band {
                    start: self.frequencies[first].into(),
                    step: step.into(),
                    bins,
                });
            }
            first += bins;
        }
        bands
    }
}
