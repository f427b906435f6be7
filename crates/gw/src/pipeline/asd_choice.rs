//! Step 5: which noise spectrum a sample gets in each detector.

use dunnart_random::Purpose;

use super::Draw;

/// Indices of noise spectra, one per detector: independent, uniform, with replacement.
///
/// # Shapes
/// `available` has the number of spectra of each detector; one with none gets 0.
pub fn choose_asd(draw: Draw, sample: u64, available: &[usize]) -> Vec<usize> {
    let mut stream = draw.key(Purpose::AsdChoice).stream(sample);
    available
        .iter()
        .map(|&count| stream.below(count as u64) as usize)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_uniform_and_independent() {
        let draw = Draw {
            seed: 4,
            stage: 0,
            epoch: 1,
        };
        let mut counts = [[0u32; 3]; 4];
        let samples = 12_000;
        for sample in 0..samples {
            let choice = choose_asd(draw, sample, &[4, 3]);
            assert_eq!(choice, choose_asd(draw, sample, &[4, 3]));
            counts[choice[0]][choice[1]] += 1;
        }
        let expected = samples as f64 / 12.0;
        let cells = counts.as_flattened().iter();
        let chi_squared: f64 = cells
            .map(|&c| (f64::from(c) - expected).powi(2) / expected)
            .sum();
        // The 0.1 and 99.9 per cent points of chi-squared with eleven degrees of freedom.
        assert!((1.59..31.3).contains(&chi_squared), "{chi_squared}");
        assert_eq!(choose_asd(draw, 0, &[1, 1]), [0, 0]);
    }
}
