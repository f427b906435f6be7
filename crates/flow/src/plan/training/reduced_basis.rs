//! Reduced-basis projection: one linear layer per detector on observations as they come, `[T][3 F]`.
//!
//! The observations are the first thing the network reads, so the backward pass has weight
//! gradients only, and none where the layers are frozen.

use super::linear::LinearLayer;
use crate::Layout;
use crate::plan::gemm::{Matrix, MatrixMut};
use crate::plan::{Scalar, rows};
use crate::structure::Linear;

/// The projections of all detectors.
#[derive(Clone, Debug)]
pub(crate) struct ReducedBasisLayer {
    /// One layer for each detector, 3 F to 2 n.
    pub(crate) detectors: Vec<LinearLayer>,
}

impl ReducedBasisLayer {
    /// Finds the layers in the layout.
    pub(crate) fn new(layout: &Layout, layers: &[Linear]) -> Self {
        Self {
            detectors: layers.iter().map(|l| LinearLayer::new(layout, l)).collect(),
        }
    }

    /// Number of outputs of all detectors, 2 n I.
    pub(crate) fn outputs(&self) -> usize {
        self.detectors.iter().map(|d| d.outputs).sum()
    }

    /// Number of inputs of all detectors, 3 F I.
    fn inputs(&self) -> usize {
        self.detectors.iter().map(|d| d.inputs).sum()
    }

    /// One detector's part of the observations, `[T][3 F]`.
    fn part<'a, T>(&self, detector: usize, observation: &'a [T], count: usize) -> Matrix<'a, T> {
        let before: usize = self.detectors[..detector].iter().map(|d| d.inputs).sum();
        let inputs = self.detectors[detector].inputs;
        Matrix::with_stride(&observation[before..], count, inputs, self.inputs())
    }

    /// out = W_d x_d + b_d for every detector d.
    ///
    /// # Shapes
    /// observation `[T][I][3 F]`, out `[I][2 n][T]`.
    pub(crate) fn forward<T: Scalar>(
        &self,
        parameters: &[T],
        observation: &[T],
        out: &mut [T],
        count: usize,
    ) {
        let mut rest = out;
        for (detector, layer) in self.detectors.iter().enumerate() {
            let (out, next) = rest.split_at_mut(layer.outputs * count);
            rest = next;
            rows::fill_rows(layer.bias(parameters), out);
            let weight = &parameters[layer.weight.1.clone()];
            let weight = Matrix::new(weight, layer.outputs, layer.inputs);
            let x = self.part(detector, observation, count).transposed();
            T::multiply(MatrixMut::new(out, layer.outputs, count), true, weight, x);
        }
    }

    /// dW_d = dout_d x_d^T for a block of rows of W_d, or += that where `accumulate`.
    ///
    /// # Shapes
    /// dout: the block's rows, `[block][T]`; observation `[T][I][3 F]`; gradient `[block][3 F]`.
    pub(crate) fn backward_weight<T: Scalar>(
        &self,
        detector: usize,
        dout: &[T],
        observation: &[T],
        (gradient, accumulate): (&mut [T], bool),
        count: usize,
    ) {
        let block = dout.len() / count;
        let out = MatrixMut::new(gradient, block, self.detectors[detector].inputs);
        let x = self.part(detector, observation, count);
        T::multiply(out, accumulate, Matrix::new(dout, block, count), x);
    }
}
