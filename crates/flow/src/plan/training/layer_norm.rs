//! Layer normalisation and activation: a = f(n), n = w xhat + b, xhat = (x - mean) / sqrt(var + eps).
//!
//! Mean and biased variance are those of one row over its H features. With g the gradient by n:
//!
//! dx = 1 / sqrt(var + eps) (g w - mean(g w) - xhat mean(g w xhat)), dw = sum(g xhat), db = sum(g),
//!
//! means over the features, sums over the rows. The forward passes are
//! [`crate::plan::passes::layer_statistics`] and [`crate::plan::passes::layer_norm_activate`].

use dunnart_elementwise::{Activation, kernel};

use super::activation::{kept, slope};
use super::sums::{dot, sum};
use super::switch::Switch;

/// Statistics of the rows and constants of the features of one layer norm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNormView<'a, T> {
    /// What x lacks: the bias of the linear layer before, `[H]`.
    pub(crate) offset: &'a [T],
    /// w, `[H]`.
    pub(crate) weight: &'a [T],
    /// b, `[H]`.
    pub(crate) bias: &'a [T],
    /// Mean of each row, `[T]`.
    pub(crate) mean: &'a [T],
    /// 1 / sqrt(var + eps) of each row, `[T]`.
    pub(crate) inverse: &'a [T],
}

kernel! {
    /// First pass backward: x = xhat, upstream = upstream mask f'(n) and the sums over both axes.
    ///
    /// # Shapes
    /// x, active, mask (empty without dropout), upstream `[H][T]`; columns `[2][T]`: mean(g w), then
    /// mean(g w xhat); sums `[2][H]`: sum(g), then sum(g xhat).
    pub(crate) fn layer_norm_backward_sums<T, const FMA, A: Activation, D: Switch>(
        x: &mut [T],
        norm: LayerNormView<'_, T>,
        active_and_mask: (&[T], &[T]),
        upstream: &mut [T],
        columns_and_sums: (&mut [T], &mut [f64]),
        _activation: A,
        _dropout: D,
    ) {
        let LayerNormView { offset, weight, bias, mean, inverse } = norm;
        let (active, mask) = active_and_mask;
        let (columns, sums) = columns_and_sums;
        let (features, count) = (weight.len(), mean.len());
        let (gradients, products) = columns.split_at_mut(count);
        let products = &mut products[..count];
        gradients.fill(T::ZERO);
        products.fill(T::ZERO);
        let (sums, weights) = sums.split_at_mut(features);
        for h in 0..features {
            let row = h * count..(h + 1) * count;
            let (x, active) = (&mut x[row.clone()], &active[row.clone()]);
            let mask = if D::ON { &mask[row.clone()] } else { mask };
            let upstream = &mut upstream[row];
            let (offset, weight, bias) = (offset[h], weight[h], bias[h]);
            for i in 0..count {
                let normal = (x[i] + offset - mean[i]) * inverse[i];
                let slope = slope::<T, FMA, A, D>(|| normal.fused::<FMA>(weight, bias), active[i]);
                let g = upstream[i] * kept::<T, D>(mask, i) * slope;
                x[i] = normal;
                upstream[i] = g;
                gradients[i] = g.fused::<FMA>(weight, gradients[i]);
                products[i] = (g * weight).fused::<FMA>(normal, products[i]);
            }
            sums[h] = sum(upstream, |g| g);
            weights[h] = dot::<T, FMA>(upstream, x);
        }
        let share = T::ONE / T::from_f64(features as f64);
        for value in gradients.iter_mut().chain(products) {
            *value *= share;
        }
    }
}

kernel! {
    /// Second pass backward: the gradient by x, from xhat and the first pass, replaces xhat or is
    /// added to `gradient` where the switch is on.
    ///
    /// # Shapes
    /// g, xhat `[H][T]`; columns `[2][T]`; weight `[H]`; inverse `[T]`; gradient `[H][T]` or empty.
    pub(crate) fn layer_norm_backward<T, const FMA, D: Switch>(
        g: &[T],
        xhat: &mut [T],
        weight: &[T],
        inverse: &[T],
        columns: &[T],
        gradient: &mut [T],
        _add: D,
    ) {
        let count = inverse.len();
        let (means, products) = columns.split_at(count);
        for (h, weight) in weight.iter().enumerate() {
            let row = h * count..(h + 1) * count;
            let (g, xhat) = (&g[row.clone()], &mut xhat[row.clone()]);
            for i in 0..count {
                let centred = g[i].fused::<FMA>(*weight, -means[i]) - xhat[i] * products[i];
                xhat[i] = centred * inverse[i];
            }
            if D::ON {
                for (gradient, value) in gradient[row].iter_mut().zip(xhat.iter()) {
                    *gradient += *value;
                }
            }
        }
    }
}
