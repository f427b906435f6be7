//! Frequency domains: the grids on which waveforms and noise spectra are given.
//!
//! Here: the uniform grid from 0 to `f_max`, the multibanded grid whose step doubles from band to band,
//! narrowing either, and what narrowing does to data. Deliberately not here: time domains.

mod multibanded;
mod uniform;

pub use multibanded::MultibandedFrequencyDomain;
pub use uniform::UniformFrequencyDomain;

use serde_json::Value;

use crate::pipeline::{Band, Grid};
use crate::{Error, Result};

/// A frequency domain as the settings name it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Domain {
    /// Equal steps from 0 on.
    Uniform(UniformFrequencyDomain),
    /// Bands with doubling steps.
    Multibanded(MultibandedFrequencyDomain),
}

/// What a domain does to data that were made for it, or for the wider domain it was narrowed from.
///
/// Bins before `start` and from `end` on are dropped; of the bins that stay, the first `fill` get a
/// constant: 0 for a waveform, 1 for a noise spectrum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bins of the data as they are stored.
    pub stored: usize,
    /// The first bin that stays.
    pub start: usize,
    /// The first bin behind those that stay.
    pub end: usize,
    /// How many of those that stay are overwritten.
    pub fill: usize,
}

impl Cut {
    /// Bins that stay.
    pub fn bins(&self) -> usize {
        self.end - self.start
    }
}

/// An error about a domain.
fn wrong<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Domain {
        reason: reason.into(),
    })
}

/// The number under `key`, which must be there and finite.
fn number(settings: &serde_json::Map<String, Value>, key: &str) -> Result<f64> {
    match settings.get(key).map(Value::as_f64) {
        Some(Some(number)) if number.is_finite() => Ok(number),
        Some(_) => wrong(format!("`{key}` must be a number, got {}", settings[key])),
        None => wrong(format!(
            "`{key}` is missing, there are: {}",
            settings.keys().cloned().collect::<Vec<_>>().join(", ")
        )),
    }
}

fn only(settings: &serde_json::Map<String, Value>, known: &[&str]) -> Result<()> {
    match settings.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => wrong(format!(
            "unknown setting `{key}`, expected {}",
            known.join(", ")
        )),
    }
}

/// The bounds that an update of a domain asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bounds {
    f_min: Option<f64>,
    f_max: Option<f64>,
}

impl Bounds {
    fn of(settings: &serde_json::Map<String, Value>) -> Result<Self> {
        let bound = |key: &str| match settings.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => number(settings, key).map(Some),
        };
        let bounds = Self {
            f_min: bound("f_min")?,
            f_max: bound("f_max")?,
        };
        if let (Some(low), Some(high)) = (bounds.f_min, bounds.f_max)
            && low >= high
        {
            return wrong(format!("f_min = {low} must be less than f_max = {high}"));
        }
        Ok(bounds)
    }
}

impl Domain {
    /// The domain that settings describe: `type` and the domain's own keys.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] when a key is missing, unknown or makes no sense.
    pub fn from_settings(settings: &Value) -> Result<Self> {
        let Some(map) = settings.as_object() else {
            return wrong(format!("its settings must be a dictionary, got {settings}"));
        };
        match map.get("type").and_then(Value::as_str) {
            Some(kind) if UniformFrequencyDomain::NAMES.contains(&kind) => {
                UniformFrequencyDomain::from_settings(map).map(Self::Uniform)
            }
            Some(kind) if MultibandedFrequencyDomain::NAMES.contains(&kind) => {
                MultibandedFrequencyDomain::from_settings(map).map(Self::Multibanded)
            }
            Some(kind) => wrong(format!(
                "type `{kind}` is not supported, expected UniformFrequencyDomain or \
                 MultibandedFrequencyDomain"
            )),
            None => wrong(format!("its settings have no `type`: {settings}")),
        }
    }

    /// The settings that rebuild the domain, as dingo writes them.
    pub fn settings(&self) -> Value {
        match self {
            Self::Uniform(domain) => domain.settings(),
            Self::Multibanded(domain) => domain.settings(),
        }
    }

    /// Narrows the domain and says what that does to data of the domain as it was.
    ///
    /// `settings` holds `f_min`, `f_max` or both, or all settings of the narrowed domain.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] when the new range is not inside the old one, its ends are no grid points, the
    /// step or the type would change, or a multibanded domain is narrowed a second time.
    pub fn update(&mut self, settings: &Value) -> Result<Cut> {
        let Some(map) = settings.as_object() else {
            return wrong(format!("its update must be a dictionary, got {settings}"));
        };
        match self {
            Self::Uniform(domain) => domain.update(map),
            Self::Multibanded(domain) => domain.update(map),
        }
    }

    /// What the domain does to data of its own length: bins below `f_min` are overwritten.
    pub fn cut(&self) -> Cut {
        Cut {
            stored: self.bins(),
            start: 0,
            end: self.bins(),
            fill: self.min_index(),
        }
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        match self {
            Self::Uniform(domain) => domain.bins(),
            Self::Multibanded(domain) => domain.bins(),
        }
    }

    /// The first bin at or above `f_min`.
    pub fn min_index(&self) -> usize {
        match self {
            Self::Uniform(domain) => domain.min_index(),
            Self::Multibanded(_) => 0,
        }
    }

    /// The last bin.
    pub fn max_index(&self) -> usize {
        match self {
            Self::Uniform(domain) => domain.max_index(),
            Self::Multibanded(domain) => domain.bins() - 1,
        }
    }

    /// The lowest frequency with data, Hz.
    pub fn f_min(&self) -> f64 {
        match self {
            Self::Uniform(domain) => domain.f_min(),
            Self::Multibanded(domain) => domain.f_min(),
        }
    }

    /// The highest frequency, Hz.
    pub fn f_max(&self) -> f64 {
        match self {
            Self::Uniform(domain) => domain.f_max(),
            Self::Multibanded(domain) => domain.f_max(),
        }
    }

    /// The frequency of each bin, Hz.
    pub fn sample_frequencies(&self) -> Vec<f32> {
        match self {
            Self::Uniform(domain) => domain.sample_frequencies(),
            Self::Multibanded(domain) => domain.sample_frequencies().to_vec(),
        }
    }

    /// Standard deviation of whitened noise, `1 / sqrt(4 df)`: one value for all bins, or one a bin.
    pub fn noise_std(&self) -> Vec<f64> {
        match self {
            Self::Uniform(domain) => vec![domain.noise_std()],
            Self::Multibanded(domain) => domain.noise_std(),
        }
    }

    /// The grid that the transforms of training work on.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] when no bin is left.
    pub fn grid(&self) -> Result<Grid> {
        let bands = match self {
            Self::Uniform(domain) => vec![Band {
                start: 0.0,
                step: domain.delta_f(),
                bins: domain.bins(),
            }],
            Self::Multibanded(domain) => domain.bands(),
        };
        match Grid::new(bands, self.min_index(), &self.noise_std()) {
            Some(grid) => Ok(grid),
            None => wrong("no bin reaches the network"),
        }
    }
}

#[cfg(test)]
mod tests;
