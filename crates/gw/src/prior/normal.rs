//! Distribution function of the normal distribution and its inverse.

use dunnart_elementwise::gaussian_cdf_and_pdf;

/// Phi(x).
pub(super) fn distribution(x: f64) -> f64 {
    gaussian_cdf_and_pdf::<f64, false>(x).0
}

/// The x with Phi(x) = `u`; shares below 2^-1000 count as that.
///
/// # Numerics
/// A rational first guess (Abramowitz and Stegun 26.2.23, error 4.5e-4), then three steps of Halley's
/// method, each of which triples the number of digits; relative error of Phi(x) below 1e-13 (test
/// `quantile_inverts_the_distribution`).
pub(super) fn quantile(u: f64) -> f64 {
    // Written so that the share is at most a half: nothing cancels.
    let lower = u <= 0.5;
    let share = if lower { u } else { 1.0 - u }.max(f64::from_bits(1 << 52) * 1e7);
    let t = (-2.0 * share.ln()).sqrt();
    let guess = t
        - (2.515517 + t * (0.802853 + t * 0.010328))
            / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    let mut x = -guess;
    for _ in 0..3 {
        let (cdf, pdf) = gaussian_cdf_and_pdf::<f64, false>(x);
        let step = (cdf - share) / pdf;
        x -= step / (1.0 + 0.5 * x * step);
    }
    if lower { x } else { -x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_inverts_the_distribution() {
        for i in 1..2000 {
            let u = f64::from(i) / 4000.0;
            let x = quantile(u);
            assert!((distribution(x) / u - 1.0).abs() < 1e-13, "{u}: {x}");
            assert!((quantile(1.0 - u) + x).abs() < 1e-13);
        }
        for exponent in 1..300 {
            let u = 10.0f64.powi(-exponent);
            assert!((distribution(quantile(u)) / u - 1.0).abs() < 1e-11, "{u}");
        }
        assert!(quantile(0.0).is_finite() && quantile(0.0) < -37.0);
        // The 97.5 per cent point, from any table.
        assert!((quantile(0.975) - 1.959963984540054).abs() < 1e-14);
    }
}
