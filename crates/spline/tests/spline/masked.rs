//! The static-shape spline against the masked formulation: pick the elements inside, compute
//! only those, scatter the results.
//!
//! The formulation here is written element by element with the functions of the standard library,
//! in the order of the paper, and shares no code with the crate.

use crate::common::{Direction, Layout, Numbers, evaluate, spline};
use dunnart_spline::{SplineReal, SplineSettings};

/// Knots and derivatives of one element: K + 1 each.
pub(crate) struct Knots<T> {
    pub(crate) x: Vec<T>,
    pub(crate) y: Vec<T>,
    pub(crate) derivatives: Vec<T>,
}

fn real<T: SplineReal>(value: f64) -> T {
    T::from_f64(value)
}

fn exp<T: SplineReal>(x: T) -> T {
    real(x.to_f64().exp())
}

fn ln<T: SplineReal>(x: T) -> T {
    real(x.to_f64().ln())
}

fn positions<T: SplineReal>(logits: &[T], floor: f64, bound: f64) -> Vec<T> {
    let top = logits
        .iter()
        .fold(logits[0], |a, b| if *b > a { *b } else { a });
    let weights: Vec<T> = logits.iter().map(|u| exp(*u - top)).collect();
    let sum: T = weights.iter().copied().sum();
    let share = real::<T>(1.0 - floor * logits.len() as f64);
    let mut knots = vec![real(-bound)];
    let mut total = T::ZERO;
    for weight in weights {
        total += real::<T>(floor) + share * (weight / sum);
        knots.push(real::<T>(2.0 * bound) * total - real(bound));
    }
    if let Some(last) = knots.last_mut() {
        *last = real(bound);
    }
    knots
}

/// The knots that logits [3 K - 1] of one element define.
pub(crate) fn knots<T: SplineReal>(settings: &SplineSettings, logits: &[T]) -> Knots<T> {
    let (bins, bound) = (settings.num_bins, settings.tail_bound);
    let end = (1.0 - settings.min_derivative).exp_m1().ln();
    let mut derivatives = vec![real(end)];
    derivatives.extend_from_slice(&logits[2 * bins..]);
    derivatives.push(real(end));
    for u in &mut derivatives {
        let softplus = if u.to_f64() > 0.0 {
            u.to_f64() + (-u.to_f64()).exp().ln_1p()
        } else {
            u.to_f64().exp().ln_1p()
        };
        *u = real(settings.min_derivative + softplus);
    }
    Knots {
        x: positions(&logits[..bins], settings.min_bin_width, bound),
        y: positions(&logits[bins..2 * bins], settings.min_bin_height, bound),
        derivatives,
    }
}

/// Value and log-det of one element inside the interval.
fn inside<T: SplineReal>(knots: &Knots<T>, direction: Direction, value: T) -> (T, T) {
    let searched = if direction == Direction::Forward {
        &knots.x
    } else {
        &knots.y
    };
    let inner = &searched[1..searched.len() - 1];
    let bin = inner.iter().filter(|knot| value >= **knot).count();
    let (x0, y0) = (knots.x[bin], knots.y[bin]);
    let (w, h) = (knots.x[bin + 1] - x0, knots.y[bin + 1] - y0);
    let (d0, d1) = (knots.derivatives[bin], knots.derivatives[bin + 1]);
    let (one, two) = (T::ONE, real::<T>(2.0));
    let s = h / w;
    let e = d0 + d1 - two * s;
    let t = if direction == Direction::Forward {
        (value - x0) / w
    } else {
        let v = value - y0;
        let (a, b, c) = (v * e + h * (s - d0), h * d0 - v * e, -s * v);
        let discriminant = b * b - real::<T>(4.0) * a * c;
        let discriminant = if discriminant < T::ZERO {
            T::ZERO
        } else {
            discriminant
        };
        two * c / (-b - discriminant.square_root())
    };
    let q = t * (one - t);
    let denominator = s + e * q;
    let slope = s * s * (d1 * t * t + two * s * q + d0 * (one - t) * (one - t));
    let log_det = ln(slope) - two * ln(denominator);
    if direction == Direction::Forward {
        (y0 + h * (s * t * t + d0 * q) / denominator, log_det)
    } else {
        (t * w + x0, -log_det)
    }
}

/// Values and log-dets: tails copied, the rest packed, computed and scattered.
pub(crate) fn masked<T: SplineReal>(
    settings: &SplineSettings,
    direction: Direction,
    input: &[T],
    parameters: &[T],
) -> (Vec<T>, Vec<T>) {
    let bound = real::<T>(settings.tail_bound);
    let mut output = input.to_vec();
    let mut log_det = vec![T::ZERO; input.len()];
    let picked: Vec<usize> = (0..input.len())
        .filter(|i| input[*i] >= -bound && input[*i] <= bound)
        .collect();
    let width = settings.parameters_per_element();
    for i in picked {
        let knots = knots(settings, &parameters[i * width..][..width]);
        (output[i], log_det[i]) = inside(&knots, direction, input[i]);
    }
    (output, log_det)
}

const ROWS: usize = 4096;
const COLUMNS: usize = 15;

/// (input, parameters) of shape (4096, 15), about 30 per cent of the input outside.
fn problem<T: SplineReal>(bins: usize) -> (Vec<T>, Vec<T>) {
    let mut numbers = Numbers::new(1);
    let elements = ROWS * COLUMNS;
    let input = numbers.normals(elements, 0.97);
    (input, numbers.normals(elements * (3 * bins - 1), 1.0))
}

#[test]
fn point_06_static_shapes_equal_masked_ones_in_f64() {
    let spline = spline(8, 1.0);
    let (input, parameters) = problem::<f64>(8);
    let zeros = vec![0.0; input.len()];
    for direction in [Direction::Forward, Direction::Inverse] {
        let (output, log_det) = masked(spline.settings(), direction, &input, &parameters);
        let ours = evaluate(
            &spline,
            direction,
            Layout::ElementMajor,
            &input,
            &parameters,
            &zeros,
            &zeros,
        );
        let mut tails = 0;
        for i in 0..input.len() {
            if input[i].abs() > 1.0 {
                tails += 1;
                assert_eq!(ours.output[i].to_bits(), input[i].to_bits());
                assert_eq!(ours.log_det[i], 0.0);
            }
            // Rounding of a knot moves the value by its slope, and the log-det by far more in a
            // narrow bin.
            let (value, slope) = ((ours.output[i] - output[i]).abs(), output_slope(log_det[i]));
            assert!(
                value <= 1e-13 * slope,
                "{i}: {}, masked {}",
                ours.output[i],
                output[i]
            );
            let difference = (ours.log_det[i] - log_det[i]).abs();
            assert!(
                difference <= 1e-10,
                "{i}: {}, masked {}",
                ours.log_det[i],
                log_det[i]
            );
        }
        let share = tails as f64 / input.len() as f64;
        assert!((0.25..0.35).contains(&share), "{share}");
    }
}

fn output_slope(log_det: f64) -> f64 {
    1.0 + log_det.exp()
}

#[test]
fn point_06_static_shapes_equal_masked_ones_in_f32() {
    let spline = spline(8, 1.0);
    let (input, parameters) = problem::<f32>(8);
    let zeros = vec![0.0; input.len()];
    for direction in [Direction::Forward, Direction::Inverse] {
        let (output, log_det) = masked(spline.settings(), direction, &input, &parameters);
        let ours = evaluate(
            &spline,
            direction,
            Layout::ElementMajor,
            &input,
            &parameters,
            &zeros,
            &zeros,
        );
        let mut differences = Vec::new();
        for i in 0..input.len() {
            if input[i].abs() > 1.0 {
                assert_eq!(ours.output[i].to_bits(), input[i].to_bits());
                assert_eq!(ours.log_det[i], 0.0);
            }
            let value = f64::from((ours.output[i] - output[i]).abs());
            let slope = output_slope(f64::from(log_det[i]));
            assert!(
                value <= 1e-6 * slope,
                "{i}: {}, masked {}",
                ours.output[i],
                output[i]
            );
            differences.push(f64::from((ours.log_det[i] - log_det[i]).abs()));
        }
        differences.sort_by(f64::total_cmp);
        let high = differences[differences.len() * 999 / 1000];
        assert!(
            high <= 1e-4,
            "log-dets differ by {high} at the 99.9 per cent quantile"
        );
    }
}

/// Every gradient against central differences of the masked formulation, seven tenths of the input outside.
#[test]
fn point_06_gradients_are_those_of_the_masked_spline() {
    let (bins, step) = (8, 1e-6);
    let spline = spline(bins, 1.0);
    let width = 3 * bins - 1;
    let mut numbers = Numbers::new(6);
    let elements = 40 * COLUMNS;
    let input: Vec<f64> = numbers.normals(elements, 2.6);
    let parameters: Vec<f64> = numbers.normals(elements * width, 1.0);
    let tails = input.iter().filter(|x| x.abs() > 1.0).count() as f64 / elements as f64;
    assert!((0.65..0.75).contains(&tails), "{tails}");
    let by_output: Vec<f64> = numbers.normals(elements, 1.0);
    let by_log_det: Vec<f64> = numbers.normals(elements, 1.0);
    for direction in [Direction::Forward, Direction::Inverse] {
        let ours = evaluate(
            &spline,
            direction,
            Layout::ElementMajor,
            &input,
            &parameters,
            &by_output,
            &by_log_det,
        );
        let value = |input: &[f64], parameters: &[f64]| -> Vec<f64> {
            let (output, log_det) = masked(spline.settings(), direction, input, parameters);
            (0..elements)
                .map(|i| by_output[i] * output[i] + by_log_det[i] * log_det[i])
                .collect()
        };
        let check = |what: &str, i: usize, gradient: f64, high: &[f64], low: &[f64]| {
            let expected = (high[i] - low[i]) / (2.0 * step);
            // Rounding of the log-det in a narrow bin, about 1e-10, is divided by the step.
            let bound = 1e-4 * (1.0 + expected.abs());
            assert!(
                (gradient - expected).abs() <= bound,
                "{what} of element {i}: {gradient}, differences {expected}"
            );
        };
        let moved = |by: f64| -> Vec<f64> { input.iter().map(|x| x + by).collect() };
        let (high, low) = (
            value(&moved(step), &parameters),
            value(&moved(-step), &parameters),
        );
        // Differences across a knot or a bound see another piece of the function.
        let smooth = |i: usize| {
            let knots = knots(spline.settings(), &parameters[i * width..][..width]);
            let places = match direction {
                Direction::Forward => knots.x,
                Direction::Inverse => knots.y,
            };
            places.iter().all(|place| (input[i] - place).abs() > 1e-4)
        };
        let judged: Vec<usize> = (0..elements).filter(|&i| smooth(i)).collect();
        assert!(judged.len() * 10 > elements * 9, "{}", judged.len());
        for &i in &judged {
            check("input", i, ours.by_input[i], &high, &low);
        }
        for j in 0..width {
            let moved = |by: f64| {
                let mut moved = parameters.clone();
                moved
                    .iter_mut()
                    .skip(j)
                    .step_by(width)
                    .for_each(|p| *p += by);
                value(&input, &moved)
            };
            let (high, low) = (moved(step), moved(-step));
            for &i in &judged {
                check(
                    "parameter",
                    i,
                    ours.by_parameters[i * width + j],
                    &high,
                    &low,
                );
            }
        }
    }
}
