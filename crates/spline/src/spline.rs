//! The spline as its users see it: checked slices in, buffers filled, threads on request.

use rayon::prelude::*;

use crate::block::{Constants, LANES};
use crate::chunk::{Chunk, SplineReal, Task};
use crate::layout::{Source, Target, check_length};
use crate::{Error, Parameters, ParametersMut, SplineSettings};

/// Elements that one thread works on at a time, a multiple of the block length.
const CHUNK: usize = 16 * LANES;

/// Rational-quadratic spline with linear tails.
///
/// Inside the bin [x0, x0 + w] x [y0, y0 + h] with derivatives d0, d1 at its ends, s = h / w and
/// t = (x - x0) / w:
///
/// y = y0 + h (s t^2 + d0 t (1 - t)) / (s + (d0 + d1 - 2 s) t (1 - t)).
///
/// Widths and heights are 2 B (m + (1 - m K) softmax(logit scale x logits)), derivatives are
/// m + softplus(logits), and the two outer derivatives are 1. Outside [-B, B], both ends
/// included, the map is the identity with log-det 0.
///
/// # Shapes
/// The number of elements n is the length of the input. Inputs, outputs, log-dets and their
/// gradients are `[n]`; parameters are as in [`Parameters`].
///
/// # Domain
/// Every number, infinities included. A NaN input is outside: it is passed through with log-det
/// 0. NaN among the logits that an element depends on makes its output and log-det NaN; an
/// infinite width or height logit counts as the largest finite number, and a derivative logit
/// above 1e4 as 1e4.
///
/// # Numerics
/// f64 agrees with an independent evaluation to 1e-12 of the largest magnitude in each tensor;
/// f32 is as close to the exact values as an evaluation by single tensor operations
/// (`tests/spline/golden.rs` holds both, for the instructions that its machine has). The result for an element depends neither on the
/// number of threads nor on the layout nor on its neighbours.
///
/// # Source
/// "Neural Spline Flows" (2019), equations 4 to 8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RationalQuadraticSpline {
    settings: SplineSettings,
    logit_scale: f64,
    sequential: bool,
}

/// A loss differentiated by output and log-det of a call, each `[n]`.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a, T> {
    /// Gradient by the output.
    pub output: &'a [T],
    /// Gradient by the log-det.
    pub log_det: &'a [T],
}

impl RationalQuadraticSpline {
    /// A spline whose width and height logits are multiplied by `logit_scale`.
    ///
    /// Conditioners of hidden width H use 1 / sqrt(H); 1 leaves the logits as they are.
    ///
    /// # Errors
    /// [`Error::LogitScale`], and what [`SplineSettings::validate`] finds.
    pub fn new(settings: SplineSettings, logit_scale: f64) -> Result<Self, Error> {
        settings.validate()?;
        if !(logit_scale > 0.0 && logit_scale.is_finite()) {
            return Err(Error::LogitScale { logit_scale });
        }
        Ok(Self {
            settings,
            logit_scale,
            sequential: false,
        })
    }

    /// The same spline, which never leaves the calling thread.
    ///
    /// This is for callers that divide the elements among threads themselves. Results are the
    /// same bits either way.
    pub fn sequential(self) -> Self {
        Self {
            sequential: true,
            ..self
        }
    }

    /// The settings.
    pub fn settings(&self) -> &SplineSettings {
        &self.settings
    }

    /// The factor on the width and height logits.
    pub fn logit_scale(&self) -> f64 {
        self.logit_scale
    }

    /// output = f(input), log_det = ln f'(input).
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn forward<T: SplineReal>(
        &self,
        input: &[T],
        parameters: Parameters<'_, T>,
        output: &mut [T],
        log_det: &mut [T],
    ) -> Result<(), Error> {
        self.evaluate(false, input, parameters, output, log_det)
    }

    /// output = f^-1(input), log_det = ln (f^-1)'(input).
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn inverse<T: SplineReal>(
        &self,
        input: &[T],
        parameters: Parameters<'_, T>,
        output: &mut [T],
        log_det: &mut [T],
    ) -> Result<(), Error> {
        self.evaluate(true, input, parameters, output, log_det)
    }

    /// Gradients of [`RationalQuadraticSpline::forward`] by input and logits.
    ///
    /// `input` and `parameters` are those of the forward call. Both results are overwritten.
    /// Outside the interval the gradient by the input is the upstream one and the logits get 0.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn forward_gradients<T: SplineReal>(
        &self,
        input: &[T],
        parameters: Parameters<'_, T>,
        upstream: Upstream<'_, T>,
        by_input: &mut [T],
        by_parameters: ParametersMut<'_, T>,
    ) -> Result<(), Error> {
        self.differentiate(
            false,
            input,
            Some(parameters),
            upstream,
            by_input,
            by_parameters,
        )
    }

    /// Gradients of [`RationalQuadraticSpline::inverse`] by input and logits.
    ///
    /// As [`RationalQuadraticSpline::forward_gradients`]; the root formula is differentiated.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn inverse_gradients<T: SplineReal>(
        &self,
        input: &[T],
        parameters: Parameters<'_, T>,
        upstream: Upstream<'_, T>,
        by_input: &mut [T],
        by_parameters: ParametersMut<'_, T>,
    ) -> Result<(), Error> {
        self.differentiate(
            true,
            input,
            Some(parameters),
            upstream,
            by_input,
            by_parameters,
        )
    }

    /// [`RationalQuadraticSpline::forward`] that leaves exponentials in the place of the width and
    /// height logits, which [`RationalQuadraticSpline::forward_gradients_in_place`] continues from.
    ///
    /// Both calls give the same bits as the calls that leave the logits alone.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn forward_in_place<T: SplineReal>(
        &self,
        input: &[T],
        parameters: ParametersMut<'_, T>,
        output: &mut [T],
        log_det: &mut [T],
    ) -> Result<(), Error> {
        parameters.check(&self.settings, input.len())?;
        check_evaluation(input, output, log_det)?;
        self.run(Chunk {
            constants: self.constants(),
            inverse: false,
            input,
            source: None,
            target: Some(target(parameters, input.len())),
            task: Task::Evaluate { output, log_det },
        });
        Ok(())
    }

    /// Gradients of [`RationalQuadraticSpline::forward_in_place`] by input and logits.
    ///
    /// `parameters` are what that call left; the gradients replace them.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn forward_gradients_in_place<T: SplineReal>(
        &self,
        input: &[T],
        parameters: ParametersMut<'_, T>,
        upstream: Upstream<'_, T>,
        by_input: &mut [T],
    ) -> Result<(), Error> {
        self.differentiate(false, input, None, upstream, by_input, parameters)
    }

    fn constants<T: SplineReal>(&self) -> Constants<T> {
        Constants::new(&self.settings, self.logit_scale)
    }

    fn evaluate<T: SplineReal>(
        &self,
        inverse: bool,
        input: &[T],
        parameters: Parameters<'_, T>,
        output: &mut [T],
        log_det: &mut [T],
    ) -> Result<(), Error> {
        parameters.check(&self.settings, input.len())?;
        check_evaluation(input, output, log_det)?;
        self.run(Chunk {
            constants: self.constants(),
            inverse,
            input,
            source: Some(source(parameters, input.len())),
            target: None,
            task: Task::Evaluate { output, log_det },
        });
        Ok(())
    }

    fn differentiate<T: SplineReal>(
        &self,
        inverse: bool,
        input: &[T],
        parameters: Option<Parameters<'_, T>>,
        upstream: Upstream<'_, T>,
        by_input: &mut [T],
        by_parameters: ParametersMut<'_, T>,
    ) -> Result<(), Error> {
        let elements = input.len();
        if let Some(parameters) = &parameters {
            parameters.check(&self.settings, elements)?;
        }
        by_parameters.check(&self.settings, elements)?;
        check_length("gradient by the output", elements, upstream.output.len())?;
        check_length("gradient by the log-det", elements, upstream.log_det.len())?;
        check_length("gradient by the input", elements, by_input.len())?;
        let prepared = parameters.is_none();
        self.run(Chunk {
            constants: self.constants(),
            inverse,
            input,
            source: parameters.map(|parameters| source(parameters, elements)),
            target: Some(target(by_parameters, elements)),
            task: Task::Differentiate {
                output: upstream.output,
                log_det: upstream.log_det,
                input: by_input,
                prepared,
            },
        });
        Ok(())
    }

    fn run<T: SplineReal>(&self, chunk: Chunk<'_, T>) {
        if self.sequential || chunk.input.len() <= CHUNK {
            T::run(chunk);
        } else {
            chunk.split(CHUNK).into_par_iter().for_each(T::run);
        }
    }
}

fn check_evaluation<T>(input: &[T], output: &[T], log_det: &[T]) -> Result<(), Error> {
    check_length("output", input.len(), output.len())?;
    check_length("log_det", input.len(), log_det.len())
}

fn source<T>(parameters: Parameters<'_, T>, elements: usize) -> Source<'_, T> {
    match parameters {
        Parameters::BinsMajor {
            widths,
            heights,
            derivatives,
        } => Source::Rows {
            parts: [widths, heights, derivatives],
            stride: elements,
            start: 0,
        },
        Parameters::ElementMajor(values) => Source::Packed(values),
    }
}

fn target<T>(parameters: ParametersMut<'_, T>, elements: usize) -> Target<'_, T> {
    match parameters {
        ParametersMut::BinsMajor {
            widths,
            heights,
            derivatives,
        } => Target::Rows {
            parts: [widths, heights, derivatives],
            stride: elements,
        },
        ParametersMut::ElementMajor(values) => Target::Packed(values),
    }
}
