//! Step 6: division by the noise spectrum, scaled so that noise has unit variance.

use super::{ASD_SCALE, Spectrum};

/// Divides bin by bin by `asd noise_std`.
///
/// # Shapes
/// All have the same bins.
pub fn whiten(strain: &mut Spectrum, asd: &[f64], noise_std: &[f64]) {
    let levels = asd.iter().zip(noise_std);
    for ((re, im), (asd, std)) in strain.re.iter_mut().zip(&mut strain.im).zip(levels) {
        let level = asd * std;
        *re /= level;
        *im /= level;
    }
}

/// What the network's third channel, `1 / (asd 1e23)`, is multiplied by to whiten strain:
/// `1e23 / noise_std`.
pub(super) fn whitening_scale(noise_std: f64) -> f32 {
    (ASD_SCALE / noise_std) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_divided() {
        let mut strain = Spectrum {
            re: vec![6.0, 1.0],
            im: vec![-3.0, 8.0],
        };
        whiten(&mut strain, &[2.0, 1.0], &[1.5, 4.0]);
        assert_eq!(
            strain,
            Spectrum {
                re: vec![2.0, 0.25],
                im: vec![-1.0, 2.0]
            }
        );
    }
}
