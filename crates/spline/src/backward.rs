//! From the gradient by the quantities of a bin to the gradient by all logits.
//!
//! With p the softmax, b the bin and a = 2 B (1 - m K), knot i is -B + sum over j < i of
//! (2 B m + a p_j), the last one is B whatever the logits, and so
//!
//! ```text
//! dL/du_i = scale p_i (a [i < b] G_below + a [i = b] G_bin - S)
//! S = G_below sum over j < b of a p_j + G_bin a p_b
//! ```
//!
//! where G_below is the gradient by the lower knot at fixed bin width and G_bin the gradient by
//! the bin width. In the last bin the width is B minus the lower knot: G_below gets minus the
//! gradient by the width, and G_bin is zero. No sum over the bins is left to do.

use dunnart_elementwise::Real;

use crate::block::{Bin, Constants, LANES, Lanes};

/// What a lane hands to the rows of one group of logits.
pub(crate) struct Coefficients<T> {
    below: Lanes<T>,
    bin: Lanes<T>,
    sum: Lanes<T>,
}

impl<T: Real> Coefficients<T> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let zero = [T::ZERO; LANES];
        Self {
            below: zero,
            bin: zero,
            sum: zero,
        }
    }

    /// Sets lane i from the gradients by lower knot and bin size.
    ///
    /// `knot` is the lower knot and `share` the bin size above its floor; `floor` and `range` are
    /// the constants they are made of, and `factor` is the range over the sum of the exponentials.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn set<const FMA: bool>(
        &mut self,
        i: usize,
        constants: &Constants<T>,
        index: T,
        factor: T,
        (knot, share): (T, T),
        (floor, range): (T, T),
        (by_knot, by_size): (T, T),
    ) {
        let last = index >= T::from_f64((constants.bins - 1) as f64);
        let below = if last { by_knot - by_size } else { by_knot };
        let bin = if last { T::ZERO } else { by_size };
        let before = (-index).fused::<FMA>(floor, knot + constants.bound);
        let sum = below.fused::<FMA>(before, bin * share);
        let factor = constants.scale * factor;
        self.below[i] = factor * below;
        self.bin[i] = factor * bin;
        self.sum[i] = factor * sum * (T::ONE / range);
    }

    /// Turns rows of exponentials into gradients by their logits; `index` is -1 outside the interval.
    #[inline(always)]
    pub(crate) fn apply(&self, index: &Lanes<T>, rows: &mut [Lanes<T>]) {
        for (k, row) in rows.iter_mut().enumerate() {
            let k = T::from_f64(k as f64);
            for i in 0..LANES {
                let upper = if k == index[i] { self.bin[i] } else { T::ZERO };
                let share = if k < index[i] { self.below[i] } else { upper };
                let gradient = row[i] * (share - self.sum[i]);
                // A NaN among the logits of an element outside must not reach the network.
                row[i] = if index[i] >= T::ZERO {
                    gradient
                } else {
                    T::ZERO
                };
            }
        }
    }
}

/// Writes the gradients by the derivative logits: only the two knots of the bin have any.
///
/// `lower` and `upper` are the gradients by the logits at those knots; row k belongs to knot k,
/// and row 0 is not written.
#[inline(always)]
pub(crate) fn apply_derivatives<T: Real>(
    index: &Lanes<T>,
    lower: &Lanes<T>,
    upper: &Lanes<T>,
    rows: &mut [Lanes<T>],
) {
    for (k, row) in rows.iter_mut().enumerate().skip(1) {
        let (here, before) = (T::from_f64(k as f64), T::from_f64(k as f64 - 1.0));
        for i in 0..LANES {
            let gradient = if index[i] == before {
                upper[i]
            } else {
                T::ZERO
            };
            row[i] = if index[i] == here { lower[i] } else { gradient };
        }
    }
}

/// Index of the bin, or -1 where the element is outside.
#[inline(always)]
pub(crate) fn index_or_outside<T: Real>(inside: bool, bin: &Bin<T>) -> T {
    if inside { bin.index } else { -T::ONE }
}
