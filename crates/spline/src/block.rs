//! One block of elements: softmax of the logits, and the bin each element falls into.

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
    /// Largest derivative logit that is told apart; its fourth power is finite.
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
            max_derivative_logit: T::from_f64(1e8),
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
/// With `BINS` > 0 the number of bins is known to the compiler and everything is on the stack;
/// `BINS` = 0 serves any number.
pub(crate) struct Scratch<T, const BINS: usize> {
    fixed: [[Lanes<T>; BINS]; 3],
    free: [Vec<Lanes<T>>; 3],
}

impl<T: Real, const BINS: usize> Scratch<T, BINS> {
    #[inline(always)]
    pub(crate) fn new(bins: usize) -> Self {
        let length = if BINS == 0 { bins } else { 0 };
        Self {
            fixed: [[[T::ZERO; LANES]; BINS]; 3],
            free: std::array::from_fn(|_| vec![[T::ZERO; LANES]; length]),
        }
    }

    #[inline(always)]
    pub(crate) fn rows(&self, group: Group) -> &[Lanes<T>] {
        if BINS == 0 {
            &self.free[group as usize]
        } else {
            &self.fixed[group as usize]
        }
    }

    #[inline(always)]
    pub(crate) fn rows_mut(&mut self, group: Group) -> &mut [Lanes<T>] {
        if BINS == 0 {
            &mut self.free[group as usize]
        } else {
            &mut self.fixed[group as usize]
        }
    }
}

/// rows = softmax(scale x rows) over the rows, for each lane.
///
/// # Domain
/// All numbers: an infinite logit counts as the largest finite one, so that an overflow leaves a
/// spline; NaN makes every row of its lane NaN.
#[inline(always)]
pub(crate) fn softmax<T: Real, const FMA: bool>(rows: &mut [Lanes<T>], scale: T) {
    let mut top = rows[0];
    for row in rows.iter() {
        for i in 0..LANES {
            top[i] = maximum(top[i], row[i]);
        }
    }
    for value in &mut top {
        *value = clamp(*value, -T::MAX, T::MAX);
    }
    let mut sum = [T::ZERO; LANES];
    for row in rows.iter_mut() {
        for i in 0..LANES {
            let e = (minimum(row[i] - top[i], T::ZERO) * scale).exponential::<FMA>();
            row[i] = e;
            sum[i] += e;
        }
    }
    for value in &mut sum {
        *value = T::ONE / *value;
    }
    for row in rows.iter_mut() {
        for i in 0..LANES {
            row[i] *= sum[i];
        }
    }
}

/// The bin of one element: its knots, the derivative logits there, and its index.
#[derive(Clone, Copy)]
pub(crate) struct Bin<T> {
    pub(crate) x0: T,
    pub(crate) x1: T,
    pub(crate) y0: T,
    pub(crate) y1: T,
    pub(crate) u0: T,
    pub(crate) u1: T,
    pub(crate) index: T,
}

/// The bins of a block of elements.
pub(crate) struct Bins<T> {
    x0: Lanes<T>,
    x1: Lanes<T>,
    y0: Lanes<T>,
    y1: Lanes<T>,
    u0: Lanes<T>,
    u1: Lanes<T>,
    index: Lanes<T>,
}

impl<T: Real> Bins<T> {
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Bin<T> {
        Bin {
            x0: self.x0[i],
            x1: self.x1[i],
            y0: self.y0[i],
            y1: self.y1[i],
            u0: self.u0[i],
            u1: self.u1[i],
            index: self.index[i],
        }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, bin: Bin<T>) {
        self.x0[i] = bin.x0;
        self.x1[i] = bin.x1;
        self.y0[i] = bin.y0;
        self.y1[i] = bin.y1;
        self.u0[i] = bin.u0;
        self.u1[i] = bin.u1;
        self.index[i] = bin.index;
    }
}

/// One lane on its way through the bins.
#[derive(Clone, Copy)]
struct Search<T> {
    found: Bin<T>,
    /// Upper knot of the bin just looked at.
    x: T,
    y: T,
}

/// Looks at bins in ascending order; the last one whose lower knot is not above the value holds.
struct Locator<'a, T> {
    constants: &'a Constants<T>,
    /// Softmax of the logits; the first derivative row is not read.
    widths: &'a [Lanes<T>],
    heights: &'a [Lanes<T>],
    derivatives: &'a [Lanes<T>],
    bins: usize,
}

impl<T: Real> Locator<'_, T> {
    #[inline(always)]
    fn upper<const FMA: bool>(&self, k: usize, i: usize, x: T, y: T) -> (T, T) {
        let c = self.constants;
        if k + 1 == self.bins {
            // The last knot is the bound, whatever the rounding of the sums.
            return (c.bound, c.bound);
        }
        let width = c.width_range.fused::<FMA>(self.widths[k][i], c.width_floor);
        let height = c
            .height_range
            .fused::<FMA>(self.heights[k][i], c.height_floor);
        (x + width, y + height)
    }

    #[inline(always)]
    fn upper_logit(&self, k: usize, i: usize) -> T {
        if k + 1 == self.bins {
            self.constants.boundary_logit
        } else {
            self.derivatives[k + 1][i]
        }
    }

    #[inline(always)]
    fn first<const FMA: bool>(&self, i: usize) -> Search<T> {
        let c = self.constants;
        let (x, y) = self.upper::<FMA>(0, i, -c.bound, -c.bound);
        let found = Bin {
            x0: -c.bound,
            x1: x,
            y0: -c.bound,
            y1: y,
            u0: c.boundary_logit,
            u1: self.upper_logit(0, i),
            index: T::ZERO,
        };
        Search { found, x, y }
    }

    #[inline(always)]
    fn next<const FMA: bool, const INVERSE: bool>(
        &self,
        k: usize,
        i: usize,
        value: T,
        search: Search<T>,
    ) -> Search<T> {
        let Search {
            found,
            x: x0,
            y: y0,
        } = search;
        let (x1, y1) = self.upper::<FMA>(k, i, x0, y0);
        let reached = value >= if INVERSE { y0 } else { x0 };
        let pick = |new: T, old: T| if reached { new } else { old };
        let found = Bin {
            x0: pick(x0, found.x0),
            x1: pick(x1, found.x1),
            y0: pick(y0, found.y0),
            y1: pick(y1, found.y1),
            u0: pick(self.derivatives[k][i], found.u0),
            u1: pick(self.upper_logit(k, i), found.u1),
            index: pick(T::from_f64(k as f64), found.index),
        };
        Search {
            found,
            x: x1,
            y: y1,
        }
    }
}

/// Finds the bin of each value, by widths or (`INVERSE`) by heights, from softmaxed rows.
#[inline(always)]
pub(crate) fn locate<T: Real, const FMA: bool, const INVERSE: bool, const BINS: usize>(
    constants: &Constants<T>,
    scratch: &Scratch<T, BINS>,
    values: &Lanes<T>,
) -> Bins<T> {
    let zero = [T::ZERO; LANES];
    let mut bins = Bins {
        x0: zero,
        x1: zero,
        y0: zero,
        y1: zero,
        u0: zero,
        u1: zero,
        index: zero,
    };
    let locator = Locator {
        constants,
        widths: scratch.rows(Group::Widths),
        heights: scratch.rows(Group::Heights),
        derivatives: scratch.rows(Group::Derivatives),
        bins: if BINS == 0 { constants.bins } else { BINS },
    };
    if BINS > 0 {
        // The inner loop unrolls and the outer one vectorises: an element stays in registers.
        for i in 0..LANES {
            let mut search = locator.first::<FMA>(i);
            for k in 1..BINS {
                search = locator.next::<FMA, INVERSE>(k, i, values[i], search);
            }
            bins.set(i, search.found);
        }
    } else {
        let (mut x, mut y) = (zero, zero);
        for i in 0..LANES {
            let search = locator.first::<FMA>(i);
            bins.set(i, search.found);
            (x[i], y[i]) = (search.x, search.y);
        }
        for k in 1..locator.bins {
            for i in 0..LANES {
                let search = Search {
                    found: bins.get(i),
                    x: x[i],
                    y: y[i],
                };
                let search = locator.next::<FMA, INVERSE>(k, i, values[i], search);
                bins.set(i, search.found);
                (x[i], y[i]) = (search.x, search.y);
            }
        }
    }
    bins
}
