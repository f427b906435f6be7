//! Step 1: the extrinsic parameters of a sample, drawn from their priors.

use dunnart_random::Purpose;
use serde_json::{Map, Value};
use std::f64::consts::{FRAC_PI_2, PI, TAU};

use super::Draw;
use crate::{Error, Prior, Result};

/// The parameters that are drawn for every sample and epoch anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extrinsic {
    /// Right ascension, rad.
    pub ra: f64,
    /// Declination, rad.
    pub dec: f64,
    /// Arrival at the centre of the Earth after the reference time, s.
    pub geocent_time: f64,
    /// Polarisation angle, rad.
    pub psi: f64,
    /// Luminosity distance, Mpc.
    pub luminosity_distance: f64,
}

impl Extrinsic {
    /// Their names, in the order in which they are drawn.
    pub const NAMES: [&'static str; 5] =
        ["ra", "dec", "geocent_time", "psi", "luminosity_distance"];

    /// The values in the order of [`Extrinsic::NAMES`].
    pub fn values(&self) -> [f64; 5] {
        [
            self.ra,
            self.dec,
            self.geocent_time,
            self.psi,
            self.luminosity_distance,
        ]
    }

    /// Values in the order of [`Extrinsic::NAMES`].
    pub fn from_values([ra, dec, geocent_time, psi, luminosity_distance]: [f64; 5]) -> Self {
        Self {
            ra,
            dec,
            geocent_time,
            psi,
            luminosity_distance,
        }
    }
}

/// The priors of the extrinsic parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtrinsicPriors {
    priors: [Prior; 5],
}

impl Default for ExtrinsicPriors {
    /// The reference's: isotropic sky, uniform angles, 0.1 s around the reference time, 100 to 6000 Mpc.
    fn default() -> Self {
        let uniform = |minimum, maximum| Prior::Uniform { minimum, maximum };
        let dec = Prior::Cosine {
            minimum: -FRAC_PI_2,
            maximum: FRAC_PI_2,
        };
        Self {
            priors: [
                uniform(0.0, TAU),
                dec,
                uniform(-0.1, 0.1),
                uniform(0.0, PI),
                uniform(100.0, 6000.0),
            ],
        }
    }
}

impl ExtrinsicPriors {
    /// The defaults, replaced where the settings give a prior other than `default`.
    ///
    /// # Errors
    /// [`Error::Prior`] for a prior that cannot be read, for a parameter that is not extrinsic, and for a
    /// distance that may be zero or negative.
    pub fn from_settings(settings: &Map<String, Value>) -> Result<Self> {
        let mut all = Self::default();
        for (name, value) in settings {
            let refuse = |reason: String| Error::Prior {
                parameter: name.clone(),
                text: value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
                reason,
            };
            let Some(place) = Extrinsic::NAMES.iter().position(|known| known == name) else {
                return Err(refuse(format!(
                    "not an extrinsic parameter, expected one of {}",
                    Extrinsic::NAMES.join(", ")
                )));
            };
            if value.as_str() == Some("default") {
                continue;
            }
            let prior = Prior::from_value(name, value)?;
            if name == "luminosity_distance" && prior.bounds().0 <= 0.0 {
                return Err(refuse("a distance must be positive".into()));
            }
            all.priors[place] = prior;
        }
        Ok(all)
    }

    /// The prior of an extrinsic parameter.
    pub fn prior(&self, name: &str) -> Option<&Prior> {
        let place = Extrinsic::NAMES.iter().position(|known| *known == name)?;
        Some(&self.priors[place])
    }

    /// The same priors with one distance for all.
    #[must_use]
    pub fn with_distance(mut self, distance: f64) -> Self {
        self.priors[4] = Prior::Delta { peak: distance };
        self
    }

    /// The draws of a sample, rounded to single precision as the network gets them.
    pub fn draw(&self, draw: Draw, sample: u64) -> Extrinsic {
        let mut stream = draw.key(Purpose::ExtrinsicParameters).stream(sample);
        Extrinsic::from_values(
            self.priors
                .map(|prior| f64::from(prior.sample(&mut stream) as f32)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Result<ExtrinsicPriors> {
        ExtrinsicPriors::from_settings(value.as_object().unwrap())
    }

    #[test]
    fn settings_stand_over_the_defaults() {
        let priors = read(&json!({
            "dec": "default",
            "geocent_time": 0.0,
            "luminosity_distance": "bilby.core.prior.PowerLaw(alpha=2, minimum=100.0, maximum=1000.0)",
        }))
        .unwrap();
        let default = ExtrinsicPriors::default();
        assert_eq!(priors.prior("dec"), default.prior("dec"));
        assert_eq!(priors.prior("ra"), default.prior("ra"));
        assert_eq!(
            priors.prior("geocent_time"),
            Some(&Prior::Delta { peak: 0.0 })
        );
        let law = Prior::PowerLaw {
            alpha: 2.0,
            minimum: 100.0,
            maximum: 1000.0,
        };
        assert_eq!(priors.prior("luminosity_distance"), Some(&law));
        assert_eq!(priors.prior("mass_1"), None);
    }

    #[test]
    fn wrong_settings_are_named() {
        for (value, part) in [
            (json!({"phase": "default"}), "not an extrinsic parameter"),
            (json!({"ra": "Uniform(0)"}), "`maximum` is missing"),
            (json!({"ra": "Default"}), "prior of `ra`"),
            (
                json!({"luminosity_distance": "Uniform(0, 1)"}),
                "must be positive",
            ),
            (json!({"luminosity_distance": -100}), "must be positive"),
            (
                json!({"luminosity_distance": "Normal(100, 1)"}),
                "must be positive",
            ),
        ] {
            let message = read(&value).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn draws_belong_to_sample_and_epoch() {
        let priors = ExtrinsicPriors::default();
        let draw = Draw {
            seed: 1,
            stage: 0,
            epoch: 3,
        };
        let first = priors.draw(draw, 7);
        assert_eq!(first, priors.draw(draw, 7));
        for other in [
            priors.draw(draw, 8),
            priors.draw(Draw { epoch: 4, ..draw }, 7),
            priors.draw(Draw { stage: 1, ..draw }, 7),
            priors.draw(Draw { seed: 2, ..draw }, 7),
        ] {
            let pairs = first.values().into_iter().zip(other.values());
            assert!(pairs.into_iter().all(|(a, b)| a != b));
        }
        // One parameter's prior does not move the others.
        let fixed = priors.clone().with_distance(100.0).draw(draw, 7);
        assert_eq!(
            fixed,
            Extrinsic {
                luminosity_distance: 100.0,
                ..first
            }
        );
        for (value, name) in first.values().into_iter().zip(Extrinsic::NAMES) {
            assert_eq!(value, f64::from(value as f32));
            let (low, high) = priors.prior(name).unwrap().bounds();
            assert!(low <= value && value <= high, "{name}");
        }
    }
}
