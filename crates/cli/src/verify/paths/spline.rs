//! The spline crate's kernels over slices.

use dunnart_spline::{Parameters, ParametersMut, RationalQuadraticSpline, SplineReal, Upstream};

use crate::verify::Result;
use crate::verify::case::{Case, Kind, Precision};
use crate::verify::paths::{Computed, Path, failed};

/// Forward and inverse of the spline with their gradients, one row of logits an element.
pub(super) struct Spline;

impl Path for Spline {
    fn name(&self) -> &'static str {
        "spline"
    }

    fn available(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn takes(&self, case: &Case) -> bool {
        case.kind == Kind::Spline
    }

    fn covers(&self, _: &Case, _: &str) -> bool {
        true
    }

    fn compute(&self, case: &Case, precision: Precision) -> Result<Computed> {
        match precision {
            Precision::Single => compute::<f32>(case),
            Precision::Double => compute::<f64>(case),
        }
    }
}

/// Logits of all elements, `[n, 3K - 1]`: widths, heights, derivatives.
pub(super) fn packed<T: SplineReal>(case: &Case, bins: usize) -> Result<Vec<T>> {
    let widths = case.numbers::<T>("unnormalized_widths")?;
    let heights = case.numbers::<T>("unnormalized_heights")?;
    let derivatives = case.numbers::<T>("unnormalized_derivatives")?;
    let elements = case.golden.reals("x")?.len();
    let mut logits = Vec::with_capacity(elements * (3 * bins - 1));
    let rows = widths.chunks_exact(bins).zip(heights.chunks_exact(bins));
    for (element, (w, h)) in rows.enumerate() {
        logits.extend_from_slice(w);
        logits.extend_from_slice(h);
        let start = element * (bins - 1);
        logits.extend_from_slice(derivatives.get(start..start + bins - 1).unwrap_or(&[]));
    }
    Ok(logits)
}

/// Splits gradients by the logits into the golden file's three tensors.
pub(super) fn unpack<T: SplineReal>(
    computed: &mut Computed,
    direction: &str,
    bins: usize,
    gradients: &[T],
) {
    let parts = [
        ("widths", 0..bins),
        ("heights", bins..2 * bins),
        ("derivatives", 2 * bins..3 * bins - 1),
    ];
    for (what, columns) in parts {
        let rows = gradients.chunks_exact(3 * bins - 1);
        let part: Vec<T> = rows.flat_map(|row| row[columns.clone()].to_vec()).collect();
        computed.reals(format!("{direction}.grad_unnormalized_{what}"), &part);
    }
}

fn compute<T: SplineReal>(case: &Case) -> Result<Computed> {
    let settings = case.spline_settings()?;
    let bins = settings.num_bins;
    let spline =
        RationalQuadraticSpline::new(settings, 1.0).map_err(|error| failed(case, error))?;
    let input = case.numbers::<T>("x")?;
    let logits = packed::<T>(case, bins)?;
    let mut computed = Computed::default();
    for direction in ["forward", "inverse"] {
        let mut output = vec![T::ZERO; input.len()];
        let mut log_det = vec![T::ZERO; input.len()];
        let mut by_input = vec![T::ZERO; input.len()];
        let mut by_logits = vec![T::ZERO; logits.len()];
        let by_output = case.numbers::<T>(&format!("{direction}.grad_out_y"))?;
        let by_log_det = case.numbers::<T>(&format!("{direction}.grad_out_logabsdet"))?;
        let upstream = Upstream {
            output: &by_output,
            log_det: &by_log_det,
        };
        let parameters = Parameters::ElementMajor(&logits);
        let into = ParametersMut::ElementMajor(&mut by_logits);
        let result = if direction == "forward" {
            spline
                .forward(&input, parameters, &mut output, &mut log_det)
                .and_then(|()| {
                    spline.forward_gradients(&input, parameters, upstream, &mut by_input, into)
                })
        } else {
            spline
                .inverse(&input, parameters, &mut output, &mut log_det)
                .and_then(|()| {
                    spline.inverse_gradients(&input, parameters, upstream, &mut by_input, into)
                })
        };
        result.map_err(|error| failed(case, error))?;
        computed.reals(format!("{direction}.y"), &output);
        computed.reals(format!("{direction}.logabsdet"), &log_det);
        computed.reals(format!("{direction}.grad_x"), &by_input);
        unpack(&mut computed, direction, bins, &by_logits);
    }
    Ok(computed)
}
