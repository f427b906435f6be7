//! Detectors: where they stand, how they respond to the two polarisations, and the delay of a wave.

use crate::{Error, Result};

/// Speed of light, m/s.
const SPEED_OF_LIGHT: f64 = 299_792_458.0;

/// A ground-based interferometer.
///
/// # Source
/// Vertices and tensors are those of the reference's detector files, which follow LIGO-T980044 and the
/// corresponding note on Virgo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detector {
    /// Its usual short name.
    pub name: &'static str,
    /// The vertex in Earth-fixed coordinates, m.
    pub vertex: [f64; 3],
    /// The response tensor: xx, xy, xz, yy, yz, zz.
    pub tensor: [f64; 6],
}

const DETECTORS: [Detector; 3] = [
    Detector {
        name: "H1",
        vertex: [
            -2_161_414.926_359_999,
            -3_834_695.178_888_352,
            4_600_350.226_638_994,
        ],
        tensor: [
            -0.392_614_100_056_887,
            -0.077_613_412_365_495_6,
            -0.247_389_044_673_250_37,
            0.319_524_066_853_780_7,
            0.227_997_833_078_947_08,
            0.073_090_033_203_106_42,
        ],
    },
    Detector {
        name: "L1",
        vertex: [
            -74_276.044_723_793_52,
            -5_496_283.719_708_37,
            3_224_257.017_435_617_7,
        ],
        tensor: [
            0.411_280_855_813_592_64,
            0.140_210_265_740_028_34,
            0.247_294_591_431_277_77,
            -0.109_005_690_519_136_85,
            -0.181_615_630_359_520_83,
            -0.302_275_165_294_455_9,
        ],
    },
    Detector {
        name: "V1",
        vertex: [
            4_546_374.099_002_599,
            842_989.697_626_333_8,
            4_378_576.962_409_281,
        ],
        tensor: [
            0.243_874_035_917_359_93,
            -0.099_083_779_170_607_28,
            -0.232_576_216_937_889_6,
            -0.447_825_839_936_437_2,
            0.187_833_103_270_199_42,
            0.203_951_804_019_077_23,
        ],
    },
];

/// Response to the two polarisations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Antenna {
    /// F+.
    pub plus: f64,
    /// Fx.
    pub cross: f64,
}

/// A direction in the sky as the rotating Earth sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// Sine and cosine of the angle from the Greenwich meridian, `right ascension - sidereal time`.
    longitude: (f64, f64),
    /// Sine and cosine of the declination.
    declination: (f64, f64),
}

impl Direction {
    /// The direction of (right ascension, declination) at a sidereal time.
    ///
    /// # Units
    /// Radians.
    pub fn new(right_ascension: f64, declination: f64, sidereal_time: f64) -> Self {
        Self {
            longitude: (right_ascension - sidereal_time).sin_cos(),
            declination: declination.sin_cos(),
        }
    }

    /// The two polarisation vectors for polarisation angle `psi`.
    fn polarisation(&self, psi: f64) -> ([f64; 3], [f64; 3]) {
        let ((sin_phi, cos_phi), (sin_dec, cos_dec)) = (self.longitude, self.declination);
        let u = [cos_phi * sin_dec, sin_phi * sin_dec, -cos_dec];
        let v = [-sin_phi, cos_phi, 0.0];
        let (sin_psi, cos_psi) = psi.sin_cos();
        (
            std::array::from_fn(|i| -u[i] * sin_psi - v[i] * cos_psi),
            std::array::from_fn(|i| -u[i] * cos_psi + v[i] * sin_psi),
        )
    }
}

impl Detector {
    /// The detector of that name.
    ///
    /// # Errors
    /// [`Error::Detector`].
    pub fn named(name: &str) -> Result<Self> {
        let found = DETECTORS.iter().find(|detector| detector.name == name);
        found.copied().ok_or_else(|| Error::Detector {
            name: name.to_owned(),
            known: DETECTORS.map(|detector| detector.name).join(", "),
        })
    }

    /// F+ and Fx: the tensor's contractions with `m m - n n` and `m n + n m`, where m and n are the
    /// polarisation vectors.
    ///
    /// # Units
    /// `psi` in radians.
    ///
    /// # Source
    /// Anderson, Brady, Creighton, Flanagan, Physical Review D 63, 042003, appendix B.
    pub fn antenna(&self, direction: &Direction, psi: f64) -> Antenna {
        let (m, n) = direction.polarisation(psi);
        let [xx, xy, xz, yy, yz, zz] = self.tensor;
        let rows = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]];
        let mut antenna = Antenna {
            plus: 0.0,
            cross: 0.0,
        };
        for (i, row) in rows.iter().enumerate() {
            for (j, element) in row.iter().enumerate() {
                antenna.plus += element * (m[i] * m[j] - n[i] * n[j]);
                antenna.cross += element * (m[i] * n[j] + n[i] * m[j]);
            }
        }
        antenna
    }

    /// Arrival at the detector minus arrival at the centre of the Earth: `-vertex . n / c`, where n points at
    /// the source.
    ///
    /// # Units
    /// Seconds.
    pub fn delay(&self, direction: &Direction) -> f64 {
        let ((sin_phi, cos_phi), (sin_dec, cos_dec)) = (direction.longitude, direction.declination);
        let source = [cos_dec * cos_phi, cos_dec * sin_phi, sin_dec];
        let distance: f64 = self.vertex.iter().zip(source).map(|(r, n)| r * n).sum();
        -distance / SPEED_OF_LIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greenwich_mean_sidereal_time;

    /// Printed by the reference.
    #[test]
    fn response_of_h1() {
        let gmst = greenwich_mean_sidereal_time(1_126_259_462.391);
        let direction = Direction::new(1.2, 0.3, gmst);
        let h1 = Detector::named("H1").unwrap();
        let antenna = h1.antenna(&direction, 0.7);
        assert!((antenna.plus - 0.118100286092917).abs() < 1e-12);
        assert!((antenna.cross - 0.658115042574771).abs() < 1e-12);
        assert!((h1.delay(&direction) + 0.014027081793763035).abs() < 1e-15);
    }

    #[test]
    fn response_tensors_are_traceless_and_delays_bounded() {
        for detector in DETECTORS {
            let [xx, _, _, yy, _, zz] = detector.tensor;
            assert!((xx + yy + zz).abs() < 1e-7, "{}", detector.name);
            let radius = detector.vertex.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!((6.35e6..6.39e6).contains(&radius));
            let towards = {
                let [x, y, z] = detector.vertex.map(|x| x / radius);
                Direction::new(y.atan2(x), z.asin(), 0.0)
            };
            let earliest = detector.delay(&towards);
            assert!((earliest + radius / SPEED_OF_LIGHT).abs() < 1e-15);
        }
    }

    /// Turning the polarisation by 45 degrees exchanges the two, by 90 it turns both signs.
    #[test]
    fn responses_turn_with_the_polarisation() {
        let direction = Direction::new(0.4, -0.8, 1.1);
        for detector in DETECTORS {
            let at = |psi: f64| detector.antenna(&direction, psi);
            let (a, b) = (at(0.2), at(0.2 + std::f64::consts::FRAC_PI_4));
            assert!((b.plus - a.cross).abs() < 1e-15 && (b.cross + a.plus).abs() < 1e-15);
            assert!(a.plus.hypot(a.cross) <= 1.0);
        }
    }

    #[test]
    fn unknown_detectors_are_named() {
        for name in ["K1", "h1", "", "ET"] {
            let message = Detector::named(name).unwrap_err().to_string();
            assert!(message.ends_with("expected one of H1, L1, V1"), "{message}");
            assert!(message.contains(&format!("`{name}`")));
        }
    }
}
