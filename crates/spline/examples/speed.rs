//! Time of the spline in nanoseconds an element, one thread: 32,768 elements, K = 8, logits of
//! standard deviation 1, 30 per cent of the elements in the tails.
//!
//! `cargo run --release -p dunnart-spline --example speed`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use dunnart_spline::{
    Error, Parameters, ParametersMut, RationalQuadraticSpline, SplineReal, SplineSettings, Upstream,
};

const ELEMENTS: usize = 32_768;
const BINS: usize = 8;
const RUNS: usize = 400;

/// Normal numbers from a fixed sequence; this example needs no generator of quality.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn time(name: &str, mut run: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e9 / ELEMENTS as f64);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{name:44} min {:7.2} ns  median {:7.2} ns",
        times[0],
        times[RUNS / 2]
    );
    Ok(())
}

fn measure<T: SplineReal>(name: &str) -> Result<(), Error> {
    let settings = SplineSettings::new(BINS, 1.0);
    let spline = RationalQuadraticSpline::new(settings, 1.0)?.sequential();
    let mut numbers = Numbers(1);
    // A share of 30 per cent lies outside [-1, 1].
    let input: Vec<T> = (0..ELEMENTS)
        .map(|_| T::from_f64((2.0 * numbers.uniform() - 1.0) / 0.7))
        .collect();
    let width = settings.parameters_per_element();
    let rows: Vec<T> = (0..width * ELEMENTS)
        .map(|_| T::from_f64(numbers.normal()))
        .collect();
    let upstream: Vec<T> = (0..ELEMENTS)
        .map(|_| T::from_f64(numbers.normal()))
        .collect();
    let upstream = Upstream {
        output: &upstream,
        log_det: &upstream,
    };
    let (mut output, mut log_det) = (vec![T::ZERO; ELEMENTS], vec![T::ZERO; ELEMENTS]);
    let mut by_input = vec![T::ZERO; ELEMENTS];
    let mut by_rows = rows.clone();

    time(&format!("{name} forward, bins-major"), || {
        spline.forward(
            &input,
            Parameters::from_rows(&settings, &rows),
            &mut output,
            &mut log_det,
        )
    })?;
    time(&format!("{name} inverse, bins-major"), || {
        spline.inverse(
            &input,
            Parameters::from_rows(&settings, &rows),
            &mut output,
            &mut log_det,
        )
    })?;
    time(&format!("{name} forward + gradients, bins-major"), || {
        let parameters = Parameters::from_rows(&settings, &rows);
        spline.forward(&input, parameters, &mut output, &mut log_det)?;
        let by_rows = ParametersMut::from_rows(&settings, &mut by_rows);
        spline.forward_gradients(&input, parameters, upstream, &mut by_input, by_rows)
    })?;
    // The copy that renews the logits is timed by itself, to be taken off.
    time(&format!("{name} (copy of the logits)"), || {
        by_rows.copy_from_slice(&rows);
        Ok(())
    })?;
    time(&format!("{name} copy + both in place, bins-major"), || {
        by_rows.copy_from_slice(&rows);
        let saved = ParametersMut::from_rows(&settings, &mut by_rows);
        spline.forward_in_place(&input, saved, &mut output, &mut log_det)?;
        let saved = ParametersMut::from_rows(&settings, &mut by_rows);
        spline.forward_gradients_in_place(&input, saved, upstream, &mut by_input)
    })?;
    time(&format!("{name} inverse gradients, bins-major"), || {
        let parameters = Parameters::from_rows(&settings, &rows);
        let by_rows = ParametersMut::from_rows(&settings, &mut by_rows);
        spline.inverse_gradients(&input, parameters, upstream, &mut by_input, by_rows)
    })?;
    time(&format!("{name} forward, element-major"), || {
        spline.forward(
            &input,
            Parameters::ElementMajor(&rows),
            &mut output,
            &mut log_det,
        )
    })?;
    time(&format!("{name} forward gradients, element-major"), || {
        let by_rows = ParametersMut::ElementMajor(&mut by_rows);
        let parameters = Parameters::ElementMajor(&rows);
        spline.forward_gradients(&input, parameters, upstream, &mut by_input, by_rows)
    })
}

fn main() -> Result<(), Error> {
    measure::<f32>("f32")?;
    measure::<f64>("f64")
}
