//! Step 4: strain at a detector from the two polarisations.

use super::Spectrum;
use crate::Antenna;
use std::f64::consts::TAU;

/// The strain `(d0 / d) (F+ h+ + Fx hx)`, before it is shifted in time.
///
/// # Shapes
/// Both polarisations have the same bins.
///
/// # Units
/// Distances in the same unit: `distance_ratio` is the data set's over the sample's.
pub fn project(
    plus: &Spectrum,
    cross: &Spectrum,
    antenna: Antenna,
    distance_ratio: f64,
) -> Spectrum {
    let (a, b) = (
        antenna.plus * distance_ratio,
        antenna.cross * distance_ratio,
    );
    let combine = |plus: &[f64], cross: &[f64]| {
        let pairs = plus.iter().zip(cross);
        pairs.map(|(p, c)| a * p + b * c).collect()
    };
    Spectrum {
        re: combine(&plus.re, &cross.re),
        im: combine(&plus.im, &cross.im),
    }
}

/// Shifts a strain to `time`: multiplies bin f by `exp(-2 pi i f time)`.
///
/// # Units
/// Hz and s.
pub fn apply_time_shift(strain: &mut Spectrum, frequencies: &[f64], time: f64) {
    let parts = strain.re.iter_mut().zip(&mut strain.im);
    for ((re, im), frequency) in parts.zip(frequencies) {
        let (sine, cosine) = (-TAU * frequency * time).sin_cos();
        (*re, *im) = (*re * cosine - *im * sine, *re * sine + *im * cosine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projection_and_shift_by_hand() {
        let plus = Spectrum {
            re: vec![1.0, 2.0],
            im: vec![0.0, -1.0],
        };
        let cross = Spectrum {
            re: vec![0.5, 0.0],
            im: vec![1.0, 3.0],
        };
        let antenna = Antenna {
            plus: 2.0,
            cross: -4.0,
        };
        let mut strain = project(&plus, &cross, antenna, 0.5);
        assert_eq!(strain.re, [0.0, 2.0]);
        assert_eq!(strain.im, [-2.0, -7.0]);
        // A quarter turn backwards multiplies by -i.
        apply_time_shift(&mut strain, &[0.0, 0.25], 1.0);
        assert_eq!((strain.re[0], strain.im[0]), (0.0, -2.0));
        assert!((strain.re[1] + 7.0).abs() < 1e-15 && (strain.im[1] + 2.0).abs() < 1e-15);
    }
}
