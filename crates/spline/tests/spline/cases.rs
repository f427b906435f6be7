//! Hard cases that users of other spline implementations met, each with its smallest input.

use crate::common::{Direction, Evaluation, Layout, Numbers, evaluate, neighbour, pack, spline};
use crate::masked::knots;
use dunnart_spline::{Error, RationalQuadraticSpline, SplineReal, SplineSettings};

/// Direction with upstream gradients of one everywhere, element-major.
fn run<T: SplineReal>(
    spline: &RationalQuadraticSpline,
    direction: Direction,
    input: &[T],
    parameters: &[T],
) -> Evaluation<T> {
    let ones = vec![T::ONE; input.len()];
    evaluate(
        spline,
        direction,
        Layout::ElementMajor,
        input,
        parameters,
        &ones,
        &ones,
    )
}

fn assert_finite<T: SplineReal>(result: &Evaluation<T>, what: &str) {
    let all = [
        &result.output,
        &result.log_det,
        &result.by_input,
        &result.by_parameters,
    ];
    for value in all.into_iter().flatten() {
        assert!(value.to_f64().is_finite(), "{what}: {value}");
    }
}

/// The same logits for every element.
fn repeat<T: SplineReal>(logits: &[f64], elements: usize) -> Vec<T> {
    let one: Vec<T> = logits.iter().map(|u| T::from_f64(*u)).collect();
    one.repeat(elements)
}

/// One known row whose discriminant is negative in f32.
struct Discriminant {
    bound: f64,
    bins: usize,
    widths: &'static [f64],
    heights: &'static [f64],
    derivatives: &'static [f64],
    y: f64,
    x: f64,
}

const DISCRIMINANTS: [Discriminant; 3] = [
    Discriminant {
        bound: 1.0,
        bins: 4,
        widths: &[-4.9, 0.2, -2.9, 2.3],
        heights: &[3.7, 3.2, -3.1, -3.5],
        derivatives: &[-3.3, -3.3, -1.2],
        // 0x1.ec8dbep-3
        y: 0.240_504_726_767_539_98,
        x: -0.996_683_061_4,
    },
    Discriminant {
        bound: 3.0,
        bins: 4,
        widths: &[-4.2, 0.5, 1.8, 6.3],
        heights: &[-0.8, 4.6, 1.3, -4.3],
        derivatives: &[1.8, -2.5, 0.6],
        // 0x1.6346a6p+1
        y: 2.775_593_519_210_815_4,
        x: -2.969_999_333_1,
    },
    Discriminant {
        bound: 5.0,
        bins: 8,
        widths: &[0.9, 4.2, 0.0, -2.6, 1.8, 4.6, -0.3, -7.0],
        heights: &[1.6, -3.4, 0.4, 1.0, -1.6, -2.4, -5.3, 1.6],
        derivatives: &[-1.9, 0.3, -6.5, 1.4, -4.8, -3.4, 0.4],
        // -0x1.0b2752p-1
        y: -0.521_784_365_177_154_5,
        x: -1.027_457_322_3,
    },
];

fn check_discriminant(case: &Discriminant) {
    let spline = spline(case.bins, case.bound);
    let logits = pack(case.bins, case.widths, case.heights, case.derivatives);
    let wide = run::<f64>(&spline, Direction::Inverse, &[case.y], &logits);
    assert!(
        (wide.output[0] - case.x).abs() <= 1e-9 * case.bound,
        "{}",
        wide.output[0]
    );
    assert_finite(&wide, "f64");
    // Some neighbours of the row are tried too, since the exact rounding is the machine's.
    let y: Vec<f32> = (-8..=8)
        .map(|steps| neighbour(case.y as f32, steps))
        .collect();
    let narrow = run::<f32>(&spline, Direction::Inverse, &y, &repeat(&logits, y.len()));
    assert_finite(&narrow, "f32");
    let back = run::<f32>(
        &spline,
        Direction::Forward,
        &narrow.output,
        &repeat(&logits, y.len()),
    );
    for (i, y) in y.iter().enumerate() {
        let slope = f64::from(-narrow.log_det[i]).exp();
        let residual = f64::from((back.output[i] - y).abs());
        let bound = 1000.0 * f64::from(f32::EPSILON) * case.bound * (1.0 + slope);
        assert!(residual <= bound, "residual {residual} > {bound}");
    }
}

#[test]
fn case_1_negative_discriminant_in_the_inverse_bound_1() {
    check_discriminant(&DISCRIMINANTS[0]);
}

#[test]
fn case_1_negative_discriminant_in_the_inverse_bound_3() {
    check_discriminant(&DISCRIMINANTS[1]);
}

#[test]
fn case_1_negative_discriminant_in_the_inverse_bound_5() {
    check_discriminant(&DISCRIMINANTS[2]);
}

#[test]
fn case_1_values_just_below_inner_knots_stay_finite() {
    let (bins, bound) = (8, 1.0);
    let spline = spline(bins, bound);
    let mut numbers = Numbers::new(1);
    for scale in [1.0, 3.0, 5.0] {
        let mut y = Vec::new();
        let mut parameters = Vec::new();
        for _ in 0..20_000 {
            let logits: Vec<f32> = numbers.normals(3 * bins - 1, scale);
            let knots = knots(spline.settings(), &logits);
            y.push(neighbour(knots.y[1 + y.len() % (bins - 1)], -1));
            parameters.extend(logits);
        }
        let result = run(&spline, Direction::Inverse, &y, &parameters);
        assert_finite(&result, "below a knot");
        assert!(result.output.iter().all(|x| (-1.0..=1.0).contains(x)));
    }
}

#[test]
fn case_2_rows_outside_do_not_poison_the_gradient() {
    let spline = spline(8, 3.0);
    let mut numbers = Numbers::new(1);
    let input = [
        0.1_f32,
        7.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -1e30,
        2.9,
    ];
    let parameters: Vec<f32> = numbers.normals(input.len() * 23, 1.0);
    for direction in [Direction::Forward, Direction::Inverse] {
        let result = run(&spline, direction, &input, &parameters);
        for gradient in result.by_input.iter().chain(&result.by_parameters) {
            assert!(gradient.is_finite(), "{direction:?}: {gradient}");
        }
        assert!(result.log_det.iter().all(|log_det| log_det.is_finite()));
        for (i, x) in input.iter().enumerate().take(6).skip(1) {
            assert_eq!(result.output[i].to_bits(), x.to_bits());
            assert_eq!(result.log_det[i], 0.0);
            assert_eq!(result.by_input[i], 1.0);
            assert!(
                result.by_parameters[i * 23..][..23]
                    .iter()
                    .all(|gradient| *gradient == 0.0)
            );
        }
        for i in [0, 6] {
            assert!(
                result.by_parameters[i * 23..][..23]
                    .iter()
                    .any(|gradient| *gradient != 0.0)
            );
        }
    }
}

#[test]
fn case_2_nan_logits_of_a_row_outside_stay_there() {
    let spline = spline(8, 3.0);
    let mut parameters = vec![0.5_f64; 2 * 23];
    parameters[..23].fill(f64::NAN);
    let result = run(&spline, Direction::Forward, &[7.0, 0.1], &parameters);
    assert_finite(&result, "a row outside");
    // Inside, a NaN must not look finite.
    let result = run(&spline, Direction::Forward, &[0.1, 0.1], &parameters);
    assert!(result.output[0].is_nan() && result.log_det[0].is_nan());
    assert!(result.by_input[0].is_nan() && result.by_parameters[0].is_nan());
    assert!(
        result.output[1].is_finite() && result.by_parameters[23..].iter().all(|g| g.is_finite())
    );
}

#[test]
fn case_3_the_gradient_at_the_bounds_is_one() {
    let mut numbers = Numbers::new(1);
    for bound in [1.0, 3.0, 5.0] {
        let spline = spline(8, bound);
        let parameters: Vec<f64> = numbers.normals(2 * 23, 1.0);
        let narrow: Vec<f32> = parameters.iter().map(|u| *u as f32).collect();
        let (ones, zeros) = (vec![1.0_f64; 2], vec![0.0_f64; 2]);
        for direction in [Direction::Forward, Direction::Inverse] {
            let input = [bound, -bound];
            let layout = Layout::ElementMajor;
            let wide = evaluate(
                &spline,
                direction,
                layout,
                &input,
                &parameters,
                &ones,
                &zeros,
            );
            let input = input.map(|x| x as f32);
            let single = evaluate(
                &spline,
                direction,
                layout,
                &input,
                &narrow,
                &[1.0; 2],
                &[0.0_f32; 2],
            );
            for i in 0..2 {
                assert!(
                    (wide.by_input[i] - 1.0).abs() < 1e-12,
                    "{}",
                    wide.by_input[i]
                );
                assert!(
                    (single.by_input[i] - 1.0).abs() < 1e-5,
                    "{}",
                    single.by_input[i]
                );
                assert!(wide.log_det[i].abs() < 1e-12 && single.log_det[i].abs() < 1e-5);
            }
        }
    }
}

#[test]
fn case_4_heavy_tails_train_without_nan() {
    // Student's t with two degrees of freedom, standardised, under one spline for all elements.
    let (elements, bins, bound) = (4096, 8, 3.0);
    let mut numbers = Numbers::new(1);
    let mut draw = || {
        let square = numbers.normal().powi(2) + numbers.normal().powi(2);
        numbers.normal() / (0.5 * square).sqrt()
    };
    let mut draws: Vec<f64> = (0..elements).map(|_| draw()).collect();
    let mean = draws.iter().sum::<f64>() / elements as f64;
    let deviation =
        (draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / elements as f64).sqrt();
    for x in &mut draws {
        *x = (*x - mean) / deviation;
    }
    assert!(draws.iter().any(|x| x.abs() > 5.0), "the tails are heavy");
    let input: Vec<f32> = draws.iter().map(|x| *x as f32).collect();
    let spline = spline(bins, bound);
    let mut logits = vec![0.0_f64; 3 * bins - 1];
    let mut losses = Vec::new();
    let by_log_det = vec![-1.0 / elements as f32; elements];
    for _ in 0..200 {
        let parameters: Vec<f32> = repeat(&logits, elements);
        let zeros = vec![0.0; elements];
        let layout = Layout::ElementMajor;
        let first = evaluate(
            &spline,
            Direction::Forward,
            layout,
            &input,
            &parameters,
            &zeros,
            &by_log_det,
        );
        let by_output: Vec<f32> = first.output.iter().map(|z| z / elements as f32).collect();
        let result = evaluate(
            &spline,
            Direction::Forward,
            layout,
            &input,
            &parameters,
            &by_output,
            &by_log_det,
        );
        assert_finite(&result, "training");
        let loss = |i: usize| f64::from(0.5 * first.output[i] * first.output[i] - first.log_det[i]);
        losses.push((0..elements).map(loss).sum::<f64>() / elements as f64);
        for (k, u) in logits.iter_mut().enumerate() {
            let gradient: f64 = (0..elements)
                .map(|i| f64::from(result.by_parameters[i * (3 * bins - 1) + k]))
                .sum();
            *u -= 0.5 * gradient;
        }
    }
    assert!(
        losses[199] < losses[0] - 0.05,
        "{} -> {}",
        losses[0],
        losses[199]
    );
}

#[test]
fn case_5_all_rows_in_the_tails_or_no_rows_at_all() {
    let spline = spline(8, 4.0);
    let mut numbers = Numbers::new(1);
    let parameters: Vec<f64> = numbers.normals(3 * 23, 1.0);
    for direction in [Direction::Forward, Direction::Inverse] {
        let result = run(&spline, direction, &[5.0, -6.0], &parameters[..46]);
        assert_eq!(result.output, [5.0, -6.0]);
        assert_eq!(result.log_det, [0.0, 0.0]);
        assert_eq!(result.by_input, [1.0, 1.0]);
        assert!(result.by_parameters.iter().all(|gradient| *gradient == 0.0));
        for layout in [Layout::BinsMajor, Layout::ElementMajor] {
            let empty = evaluate::<f64>(&spline, direction, layout, &[], &[], &[], &[]);
            assert!(empty.output.is_empty() && empty.by_parameters.is_empty());
        }
        let one = run(&spline, direction, &[5.0, 0.3, -6.0], &parameters);
        assert_eq!((one.output[0], one.output[2]), (5.0, -6.0));
        assert!(one.output[1] != 0.3 && one.log_det[1] != 0.0);
    }
}

#[test]
fn case_6_the_upper_edge_stays_in_the_last_bin() {
    let mut numbers = Numbers::new(1);
    for bound in [1.0_f32, 8.0, 16.0, 32.0, 64.0] {
        let spline = spline(8, f64::from(bound));
        let input = [
            bound,
            -bound,
            bound.next_up(),
            bound.next_down(),
            (-bound).next_up(),
            (-bound).next_down(),
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let parameters: Vec<f32> = numbers.normals(input.len() * 23, 1.0);
        for direction in [Direction::Forward, Direction::Inverse] {
            let result = run(&spline, direction, &input, &parameters);
            for i in [0, 1, 2, 5, 6, 7, 8] {
                assert_eq!(
                    result.output[i].to_bits(),
                    input[i].to_bits(),
                    "{}",
                    input[i]
                );
                assert!(result.log_det[i].abs() < 1e-5);
            }
            for i in [3, 4] {
                let bits = (result.output[i] - input[i]).abs();
                assert!(
                    bits <= 64.0 * f32::EPSILON * bound,
                    "{} from {}",
                    result.output[i],
                    input[i]
                );
            }
            assert!(result.by_input.iter().all(|gradient| gradient.is_finite()));
            assert!(
                result
                    .by_parameters
                    .iter()
                    .all(|gradient| gradient.is_finite())
            );
        }
    }
}

#[test]
fn case_8_floors_that_do_not_fit_are_refused_with_the_numbers() {
    for (num_bins, floor) in [(1001, 1e-3), (1000, 1e-3), (6, 0.2), (5, 0.2)] {
        for name in ["min_bin_width", "min_bin_height"] {
            let mut settings = SplineSettings::new(num_bins, 1.0);
            (settings.min_bin_width, settings.min_bin_height) = (1e-6, 1e-6);
            if name == "min_bin_width" {
                settings.min_bin_width = floor;
            } else {
                settings.min_bin_height = floor;
            }
            let error = RationalQuadraticSpline::new(settings, 1.0).expect_err("no room");
            assert_eq!(
                error,
                Error::Floor {
                    name,
                    floor,
                    num_bins
                }
            );
            let text = error.to_string();
            let product = (floor * num_bins as f64).to_string();
            for number in [name, &floor.to_string(), &num_bins.to_string(), &product] {
                assert!(text.contains(number), "{text}: no {number}");
            }
        }
    }
    assert!(RationalQuadraticSpline::new(SplineSettings::new(999, 1.0), 1.0).is_ok());
    for logit_scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let result = RationalQuadraticSpline::new(SplineSettings::new(8, 1.0), logit_scale);
        assert!(matches!(result, Err(Error::LogitScale { .. })));
    }
}

/// Logits of one element out of a pattern for widths and heights and one for derivatives.
fn extreme(bins: usize, sizes: impl Fn(usize) -> f64, derivative: f64) -> Vec<f64> {
    let sizes: Vec<f64> = (0..bins).map(sizes).collect();
    pack(bins, &sizes, &sizes, &vec![derivative; bins - 1])
}

#[test]
fn case_9_extreme_logits_leave_a_monotone_spline() {
    let (bins, bound) = (8, 1.0);
    let spline = spline(bins, bound);
    let infinity = f64::INFINITY;
    let patterns = [
        extreme(bins, |k| if k == 1 { -200.0 } else { 0.0 }, 0.0),
        extreme(bins, |k| if k == 0 { 200.0 } else { 0.0 }, 0.0),
        extreme(bins, |_| 1e4, 1e4),
        extreme(bins, |_| -1e4, -1e4),
        extreme(bins, |_| infinity, infinity),
        extreme(bins, |_| -infinity, -infinity),
        extreme(bins, |k| if k == 3 { infinity } else { -infinity }, 0.0),
        extreme(bins, |k| if k % 2 == 0 { 1e38 } else { -1e38 }, 1e38),
    ];
    let input: Vec<f32> = (0..=2000).map(|i| i as f32 / 1000.0 - 1.0).collect();
    for (number, logits) in patterns.iter().enumerate() {
        for direction in [Direction::Forward, Direction::Inverse] {
            let what = format!("pattern {number} {direction:?}");
            let parameters: Vec<f32> = repeat(logits, input.len());
            let result = run(&spline, direction, &input, &parameters);
            assert_finite(&result, &what);
            let wide: Vec<f64> = input.iter().map(|x| f64::from(*x)).collect();
            let parameters: Vec<f64> = repeat(logits, input.len());
            let double = run(&spline, direction, &wide, &parameters);
            assert_finite(&double, &what);
            for pair in double.output.windows(2) {
                assert!(
                    pair[0] <= pair[1] + 1e-14,
                    "{what}: {} then {}",
                    pair[0],
                    pair[1]
                );
            }
            for pair in result.output.windows(2) {
                let slack = 16.0 * f32::EPSILON;
                assert!(
                    pair[0] <= pair[1] + slack,
                    "{what}: {} then {}",
                    pair[0],
                    pair[1]
                );
            }
            assert_eq!(
                (result.output[0], result.output[2000]),
                (-1.0, 1.0),
                "{what}"
            );
        }
    }
}

#[test]
fn case_10_the_bound_is_the_one_of_the_settings() {
    let mut numbers = Numbers::new(1);
    for bound in [0.5_f32, 1.0, 3.0, 5.0, 30.0] {
        let spline = spline(8, f64::from(bound));
        let input = [-bound, bound, 1.01 * bound, -1.01 * bound, 0.99 * bound];
        let parameters: Vec<f32> = numbers.normals(input.len() * 23, 1.0);
        let result = run(&spline, Direction::Forward, &input, &parameters);
        assert_eq!(result.output[..4], input[..4]);
        assert_ne!(result.output[4], input[4]);
        let result = run(&spline, Direction::Inverse, &input, &parameters);
        assert_eq!(result.output[..4], input[..4]);
    }
}

#[test]
fn case_11_zero_logits_with_the_boundary_derivative_are_the_identity() {
    let input = [1.0, 1e-2, 1e-6, 1e-8, 100.0];
    let spline = spline(8, 3.0);
    let settings = *spline.settings();
    let logits = pack(
        8,
        &[0.0; 8],
        &[0.0; 8],
        &[settings.boundary_derivative_logit(); 7],
    );
    for direction in [Direction::Forward, Direction::Inverse] {
        let result = run::<f64>(&spline, direction, &input, &repeat(&logits, 5));
        let single = input.map(|x| x as f32);
        let narrow = run::<f32>(&spline, direction, &single, &repeat(&logits, 5));
        for i in 0..5 {
            assert!(
                (result.output[i] - input[i]).abs() < 1e-14,
                "{}",
                result.output[i]
            );
            assert!(result.log_det[i].abs() < 1e-14, "{}", result.log_det[i]);
            assert!(
                (narrow.output[i] - single[i]).abs() < 1e-6,
                "{}",
                narrow.output[i]
            );
            assert!(narrow.log_det[i].abs() < 1e-6, "{}", narrow.log_det[i]);
        }
        // Zero derivative logits give 0.694 at the knots, which is not the identity.
        let zero = run::<f64>(&spline, direction, &input, &[0.0; 5 * 23]);
        assert!(zero.log_det[0].abs() > 1e-3);
    }
}

#[test]
fn case_13_the_round_trip_in_f32_keeps_the_honest_bound() {
    let elements = 50_000;
    let mut numbers = Numbers::new(1);
    for bound in [1.0_f64, 5.0] {
        let spline = spline(8, bound);
        for scale in [0.0, 1.0, 2.0, 3.0] {
            let parameters: Vec<f32> = numbers.normals(elements * 23, scale);
            let input: Vec<f32> = (0..elements)
                .map(|i| (bound * (2.0 * (i as f64 + 0.5) / elements as f64 - 1.0)) as f32)
                .collect();
            let unit = 1000.0 * f64::from(f32::EPSILON) * bound;
            for direction in [Direction::Forward, Direction::Inverse] {
                let other = if direction == Direction::Forward {
                    Direction::Inverse
                } else {
                    Direction::Forward
                };
                let there = run(&spline, direction, &input, &parameters);
                let back = run(&spline, other, &there.output, &parameters);
                for (i, x) in input.iter().enumerate() {
                    let difference = f64::from((back.output[i] - x).abs());
                    let limit = unit * (1.0 + f64::from(-there.log_det[i]).exp());
                    assert!(
                        difference <= limit,
                        "{direction:?}, bound {bound}, scale {scale}, x {x}: {difference} > {limit}"
                    );
                }
            }
        }
    }
}
