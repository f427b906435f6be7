//! Activation without normalisation: a = f(x + shift), then dropout.

use dunnart_elementwise::{Activation, Real, kernel};

use super::switch::Switch;

/// f'(n) from what is at hand: the output where that is enough, else the input.
#[inline(always)]
pub(crate) fn slope<T: Real, const FMA: bool, A: Activation, D: Switch>(
    input: impl FnOnce() -> T,
    active: T,
) -> T {
    if D::ON {
        // Dropout has overwritten the output, so it is computed again.
        let input = input();
        A::derivative::<T, FMA>(input, A::value::<T, FMA>(input))
    } else if A::DERIVATIVE_NEEDS_INPUT {
        A::derivative::<T, FMA>(input(), active)
    } else {
        A::derivative::<T, FMA>(active, active)
    }
}

/// `mask[i]` with dropout, 1 without.
#[inline(always)]
pub(crate) fn kept<T: Real, D: Switch>(mask: &[T], i: usize) -> T {
    if D::ON { mask[i] } else { T::ONE }
}

kernel! {
    /// x = upstream mask f'(x + shift): the gradient by x replaces x.
    ///
    /// # Shapes
    /// x, active, mask (empty without dropout), upstream `[H][T]`; shift `[H]`.
    pub(crate) fn activation_backward<T, const FMA, A: Activation, D: Switch>(
        x: &mut [T],
        shift: &[T],
        active: &[T],
        mask: &[T],
        upstream: &[T],
        _activation: A,
        _dropout: D,
    ) {
        let count = (x.len() / shift.len()).max(1);
        let rows = x.chunks_exact_mut(count).zip(active.chunks_exact(count));
        let rows = rows.zip(upstream.chunks_exact(count)).zip(shift).enumerate();
        for (row, (((x, active), upstream), shift)) in rows {
            let mask = if D::ON { &mask[row * count..(row + 1) * count] } else { mask };
            let shift = *shift;
            for (i, ((x, active), upstream)) in
                x.iter_mut().zip(active).zip(upstream).enumerate()
            {
                let slope = slope::<T, FMA, A, D>(|| *x + shift, *active);
                *x = *upstream * kept::<T, D>(mask, i) * slope;
            }
        }
    }
}

kernel! {
    /// gradient += upstream f'(x).
    ///
    /// # Shapes
    /// All `[H][T]`.
    pub(crate) fn add_activation_backward<T, const FMA, A: Activation, D: Switch>(
        x: &[T],
        active: &[T],
        upstream: &[T],
        gradient: &mut [T],
        _activation: A,
        _off: D,
    ) {
        let rows = gradient.iter_mut().zip(upstream).zip(x.iter().zip(active));
        for ((gradient, upstream), (x, active)) in rows {
            let slope = slope::<T, FMA, A, D>(|| *x, *active);
            *gradient = upstream.fused::<FMA>(slope, *gradient);
        }
    }
}

kernel! {
    /// x = x mask: dropout forward; `[H][T]`.
    pub(crate) fn dropout_forward<T, const FMA>(x: &mut [T], mask: &[T]) {
        for (x, mask) in x.iter_mut().zip(mask) {
            *x *= *mask;
        }
    }
}
