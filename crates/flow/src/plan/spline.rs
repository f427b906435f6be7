//! The step's splines over features-first buffers: one call per transformed feature.

use dunnart_spline::{Parameters, RationalQuadraticSpline};

use super::passes::add;
use super::{Scalar, rows};
use crate::{Architecture, Layout, NetworkState, Result, structure::UnconditionalSpline};

/// The direction a transform runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Parameters theta to noise.
    Density,
    /// Noise to parameters theta.
    Sampling,
}

/// The splines of a network, for logits with and without the conditioner's scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Splines {
    /// Width and height logits of conditioners are divided by sqrt(H) where the reference does.
    pub(crate) conditioned: RationalQuadraticSpline,
    /// Logits that are parameters themselves are taken as they are.
    pub(crate) unconditional: RationalQuadraticSpline,
}

impl Splines {
    /// The splines of an architecture; they stay on the calling thread.
    pub(crate) fn new(architecture: &Architecture) -> Result<Self> {
        let settings = *architecture.spline();
        let scale = architecture.logit_scale();
        Ok(Self {
            conditioned: RationalQuadraticSpline::new(settings, scale)?.sequential(),
            unconditional: RationalQuadraticSpline::new(settings, 1.0)?.sequential(),
        })
    }
}

/// Transforms one feature of T rows and adds its log-det.
///
/// # Shapes
/// x, y, log_det, scratch `[T]`; logits `[3 K - 1][T]`.
pub(crate) fn transform<T: Scalar>(
    spline: &RationalQuadraticSpline,
    direction: Direction,
    x: &[T],
    logits: &[T],
    y: &mut [T],
    log_det: &mut [T],
    scratch: &mut [T],
) -> Result<()> {
    let logits = Parameters::from_rows(spline.settings(), logits);
    match direction {
        Direction::Density => spline.forward(x, logits, y, scratch)?,
        Direction::Sampling => spline.inverse(x, logits, y, scratch)?,
    }
    add(log_det, scratch);
    Ok(())
}

/// Logits of a context-free spline, `[D_id][3 K - 1]`.
pub(crate) fn unconditional_logits<T: Scalar>(
    layout: &Layout,
    parameters: &[T],
    spline: &UnconditionalSpline,
    features: usize,
) -> Vec<T> {
    let mut logits = Vec::new();
    for feature in 0..features {
        for index in [spline.widths, spline.heights, spline.derivatives] {
            let spec = &layout.parameters()[index];
            let columns = spec.shape[1];
            let all = &parameters[spec.range()];
            logits.extend_from_slice(&all[feature * columns..(feature + 1) * columns]);
        }
    }
    logits
}

/// The same logits for every row of a chunk, `[3 K - 1]` to `[3 K - 1][T]`.
pub(crate) fn broadcast<T: Scalar>(logits: &[T], out: &mut [T]) {
    rows::fill_rows(logits, out);
}

/// Logits of all context-free splines of a state.
pub(crate) fn state_logits<T: Scalar>(
    layout: &Layout,
    state: &NetworkState<T>,
    spline: &UnconditionalSpline,
    features: usize,
) -> Vec<T> {
    unconditional_logits(layout, &state.parameters, spline, features)
}
