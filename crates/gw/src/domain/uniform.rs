//! The uniform grid 0, df, 2 df, ... up to `f_max`.

use serde_json::{Map, Value, json};

use super::{Bounds, Cut, number, only, wrong};
use crate::Result;

/// More bins than this are refused: 4 kHz in steps of a thousandth of a hertz.
const MAX_BINS: f64 = 4e6;

/// Frequencies from 0 to `f_max` in steps of `delta_f`; data below `f_min` are zero.
#[derive(Debug, Clone, PartialEq)]
pub struct UniformFrequencyDomain {
    f_min: f64,
    f_max: f64,
    delta_f: f64,
}

impl UniformFrequencyDomain {
    /// The names that settings use for it.
    pub const NAMES: [&str; 3] = ["UniformFrequencyDomain", "FrequencyDomain", "FD"];

    /// A grid up to `f_max` in steps of `delta_f`.
    ///
    /// # Units
    ///
    /// Hz.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`](crate::Error::Domain) when the step is not positive, `f_min` is not below `f_max`,
    /// or `f_max` is no multiple of the step.
    pub fn new(f_min: f64, f_max: f64, delta_f: f64) -> Result<Self> {
        let domain = Self {
            f_min,
            f_max,
            delta_f,
        };
        let steps = f_max / delta_f;
        if !(delta_f > 0.0 && f_min >= 0.0 && f_min < f_max && steps < MAX_BINS) {
            return wrong(format!(
                "expected 0 <= f_min < f_max, delta_f > 0 and at most {MAX_BINS:e} bins, got f_min {f_min}, \
                 f_max {f_max}, delta_f {delta_f}"
            ));
        }
        // The number of bins truncates, the index of the last one rounds: they must mean the same bin.
        if steps as usize != domain.max_index() || (steps - steps.round()).abs() > 1e-6 {
            return wrong(format!(
                "f_max = {f_max} is no multiple of delta_f = {delta_f}"
            ));
        }
        Ok(domain)
    }

    pub(super) fn from_settings(settings: &Map<String, Value>) -> Result<Self> {
        // Data sets of dingo before 0.9 carry a window factor, which nothing uses any more.
        only(
            settings,
            &["type", "f_min", "f_max", "delta_f", "window_factor"],
        )?;
        Self::new(
            number(settings, "f_min")?,
            number(settings, "f_max")?,
            number(settings, "delta_f")?,
        )
    }

    pub(super) fn settings(&self) -> Value {
        json!({
            "type": Self::NAMES[0],
            "f_min": self.f_min,
            "f_max": self.f_max,
            "delta_f": self.delta_f,
        })
    }

    pub(super) fn update(&mut self, settings: &Map<String, Value>) -> Result<Cut> {
        only(settings, &["type", "f_min", "f_max", "delta_f"])?;
        if let Some(kind) = settings.get("type")
            && !kind
                .as_str()
                .is_some_and(|kind| Self::NAMES.contains(&kind))
        {
            return wrong(format!("an update cannot change its type to {kind}"));
        }
        if let Some(step) = settings.get("delta_f")
            && step.as_f64() != Some(self.delta_f)
        {
            return wrong(format!(
                "an update cannot change delta_f from {} to {step}",
                self.delta_f
            ));
        }
        self.narrow(Bounds::of(settings)?)
    }

    pub(super) fn narrow(&mut self, bounds: Bounds) -> Result<Cut> {
        let f_min = bounds.f_min.unwrap_or(self.f_min);
        let f_max = bounds.f_max.unwrap_or(self.f_max);
        if f_min >= f_max {
            return wrong(format!("f_min = {f_min} must be less than f_max = {f_max}"));
        }
        if f_min < self.f_min || f_max > self.f_max {
            return wrong(format!(
                "the range [{f_min}, {f_max}] Hz is not inside the range [{}, {}] Hz that the data have",
                self.f_min, self.f_max
            ));
        }
        let stored = self.bins();
        for end in [f_min, f_max] {
            if !self.contains(end) {
                let below = (end / self.delta_f).floor() * self.delta_f;
                return wrong(format!(
                    "{end} Hz is no point of the grid in steps of {} Hz; the nearest are {below} and {}",
                    self.delta_f,
                    below + self.delta_f
                ));
            }
        }
        *self = Self::new(f_min, f_max, self.delta_f)?;
        Ok(Cut {
            stored,
            start: 0,
            end: self.max_index() + 1,
            fill: self.min_index(),
        })
    }

    /// Whether a frequency is, in single precision, a point of the grid.
    pub(super) fn contains(&self, frequency: f64) -> bool {
        let index = (frequency / self.delta_f).round();
        (0.0..self.bins() as f64).contains(&index)
            && self.frequency(index as usize) == frequency as f32
    }

    /// The frequency of one bin, as NumPy's `linspace` makes it.
    fn frequency(&self, index: usize) -> f32 {
        let last = self.bins() - 1;
        if index == last {
            return self.f_max as f32;
        }
        (index as f64 * (self.f_max / last as f64)) as f32
    }

    /// Number of bins, `int(f_max / delta_f) + 1`.
    pub fn bins(&self) -> usize {
        (self.f_max / self.delta_f) as usize + 1
    }

    /// The first bin at or above `f_min`.
    pub fn min_index(&self) -> usize {
        (self.f_min / self.delta_f).round_ties_even() as usize
    }

    /// The last bin.
    pub fn max_index(&self) -> usize {
        (self.f_max / self.delta_f).round_ties_even() as usize
    }

    /// The lowest frequency with data, Hz.
    pub fn f_min(&self) -> f64 {
        self.f_min
    }

    /// The highest frequency, Hz.
    pub fn f_max(&self) -> f64 {
        self.f_max
    }

    /// The step, Hz.
    pub fn delta_f(&self) -> f64 {
        self.delta_f
    }

    /// The frequency of each bin, Hz.
    pub fn sample_frequencies(&self) -> Vec<f32> {
        (0..self.bins())
            .map(|index| self.frequency(index))
            .collect()
    }

    /// Standard deviation of whitened noise, `1 / sqrt(4 df)`.
    pub fn noise_std(&self) -> f64 {
        1.0 / (4.0 * self.delta_f).sqrt()
    }
}
