//! Steps 1 to 3 for a sample: everything that is drawn before there is strain.

use super::{SourceSettings, Waveforms};
use crate::pipeline::{
    DetectorDraw, DetectorNetwork, Draw, Extrinsic, ExtrinsicPriors, ShiftedTimes, TimeShifts,
};
use crate::{Antenna, Error, Result};

/// The first three steps with their settings.
pub(super) struct Chain {
    detectors: Vec<String>,
    priors: ExtrinsicPriors,
    network: DetectorNetwork,
    shifts: Option<TimeShifts>,
    /// Place of the distance among the intrinsic parameters.
    distance: usize,
}

/// What the first three steps make of a sample.
pub(super) struct SampleDraws {
    /// Drawn parameters; the time as it was drawn.
    pub(super) source: Extrinsic,
    /// Arrival times, `[I]`.
    pub(super) times: Vec<f64>,
    /// Antenna patterns, `[I]`.
    pub(super) antennas: Vec<Antenna>,
    /// What the time proxies make of the times.
    pub(super) shifted: Option<ShiftedTimes>,
}

impl Chain {
    pub(super) fn new(settings: &SourceSettings, waveforms: &dyn Waveforms) -> Result<Self> {
        if settings.detectors.is_empty() {
            return Err(Error::Data {
                what: "detectors".into(),
                expected: "at least one".into(),
                actual: "none".into(),
            });
        }
        for (i, name) in settings.detectors.iter().enumerate() {
            if settings.detectors[..i].contains(name) {
                return Err(Error::Data {
                    what: "detectors".into(),
                    expected: "each of them once".into(),
                    actual: format!("{name} twice"),
                });
            }
        }
        let names = waveforms.parameter_names();
        let place = |name: &str| names.iter().position(|known| known == name);
        let distance = place("luminosity_distance").ok_or_else(|| Error::Parameter {
            name: "luminosity_distance".into(),
            known: names.join(", "),
        })?;
        if let Some(bad) = waveforms
            .parameter(distance)
            .iter()
            .find(|&&d| !(d > 0.0 && d.is_finite()))
        {
            return Err(Error::Data {
                what: "luminosity_distance of the waveforms".into(),
                expected: "positive distances".into(),
                actual: bad.to_string(),
            });
        }
        if let Some(time) = place("geocent_time")
            && let Some(bad) = waveforms.parameter(time).iter().find(|&&t| t != 0.0)
        {
            return Err(Error::Data {
                what: "geocent_time of the waveforms".into(),
                expected: "0, as times are drawn in training".into(),
                actual: bad.to_string(),
            });
        }
        let shifts = settings
            .time_shifts
            .as_ref()
            .map(|(kernel, exact)| TimeShifts::new(kernel, *exact))
            .transpose()?;
        Ok(Self {
            detectors: settings.detectors.clone(),
            priors: ExtrinsicPriors::from_settings(&settings.extrinsic_prior)?,
            network: DetectorNetwork::new(&settings.detectors, settings.reference_time)?,
            shifts,
            distance,
        })
    }

    pub(super) fn detectors(&self) -> &[String] {
        &self.detectors
    }

    pub(super) fn priors(&self) -> &ExtrinsicPriors {
        &self.priors
    }

    pub(super) fn shifts(&self) -> Option<&TimeShifts> {
        self.shifts.as_ref()
    }

    /// The distance that a waveform was made for.
    pub(super) fn reference_distance(&self, waveforms: &dyn Waveforms, sample: u64) -> f64 {
        f64::from(waveforms.parameter(self.distance)[sample as usize])
    }

    /// The draws of a sample, at a distance of its own if one is given.
    pub(super) fn draw(&self, draw: Draw, sample: u64, distance: Option<f64>) -> SampleDraws {
        let mut source = self.priors.draw(draw, sample);
        source.luminosity_distance = distance.unwrap_or(source.luminosity_distance);
        let sky = self.network.see(&source);
        let shifted = self.shifts.as_ref().map(|shifts| {
            let blurs = shifts.draw(draw, sample, self.detectors.len());
            shifts.apply(&sky.times, source.geocent_time, &blurs)
        });
        SampleDraws {
            source,
            times: sky.times,
            antennas: sky.antennas,
            shifted,
        }
    }
}

impl SampleDraws {
    /// Times that the strain is shifted to, `[I]`.
    pub(super) fn applied_times(&self) -> &[f64] {
        self.shifted
            .as_ref()
            .map_or(&self.times, |shifted| &shifted.times)
    }

    /// What steps 4 to 9 need for each detector.
    pub(super) fn detectors<'a>(
        &self,
        reference_distance: f64,
        spectra: impl Iterator<Item = &'a [f32]>,
    ) -> impl Iterator<Item = DetectorDraw<'a>> {
        let ratio = reference_distance / self.source.luminosity_distance;
        let times = self.applied_times().iter();
        self.antennas
            .iter()
            .zip(times)
            .zip(spectra)
            .map(move |((antenna, time), inverse_asd)| DetectorDraw {
                antenna: Antenna {
                    plus: antenna.plus * ratio,
                    cross: antenna.cross * ratio,
                },
                time: *time,
                inverse_asd,
            })
    }
}
