//! Step 9: the network's input.

use super::Spectrum;

/// Rows of the input that a detector has: real part, imaginary part, inverse noise spectrum.
pub const CHANNELS: usize = 3;
/// What brings noise spectra, 1e-23 / sqrt(Hz), to the order of one.
pub const ASD_SCALE: f64 = 1e23;

/// One detector's rows `[Re, Im, 1 / (asd 1e23)]` from bin number `first` on.
///
/// # Shapes
/// `output` is `[3, bins - first]`.
pub fn repackage(strain: &Spectrum, asd: &[f64], first: usize, output: &mut [f32]) {
    let kept = strain.bins() - first;
    let (re, rest) = output.split_at_mut(kept);
    let (im, inverse) = rest.split_at_mut(kept);
    for (value, part) in re.iter_mut().zip(&strain.re[first..]) {
        *value = *part as f32;
    }
    for (value, part) in im.iter_mut().zip(&strain.im[first..]) {
        *value = *part as f32;
    }
    for (value, asd) in inverse.iter_mut().zip(&asd[first..]) {
        *value = (1.0 / (asd * ASD_SCALE)) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_below_the_first_are_dropped() {
        let strain = Spectrum {
            re: vec![9.0, 1.0, 2.0],
            im: vec![9.0, 3.0, 4.0],
        };
        let mut output = [0.0; 6];
        repackage(&strain, &[1.0, 2e-23, 4e-23], 1, &mut output);
        assert_eq!(output, [1.0, 2.0, 3.0, 4.0, 0.5, 0.25]);
    }
}
