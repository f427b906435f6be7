//! Step 2: arrival times at the detectors, and their antenna patterns.

use crate::{Antenna, Detector, Direction, Result, greenwich_mean_sidereal_time};

use super::Extrinsic;

/// Detectors in the order of the network's detector axis, at one sidereal time.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorNetwork {
    detectors: Vec<Detector>,
    sidereal_time: f64,
}

/// What the detectors see of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Sky {
    /// Arrival times after the reference time, s, `[I]`.
    pub times: Vec<f64>,
    /// Antenna patterns, `[I]`.
    pub antennas: Vec<Antenna>,
}

impl DetectorNetwork {
    /// The named detectors at a GPS time.
    ///
    /// # Errors
    /// [`crate::Error::Detector`].
    pub fn new<S: AsRef<str>>(names: &[S], reference_time: f64) -> Result<Self> {
        let detectors = names.iter().map(|name| Detector::named(name.as_ref()));
        Ok(Self {
            detectors: detectors.collect::<Result<_>>()?,
            sidereal_time: greenwich_mean_sidereal_time(reference_time),
        })
    }

    /// The detectors.
    pub fn detectors(&self) -> &[Detector] {
        &self.detectors
    }

    /// Arrival times `geocent_time + delay` and antenna patterns of every detector.
    pub fn see(&self, source: &Extrinsic) -> Sky {
        let direction = Direction::new(source.ra, source.dec, self.sidereal_time);
        let detectors = self.detectors.iter();
        Sky {
            times: detectors
                .clone()
                .map(|detector| source.geocent_time + detector.delay(&direction))
                .collect(),
            antennas: detectors
                .map(|detector| detector.antenna(&direction, source.psi))
                .collect(),
        }
    }
}
