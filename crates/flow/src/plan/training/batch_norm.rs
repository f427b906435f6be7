//! Batch normalisation and activation: a = f(n), n = w xhat + b, xhat = (x - mean) / sqrt(var + eps).
//!
//! Mean and biased variance are those of all rows of the batch, over all workers. Forward: each
//! chunk gives its moments ([`super::sums::row_moments`]), [`BatchNormState::finish_moments`] joins
//! them. Backward: with g the gradient by n and B rows,
//!
//! dx = w / sqrt(var + eps) (g - sum(g) / B - xhat sum(g xhat) / B), dw = sum(g xhat), db = sum(g).

use std::ops::Range;

use dunnart_elementwise::{Activation, Real, kernel};

use super::activation::{kept, slope};
use super::switch::Switch;
use crate::Result;
use crate::plan::Scalar;
use crate::reduction::{BatchReduction, Moments};

/// Added to the variance.
const EPSILON: f64 = 1e-3;
/// Share of the new batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// What one batch norm shares between the chunks of a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchNormState<T> {
    /// Mean of each feature, `[H]`.
    pub(crate) mean: Vec<T>,
    /// 1 / sqrt(var + eps), `[H]`.
    pub(crate) inverse: Vec<T>,
    /// w / sqrt(var + eps), `[H]`.
    pub(crate) scale: Vec<T>,
    /// Backward: w / sqrt(var + eps) sum(g) / B, `[H]`.
    pub(crate) shift_back: Vec<T>,
    /// Backward: w / (var + eps) sum(g xhat) / B, `[H]`.
    pub(crate) slope_back: Vec<T>,
    /// Moments of all rows.
    moments: Moments,
    /// Sums of all rows in the backward direction, `[2][H]`.
    sums: Vec<f64>,
}

/// Where a batch norm's statistics lie.
#[derive(Clone, Debug)]
pub(crate) struct BatchNormPlace {
    /// Elements of w in the flat parameters.
    pub(crate) weight: Range<usize>,
    /// Elements of b in the flat parameters.
    pub(crate) bias: Range<usize>,
    /// Elements of the running mean in the flat statistics.
    pub(crate) mean: Range<usize>,
    /// Elements of the running variance in the flat statistics.
    pub(crate) variance: Range<usize>,
    /// Its counter of batches.
    pub(crate) counter: usize,
    /// Its [`BatchNormState`].
    pub(crate) state: usize,
}

impl<T: Scalar> BatchNormState<T> {
    /// State of a batch norm of `width` features.
    pub(crate) fn new(width: usize) -> Self {
        let zero = || vec![T::ZERO; width];
        Self {
            mean: zero(),
            inverse: zero(),
            scale: zero(),
            shift_back: zero(),
            slope_back: zero(),
            moments: Moments::none(width),
            sums: vec![0.0; 2 * width],
        }
    }

    /// Forgets the last batch's moments.
    pub(crate) fn start_moments(&mut self) {
        self.moments.rows = 0;
        self.moments.mean.fill(0.0);
        self.moments.deviations.fill(0.0);
    }

    /// Adds a chunk's moments, `[2][H]`.
    pub(crate) fn add_moments(&mut self, rows: usize, chunk: &[f64]) {
        let moments = &mut self.moments;
        let (own, more) = (moments.rows as f64, rows as f64);
        let (means, squares) = chunk.split_at(chunk.len() / 2);
        let share = more / (own + more);
        let pairs = moments.mean.iter_mut().zip(&mut moments.deviations);
        for ((mean, square), (new_mean, new_square)) in pairs.zip(means.iter().zip(squares)) {
            let difference = new_mean - *mean;
            *mean += difference * share;
            *square += new_square + difference * difference * own * share;
        }
        moments.rows += rows as u64;
    }

    /// Joins workers, fixes the normalisation and moves the running statistics.
    ///
    /// `offset` is what x lacks (the bias of the linear layer before), which only the running mean
    /// needs.
    ///
    /// # Errors
    /// What the reduction reports.
    pub(crate) fn finish_moments(
        &mut self,
        place: &BatchNormPlace,
        parameters: &[T],
        offset: &[T],
        (statistics, counters): (&mut [T], &mut [i64]),
        reduction: &dyn BatchReduction,
    ) -> Result<()> {
        if !reduction.is_local() {
            reduction.moments(&mut self.moments)?;
        }
        let rows = self.moments.rows as f64;
        let weight = &parameters[place.weight.clone()];
        for (h, weight) in weight.iter().enumerate() {
            let (mean, square) = (self.moments.mean[h], self.moments.deviations[h]);
            let inverse = 1.0 / (square / rows + EPSILON).sqrt();
            self.mean[h] = T::from_f64(mean);
            self.inverse[h] = T::from_f64(inverse);
            self.scale[h] = T::from_f64(inverse * weight.to_f64());
            let blend = |old: &mut T, new: f64| {
                *old = T::from_f64(old.to_f64() * (1.0 - MOMENTUM) + MOMENTUM * new);
            };
            let shift = offset.get(h).map_or(0.0, |o| o.to_f64());
            blend(&mut statistics[place.mean.start + h], mean + shift);
            blend(
                &mut statistics[place.variance.start + h],
                square / (rows - 1.0),
            );
        }
        counters[place.counter] += 1;
        Ok(())
    }

    /// The normalisation of the running statistics, for evaluation.
    pub(crate) fn use_running(
        &mut self,
        place: &BatchNormPlace,
        parameters: &[T],
        offset: &[T],
        statistics: &[T],
    ) {
        let weight = &parameters[place.weight.clone()];
        let running = statistics[place.mean.clone()]
            .iter()
            .zip(&statistics[place.variance.clone()]);
        for (h, (weight, (mean, variance))) in weight.iter().zip(running).enumerate() {
            let inverse = 1.0 / (variance.to_f64() + EPSILON).sqrt();
            let shift = offset.get(h).map_or(0.0, |o| o.to_f64());
            self.mean[h] = T::from_f64(mean.to_f64() - shift);
            self.inverse[h] = T::from_f64(inverse);
            self.scale[h] = T::from_f64(inverse * weight.to_f64());
        }
    }

    /// Forgets the last batch's sums.
    pub(crate) fn start_sums(&mut self) {
        self.sums.fill(0.0);
    }

    /// Adds a chunk's sums, `[2][H]`.
    pub(crate) fn add_sums(&mut self, chunk: &[f64]) {
        for (sum, more) in self.sums.iter_mut().zip(chunk) {
            *sum += more;
        }
    }

    /// Joins workers and fixes what the second pass subtracts.
    ///
    /// # Errors
    /// What the reduction reports.
    pub(crate) fn finish_sums(&mut self, reduction: &dyn BatchReduction) -> Result<()> {
        if !reduction.is_local() {
            reduction.sums(&mut self.sums)?;
        }
        let rows = self.moments.rows as f64;
        let (sums, products) = self.sums.split_at(self.mean.len());
        for (h, (sum, product)) in sums.iter().zip(products).enumerate() {
            let scale = self.scale[h].to_f64();
            self.shift_back[h] = T::from_f64(scale * sum / rows);
            self.slope_back[h] = T::from_f64(scale * self.inverse[h].to_f64() * product / rows);
        }
        Ok(())
    }
}

kernel! {
    /// out = f((x - mean) scale + bias).
    ///
    /// # Shapes
    /// x, out `[H][T]`; mean, scale, bias `[H]`.
    pub(crate) fn batch_norm_forward<T, const FMA, A: Activation>(
        x: &[T],
        mean: &[T],
        scale: &[T],
        bias: &[T],
        out: &mut [T],
        _activation: A,
    ) {
        let count = (x.len() / mean.len()).max(1);
        let rows = x.chunks_exact(count).zip(out.chunks_exact_mut(count));
        for ((x, out), (mean, (scale, bias))) in rows.zip(mean.iter().zip(scale.iter().zip(bias))) {
            let (mean, scale, bias) = (*mean, *scale, *bias);
            for (x, out) in x.iter().zip(out) {
                *out = A::value::<T, FMA>((*x - mean).fused::<FMA>(scale, bias));
            }
        }
    }
}

/// Independent partial sums of the backward pass.
const LANES: usize = 16;

kernel! {
    /// First pass backward: upstream = upstream mask f'(n), the gradient by n, and its sums.
    ///
    /// # Shapes
    /// x, active, mask (empty without dropout), upstream `[H][T]`; norm: mean, scale, inverse, bias
    /// `[H]`; sums `[2][H]`: sum(g), then sum(g xhat).
    pub(crate) fn batch_norm_backward_sums<T, const FMA, A: Activation, D: Switch>(
        x: &[T],
        norm: [&[T]; 4],
        active_and_mask: (&[T], &[T]),
        upstream: &mut [T],
        sums: &mut [f64],
        _activation: A,
        _dropout: D,
    ) {
        let [mean, scale, inverse, bias] = norm;
        let (active, mask) = active_and_mask;
        let features = mean.len();
        let count = (x.len() / features).max(1);
        let (sums, products) = sums.split_at_mut(features);
        for h in 0..features {
            let row = h * count..(h + 1) * count;
            let (x, active) = (&x[row.clone()], &active[row.clone()]);
            let mask = if D::ON { &mask[row.clone()] } else { mask };
            let upstream = &mut upstream[row];
            let (mean, scale, bias) = (mean[h], scale[h], bias[h]);
            for i in 0..count {
                let slope = slope::<T, FMA, A, D>(
                    || (x[i] - mean).fused::<FMA>(scale, bias),
                    active[i],
                );
                upstream[i] = upstream[i] * kept::<T, D>(mask, i) * slope;
            }
            let (mut sum, mut product) = ([T::ZERO; LANES], [T::ZERO; LANES]);
            let (whole_g, rest_g) = upstream.as_chunks::<LANES>();
            let (whole_x, rest_x) = x.as_chunks::<LANES>();
            for (g, x) in whole_g.iter().zip(whole_x) {
                for lane in 0..LANES {
                    sum[lane] += g[lane];
                    product[lane] = g[lane].fused::<FMA>(x[lane] - mean, product[lane]);
                }
            }
            for (lane, (g, x)) in rest_g.iter().zip(rest_x).enumerate() {
                sum[lane] += *g;
                product[lane] = g.fused::<FMA>(*x - mean, product[lane]);
            }
            let total = |lanes: [T; LANES]| lanes.iter().map(|v| v.to_f64()).sum::<f64>();
            sums[h] = total(sum);
            products[h] = total(product) * inverse[h].to_f64();
        }
    }
}

/// The gradient by one element of x.
#[inline(always)]
fn input_gradient<T: Real, const FMA: bool>(g: T, x: T, constants: [T; 4]) -> T {
    let [mean, scale, shift_back, slope_back] = constants;
    g.fused::<FMA>(scale, -shift_back) - (x - mean) * slope_back
}

kernel! {
    /// Second pass backward: the gradient by x replaces x.
    ///
    /// # Shapes
    /// g (from the first pass), x `[H][T]`; norm: mean, scale, shift_back, slope_back `[H]`.
    pub(crate) fn batch_norm_backward<T, const FMA>(g: &[T], x: &mut [T], norm: [&[T]; 4]) {
        let count = (x.len() / norm[0].len()).max(1);
        let rows = g.chunks_exact(count).zip(x.chunks_exact_mut(count)).enumerate();
        for (h, (g, x)) in rows {
            let constants = norm.map(|values| values[h]);
            for (g, x) in g.iter().zip(x) {
                *x = input_gradient::<T, FMA>(*g, *x, constants);
            }
        }
    }
}

kernel! {
    /// Second pass backward: the gradient by x is added.
    ///
    /// # Shapes
    /// As [`batch_norm_backward`]; gradient `[H][T]`.
    pub(crate) fn add_batch_norm_backward<T, const FMA>(
        g: &[T],
        x: &[T],
        norm: [&[T]; 4],
        gradient: &mut [T],
    ) {
        let count = (x.len() / norm[0].len()).max(1);
        let rows = g.chunks_exact(count).zip(x.chunks_exact(count));
        for (h, ((g, x), gradient)) in rows.zip(gradient.chunks_exact_mut(count)).enumerate() {
            let constants = norm.map(|values| values[h]);
            for ((g, x), gradient) in g.iter().zip(x).zip(gradient) {
                *gradient += input_gradient::<T, FMA>(*g, *x, constants);
            }
        }
    }
}
