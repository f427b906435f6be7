//! Step 7: white noise.

use dunnart_random::Purpose;

use super::{Draw, Spectrum};

/// Blocks of random numbers that belong to a detector: as many bins twice over.
const BLOCKS_PER_DETECTOR: u64 = 1 << 40;

/// The noise of a sample in one detector, N(0, 1) in each part, from bin number `start` on.
///
/// Bins are counted from the first one that reaches the network, so that nothing is drawn for the others.
/// The numbers of a bin do not depend on where a call starts.
///
/// # Domain
/// `start` is even: two bins share a block of random numbers.
///
/// # Shapes
/// `re` and `im` are equally long.
pub fn draw_noise(
    draw: Draw,
    sample: u64,
    detector: usize,
    start: usize,
    re: &mut [f32],
    im: &mut [f32],
) {
    debug_assert!(start.is_multiple_of(2));
    let block = detector as u64 * BLOCKS_PER_DETECTOR + start as u64 / 2;
    draw.key(Purpose::DataNoise)
        .stream_at(sample, block)
        .fill_complex_normal(re, im);
}

/// Adds noise to a strain.
///
/// # Shapes
/// Both have the same bins.
pub fn add_noise(strain: &mut Spectrum, noise: &Spectrum) {
    for (value, noise) in strain.re.iter_mut().zip(&noise.re) {
        *value += noise;
    }
    for (value, noise) in strain.im.iter_mut().zip(&noise.im) {
        *value += noise;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_belongs_to_sample_detector_and_bin() {
        let draw = Draw {
            seed: 1,
            stage: 0,
            epoch: 0,
        };
        let noise = |draw, sample, detector, start: usize, bins: usize| {
            let (mut re, mut im) = (vec![0.0; bins], vec![0.0; bins]);
            draw_noise(draw, sample, detector, start, &mut re, &mut im);
            (re, im)
        };
        let (re, im) = noise(draw, 3, 1, 0, 101);
        let (later_re, later_im) = noise(draw, 3, 1, 64, 37);
        assert_eq!((&re[64..], &im[64..]), (&later_re[..], &later_im[..]));
        for other in [
            noise(draw, 3, 0, 0, 101),
            noise(draw, 4, 1, 0, 101),
            noise(Draw { epoch: 1, ..draw }, 3, 1, 0, 101),
        ] {
            assert!(other.0.iter().zip(&re).all(|(a, b)| a != b));
            assert!(other.1.iter().zip(&im).all(|(a, b)| a != b));
        }
        let mut strain = Spectrum {
            re: vec![1.0],
            im: vec![2.0],
        };
        add_noise(
            &mut strain,
            &Spectrum {
                re: vec![0.5],
                im: vec![-1.0],
            },
        );
        assert_eq!(
            strain,
            Spectrum {
                re: vec![1.5],
                im: vec![1.0]
            }
        );
    }
}
