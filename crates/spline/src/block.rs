//! One block of elements: exponentials of the logits, and the bin each element falls into.

use dunnart_elementwise::{Real, clamp, maximum, minimum};

use crate::SplineSettings;
use crate::layout::Group;

/// Elements of a block; every loop runs over them, whatever their number.
pub(crate) const LANES: usize = 64;

/// One value for each element of a block.
pub(crate) type Lanes<T> = [T; LANES];

/// The settings as numbers of the type that is computed in.
#[derive(Clone, Copy)]
pub(crate) struct Constants<T> {
    pub(crate) bins: usize,
    pub(crate) bound: T,
    pub(crate) scale: T,
    pub(crate) width_floor: T,
    pub(crate) width_range: T,
    pub(crate) height_floor: T,
    pub(crate) height_range: T,
    pub(crate) min_derivative: T,
    pub(crate) boundary_logit: T,
    /// Largest derivative logit that is told apart: with larger ones a bin is a step in f32.
    pub(crate) max_derivative_logit: T,
}

impl<T: Real> Constants<T> {
    pub(crate) fn new(settings: &SplineSettings, logit_scale: f64) -> Self {
        let (width_floor, width_range) = settings.width_floor_and_range();
        let (height_floor, height_range) = settings.height_floor_and_range();
        Self {
            bins: settings.num_bins,
            bound: T::from_f64(settings.tail_bound),
            scale: T::from_f64(logit_scale),
            width_floor: T::from_f64(width_floor),
            width_range: T::from_f64(width_range),
            height_floor: T::from_f64(height_floor),
            height_range: T::from_f64(height_range),
            min_derivative: T::from_f64(settings.min_derivative),
            boundary_logit: T::from_f64(settings.boundary_derivative_logit()),
            max_derivative_logit: T::from_f64(1e4),
        }
    }

    /// Whether x lies in [-B, B], both ends included; false for NaN.
    #[inline(always)]
    pub(crate) fn is_inside(&self, x: T) -> bool {
        (x >= -self.bound) & (x <= self.bound)
    }

    /// The nearest number in [-B, B], -B for NaN: what the arithmetic sees.
    #[inline(always)]
    pub(crate) fn safe(&self, x: T) -> T {
        let x = if x > -self.bound { x } else { -self.bound };
        if x < self.bound { x } else { self.bound }
    }
}

/// Rows of logits of one block: K widths, K heights, and K derivative rows of which the first
/// stands for the lower end.
///
/// With `BINS` > 0 everything is on the stack and the search knows the number of bins; `BINS` = 0
/// serves any number. The other passes gain nothing from a known number but code, so the slices
/// they get do not show it.
pub(crate) struct Scratch<T, const BINS: usize> {
    bins: usize,
    fixed: [[Lanes<T>; BINS]; 3],
    free: [Vec<Lanes<T>>; 3],
}

impl<T: Real, const BINS: usize> Scratch<T, BINS> {
    #[inline(always)]
    pub(crate) fn new(bins: usize) -> Self {
        let length = if BINS == 0 { bins } else { 0 };
        Self {
            bins,
            fixed: [[[T::ZERO; LANES]; BINS]; 3],
            free: std::array::from_fn(|_| vec![[T::ZERO; LANES]; length]),
        }
    }

    #[inline(always)]
    pub(crate) fn rows(&self, group: Group) -> &[Lanes<T>] {
        if BINS == 0 {
            &self.free[group as usize]
        } else {
            &self.fixed[group as usize][..self.bins]
        }
    }

    #[inline(always)]
    pub(crate) fn rows_mut(&mut self, group: Group) -> &mut [Lanes<T>] {
        if BINS == 0 {
            &mut self.free[group as usize]
        } else {
            &mut self.fixed[group as usize][..self.bins]
        }
    }
}

/// rows = exp(scale x (rows - largest of the rows)), for each lane: the softmax but for its sum.
///
/// # Domain
/// All numbers: an infinite logit counts as the largest finite one, so that an overflow leaves a
/// spline; NaN makes the sum of its lane NaN.
#[inline(always)]
pub(crate) fn exponentials<T: Real, const FMA: bool>(rows: &mut [Lanes<T>], scale: T) {
    let mut top = rows[0];
    for row in rows.iter() {
        for i in 0..LANES {
            top[i] = maximum(top[i], row[i]);
        }
    }
    for value in &mut top {
        *value = clamp(*value, -T::MAX, T::MAX);
    }
    // If all logits are minus infinity, all exponentials are the floor; it is high enough for the
    // inverse of their sum to be multiplied safely.
    let floor = T::EXPONENTIAL_FLOOR * T::from_f64(0.7);
    for row in rows.iter_mut() {
        for i in 0..LANES {
            let exponent = (row[i] - top[i]) * scale;
            let exponent = maximum(minimum(exponent, T::ZERO), floor);
            row[i] = exponent.exponential_in_range::<FMA>();
        }
    }
}

/// Sum of the rows, for each lane.
#[inline(always)]
pub(crate) fn sums<T: Real>(rows: &[Lanes<T>]) -> Lanes<T> {
    let mut sum = rows[0];
    for row in &rows[1..] {
        for i in 0..LANES {
            sum[i] += row[i];
        }
    }
    sum
}

/// The bin of one element: its knots, its width and height, the derivative logits at its ends,
/// and its index.
#[derive(Clone, Copy)]
pub(crate) struct Bin<T> {
    pub(crate) x0: T,
    pub(crate) x1: T,
    pub(crate) y0: T,
    pub(crate) y1: T,
    /// Exponentials of the width and height logits: width and height without the rounding of
    /// the knots.
    pub(crate) width: T,
    pub(crate) height: T,
    pub(crate) u0: T,
    pub(crate) u1: T,
    pub(crate) index: T,
}

/// The bins of a block of elements.
pub(crate) struct Bins<T> {
    fields: [Lanes<T>; 9],
}

impl<T: Real> Bins<T> {
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Bin<T> {
        let [x0, x1, y0, y1, width, height, u0, u1, index] = &self.fields;
        Bin {
            x0: x0[i],
            x1: x1[i],
            y0: y0[i],
            y1: y1[i],
            width: width[i],
            height: height[i],
            u0: u0[i],
            u1: u1[i],
            index: index[i],
        }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, bin: Bin<T>) {
        let values = [
            bin.x0, bin.x1, bin.y0, bin.y1, bin.width, bin.height, bin.u0, bin.u1, bin.index,
        ];
        for (field, value) in self.fields.iter_mut().zip(values) {
            field[i] = value;
        }
    }
}

/// The factors of a block that turn exponentials into widths and heights.
pub(crate) struct Factors<T> {
    /// Range over sum, and half the sum, of the width exponentials.
    pub(crate) width: Lanes<T>,
    width_half: Lanes<T>,
    /// The same of the height exponentials.
    pub(crate) height: Lanes<T>,
    height_half: Lanes<T>,
}

impl<T: Real> Factors<T> {
    #[inline(always)]
    pub(crate) fn new(c: &Constants<T>, widths: &[Lanes<T>], heights: &[Lanes<T>]) -> Self {
        let half = T::from_f64(0.5);
        let (mut width, mut height) = (sums(widths), sums(heights));
        let (mut width_half, mut height_half) = (width, height);
        for i in 0..LANES {
            width_half[i] *= half;
            height_half[i] *= half;
            // One rounding, not two: knots far from the middle feel every one of them.
            width[i] = c.width_range / width[i];
            height[i] = c.height_range / height[i];
        }
        Self {
            width,
            width_half,
            height,
            height_half,
        }
    }

    /// Width and height of a bin above their floors.
    #[inline(always)]
    pub(crate) fn shares(&self, i: usize, bin: &Bin<T>) -> (T, T) {
        (bin.width * self.width[i], bin.height * self.height[i])
    }
}

/// What one bin of one lane is made of.
struct Logits<T> {
    /// Exponentials of width and height.
    width: T,
    height: T,
    /// Derivative logits at the two ends.
    lower: T,
    upper: T,
}

/// One lane on its way through the bins.
#[derive(Clone, Copy)]
struct Search<T> {
    found: Bin<T>,
    /// Upper knot of the bin just looked at.
    x: T,
    y: T,
    /// Sums of the exponentials up to there, less half the whole sums: knots are measured from
    /// the middle, which halves the largest rounding.
    sum_x: T,
    sum_y: T,
    range_x: T,
    range_y: T,
}

impl<T: Real> Search<T> {
    #[inline(always)]
    fn start(c: &Constants<T>, factors: &Factors<T>, i: usize) -> Self {
        let (zero, edge) = (T::ZERO, -c.bound);
        let found = Bin {
            x0: edge,
            x1: edge,
            y0: edge,
            y1: edge,
            width: zero,
            height: zero,
            u0: zero,
            u1: zero,
            index: zero,
        };
        Self {
            found,
            x: edge,
            y: edge,
            sum_x: -factors.width_half[i],
            sum_y: -factors.height_half[i],
            range_x: factors.width[i],
            range_y: factors.height[i],
        }
    }

    /// Looks at bin k; it holds if its lower knot is not above the value.
    #[inline(always)]
    fn step<const FMA: bool, const INVERSE: bool>(
        self,
        c: &Constants<T>,
        (k, bins): (usize, usize),
        value: T,
        logits: &Logits<T>,
    ) -> Self {
        let (sum_x, sum_y) = (self.sum_x + logits.width, self.sum_y + logits.height);
        let (x, y) = if k + 1 == bins {
            // The last knot is the bound, whatever the rounding of the sums.
            (c.bound, c.bound)
        } else {
            let count = T::from_f64((k + 1) as f64 - 0.5 * bins as f64);
            (
                sum_x.fused::<FMA>(self.range_x, count * c.width_floor),
                sum_y.fused::<FMA>(self.range_y, count * c.height_floor),
            )
        };
        let old = self.found;
        let reached = k == 0 || value >= if INVERSE { self.y } else { self.x };
        let pick = |new: T, old: T| if reached { new } else { old };
        let found = Bin {
            x0: pick(self.x, old.x0),
            x1: pick(x, old.x1),
            y0: pick(self.y, old.y0),
            y1: pick(y, old.y1),
            width: pick(logits.width, old.width),
            height: pick(logits.height, old.height),
            u0: pick(logits.lower, old.u0),
            u1: pick(logits.upper, old.u1),
            index: pick(T::from_f64(k as f64), old.index),
        };
        Self {
            found,
            x,
            y,
            sum_x,
            sum_y,
            ..self
        }
    }
}

/// Finds the bin of each value, by widths or (`INVERSE`) by heights, from rows of exponentials.
#[inline(always)]
pub(crate) fn locate<T: Real, const FMA: bool, const INVERSE: bool, const BINS: usize>(
    constants: &Constants<T>,
    scratch: &Scratch<T, BINS>,
    factors: &Factors<T>,
    values: &Lanes<T>,
) -> Bins<T> {
    let mut bins = Bins {
        fields: [[T::ZERO; LANES]; 9],
    };
    let widths = scratch.rows(Group::Widths);
    let heights = scratch.rows(Group::Heights);
    let derivatives = scratch.rows(Group::Derivatives);
    let ends = [constants.boundary_logit; LANES];
    if BINS > 0 {
        let [widths, heights, derivatives] = &scratch.fixed;
        // The inner loop unrolls and the outer one vectorises: an element stays in registers.
        for i in 0..LANES {
            let mut search = Search::start(constants, factors, i);
            for k in 0..BINS {
                let logits = Logits {
                    width: widths[k][i],
                    height: heights[k][i],
                    lower: if k == 0 { ends[i] } else { derivatives[k][i] },
                    upper: if k + 1 == BINS {
                        ends[i]
                    } else {
                        derivatives[k + 1][i]
                    },
                };
                search = search.step::<FMA, INVERSE>(constants, (k, BINS), values[i], &logits);
            }
            bins.set(i, search.found);
        }
        return bins;
    }
    let count = constants.bins;
    let (mut x, mut y) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    let (mut sum_x, mut sum_y) = (x, y);
    for i in 0..LANES {
        let search = Search::start(constants, factors, i);
        bins.set(i, search.found);
        (x[i], y[i], sum_x[i], sum_y[i]) = (search.x, search.y, search.sum_x, search.sum_y);
    }
    for k in 0..count {
        let (width_row, height_row) = (&widths[k], &heights[k]);
        let lower = if k == 0 { &ends } else { &derivatives[k] };
        let upper = if k + 1 == count {
            &ends
        } else {
            &derivatives[k + 1]
        };
        for i in 0..LANES {
            let search = Search {
                found: bins.get(i),
                x: x[i],
                y: y[i],
                sum_x: sum_x[i],
                sum_y: sum_y[i],
                range_x: factors.width[i],
                range_y: factors.height[i],
            };
            let logits = Logits {
                width: width_row[i],
                height: height_row[i],
                lower: lower[i],
                upper: upper[i],
            };
            let search = search.step::<FMA, INVERSE>(constants, (k, count), values[i], &logits);
            bins.set(i, search.found);
            (x[i], y[i], sum_x[i], sum_y[i]) = (search.x, search.y, search.sum_x, search.sum_y);
        }
    }
    bins
}
