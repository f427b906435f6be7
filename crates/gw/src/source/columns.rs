//! Which number of a sample stands in which column of theta and of the context parameters.

use super::chain::{Chain, SampleDraws};
use super::{SourceSettings, Waveforms};
use crate::pipeline::Extrinsic;
use crate::{Error, Moments, Result, Standardization};

/// Where the value of a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The data set's column with that place.
    Intrinsic(usize),
    /// One of the drawn parameters, by its place in [`Extrinsic::NAMES`].
    Extrinsic(usize),
    /// The arrival time at a detector; what is left of it where there are proxies.
    DetectorTime(usize),
    /// The proxy of a detector's time.
    Proxy(usize),
    /// The same relative to the first detector's, by its place among the relative ones.
    RelativeProxy(usize),
}

/// Place of the time in [`Extrinsic::NAMES`].
const TIME: usize = 2;

impl Column {
    /// The column of that name.
    fn named(name: &str, chain: &Chain, waveforms: &dyn Waveforms) -> Option<Self> {
        // Drawn values stand over the data set's.
        if let Some(place) = Extrinsic::NAMES.iter().position(|known| *known == name) {
            return Some(Self::Extrinsic(place));
        }
        let detectors = chain.detectors();
        for (i, detector) in detectors.iter().enumerate() {
            if let Some(what) = name.strip_prefix(detector.as_str()) {
                match (what, chain.shifts()) {
                    ("_time", _) => return Some(Self::DetectorTime(i)),
                    ("_time_proxy", Some(_)) => return Some(Self::Proxy(i)),
                    ("_time_proxy_relative", Some(shifts))
                        if shifts.exact_equivariance && i > 0 =>
                    {
                        return Some(Self::RelativeProxy(i - 1));
                    }
                    _ => {}
                }
            }
        }
        let names = waveforms.parameter_names();
        names
            .iter()
            .position(|known| known == name)
            .map(Self::Intrinsic)
    }

    /// The value of a sample.
    pub(super) fn value(self, drawn: &SampleDraws, intrinsic: impl Fn(usize) -> f32) -> f64 {
        let shifted = drawn.shifted.as_ref();
        match (self, shifted) {
            (Self::Intrinsic(place), _) => f64::from(intrinsic(place)),
            (Self::Extrinsic(TIME), Some(shifted)) => shifted.geocent_time,
            (Self::Extrinsic(place), _) => drawn.source.values()[place],
            (Self::DetectorTime(i), _) => drawn.applied_times()[i],
            (Self::Proxy(i), Some(shifted)) => shifted.proxies[i],
            (Self::RelativeProxy(i), Some(shifted)) => shifted.context[i],
            // Without proxies no such column is made.
            (Self::Proxy(_) | Self::RelativeProxy(_), None) => f64::NAN,
        }
    }
}

/// The columns of theta and of the context parameters.
pub(super) struct Columns {
    inference: Vec<String>,
    context: Vec<String>,
    /// Of both, in that order.
    columns: Vec<Column>,
    moments: Vec<Moments>,
}

impl Columns {
    /// The columns of the settings; names of proxies are appended to the context parameters once.
    pub(super) fn new(
        settings: &SourceSettings,
        chain: &Chain,
        waveforms: &dyn Waveforms,
    ) -> Result<Self> {
        let inference = settings.inference_parameters.clone();
        let mut context = settings.context_parameters.clone();
        if let Some(shifts) = chain.shifts() {
            for name in shifts.names(chain.detectors()) {
                if !context.contains(&name) {
                    context.push(name);
                }
            }
        }
        if inference.is_empty() {
            return Err(Error::Data {
                what: "inference_parameters".into(),
                expected: "at least one".into(),
                actual: "none".into(),
            });
        }
        let columns = inference.iter().chain(&context).map(|name| {
            Column::named(name, chain, waveforms).ok_or_else(|| Error::Parameter {
                name: name.clone(),
                known: known(chain, waveforms).join(", "),
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        // A parameter that the data set varies cannot be drawn again.
        for (place, name) in waveforms.parameter_names().iter().enumerate() {
            let values = waveforms.parameter(place);
            if Extrinsic::NAMES.contains(&name.as_str())
                && let Some(other) = values.iter().find(|&&value| value != values[0])
            {
                return Err(Error::Data {
                    what: format!("`{name}` of the waveforms, which is drawn in training"),
                    expected: format!("the same for all, {}", values[0]),
                    actual: other.to_string(),
                });
            }
        }
        Ok(Self {
            inference,
            context,
            columns,
            moments: Vec::new(),
        })
    }

    /// The same with what each column is standardised with.
    pub(super) fn with_moments(mut self, all: &Standardization) -> Result<Self> {
        let moments = self.names().map(|name| all.get(name));
        self.moments = moments.collect::<Result<_>>()?;
        Ok(self)
    }

    pub(super) fn inference(&self) -> &[String] {
        &self.inference
    }

    pub(super) fn context(&self) -> &[String] {
        &self.context
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.inference.iter().chain(&self.context)
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Appends the standardised row of a sample.
    pub(super) fn fill(
        &self,
        drawn: &SampleDraws,
        intrinsic: impl Fn(usize) -> f32,
        theta: &mut Vec<f32>,
        context: &mut Vec<f32>,
    ) {
        let values = self.columns.iter().zip(&self.moments);
        for (i, (column, moments)) in values.enumerate() {
            let value = moments.standardize(column.value(drawn, &intrinsic));
            let target = if i < self.inference.len() {
                &mut *theta
            } else {
                &mut *context
            };
            target.push(value);
        }
    }
}

/// All names that a column can have.
fn known(chain: &Chain, waveforms: &dyn Waveforms) -> Vec<String> {
    let mut names: Vec<String> = waveforms.parameter_names().to_vec();
    names.extend(Extrinsic::NAMES.map(str::to_owned));
    names.extend(chain.detectors().iter().map(|name| format!("{name}_time")));
    if let Some(shifts) = chain.shifts() {
        names.extend(shifts.names(chain.detectors()));
    }
    names.sort();
    names.dedup();
    names
}
