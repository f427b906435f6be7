//! Linear layer: y = W x + b.

use std::ops::Range;

use super::sums::add_row_sums;
use crate::Layout;
use crate::plan::gemm::{Matrix, MatrixMut, apply};
use crate::plan::{Scalar, rows};
use crate::structure::{Linear, ParameterIndex};

/// A linear layer and its place in the flat parameters.
#[derive(Clone, Debug)]
pub(crate) struct LinearLayer {
    /// Parameter index and elements of W, `[outputs][inputs]`.
    pub(crate) weight: (ParameterIndex, Range<usize>),
    /// Parameter index and elements of b, `[outputs]`.
    pub(crate) bias: (ParameterIndex, Range<usize>),
    /// Number of inputs.
    pub(crate) inputs: usize,
    /// Number of outputs.
    pub(crate) outputs: usize,
}

impl LinearLayer {
    /// Finds the layer in the layout.
    pub(crate) fn new(layout: &Layout, linear: &Linear) -> Self {
        let place = |index: usize| (index, layout.parameters()[index].range());
        Self {
            weight: place(linear.weight),
            bias: place(linear.bias),
            inputs: linear.inputs,
            outputs: linear.outputs,
        }
    }

    /// b, `[outputs]`.
    pub(crate) fn bias<'a, T>(&self, parameters: &'a [T]) -> &'a [T] {
        &parameters[self.bias.1.clone()]
    }

    /// The listed columns of W.
    fn columns<'a, T>(&self, parameters: &'a [T], columns: &Range<usize>) -> Matrix<'a, T> {
        let weight = &parameters[self.weight.1.clone()];
        let start = columns.start.min(weight.len());
        Matrix::with_stride(&weight[start..], self.outputs, columns.len(), self.inputs)
    }

    /// y = W x without the bias.
    ///
    /// # Shapes
    /// x `[inputs][T]`, y `[outputs][T]`.
    pub(crate) fn forward<T: Scalar>(&self, parameters: &[T], x: &[T], y: &mut [T], count: usize) {
        apply(
            self.columns(parameters, &(0..self.inputs)),
            x,
            y,
            false,
            count,
        );
    }

    /// y = W x + b.
    ///
    /// # Shapes
    /// As [`LinearLayer::forward`].
    pub(crate) fn forward_with_bias<T: Scalar>(
        &self,
        parameters: &[T],
        x: &[T],
        y: &mut [T],
        count: usize,
    ) {
        rows::fill_rows(self.bias(parameters), y);
        self.add_forward(parameters, &(0..self.inputs), x, y, count);
    }

    /// y += W[:, columns] x.
    ///
    /// # Shapes
    /// x `[columns][T]`, y `[outputs][T]`.
    pub(crate) fn add_forward<T: Scalar>(
        &self,
        parameters: &[T],
        columns: &Range<usize>,
        x: &[T],
        y: &mut [T],
        count: usize,
    ) {
        apply(self.columns(parameters, columns), x, y, true, count);
    }

    /// dx = W[:, columns]^T dy, or dx += that where `accumulate`.
    ///
    /// # Shapes
    /// dy `[outputs][T]`, dx `[columns][T]`.
    pub(crate) fn backward<T: Scalar>(
        &self,
        parameters: &[T],
        columns: &Range<usize>,
        dy: &[T],
        (dx, accumulate): (&mut [T], bool),
        count: usize,
    ) {
        apply(
            self.columns(parameters, columns).transposed(),
            dy,
            dx,
            accumulate,
            count,
        );
    }

    /// dW[:, columns] = dy x^T for a block of rows of W, or += that where `accumulate`.
    ///
    /// # Shapes
    /// dy: the block's rows, `[block][T]`; x `[columns][T]`; gradient `[block][inputs]`.
    pub(crate) fn backward_weight<T: Scalar>(
        &self,
        columns: &Range<usize>,
        dy: &[T],
        x: &[T],
        (gradient, accumulate): (&mut [T], bool),
        count: usize,
    ) {
        let block = dy.len() / count;
        let start = columns.start.min(gradient.len());
        let out = &mut gradient[start..];
        let out = MatrixMut::with_stride(out, block, columns.len(), self.inputs);
        let x = Matrix::new(x, columns.len(), count);
        T::multiply(
            out,
            accumulate,
            Matrix::new(dy, block, count),
            x.transposed(),
        );
    }
}

/// db += sum over the rows of dy; dy `[outputs][T]`, gradient `[outputs]`.
pub(crate) fn backward_bias<T: Scalar>(dy: &[T], count: usize, gradient: &mut [T]) {
    add_row_sums(dy, count, gradient);
}
