//! What the checks share: one call for everything a direction computes, and the two layouts.

use dunnart_spline::{
    Parameters, ParametersMut, RationalQuadraticSpline, SplineReal, SplineSettings, Upstream,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    Forward,
    Inverse,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Inverse => "inverse",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Layout {
    BinsMajor,
    ElementMajor,
}

/// Values, log-dets and gradients of one call; gradients by the logits are element-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evaluation<T> {
    pub(crate) output: Vec<T>,
    pub(crate) log_det: Vec<T>,
    pub(crate) by_input: Vec<T>,
    pub(crate) by_parameters: Vec<T>,
}

impl<T: SplineReal> Evaluation<T> {
    /// Gradients by widths, heights and derivatives, each element-major.
    pub(crate) fn gradients_by_group(&self, bins: usize) -> (Vec<T>, Vec<T>, Vec<T>) {
        let columns = |from: usize, to: usize| {
            self.by_parameters
                .chunks(3 * bins - 1)
                .flat_map(|element| element[from..to].to_vec())
                .collect()
        };
        (
            columns(0, bins),
            columns(bins, 2 * bins),
            columns(2 * bins, 3 * bins - 1),
        )
    }
}

/// [n][3 K - 1] out of [n][K], [n][K] and [n][K - 1].
pub(crate) fn pack<T: SplineReal>(
    bins: usize,
    widths: &[T],
    heights: &[T],
    derivatives: &[T],
) -> Vec<T> {
    let mut packed = Vec::new();
    for element in 0..widths.len() / bins {
        packed.extend_from_slice(&widths[element * bins..][..bins]);
        packed.extend_from_slice(&heights[element * bins..][..bins]);
        packed.extend_from_slice(&derivatives[element * (bins - 1)..][..bins - 1]);
    }
    packed
}

pub(crate) fn transpose<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    (0..columns)
        .flat_map(|column| values.iter().skip(column).step_by(columns).copied())
        .collect()
}

/// Runs a direction and its gradients on element-major parameters, in the given layout.
pub(crate) fn evaluate<T: SplineReal>(
    spline: &RationalQuadraticSpline,
    direction: Direction,
    layout: Layout,
    input: &[T],
    parameters: &[T],
    by_output: &[T],
    by_log_det: &[T],
) -> Evaluation<T> {
    let settings = *spline.settings();
    let elements = input.len();
    let zeros = |length: usize| vec![T::ZERO; length];
    let (mut output, mut log_det) = (zeros(elements), zeros(elements));
    let (mut by_input, mut by_parameters) = (zeros(elements), zeros(parameters.len()));
    let width = settings.parameters_per_element();
    let rows = transpose(parameters, width);
    let given = match layout {
        Layout::BinsMajor => Parameters::from_rows(&settings, &rows),
        Layout::ElementMajor => Parameters::ElementMajor(parameters),
    };
    let wanted = match layout {
        Layout::BinsMajor => ParametersMut::from_rows(&settings, &mut by_parameters),
        Layout::ElementMajor => ParametersMut::ElementMajor(&mut by_parameters),
    };
    let upstream = Upstream {
        output: by_output,
        log_det: by_log_det,
    };
    match direction {
        Direction::Forward => {
            spline
                .forward(input, given, &mut output, &mut log_det)
                .expect("lengths fit");
            spline
                .forward_gradients(input, given, upstream, &mut by_input, wanted)
                .expect("lengths fit");
        }
        Direction::Inverse => {
            spline
                .inverse(input, given, &mut output, &mut log_det)
                .expect("lengths fit");
            spline
                .inverse_gradients(input, given, upstream, &mut by_input, wanted)
                .expect("lengths fit");
        }
    }
    if layout == Layout::BinsMajor {
        by_parameters = transpose(&by_parameters, elements.max(1));
    }
    Evaluation {
        output,
        log_det,
        by_input,
        by_parameters,
    }
}

/// A fixed sequence of numbers; these checks need no generator of quality.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number of [0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the normal distribution.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Numbers of the normal distribution with the given standard deviation.
    pub(crate) fn normals<T: SplineReal>(&mut self, count: usize, deviation: f64) -> Vec<T> {
        (0..count)
            .map(|_| T::from_f64(deviation * self.normal()))
            .collect()
    }
}

/// `value` moved by `steps` neighbours.
pub(crate) fn neighbour<T: SplineReal>(value: T, steps: i32) -> T {
    // Both types are handled through their own neighbours, so that a step is one unit in the last
    // place of the type itself.
    let mut value = value;
    for _ in 0..steps.unsigned_abs() {
        value = next(value, steps > 0);
    }
    value
}

fn next<T: SplineReal>(value: T, up: bool) -> T {
    let wide = value.to_f64();
    if T::EPSILON.to_f64() == f64::EPSILON {
        return T::from_f64(if up { wide.next_up() } else { wide.next_down() });
    }
    let narrow = wide as f32;
    T::from_f64(f64::from(if up {
        narrow.next_up()
    } else {
        narrow.next_down()
    }))
}

/// A spline of the usual floors with unscaled logits.
pub(crate) fn spline(bins: usize, bound: f64) -> RationalQuadraticSpline {
    RationalQuadraticSpline::new(SplineSettings::new(bins, bound), 1.0).expect("valid settings")
}
