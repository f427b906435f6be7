//! Permutation and LU transform: y = L U x[permutation] + b.

use dunnart_elementwise::{Real, softplus};

use crate::structure::LinearTransform;
use crate::{Layout, NetworkState};

/// Smallest diagonal entry of U.
pub(crate) const DIAGONAL_FLOOR: f64 = 1e-3;

/// L and U as dense matrices in double precision.
#[derive(Clone, Debug)]
pub(crate) struct Factors {
    /// Number of features D.
    pub(crate) features: usize,
    /// Unit lower triangular, `[D][D]`.
    pub(crate) lower: Vec<f64>,
    /// Upper triangular with positive diagonal, `[D][D]`.
    pub(crate) upper: Vec<f64>,
}

impl Factors {
    /// Matrices of D features to be loaded.
    pub(crate) fn zero(features: usize) -> Self {
        let square = vec![0.0; features * features];
        Self {
            features,
            lower: square.clone(),
            upper: square,
        }
    }

    /// Builds the matrices from the flat entries.
    pub(crate) fn new<T: Real>(lower: &[T], upper: &[T], diagonal: &[T]) -> Self {
        let mut factors = Self::zero(diagonal.len());
        factors.load(lower, upper, diagonal);
        factors
    }

    /// Takes over the flat entries, which run row by row.
    pub(crate) fn load<T: Real>(&mut self, lower: &[T], upper: &[T], diagonal: &[T]) {
        let d = self.features;
        let (mut below, mut above) = (lower.iter(), upper.iter());
        for (i, raw) in diagonal.iter().enumerate() {
            for (slot, entry) in self.lower[i * d..i * d + i].iter_mut().zip(&mut below) {
                *slot = entry.to_f64();
            }
            self.lower[i * d + i] = 1.0;
            self.upper[i * d + i] = softplus::<f64, false>(raw.to_f64()) + DIAGONAL_FLOOR;
            for (slot, entry) in self.upper[i * d + i + 1..(i + 1) * d]
                .iter_mut()
                .zip(&mut above)
            {
                *slot = entry.to_f64();
            }
        }
    }

    /// ln |det L U|.
    pub(crate) fn log_det(&self) -> f64 {
        let d = self.features;
        (0..d).map(|i| self.upper[i * d + i].ln()).sum()
    }

    /// (L U)^-1, column by column through both triangular systems.
    fn inverse(&self) -> Vec<f64> {
        let d = self.features;
        let mut inverse = vec![0.0; d * d];
        for column in 0..d {
            let mut x = vec![0.0; d];
            for i in 0..d {
                let unit = if i == column { 1.0 } else { 0.0 };
                x[i] = unit - (0..i).map(|j| self.lower[i * d + j] * x[j]).sum::<f64>();
            }
            for i in (0..d).rev() {
                let rest: f64 = (i + 1..d).map(|j| self.upper[i * d + j] * x[j]).sum();
                x[i] = (x[i] - rest) / self.upper[i * d + i];
            }
            for i in 0..d {
                inverse[i * d + column] = x[i];
            }
        }
        inverse
    }
}

/// Both directions as one dense matrix each, with the permutation, for evaluation.
#[derive(Clone, Debug)]
pub(crate) struct DenseTransform<T> {
    /// Density direction, `[D][D]`.
    pub(crate) forward: Vec<T>,
    /// Shift of the density direction, `[D]`.
    pub(crate) forward_bias: Vec<T>,
    /// Sampling direction, `[D][D]`.
    pub(crate) inverse: Vec<T>,
    /// Shift of the sampling direction, `[D]`.
    pub(crate) inverse_bias: Vec<T>,
    /// ln |det| of the density direction.
    pub(crate) log_det: f64,
}

impl<T: Real> DenseTransform<T> {
    /// Multiplies and inverts the factors once, in double precision.
    pub(crate) fn new(
        layout: &Layout,
        state: &NetworkState<T>,
        transform: &LinearTransform,
        permutation: &[usize],
    ) -> Self {
        let values = |index: usize| state.parameter(&layout.parameters()[index]);
        let factors = Factors::new(
            values(transform.lower),
            values(transform.upper),
            values(transform.diagonal),
        );
        let bias: Vec<f64> = values(transform.bias).iter().map(|b| b.to_f64()).collect();
        let d = factors.features;
        let solved = factors.inverse();
        let mut forward = vec![0.0; d * d];
        let mut inverse = vec![0.0; d * d];
        for i in 0..d {
            for (j, &source) in permutation.iter().enumerate() {
                // x[permutation][j] is x[source]: columns of L U and rows of its inverse move there.
                forward[i * d + source] = (0..d)
                    .map(|k| factors.lower[i * d + k] * factors.upper[k * d + j])
                    .sum();
                inverse[source * d + i] = solved[j * d + i];
            }
        }
        let inverse_bias = (0..d)
            .map(|i| -(0..d).map(|j| inverse[i * d + j] * bias[j]).sum::<f64>())
            .map(T::from_f64)
            .collect();
        let round = |values: Vec<f64>| values.into_iter().map(T::from_f64).collect();
        Self {
            forward: round(forward),
            forward_bias: round(bias),
            inverse: round(inverse),
            inverse_bias,
            log_det: factors.log_det(),
        }
    }
}
