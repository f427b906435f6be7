//! One chunk of elements, block by block: the kernels that the instruction set is chosen for.

use dunnart_elementwise::{Kernel, Real, dispatch};

use crate::backward::{Coefficients, apply_derivatives, index_or_outside};
use crate::block::{Constants, Factors, LANES, Scratch, exponentials, locate};
use crate::curve::Curve;
use crate::layout::{Group, Source, Target, copy_in, copy_out};

/// A number type with compiled spline kernels: f32 and f64.
///
/// The kernels are compiled in this crate once for each type, not again in every crate that calls
/// them.
pub trait SplineReal: Real {
    /// Runs one chunk.
    #[doc(hidden)]
    fn run(chunk: Chunk<'_, Self>);
}

impl SplineReal for f32 {
    // Eight bins are what networks are trained with; each further number of its own costs half a
    // minute of compilation.
    fn run(chunk: Chunk<'_, Self>) {
        if chunk.constants.bins == 8 {
            chunk.run_bins::<8>();
        } else {
            chunk.run_bins::<0>();
        }
    }
}

impl SplineReal for f64 {
    // This type serves checks: one version for any number of bins is enough.
    fn run(chunk: Chunk<'_, Self>) {
        chunk.run_bins::<0>();
    }
}

/// What to compute for a chunk.
pub(crate) enum Task<'a, T> {
    /// Values and log-dets; with a target, the exponentials are kept there.
    Evaluate {
        output: &'a mut [T],
        log_det: &'a mut [T],
    },
    /// Gradients by the input and, into the target, by the logits.
    Differentiate {
        output: &'a [T],
        log_det: &'a [T],
        input: &'a mut [T],
        /// Whether width and height rows hold the exponentials already.
        prepared: bool,
    },
}

/// One chunk of elements. Without a source, the logits are read from the target.
pub struct Chunk<'a, T> {
    pub(crate) constants: Constants<T>,
    pub(crate) inverse: bool,
    pub(crate) input: &'a [T],
    pub(crate) source: Option<Source<'a, T>>,
    pub(crate) target: Option<Target<'a, T>>,
    pub(crate) task: Task<'a, T>,
}

impl<T: Real> Chunk<'_, T> {
    fn run_bins<const BINS: usize>(self) {
        match (&self.task, self.inverse) {
            (Task::Evaluate { .. }, false) => dispatch(Run::<T, false, false, BINS>(self)),
            (Task::Evaluate { .. }, true) => dispatch(Run::<T, false, true, BINS>(self)),
            (Task::Differentiate { .. }, false) => dispatch(Run::<T, true, false, BINS>(self)),
            (Task::Differentiate { .. }, true) => dispatch(Run::<T, true, true, BINS>(self)),
        }
    }

    #[inline(always)]
    fn load<const BINS: usize>(&self, group: Group, first: usize, scratch: &mut Scratch<T, BINS>) {
        let bins = self.constants.bins;
        let rows = scratch.rows_mut(group);
        // The first derivative row belongs to the lower end, which has no logit.
        let rows = if group == Group::Derivatives {
            &mut rows[1..]
        } else {
            rows
        };
        match (&self.source, &self.target) {
            (Some(source), _) => source.load(group, bins, first, rows),
            (None, Some(target)) => target.load(group, bins, first, rows),
            (None, None) => {}
        }
    }

    #[inline(always)]
    fn store<const BINS: usize>(&mut self, group: Group, first: usize, scratch: &Scratch<T, BINS>) {
        let bins = self.constants.bins;
        let rows = scratch.rows(group);
        let rows = if group == Group::Derivatives {
            &rows[1..]
        } else {
            rows
        };
        if let Some(target) = &mut self.target {
            target.store(group, bins, first, rows);
        }
    }
}

/// A chunk whose task, direction and number of bins are known to the compiler.
struct Run<'a, T, const DIFFERENTIATE: bool, const INVERSE: bool, const BINS: usize>(Chunk<'a, T>);

impl<T: Real, const DIFFERENTIATE: bool, const INVERSE: bool, const BINS: usize> Kernel
    for Run<'_, T, DIFFERENTIATE, INVERSE, BINS>
{
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        if !FMA {
            // Machines without wide vectors are rare: one version for any number of bins serves.
            run_blocks::<T, FMA, DIFFERENTIATE, INVERSE, 0>(self.0);
        } else {
            run_blocks::<T, FMA, DIFFERENTIATE, INVERSE, BINS>(self.0);
        }
    }
}

#[inline(always)]
fn run_blocks<
    T: Real,
    const FMA: bool,
    const DIFFERENTIATE: bool,
    const INVERSE: bool,
    const BINS: usize,
>(
    mut chunk: Chunk<'_, T>,
) {
    let mut scratch = Scratch::<T, BINS>::new(chunk.constants.bins);
    for first in (0..chunk.input.len()).step_by(LANES) {
        chunk.load(Group::Widths, first, &mut scratch);
        chunk.load(Group::Heights, first, &mut scratch);
        chunk.load(Group::Derivatives, first, &mut scratch);
        if !matches!(chunk.task, Task::Differentiate { prepared: true, .. }) {
            exponentials::<T, FMA>(scratch.rows_mut(Group::Widths), chunk.constants.scale);
            exponentials::<T, FMA>(scratch.rows_mut(Group::Heights), chunk.constants.scale);
        }
        if DIFFERENTIATE {
            differentiate::<T, FMA, INVERSE, BINS>(&mut chunk, first, &mut scratch);
            chunk.store(Group::Derivatives, first, &scratch);
        } else {
            evaluate::<T, FMA, INVERSE, BINS>(&mut chunk, first, &scratch);
        }
        chunk.store(Group::Widths, first, &scratch);
        chunk.store(Group::Heights, first, &scratch);
    }
}

#[inline(always)]
fn factors<T: Real, const BINS: usize>(c: &Constants<T>, scratch: &Scratch<T, BINS>) -> Factors<T> {
    Factors::new(c, scratch.rows(Group::Widths), scratch.rows(Group::Heights))
}

#[inline(always)]
fn evaluate<T: Real, const FMA: bool, const INVERSE: bool, const BINS: usize>(
    chunk: &mut Chunk<'_, T>,
    first: usize,
    scratch: &Scratch<T, BINS>,
) {
    let constants = &chunk.constants;
    let zero = [T::ZERO; LANES];
    let (mut values, mut safe, mut results, mut log_dets) = (zero, zero, zero, zero);
    copy_in(&chunk.input[first..], &mut values);
    for i in 0..LANES {
        safe[i] = constants.safe(values[i]);
    }
    let factors = factors(constants, scratch);
    let bins = locate::<T, FMA, INVERSE, BINS>(constants, scratch, &factors, &safe);
    for i in 0..LANES {
        let bin = bins.get(i);
        let curve = Curve::new::<FMA>(constants, &bin, factors.shares(i, &bin));
        let (result, log_det) = if INVERSE {
            let (point, _) = curve.at_y::<FMA>(safe[i]);
            (curve.x::<FMA>(&point), -curve.log_slope::<FMA>(&point))
        } else {
            let point = curve.at_x::<FMA>(safe[i]);
            (curve.y::<FMA>(&point), curve.log_slope::<FMA>(&point))
        };
        let inside = constants.is_inside(values[i]);
        results[i] = if inside { result } else { values[i] };
        log_dets[i] = if inside { log_det } else { T::ZERO };
    }
    if let Task::Evaluate { output, log_det } = &mut chunk.task {
        copy_out(&results, &mut output[first..]);
        copy_out(&log_dets, &mut log_det[first..]);
    }
}

#[inline(always)]
fn differentiate<T: Real, const FMA: bool, const INVERSE: bool, const BINS: usize>(
    chunk: &mut Chunk<'_, T>,
    first: usize,
    scratch: &mut Scratch<T, BINS>,
) {
    let Task::Differentiate {
        output,
        log_det,
        input,
        ..
    } = &mut chunk.task
    else {
        return;
    };
    let constants = &chunk.constants;
    let zero = [T::ZERO; LANES];
    let (mut values, mut safe, mut by_result, mut by_log_det) = (zero, zero, zero, zero);
    copy_in(&chunk.input[first..], &mut values);
    copy_in(&output[first..], &mut by_result);
    copy_in(&log_det[first..], &mut by_log_det);
    for i in 0..LANES {
        safe[i] = constants.safe(values[i]);
    }
    let factors = factors(constants, scratch);
    let bins = locate::<T, FMA, INVERSE, BINS>(constants, scratch, &factors, &safe);
    let (mut by_input, mut lower, mut upper, mut index) = (zero, zero, zero, zero);
    let (mut widths, mut heights) = (Coefficients::new(), Coefficients::new());
    for i in 0..LANES {
        let bin = bins.get(i);
        let shares = factors.shares(i, &bin);
        let (curve, slope0, slope1) = Curve::with_slopes::<FMA>(constants, &bin, shares);
        let inside = constants.is_inside(values[i]);
        // Zeroed before the arithmetic, so that nothing outside can become NaN on the way.
        let g_result = if inside { by_result[i] } else { T::ZERO };
        let g_log_det = if inside { by_log_det[i] } else { T::ZERO };
        let gradient = if INVERSE {
            let (point, root) = curve.at_y::<FMA>(safe[i]);
            curve.inverse_gradient::<FMA>(&point, root, safe[i] - curve.y0, g_result, g_log_det)
        } else {
            let point = curve.at_x::<FMA>(safe[i]);
            curve.forward_gradient::<FMA>(&point, g_result, g_log_det)
        };
        by_input[i] = if inside { gradient.input } else { by_result[i] };
        lower[i] = gradient.d0 * slope0;
        upper[i] = gradient.d1 * slope1;
        index[i] = index_or_outside(inside, &bin);
        widths.set::<FMA>(
            i,
            constants,
            bin.index,
            factors.width[i],
            (curve.x0, shares.0),
            (constants.width_floor, constants.width_range),
            (gradient.x0, gradient.width),
        );
        heights.set::<FMA>(
            i,
            constants,
            bin.index,
            factors.height[i],
            (curve.y0, shares.1),
            (constants.height_floor, constants.height_range),
            (gradient.y0, gradient.height),
        );
    }
    copy_out(&by_input, &mut input[first..]);
    widths.apply(&index, scratch.rows_mut(Group::Widths));
    heights.apply(&index, scratch.rows_mut(Group::Heights));
    apply_derivatives(&index, &lower, &upper, scratch.rows_mut(Group::Derivatives));
}
