//! Properties over random logits, with inputs taken from the knots: random inputs practically
//! never come near enough to one to meet a hard case.

use dunnart_spline::{
    ParametersMut, RationalQuadraticSpline, SplineReal, SplineSettings, Upstream,
};
use proptest::prelude::*;

use crate::common::{Direction, Evaluation, Layout, evaluate, neighbour, transpose};
use crate::masked::knots;

/// A spline, logits of its elements, and inputs on or beside knots.
#[derive(Clone, Debug)]
struct Problem {
    settings: SplineSettings,
    scale: f64,
    logits: Vec<f64>,
    /// For each element a knot, as a share of the knots, and the steps away from it.
    places: Vec<(f64, i32)>,
}

fn problem() -> impl Strategy<Value = Problem> {
    let bins = prop_oneof![Just(8_usize), Just(4), Just(10), Just(16), 1_usize..13];
    let bound = prop_oneof![Just(1.0), Just(3.0), Just(5.0), Just(64.0)];
    (bins, bound, 1_usize..150, 0.1_f64..4.0, 0.2_f64..1.5).prop_flat_map(
        |(bins, bound, elements, spread, scale)| {
            let settings = SplineSettings::new(bins, bound);
            let count = elements * settings.parameters_per_element();
            let logits =
                prop::collection::vec((-1.0_f64..1.0).prop_map(move |u| 2.0 * spread * u), count);
            let places = prop::collection::vec((0.0_f64..1.0, -8_i32..=8), elements);
            (logits, places).prop_map(move |(logits, places)| Problem {
                settings,
                scale,
                logits,
                places,
            })
        },
    )
}

impl Problem {
    fn spline(&self) -> RationalQuadraticSpline {
        RationalQuadraticSpline::new(self.settings, self.scale).expect("valid settings")
    }

    fn logits<T: SplineReal>(&self) -> Vec<T> {
        self.logits.iter().map(|u| T::from_f64(*u)).collect()
    }

    fn input<T: SplineReal>(&self, direction: Direction) -> Vec<T> {
        let (bins, width) = (
            self.settings.num_bins,
            self.settings.parameters_per_element(),
        );
        let mut input = Vec::new();
        for (element, (place, steps)) in self.places.iter().enumerate() {
            let mut logits = self.logits::<T>()[element * width..][..width].to_vec();
            for u in &mut logits[..2 * bins] {
                *u *= T::from_f64(self.scale);
            }
            let knots = knots(&self.settings, &logits);
            let knots = if direction == Direction::Forward {
                knots.x
            } else {
                knots.y
            };
            let knot = knots[(place * knots.len() as f64) as usize];
            input.push(neighbour(knot, *steps));
        }
        input
    }

    fn run<T: SplineReal>(&self, direction: Direction, layout: Layout) -> (Vec<T>, Evaluation<T>) {
        let input = self.input(direction);
        let ones = vec![T::ONE; input.len()];
        let halves = vec![T::from_f64(-0.5); input.len()];
        let result = evaluate(
            &self.spline(),
            direction,
            layout,
            &input,
            &self.logits(),
            &ones,
            &halves,
        );
        (input, result)
    }
}

fn bits<T: SplineReal>(result: &Evaluation<T>) -> Vec<u64> {
    [
        &result.output,
        &result.log_det,
        &result.by_input,
        &result.by_parameters,
    ]
    .into_iter()
    .flatten()
    .map(|value| value.to_f64().to_bits())
    .collect()
}

fn check_finite<T: SplineReal>(problem: &Problem) -> Result<(), TestCaseError> {
    let bound = problem.settings.tail_bound;
    for direction in [Direction::Forward, Direction::Inverse] {
        let (input, result) = problem.run::<T>(direction, Layout::BinsMajor);
        for value in bits(&result) {
            prop_assert!(f64::from_bits(value).is_finite());
        }
        for (x, y) in input.iter().zip(&result.output) {
            let limit = x.to_f64().abs().max(bound);
            prop_assert!(y.to_f64().abs() <= limit, "{} from {}", y, x);
        }
    }
    Ok(())
}

fn check_round_trip<T: SplineReal>(problem: &Problem) -> Result<(), TestCaseError> {
    let unit = 1000.0 * T::EPSILON.to_f64() * problem.settings.tail_bound;
    let (input, there) = problem.run::<T>(Direction::Forward, Layout::ElementMajor);
    let ones = vec![T::ONE; input.len()];
    let back = evaluate(
        &problem.spline(),
        Direction::Inverse,
        Layout::ElementMajor,
        &there.output,
        &problem.logits(),
        &ones,
        &ones,
    );
    for (i, x) in input.iter().enumerate() {
        let difference = (back.output[i] - *x).to_f64().abs();
        let limit = unit * (1.0 + (-there.log_det[i].to_f64()).exp());
        prop_assert!(difference <= limit, "x {}: {} > {}", x, difference, limit);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_finite_at_the_knots(problem in problem()) {
        check_finite::<f32>(&problem)?;
        check_finite::<f64>(&problem)?;
    }

    #[test]
    fn the_inverse_undoes_the_forward_at_the_knots(problem in problem()) {
        check_round_trip::<f32>(&problem)?;
        check_round_trip::<f64>(&problem)?;
    }

    #[test]
    fn both_layouts_give_the_same_bits(problem in problem()) {
        for direction in [Direction::Forward, Direction::Inverse] {
            let (_, rows) = problem.run::<f32>(direction, Layout::BinsMajor);
            let (_, packed) = problem.run::<f32>(direction, Layout::ElementMajor);
            prop_assert_eq!(bits(&rows), bits(&packed));
        }
    }

    #[test]
    fn the_calls_in_place_give_the_same_bits(problem in problem()) {
        let (input, expected) = problem.run::<f32>(Direction::Forward, Layout::BinsMajor);
        let (spline, elements) = (problem.spline(), input.len());
        let mut rows = transpose(&problem.logits::<f32>(), problem.settings.parameters_per_element());
        let (mut output, mut log_det) = (vec![0.0; elements], vec![0.0; elements]);
        let mut by_input = vec![0.0; elements];
        let saved = ParametersMut::from_rows(&problem.settings, &mut rows);
        spline.forward_in_place(&input, saved, &mut output, &mut log_det).expect("lengths fit");
        let upstream = Upstream { output: &vec![1.0; elements], log_det: &vec![-0.5; elements] };
        let saved = ParametersMut::from_rows(&problem.settings, &mut rows);
        spline
            .forward_gradients_in_place(&input, saved, upstream, &mut by_input)
            .expect("lengths fit");
        let by_parameters = transpose(&rows, elements);
        let actual = Evaluation { output, log_det, by_input, by_parameters };
        prop_assert_eq!(bits(&actual), bits(&expected));
    }

    #[test]
    fn gradients_are_the_slopes_of_the_values(problem in problem(), pick in 0.0_f64..1.0) {
        // Away from the knots, where the second derivative jumps.
        for direction in [Direction::Forward, Direction::Inverse] {
            let (spline, width) = (problem.spline(), problem.settings.parameters_per_element());
            let input = [1.8 * problem.settings.tail_bound * (pick - 0.5)];
            let mut values = input.to_vec();
            values.extend_from_slice(&problem.logits[..width]);
            let loss = |values: &[f64]| {
                let layout = Layout::ElementMajor;
                let result = evaluate(
                    &spline, direction, layout, &values[..1], &values[1..], &[0.7], &[-0.4],
                );
                (0.7 * result.output[0] - 0.4 * result.log_det[0], result)
            };
            let (_, result) = loss(&values);
            let gradients: Vec<f64> =
                result.by_input.iter().chain(&result.by_parameters).copied().collect();
            let largest = gradients.iter().fold(1.0_f64, |a, b| a.max(b.abs()));
            let mut misses = 0;
            for (k, gradient) in gradients.iter().enumerate() {
                let step = 1e-6;
                let mut moved = values.clone();
                moved[k] = values[k] + step;
                let (up, _) = loss(&moved);
                moved[k] = values[k] - step;
                let (down, _) = loss(&moved);
                let slope = (up - down) / (2.0 * step);
                // A step that crosses a knot, or a narrow bin, blurs a difference quotient.
                if (slope - gradient).abs() > 1e-4 * largest {
                    misses += 1;
                }
            }
            let narrow = result.log_det[0].abs() > 3.0;
            prop_assert!(misses == 0 || narrow, "{} of {} gradients", misses, gradients.len());
        }
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let settings = SplineSettings::new(8, 1.0);
    let elements = 10_007;
    let spline = RationalQuadraticSpline::new(settings, 0.7).expect("valid settings");
    let input: Vec<f32> = (0..elements)
        .map(|i| (i as f32 * 0.618).fract() * 2.6 - 1.3)
        .collect();
    let logits: Vec<f32> = (0..elements * 23)
        .map(|i| (i as f32 * 0.377).fract() * 4.0 - 2.0)
        .collect();
    let (ones, halves) = (vec![1.0; elements], vec![0.5; elements]);
    for direction in [Direction::Forward, Direction::Inverse] {
        for layout in [Layout::BinsMajor, Layout::ElementMajor] {
            let run = |spline: &RationalQuadraticSpline| {
                bits(&evaluate(
                    spline, direction, layout, &input, &logits, &ones, &halves,
                ))
            };
            let expected = run(&spline.sequential());
            for threads in [1, 2, 3, 5] {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .expect("a pool of threads");
                assert!(
                    pool.install(|| run(&spline)) == expected,
                    "{threads} threads"
                );
            }
        }
    }
}

#[test]
fn slices_of_the_wrong_length_are_named() {
    let settings = SplineSettings::new(4, 1.0);
    let spline = RationalQuadraticSpline::new(settings, 1.0).expect("valid settings");
    let rows = vec![0.0_f32; 33];
    let parameters = dunnart_spline::Parameters::from_rows(&settings, &rows);
    let (mut long, mut short) = (vec![0.0; 3], vec![0.0; 2]);
    let text = |result: Result<(), dunnart_spline::Error>| {
        result.expect_err("a length does not fit").to_string()
    };
    let error = spline.forward(&[0.0; 3], parameters, &mut short, &mut long);
    assert_eq!(text(error), "output: expected 3 values, got 2");
    let error = spline.inverse(&[0.0; 3], parameters, &mut long, &mut short);
    assert_eq!(text(error), "log_det: expected 3 values, got 2");
    let error = spline.forward(&[0.0; 2], parameters, &mut short, &mut long);
    assert_eq!(
        text(error),
        "unnormalized widths: expected 8 values, got 12"
    );
    let upstream = Upstream {
        output: &[0.0; 2],
        log_det: &[0.0; 3],
    };
    let mut gradients = vec![0.0; 33];
    let wanted = ParametersMut::ElementMajor(&mut gradients);
    let error = spline.forward_gradients(&[0.0; 3], parameters, upstream, &mut long, wanted);
    assert_eq!(
        text(error),
        "gradient by the output: expected 3 values, got 2"
    );
    let upstream = Upstream {
        output: &[0.0; 3],
        log_det: &[0.0; 3],
    };
    let wanted = ParametersMut::ElementMajor(&mut gradients[1..]);
    let error = spline.inverse_gradients(&[0.0; 3], parameters, upstream, &mut long, wanted);
    assert_eq!(text(error), "spline parameters: expected 33 values, got 32");
}
