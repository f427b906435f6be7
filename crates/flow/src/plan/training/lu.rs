//! Permutation and LU transform: y = L (U x[permutation]) + b, with its gradients.
//!
//! Forward keeps xp = x[permutation] and z = U xp. Backward, sums over the rows:
//!
//! db = sum dy, dL_ij = sum dy_i z_j (j < i), dz = L^T dy, dU_ij = sum dz_i xp_j (i <= j),
//! dxp = U^T dz, dx[permutation] = dxp;
//!
//! the diagonal is softplus(raw) + 1e-3, and ln |det| = sum ln U_ii adds the log-det's gradient.

use std::ops::Range;

use super::sums::row_products;
use crate::plan::Scalar;
use crate::plan::linear_transform::Factors;
use crate::plan::passes::combine_rows;
use crate::structure::{LinearTransform, ParameterIndex};
use crate::{Layout, plan::rows};

/// A permutation with LU transform, its place in the flat parameters, its matrices for this step.
#[derive(Clone, Debug)]
pub(crate) struct LuLayer<T> {
    /// Parameter indices and elements: bias, lower, upper, diagonal.
    pub(crate) places: [(ParameterIndex, Range<usize>); 4],
    permutation: Vec<usize>,
    factors: Factors,
    lower: Vec<T>,
    lower_transposed: Vec<T>,
    upper: Vec<T>,
    upper_transposed: Vec<T>,
    zero: Vec<T>,
}

/// Activations of one chunk.
#[derive(Debug)]
pub(crate) struct LuBuffers<T> {
    /// xp, `[D][T]`.
    permuted: Vec<T>,
    /// z = U xp, `[D][T]`; backward dz.
    upper: Vec<T>,
    /// Sums over the chunk's rows: dy_i z_j, then dz_i xp_j, `[2][D][D]`, then dy_i, `[D]`.
    pub(crate) sums: Vec<f64>,
}

impl<T: Scalar> LuBuffers<T> {
    /// Buffers for `rows` rows of D features.
    pub(crate) fn new(features: usize, rows: usize) -> Self {
        let zero = || vec![T::ZERO; features * rows];
        Self {
            permuted: zero(),
            upper: zero(),
            sums: vec![0.0; (2 * features + 1) * features],
        }
    }
}

impl<T: Scalar> LuLayer<T> {
    /// Finds the layer in the layout.
    pub(crate) fn new(layout: &Layout, linear: &LinearTransform, permutation: &[usize]) -> Self {
        let place = |index: usize| (index, layout.parameters()[index].range());
        let d = permutation.len();
        let square = || vec![T::ZERO; d * d];
        Self {
            places: [linear.bias, linear.lower, linear.upper, linear.diagonal].map(place),
            permutation: permutation.to_vec(),
            factors: Factors::zero(d),
            lower: square(),
            lower_transposed: square(),
            upper: square(),
            upper_transposed: square(),
            zero: vec![T::ZERO; d],
        }
    }

    /// Number D of features.
    pub(crate) fn features(&self) -> usize {
        self.permutation.len()
    }

    /// Takes this step's parameters; returns ln |det|.
    pub(crate) fn load(&mut self, parameters: &[T]) -> f64 {
        let [_, lower, upper, diagonal] = self.places.clone().map(|(_, range)| &parameters[range]);
        self.factors.load(lower, upper, diagonal);
        let d = self.features();
        for i in 0..d {
            for j in 0..d {
                let (lower, upper) = (self.factors.lower[i * d + j], self.factors.upper[i * d + j]);
                self.lower[i * d + j] = T::from_f64(lower);
                self.lower_transposed[j * d + i] = T::from_f64(lower);
                self.upper[i * d + j] = T::from_f64(upper);
                self.upper_transposed[j * d + i] = T::from_f64(upper);
            }
        }
        self.factors.log_det()
    }

    /// y = L (U x[permutation]) + b.
    ///
    /// # Shapes
    /// x, y `[D][T]`.
    pub(crate) fn forward(
        &self,
        parameters: &[T],
        x: &[T],
        y: &mut [T],
        buffers: &mut LuBuffers<T>,
        count: usize,
    ) {
        let length = self.features() * count;
        let permuted = &mut buffers.permuted[..length];
        let upper = &mut buffers.upper[..length];
        rows::gather(x, &self.permutation, count, permuted);
        combine_rows(&self.upper, &self.zero, permuted, upper);
        combine_rows(&self.lower, &parameters[self.places[0].1.clone()], upper, y);
    }

    /// The gradient by y to that by x, and the sums for the parameters.
    ///
    /// # Shapes
    /// dy, dx, scratch `[D][T]`.
    pub(crate) fn backward(
        &self,
        dy: &[T],
        dx: &mut [T],
        buffers: &mut LuBuffers<T>,
        scratch: &mut [T],
        count: usize,
    ) {
        let d = self.features();
        let length = d * count;
        let permuted = &buffers.permuted[..length];
        let z = &mut buffers.upper[..length];
        let (lower, rest) = buffers.sums.split_at_mut(d * d);
        let (upper, bias) = rest.split_at_mut(d * d);
        row_products(dy, z, count, lower);
        for (sum, dy) in bias.iter_mut().zip(dy.chunks_exact(count)) {
            *sum = super::sums::sum(dy, |v| v);
        }
        combine_rows(&self.lower_transposed, &self.zero, dy, z);
        row_products(z, permuted, count, upper);
        combine_rows(&self.upper_transposed, &self.zero, z, scratch);
        for (row, &source) in scratch.chunks_exact(count).zip(&self.permutation) {
            dx[source * count..(source + 1) * count].copy_from_slice(row);
        }
    }

    /// Gradient of one of the four parameters from the chunks' sums, written or added.
    ///
    /// `log_det_gradient` is the loss's gradient by ln |det|, summed over the rows.
    pub(crate) fn parameter_gradient<'a>(
        &self,
        which: usize,
        parameters: &[T],
        chunks: impl Iterator<Item = &'a LuBuffers<T>> + Clone,
        log_det_gradient: f64,
        (gradient, accumulate): (&mut [T], bool),
    ) where
        T: 'a,
    {
        let d = self.features();
        let total = |index: usize| chunks.clone().map(|c| c.sums[index]).sum::<f64>();
        let raw = &parameters[self.places[3].1.clone()];
        let mut index = 0;
        let mut put = |value: f64| {
            let old = if accumulate {
                gradient[index].to_f64()
            } else {
                0.0
            };
            gradient[index] = T::from_f64(old + value);
            index += 1;
        };
        for (i, raw) in raw.iter().enumerate() {
            match which {
                0 => put(total(2 * d * d + i)),
                1 => (0..i).for_each(|j| put(total(i * d + j))),
                2 => (i + 1..d).for_each(|j| put(total(d * d + i * d + j))),
                _ => {
                    let by_diagonal =
                        total(d * d + i * d + i) + log_det_gradient / self.factors.upper[i * d + i];
                    let slope = dunnart_elementwise::sigmoid::<f64, false>(raw.to_f64());
                    put(by_diagonal * slope);
                }
            }
        }
    }
}
