//! Matrix products over slices: the one place that knows the kept GEMM crate.

use dunnart_spline::SplineReal;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// A row-major matrix in a slice, possibly a block of columns of a wider one.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
    transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    /// A whole matrix, `[rows][columns]`.
    pub(crate) fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        debug_assert_eq!(data.len(), rows * columns);
        Self::with_stride(data, rows, columns, columns)
    }

    /// The first `columns` elements of rows that start `stride` elements apart.
    pub(crate) fn with_stride(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self {
            data,
            rows,
            columns,
            stride,
            transposed: false,
        }
    }

    /// The transposed matrix, without moving anything.
    pub(crate) fn transposed(self) -> Self {
        Self {
            transposed: !self.transposed,
            ..self
        }
    }

    /// Rows and columns as the product sees them.
    fn shape(&self) -> (usize, usize) {
        if self.transposed {
            (self.columns, self.rows)
        } else {
            (self.rows, self.columns)
        }
    }
}

/// A row-major matrix to write, possibly a block of columns of a wider one.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T> MatrixMut<'a, T> {
    /// A whole matrix, `[rows][columns]`.
    pub(crate) fn new(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        debug_assert_eq!(data.len(), rows * columns);
        Self::with_stride(data, rows, columns, columns)
    }

    /// The first `columns` elements of rows that start `stride` elements apart.
    pub(crate) fn with_stride(
        data: &'a mut [T],
        rows: usize,
        columns: usize,
        stride: usize,
    ) -> Self {
        Self {
            data,
            rows,
            columns,
            stride,
        }
    }
}

/// A number type that plans compute in: f32 or f64.
pub trait Scalar: SplineReal {
    /// out = left right, or out += left right where `accumulate`, on the calling thread.
    ///
    /// # Shapes
    /// out `[m][n]`, left `[m][k]`, right `[k][n]`; k = 0 gives zeros.
    fn multiply(
        out: MatrixMut<'_, Self>,
        accumulate: bool,
        left: Matrix<'_, Self>,
        right: Matrix<'_, Self>,
    );
}

macro_rules! scalar {
    ($type:ty) => {
        impl Scalar for $type {
            fn multiply(
                out: MatrixMut<'_, Self>,
                accumulate: bool,
                left: Matrix<'_, Self>,
                right: Matrix<'_, Self>,
            ) {
                debug_assert_eq!(
                    (out.rows, left.shape().1),
                    (left.shape().0, right.shape().0)
                );
                debug_assert_eq!(out.columns, right.shape().1);
                if out.rows == 0 || out.columns == 0 {
                    return;
                }
                if left.shape().1 == 0 {
                    if !accumulate {
                        for row in out.data.chunks_mut(out.stride) {
                            row[..out.columns].fill(0.0);
                        }
                    }
                    return;
                }
                fn view<T>(m: Matrix<'_, T>) -> MatRef<'_, T> {
                    let (data, stride) = (m.data, m.stride);
                    let view =
                        MatRef::from_row_major_slice_with_stride(data, m.rows, m.columns, stride);
                    if m.transposed { view.transpose() } else { view }
                }
                // A row-major block is the transposed column-major one. The crate's own row-major
                // constructor for mutable views swaps the two strides (faer 0.24.4) and would
                // write beyond the slice.
                let destination = MatMut::from_column_major_slice_with_stride_mut(
                    out.data,
                    out.columns,
                    out.rows,
                    out.stride,
                )
                .transpose_mut();
                let how = if accumulate {
                    Accum::Add
                } else {
                    Accum::Replace
                };
                matmul(destination, how, view(left), view(right), 1.0, Par::Seq);
            }
        }
    };
}

scalar!(f32);
scalar!(f64);

/// y = W x, or y += W x.
///
/// # Shapes
/// `weight`: `[outputs][inputs]`, its rows `stride` elements apart; `x`: `[inputs][T]`; `y`: `[outputs][T]`.
pub(crate) fn apply<T: Scalar>(
    weight: Matrix<'_, T>,
    x: &[T],
    y: &mut [T],
    accumulate: bool,
    rows: usize,
) {
    let (outputs, inputs) = weight.shape();
    T::multiply(
        MatrixMut::new(y, outputs, rows),
        accumulate,
        weight,
        Matrix::new(x, inputs, rows),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of transposition, stride and accumulation against the plain triple loop.
    #[test]
    fn products_agree_with_the_definition() {
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (23, 40, 17), (2, 3, 0), (0, 4, 2)] {
            let value = |i: usize, j: usize| ((i * 7 + j * 3) % 11) as f64 - 5.0;
            for (left_transposed, right_transposed) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                for accumulate in [false, true] {
                    // Three further columns belong to somebody else.
                    let fill = |rows: usize, columns: usize, transposed: bool| {
                        let (r, c) = if transposed {
                            (columns, rows)
                        } else {
                            (rows, columns)
                        };
                        let mut data = vec![f64::NAN; r * (c + 3)];
                        for i in 0..r {
                            for j in 0..c {
                                let (a, b) = if transposed { (j, i) } else { (i, j) };
                                data[i * (c + 3) + j] = value(a, b);
                            }
                        }
                        (data, r, c)
                    };
                    let (a, ar, ac) = fill(m, k, left_transposed);
                    let (b, br, bc) = fill(k, n, right_transposed);
                    let view = |d, r, c, t| {
                        let view = Matrix::with_stride(d, r, c, c + 3);
                        if t { view.transposed() } else { view }
                    };
                    let mut out = vec![2.0; m * (n + 3)];
                    f64::multiply(
                        MatrixMut::with_stride(&mut out, m, n, n + 3),
                        accumulate,
                        view(&a, ar, ac, left_transposed),
                        view(&b, br, bc, right_transposed),
                    );
                    for i in 0..m {
                        for j in 0..n + 3 {
                            let product: f64 = (0..k).map(|l| value(i, l) * value(l, j)).sum();
                            let expected = match (j < n, accumulate) {
                                (true, true) => 2.0 + product,
                                (true, false) => product,
                                (false, _) => 2.0,
                            };
                            assert_eq!(out[i * (n + 3) + j], expected, "{m} {n} {k} at {i} {j}");
                        }
                    }
                }
            }
        }
    }
}
