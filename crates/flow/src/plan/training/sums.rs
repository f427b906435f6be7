//! Sums along the rows of `[features][T]` buffers, in many independent parts.
//!
//! Independent partial sums keep the rounding error of f32 small and are what lets the loop
//! vectorise; their order is fixed, so a sum is the same on every machine with the same
//! instructions and for every number of threads.

use dunnart_elementwise::{Real, kernel};

/// Independent partial sums.
const LANES: usize = 32;

/// Adds up f(x) over a row.
#[inline(always)]
pub(crate) fn sum<T: Real>(x: &[T], f: impl Fn(T) -> T) -> f64 {
    let mut lanes = [T::ZERO; LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for values in whole {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += f(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += f(*value);
    }
    lanes.iter().map(|lane| lane.to_f64()).sum()
}

/// Adds up x y over two rows.
#[inline(always)]
pub(crate) fn dot<T: Real, const FMA: bool>(x: &[T], y: &[T]) -> f64 {
    let mut lanes = [T::ZERO; LANES];
    let ((whole_x, rest_x), (whole_y, rest_y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (xs, ys) in whole_x.iter().zip(whole_y) {
        for (lane, (x, y)) in lanes.iter_mut().zip(xs.iter().zip(ys)) {
            *lane = x.fused::<FMA>(*y, *lane);
        }
    }
    for (lane, (x, y)) in lanes.iter_mut().zip(rest_x.iter().zip(rest_y)) {
        *lane = x.fused::<FMA>(*y, *lane);
    }
    lanes.iter().map(|lane| lane.to_f64()).sum()
}

kernel! {
    /// Mean and sum of squared differences to it, for each feature.
    ///
    /// # Shapes
    /// x `[H][T]`; moments `[2][H]`: means, then sums of squares.
    pub(crate) fn row_moments<T, const FMA>(x: &[T], count: usize, moments: &mut [f64]) {
        let (means, squares) = moments.split_at_mut(moments.len() / 2);
        for ((x, mean), square) in x.chunks_exact(count).zip(means).zip(squares) {
            *mean = sum(x, |v| v) / count as f64;
            // The rounded mean is off by the rest; its square belongs to no row.
            let rounded = T::from_f64(*mean);
            let rest = *mean - rounded.to_f64();
            let around = sum(x, |v| {
                let difference = v - rounded;
                difference * difference
            });
            *square = around - rest * rest * count as f64;
        }
    }
}

kernel! {
    /// sums += sum over the rows of x, for each feature; x `[H][T]`, sums `[H]`.
    pub(crate) fn add_row_sums<T, const FMA>(x: &[T], count: usize, sums: &mut [T]) {
        for (x, total) in x.chunks_exact(count).zip(sums) {
            *total += T::from_f64(sum(x, |v| v));
        }
    }
}

kernel! {
    /// out[i][j] = sum over the rows of x[i] y[j]; x and y `[D][T]`, out `[D][D]`.
    pub(crate) fn row_products<T, const FMA>(x: &[T], y: &[T], count: usize, out: &mut [f64]) {
        let features = y.len() / count;
        for (x, out) in x.chunks_exact(count).zip(out.chunks_exact_mut(features)) {
            for (y, out) in y.chunks_exact(count).zip(out) {
                *out = dot::<T, FMA>(x, y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_the_definition_for_every_length() {
        for count in [1, 7, 32, 33, 100] {
            let x: Vec<f64> = (0..3 * count)
                .map(|i| ((i * 37) % 19) as f64 - 6.0)
                .collect();
            let y: Vec<f64> = x.iter().rev().copied().collect();
            let row = |x: &[f64], i: usize| x[i * count..(i + 1) * count].to_vec();
            let mut moments = [0.0; 6];
            row_moments(&x, count, &mut moments);
            let (mut sums, mut products) = ([1.0; 3], [0.0; 9]);
            add_row_sums(&x, count, &mut sums);
            row_products(&x, &y, count, &mut products);
            for i in 0..3 {
                let values = row(&x, i);
                let mean = values.iter().sum::<f64>() / count as f64;
                let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
                assert!((moments[i] - mean).abs() < 1e-13);
                assert!((moments[3 + i] - squares).abs() < 1e-11);
                assert_eq!(sums[i], 1.0 + values.iter().sum::<f64>());
                for j in 0..3 {
                    let expected: f64 = values.iter().zip(row(&y, j)).map(|(a, b)| a * b).sum();
                    assert_eq!(products[i * 3 + j], expected);
                }
            }
        }
    }

    #[test]
    fn moments_survive_a_large_mean() {
        let x: Vec<f32> = (0..256).map(|i| 4096.0 + (i % 5) as f32 * 0.25).collect();
        let mut moments = [0.0; 2];
        row_moments(&x, 256, &mut moments);
        let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / 256.0;
        let squares: f64 = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum();
        assert!(
            (moments[1] / squares - 1.0).abs() < 1e-5,
            "{} {squares}",
            moments[1]
        );
    }
}
