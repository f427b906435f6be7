//! Three small matrix products over a batch, in explicit vectors.
//!
//! Matrices of samples are stored feature by feature: entry `[feature][sample]` at `feature *
//! stride + sample`, where the stride is a multiple of [`LANES`] and the samples beyond the batch
//! hold zeros. Products are fused where the machine does so, and sums run in as many parts as its
//! vectors have lanes.

use pulp::Simd;

/// The stride of every sample matrix is a multiple of this, whole vectors on every machine.
const LANES: usize = 32;
/// Vectors of samples handled together.
const VECTORS: usize = 2;
/// Features handled together.
const FEATURES: usize = 4;

/// The smallest allowed stride for a batch.
pub(crate) fn padded(batch: usize) -> usize {
    batch.div_ceil(LANES) * LANES
}

/// How the weights of a product are read.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    pub(crate) values: &'a [f32],
    /// Distance between output features.
    pub(crate) output_step: usize,
    /// Distance between input features.
    pub(crate) input_step: usize,
}

/// `output[o][s] = bias[o] + sum_i weight[o, i] input[i][s]`; without a bias the sum starts at 0.
///
/// # Shapes
/// `input` [inputs, stride], `output` [outputs, stride], `bias` [outputs].
#[inline(always)]
pub(crate) fn multiply<S: Simd>(
    simd: S,
    weights: Weights<'_>,
    bias: Option<&[f32]>,
    input: &[f32],
    output: &mut [f32],
    stride: usize,
) {
    let outputs = output.len() / stride;
    let whole = outputs / FEATURES * FEATURES;
    for first in (0..whole).step_by(FEATURES) {
        multiply_rows::<S, FEATURES>(simd, weights, bias, input, output, stride, first);
    }
    for first in whole..outputs {
        multiply_rows::<S, 1>(simd, weights, bias, input, output, stride, first);
    }
}

#[inline(always)]
fn multiply_rows<S: Simd, const N: usize>(
    simd: S,
    weights: Weights<'_>,
    bias: Option<&[f32]>,
    input: &[f32],
    output: &mut [f32],
    stride: usize,
    first: usize,
) {
    let (input, _) = S::as_simd_f32s(input);
    let (output, _) = S::as_mut_simd_f32s(output);
    let vectors = stride / S::F32_LANES;
    for sample in (0..vectors).step_by(VECTORS) {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; N];
        if let Some(bias) = bias {
            for row in 0..N {
                sums[row] = [simd.splat_f32s(bias[first + row]); VECTORS];
            }
        }
        for (i, features) in input.chunks_exact(vectors).enumerate() {
            let features = &features[sample..sample + VECTORS];
            for (row, sums) in sums.iter_mut().enumerate() {
                let weight =
                    weights.values[(first + row) * weights.output_step + i * weights.input_step];
                let weight = simd.splat_f32s(weight);
                for (sum, &feature) in sums.iter_mut().zip(features) {
                    *sum = simd.mul_add_e_f32s(weight, feature, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let start = (first + row) * vectors + sample;
            output[start..start + VECTORS].copy_from_slice(sums);
        }
    }
}

/// `gradient[o, i] = sum_s delta[o][s] input[i][s]`, `[outputs, inputs]` row by row.
#[inline(always)]
pub(crate) fn outer<S: Simd>(
    simd: S,
    delta: &[f32],
    input: &[f32],
    gradient: &mut [f32],
    stride: usize,
) {
    let (outputs, inputs) = (delta.len() / stride, input.len() / stride);
    let whole = outputs / VECTORS * VECTORS;
    for output in (0..whole).step_by(VECTORS) {
        outer_rows::<S, VECTORS>(simd, delta, input, gradient, stride, output, inputs);
    }
    for output in whole..outputs {
        outer_rows::<S, 1>(simd, delta, input, gradient, stride, output, inputs);
    }
}

#[inline(always)]
fn outer_rows<S: Simd, const N: usize>(
    simd: S,
    delta: &[f32],
    input: &[f32],
    gradient: &mut [f32],
    stride: usize,
    output: usize,
    inputs: usize,
) {
    let whole = inputs / FEATURES * FEATURES;
    for first in (0..whole).step_by(FEATURES) {
        let sums = outer_tile::<S, N, FEATURES>(simd, delta, input, stride, output, first);
        for row in 0..N {
            for column in 0..FEATURES {
                gradient[(output + row) * inputs + first + column] =
                    simd.reduce_sum_f32s(sums[row][column]);
            }
        }
    }
    for first in whole..inputs {
        let sums = outer_tile::<S, N, 1>(simd, delta, input, stride, output, first);
        for row in 0..N {
            gradient[(output + row) * inputs + first] = simd.reduce_sum_f32s(sums[row][0]);
        }
    }
}

#[inline(always)]
fn outer_tile<S: Simd, const N: usize, const M: usize>(
    simd: S,
    delta: &[f32],
    input: &[f32],
    stride: usize,
    output: usize,
    first: usize,
) -> [[S::f32s; M]; N] {
    let deltas: [&[S::f32s]; N] =
        std::array::from_fn(|row| feature::<S>(delta, stride, output + row));
    let inputs: [&[S::f32s]; M] =
        std::array::from_fn(|column| feature::<S>(input, stride, first + column));
    let mut sums = [[simd.splat_f32s(0.0); M]; N];
    for vector in 0..stride / S::F32_LANES {
        for row in 0..N {
            for column in 0..M {
                sums[row][column] = simd.mul_add_e_f32s(
                    deltas[row][vector],
                    inputs[column][vector],
                    sums[row][column],
                );
            }
        }
    }
    sums
}

/// The samples of one feature.
#[inline(always)]
fn feature<S: Simd>(values: &[f32], stride: usize, feature: usize) -> &[S::f32s] {
    S::as_simd_f32s(&values[feature * stride..(feature + 1) * stride]).0
}

/// The sum of the samples of each feature.
#[inline(always)]
pub(crate) fn sum_samples<S: Simd>(simd: S, delta: &[f32], sums: &mut [f32], stride: usize) {
    for (index, sum) in sums.iter_mut().enumerate() {
        let zero = simd.splat_f32s(0.0);
        let partial = feature::<S>(delta, stride, index)
            .iter()
            .fold(zero, |partial, &vector| simd.add_f32s(partial, vector));
        *sum = simd.reduce_sum_f32s(partial);
    }
}
