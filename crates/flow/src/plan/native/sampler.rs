//! The native sampler: embedding, density and sampling of a network, for one observation or many.

use std::f64::consts::PI;

use rayon::prelude::*;

use super::constants::Constants;
use super::forward::{FlowWeights, StepWeights, run};
use super::tile::{FlowBuffers, TrunkBuffers, tile_rows};
use super::weights::{Dense, Reader, Trunk};
use crate::plan::gemm::{Matrix, MatrixMut};
use crate::plan::linear_transform::DenseTransform;
use crate::plan::passes::{add_scaled, standard_normal};
use crate::plan::spline::{Direction, Splines, state_logits};
use crate::plan::{Scalar, rows};
use crate::structure::{LinearTransform, Step};
use crate::{Architecture, Error, Layout, NetworkState, Result};

/// The embedding as evaluation uses it.
#[derive(Clone, Debug)]
struct EmbeddingWeights<T> {
    /// Numbers per detector, channels x F.
    inputs: usize,
    /// One layer per detector.
    reduced_basis: Vec<Dense<T>>,
    /// The residual network.
    trunk: Trunk<T>,
    /// Its constants.
    constants: Constants<T>,
}

/// A network ready for evaluation: embedding, density and sampling, without libtorch.
///
/// Batch norms use their running statistics, there is no dropout. Threads of the current rayon pool
/// share the rows; results do not depend on their number.
#[derive(Clone, Debug)]
pub struct Sampler<T> {
    flow: FlowWeights<T>,
    embedding: Option<EmbeddingWeights<T>>,
    context_parameters: usize,
    /// Constants where the context differs between rows.
    per_row: Vec<Constants<T>>,
}

/// A sampler with the context of one observation folded into its weights.
#[derive(Clone, Debug)]
pub struct Prepared<'a, T> {
    flow: &'a FlowWeights<T>,
    constants: Vec<Constants<T>>,
}

/// What a call computes, and for which contexts.
#[derive(Clone, Copy)]
struct Job<'a, T> {
    flow: &'a FlowWeights<T>,
    constants: &'a [Constants<T>],
    /// Context of each row, `[S][C]`; nothing where it is in the constants.
    contexts: Option<&'a [T]>,
    direction: Direction,
}

fn check(name: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Length {
        name: name.into(),
        expected,
        found,
    })
}

/// Rows of `[rows][width]`; a remainder is an error.
fn row_count(name: &str, length: usize, width: usize) -> Result<usize> {
    let count = length / width;
    check(name, count * width, length)?;
    Ok(count)
}

impl<T: Scalar> Sampler<T> {
    /// Prepares a network: running batch norms and masks are multiplied into the linear layers, LU
    /// transforms inverted, all in double precision.
    ///
    /// # Errors
    /// [`Error::Length`] when the state does not belong to the layout, [`Error::Spline`].
    pub fn new(
        architecture: &Architecture,
        layout: &Layout,
        state: &NetworkState<T>,
    ) -> Result<Self> {
        check(
            "parameters",
            layout.parameter_elements(),
            state.parameters.len(),
        )?;
        check(
            "running statistics",
            layout.statistic_elements(),
            state.statistics.len(),
        )?;
        check(
            "permutations",
            layout.permutations(),
            state.permutations.len(),
        )?;
        let network = layout.network();
        let reader = Reader {
            layout,
            state,
            activation: architecture.coupling().activation,
        };
        let steps = network
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| read_step(&reader, index, step))
            .collect::<Result<Vec<_>>>()?;
        let flow = FlowWeights {
            features: architecture.parameters(),
            context: architecture.context(),
            splines: Splines::new(architecture)?,
            last: read_linear(&reader, steps.len(), &network.last)?,
            steps,
        };
        let embedding = match (&network.embedding, architecture.embedding()) {
            (Some(embedding), Some(settings)) => {
                let reader = Reader {
                    layout,
                    state,
                    activation: settings.activation,
                };
                let trunk = reader
                    .dense_network(&embedding.network)
                    .ok_or_else(no_output)?;
                Some(EmbeddingWeights {
                    inputs: settings.channels * settings.bins,
                    reduced_basis: embedding
                        .reduced_basis
                        .iter()
                        .map(|l| reader.linear(l))
                        .collect(),
                    constants: Constants::new(&trunk, None),
                    trunk,
                })
            }
            _ => None,
        };
        let per_row = flow
            .steps
            .iter()
            .map(|s| Constants::new(&s.conditioner, None))
            .collect();
        Ok(Self {
            flow,
            embedding,
            context_parameters: architecture.context_parameters(),
            per_row,
        })
    }

    /// Number D of parameters.
    pub fn parameters(&self) -> usize {
        self.flow.features
    }

    /// Number C of context features; 0 for an unconditional flow.
    pub fn context(&self) -> usize {
        self.flow.context
    }

    /// Contexts of observations: the embedding's output followed by the context parameters.
    ///
    /// Without an embedding the observations are the contexts.
    ///
    /// # Shapes
    /// `observation` `[B, I, channels, F]` or `[B, C]`, `context_parameters` `[B, P]`; the result is
    /// `[B, C]`.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit.
    pub fn embed(&self, observation: &[T], context_parameters: &[T]) -> Result<Vec<T>> {
        let Some(embedding) = &self.embedding else {
            check("context parameters", 0, context_parameters.len())?;
            if self.flow.context == 0 {
                check("observation", 0, observation.len())?;
            } else {
                row_count("observation", observation.len(), self.flow.context)?;
            }
            return Ok(observation.to_vec());
        };
        let width = embedding.inputs * embedding.reduced_basis.len();
        let count = row_count("observation", observation.len(), width)?;
        let extra = self.context_parameters;
        check(
            "context parameters",
            count * extra,
            context_parameters.len(),
        )?;
        let mut contexts = vec![T::ZERO; count * self.flow.context];
        let tile = tile_rows(count);
        let chunks = contexts
            .par_chunks_mut(tile * self.flow.context)
            .zip(observation.par_chunks(tile * width))
            .enumerate();
        chunks.for_each(|(index, (contexts, observation))| {
            let count = observation.len() / width;
            let parameters = &context_parameters[index * tile * extra..][..count * extra];
            embedding.run(observation, parameters, contexts);
        });
        Ok(contexts)
    }

    /// Folds one observation's context into the weights.
    ///
    /// # Shapes
    /// `context`: `[C]`.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn prepare(&self, context: &[T]) -> Result<Prepared<'_, T>> {
        check("context", self.flow.context, context.len())?;
        let context: Vec<f64> = context.iter().map(|c| c.to_f64()).collect();
        let fold = |step: &StepWeights<T>| Constants::new(&step.conditioner, Some(&context));
        let constants = self.flow.steps.par_iter().map(fold).collect();
        Ok(Prepared {
            flow: &self.flow,
            constants,
        })
    }

    /// Parameters of noise, each row with its own context, and their log-density.
    ///
    /// # Shapes
    /// `noise` and `theta` `[S, D]`, `contexts` `[S, C]`, `log_prob` `[S]`.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit.
    pub fn inverse_many(
        &self,
        noise: &[T],
        contexts: &[T],
        theta: &mut [T],
        log_prob: &mut [T],
    ) -> Result<()> {
        self.job(Direction::Sampling, contexts)
            .run(noise, Some(theta), log_prob)
    }

    /// Log-density of parameters, each row with its own context, and on request their noise.
    ///
    /// # Shapes
    /// `theta` and `noise` `[B, D]`, `contexts` `[B, C]`, `log_prob` `[B]`.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit.
    pub fn log_prob(
        &self,
        theta: &[T],
        contexts: &[T],
        log_prob: &mut [T],
        noise: Option<&mut [T]>,
    ) -> Result<()> {
        self.job(Direction::Density, contexts)
            .run(theta, noise, log_prob)
    }

    fn job<'a>(&'a self, direction: Direction, contexts: &'a [T]) -> Job<'a, T> {
        Job {
            flow: &self.flow,
            constants: &self.per_row,
            contexts: Some(contexts),
            direction,
        }
    }
}

impl<T: Scalar> Prepared<'_, T> {
    /// Parameters of noise for this observation, and their log-density.
    ///
    /// # Shapes
    /// `noise` and `theta` `[S, D]`, `log_prob` `[S]`.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit.
    pub fn inverse(&self, noise: &[T], theta: &mut [T], log_prob: &mut [T]) -> Result<()> {
        self.job(Direction::Sampling)
            .run(noise, Some(theta), log_prob)
    }

    /// Log-density of parameters for this observation, and on request their noise.
    ///
    /// # Shapes
    /// `theta` and `noise` `[S, D]`, `log_prob` `[S]`.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit.
    pub fn log_prob(&self, theta: &[T], log_prob: &mut [T], noise: Option<&mut [T]>) -> Result<()> {
        self.job(Direction::Density).run(theta, noise, log_prob)
    }

    fn job(&self, direction: Direction) -> Job<'_, T> {
        Job {
            flow: self.flow,
            constants: &self.constants,
            contexts: None,
            direction,
        }
    }
}

impl<T: Scalar> Job<'_, T> {
    /// Whether contexts differ between rows.
    fn per_row(&self) -> bool {
        self.contexts.is_some() && self.flow.context > 0
    }

    fn run(self, input: &[T], output: Option<&mut [T]>, log_prob: &mut [T]) -> Result<()> {
        let d = self.flow.features;
        let count = row_count("parameters or noise", input.len(), d)?;
        check("log_prob", count, log_prob.len())?;
        if let Some(contexts) = self.contexts {
            check("contexts", count * self.flow.context, contexts.len())?;
        }
        let tile = tile_rows(count);
        let buffers = || self.flow.buffers(tile);
        let chunks = log_prob
            .par_chunks_mut(tile)
            .zip(input.par_chunks(tile * d))
            .enumerate();
        match output {
            Some(output) => {
                check("output", count * d, output.len())?;
                let chunks = chunks.zip(output.par_chunks_mut(tile * d));
                chunks.try_for_each_init(buffers, |buffers, ((i, (log_prob, input)), output)| {
                    self.tile(i * tile, input, Some(output), log_prob, buffers)
                })
            }
            None => chunks.try_for_each_init(buffers, |buffers, (i, (log_prob, input))| {
                self.tile(i * tile, input, None, log_prob, buffers)
            }),
        }
    }

    /// One tile, whose first row is row `first` of the call.
    fn tile(
        &self,
        first: usize,
        input: &[T],
        output: Option<&mut [T]>,
        log_prob: &mut [T],
        buffers: &mut FlowBuffers<T>,
    ) -> Result<()> {
        let (d, c) = (self.flow.features, self.flow.context);
        let count = log_prob.len();
        rows::to_features_first(input, d, &mut buffers.x[..d * count]);
        if let (Some(contexts), true) = (self.contexts, self.per_row()) {
            let contexts = &contexts[first * c..(first + count) * c];
            rows::to_features_first(contexts, c, &mut buffers.context[..c * count]);
        }
        let constant = self.flow.linear_log_det() - 0.5 * d as f64 * (2.0 * PI).ln();
        let constant = T::from_f64(constant);
        match self.direction {
            Direction::Density => {
                self.flow
                    .density(self.constants, self.per_row(), buffers, count)?;
                standard_normal(&buffers.x[..d * count], constant, log_prob);
                add_scaled(log_prob, &buffers.log_det[..count], T::ONE);
            }
            Direction::Sampling => {
                standard_normal(&buffers.x[..d * count], constant, log_prob);
                self.flow
                    .sampling(self.constants, self.per_row(), buffers, count)?;
                add_scaled(log_prob, &buffers.log_det[..count], -T::ONE);
            }
        }
        if let Some(output) = output {
            rows::to_rows(&buffers.x[..d * count], d, output);
        }
        Ok(())
    }
}

impl<T: Scalar> EmbeddingWeights<T> {
    /// Observations `[T][I x inputs]` to contexts `[T][output + P]`.
    fn run(&self, observation: &[T], context_parameters: &[T], contexts: &mut [T]) {
        let detectors = self.reduced_basis.len();
        let stride = detectors * self.inputs;
        let count = observation.len() / stride;
        let mut features = Vec::with_capacity(self.trunk.initial.inputs * count);
        for layer in &self.reduced_basis {
            let bias: Vec<T> = layer.bias.iter().map(|b| T::from_f64(*b)).collect();
            features.extend(bias.iter().flat_map(|b| std::iter::repeat_n(*b, count)));
        }
        let mut rest = features.as_mut_slice();
        for (detector, layer) in self.reduced_basis.iter().enumerate() {
            let (out, next) = rest.split_at_mut(layer.outputs * count);
            rest = next;
            let rows = &observation[detector * self.inputs..];
            let rows = Matrix::with_stride(rows, count, self.inputs, stride);
            let weight = Matrix::new(&layer.weight, layer.outputs, layer.inputs);
            let out = MatrixMut::new(out, layer.outputs, count);
            T::multiply(out, true, weight, rows.transposed());
        }
        let outputs = self.trunk.output.outputs;
        let mut embedded = vec![T::ZERO; outputs * count];
        let mut buffers = TrunkBuffers::new(std::iter::once(&self.trunk), count);
        let into = (0..outputs, embedded.as_mut_slice());
        run(
            &self.trunk,
            &self.constants,
            None,
            &features,
            &mut buffers,
            count,
            into,
        );
        let extra = context_parameters.len() / count;
        for (row, context) in contexts.chunks_exact_mut(outputs + extra).enumerate() {
            for (feature, value) in context[..outputs].iter_mut().enumerate() {
                *value = embedded[feature * count + row];
            }
            context[outputs..].copy_from_slice(&context_parameters[row * extra..][..extra]);
        }
    }
}

/// A dense residual network always ends in a linear layer; the layout guarantees it.
fn no_output() -> Error {
    Error::Unsupported {
        what: "a residual network without an output layer".into(),
        where_: "in evaluation".into(),
        remedy: "lay the network out from its architecture".into(),
    }
}

fn read_linear<T: Scalar>(
    reader: &Reader<'_, T>,
    index: usize,
    transform: &LinearTransform,
) -> Result<DenseTransform<T>> {
    let permutation = &reader.state.permutations[index];
    let spec = &reader.layout.parameters()[transform.bias];
    check("permutation", spec.elements(), permutation.len())?;
    Ok(DenseTransform::new(
        reader.layout,
        reader.state,
        transform,
        permutation,
    ))
}

fn read_step<T: Scalar>(
    reader: &Reader<'_, T>,
    index: usize,
    step: &Step,
) -> Result<StepWeights<T>> {
    let unconditional = step
        .unconditional
        .as_ref()
        .map(|u| state_logits(reader.layout, reader.state, u, step.identity.len()));
    Ok(StepWeights {
        linear: read_linear(reader, index, &step.linear)?,
        identity: step.identity.clone(),
        transformed: step.transformed.clone(),
        conditioner: reader
            .conditioner(&step.conditioner, step.identity.len())
            .ok_or_else(no_output)?,
        unconditional,
    })
}
