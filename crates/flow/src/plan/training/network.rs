//! The layers of a whole network, and each operation of a plan on one chunk of rows.

use std::f64::consts::PI;

use super::block::Pass;
use super::chunk::{Chunk, EmbeddingBuffers};
use super::coupling::{CouplingLayer, Scratch};
use super::lu::{LuBuffers, LuLayer};
use super::program::{ChunkOperation, Part};
use super::reduced_basis::ReducedBasisLayer;
use super::trunk::{InputGradients, TrunkBuffers, TrunkLayer};
use crate::plan::passes::{add_scaled, standard_normal};
use crate::plan::spline::Splines;
use crate::plan::{Scalar, rows};
use crate::{Architecture, Batch, Error, Layout, Result};

/// The embedding.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddingLayer {
    /// Reduced-basis projections.
    pub(crate) reduced_basis: ReducedBasisLayer,
    /// The residual network.
    pub(crate) trunk: TrunkLayer,
}

/// Every layer of a network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkLayers<T> {
    /// The embedding.
    pub(crate) embedding: Option<EmbeddingLayer>,
    /// The steps in the density direction.
    pub(crate) steps: Vec<CouplingLayer<T>>,
    /// The last LU transform.
    pub(crate) last: LuLayer<T>,
    /// The splines.
    pub(crate) splines: Splines,
    /// Number D of parameters.
    pub(crate) features: usize,
    /// Number C of context features.
    pub(crate) context: usize,
    /// Number P of context parameters.
    pub(crate) context_parameters: usize,
    /// Numbers of one observation.
    pub(crate) observation: usize,
    /// Number of batch norms.
    pub(crate) batch_norms: usize,
}

/// What an operation reads besides the layers' own parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a, T> {
    /// The rows.
    pub(crate) batch: Batch<'a, T>,
    /// Parameters and batch norms.
    pub(crate) pass: Pass<'a, T>,
    /// ln |det| of all LU transforms.
    pub(crate) linear_log_det: f64,
    /// Gradient of the loss by the log-density of a row.
    pub(crate) seed: f64,
}

impl<T: Scalar> NetworkLayers<T> {
    /// Finds every layer in the layout.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for autoregressive steps, [`Error::Length`] for permutations that do
    /// not fit, [`Error::Spline`].
    pub(crate) fn new(
        architecture: &Architecture,
        layout: &Layout,
        permutations: &[Vec<usize>],
    ) -> Result<Self> {
        let d = architecture.parameters();
        let check = |name: &str, expected: usize, found: usize| {
            if expected == found {
                return Ok(());
            }
            Err(Error::Length {
                name: name.into(),
                expected,
                found,
            })
        };
        check("permutations", layout.permutations(), permutations.len())?;
        for permutation in permutations {
            check("permutation", d, permutation.len())?;
        }
        let network = layout.network();
        let mut states = 0;
        let embedding = match (&network.embedding, architecture.embedding()) {
            (Some(embedding), Some(settings)) => {
                let kind = (settings.activation, settings.dropout);
                let trunk = TrunkLayer::dense(layout, &embedding.network, kind, &mut states);
                trunk.map(|trunk| EmbeddingLayer {
                    reduced_basis: ReducedBasisLayer::new(layout, &embedding.reduced_basis),
                    trunk,
                })
            }
            _ => None,
        };
        let coupling = architecture.coupling();
        let kind = (coupling.activation, coupling.dropout);
        let steps = network
            .steps
            .iter()
            .zip(permutations)
            .map(|(step, p)| CouplingLayer::new(layout, step, p, kind, &mut states))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            embedding,
            last: LuLayer::new(layout, &network.last, &permutations[steps.len()]),
            steps,
            splines: Splines::new(architecture)?,
            features: d,
            context: architecture.context(),
            context_parameters: architecture.context_parameters(),
            observation: architecture.observation(),
            batch_norms: states,
        })
    }

    /// Features of every batch norm, in the order of their states.
    pub(crate) fn batch_norm_widths(&self) -> Vec<usize> {
        let trunks = self
            .embedding
            .iter()
            .map(|e| &e.trunk)
            .chain(self.steps.iter().map(|s| &s.trunk));
        let blocks = trunks.flat_map(|trunk| &trunk.blocks);
        blocks
            .flat_map(|b| b.norms.iter().filter(|n| n.is_batch()).map(|_| b.width))
            .collect()
    }

    /// Largest width of an activation.
    pub(crate) fn max_width(&self) -> usize {
        let embedding = self.embedding.iter().map(|e| e.trunk.max_width());
        embedding
            .chain(self.steps.iter().map(|s| s.trunk.max_width()))
            .max()
            .unwrap_or(0)
    }

    /// Buffers for chunks of at most `rows` rows.
    ///
    /// `steps` is how many steps have buffers of their own.
    pub(crate) fn chunk(
        &self,
        rows: usize,
        steps: usize,
        (context_gradient, reduced_gradient): (bool, bool),
    ) -> Chunk<T> {
        let zero = |width: usize| vec![T::ZERO; width * rows];
        Chunk {
            first: 0,
            count: 0,
            embedding: self.embedding.as_ref().map(|e| EmbeddingBuffers {
                reduced: zero(e.reduced_basis.outputs()),
                reduced_gradient: zero(if reduced_gradient {
                    e.reduced_basis.outputs()
                } else {
                    0
                }),
                trunk: e.trunk.buffers(rows),
            }),
            context: zero(self.context),
            context_gradient: zero(if context_gradient { self.context } else { 0 }),
            steps: self.steps[..steps]
                .iter()
                .map(|s| s.buffers(&self.splines, rows))
                .collect(),
            last: LuBuffers::new(self.features, rows),
            noise: zero(self.features),
            log_prob: zero(1),
            scratch: Scratch::new(self.features, self.max_width(), rows),
        }
    }

    /// The residual network of a part.
    pub(crate) fn trunk(&self, part: Part) -> Option<&TrunkLayer> {
        match part {
            Part::Embedding => self.embedding.as_ref().map(|e| &e.trunk),
            Part::Step(step) => Some(&self.steps[step].trunk),
        }
    }

    /// Takes this step's LU parameters; returns ln |det| of all of them.
    pub(crate) fn load(&mut self, parameters: &[T]) -> f64 {
        let steps: f64 = self.steps.iter_mut().map(|s| s.lu.load(parameters)).sum();
        steps + self.last.load(parameters)
    }

    /// One operation on one chunk.
    ///
    /// # Errors
    /// [`Error::Spline`].
    pub(crate) fn run(
        &self,
        operation: ChunkOperation,
        inputs: &Inputs<'_, T>,
        chunk: &mut Chunk<T>,
    ) -> Result<()> {
        use ChunkOperation as C;
        match operation {
            C::Load => self.load_rows(inputs, chunk),
            C::EmbeddingBegin => self.embedding_begin(inputs, chunk),
            C::EmbeddingEnd => self.embedding_end(inputs, chunk),
            C::Density => self.density(inputs, chunk),
            C::DensityBack => self.density_back(inputs, chunk),
            C::EmbeddingBeginBack => {
                if let (Some(embedding), pass) = (&self.embedding, inputs.pass) {
                    let dout =
                        &chunk.context_gradient[..embedding.trunk.output.outputs * chunk.count];
                    let dh = &mut chunk.scratch.dh;
                    embedding.trunk.backward_output(pass, dout, dh, chunk.count);
                }
            }
            C::StepBegin(step)
            | C::StepEnd(step)
            | C::StepBeginBack(step)
            | C::StepEndBack(step) => {
                return self.step(operation, step, inputs, chunk);
            }
            C::First(part, b) | C::Second(part, b) => {
                self.block_forward(operation, (part, b), inputs, chunk);
            }
            C::SecondBack(part, b) | C::FirstBack(part, b) | C::SkipBack(part, b) => {
                self.block_back(operation, (part, b), inputs, chunk);
            }
        }
        Ok(())
    }

    fn load_rows(&self, inputs: &Inputs<'_, T>, chunk: &mut Chunk<T>) {
        let (d, count) = (self.features, chunk.count);
        let listed = chunk.first..chunk.first + count;
        let theta = &inputs.batch.theta[listed.start * d..listed.end * d];
        rows::to_features_first(theta, d, &mut chunk.scratch.current[..d * count]);
        chunk.scratch.log_det[..count].fill(T::ZERO);
        if self.embedding.is_none() {
            let c = self.context;
            let context = &inputs.batch.observation[listed.start * c..listed.end * c];
            rows::to_features_first(context, c, &mut chunk.context[..c * count]);
        }
    }

    fn embedding_begin(&self, inputs: &Inputs<'_, T>, chunk: &mut Chunk<T>) {
        let (Some(layer), Some(buffers)) = (&self.embedding, &mut chunk.embedding) else {
            return;
        };
        let (count, parameters) = (chunk.count, inputs.pass.parameters);
        let observation =
            &inputs.batch.observation[chunk.first * self.observation..][..count * self.observation];
        let reduced = &mut buffers.reduced[..layer.reduced_basis.outputs() * count];
        layer
            .reduced_basis
            .forward(parameters, observation, reduced, count);
        layer
            .trunk
            .forward_initial(inputs.pass, (reduced, &[]), &mut buffers.trunk, count);
    }

    fn embedding_end(&self, inputs: &Inputs<'_, T>, chunk: &mut Chunk<T>) {
        let (Some(layer), Some(buffers)) = (&self.embedding, &chunk.embedding) else {
            return;
        };
        let count = chunk.count;
        let (out, rest) =
            chunk.context[..self.context * count].split_at_mut(layer.trunk.output.outputs * count);
        layer
            .trunk
            .forward_output(inputs.pass, &buffers.trunk, out, count);
        let p = self.context_parameters;
        let more = &inputs.batch.context_parameters[chunk.first * p..(chunk.first + count) * p];
        rows::to_features_first(more, p, rest);
    }

    /// Last LU transform, then log q = log N(noise; 0, 1) + log-dets.
    fn density(&self, inputs: &Inputs<'_, T>, chunk: &mut Chunk<T>) {
        let count = chunk.count;
        let length = self.features * count;
        let noise = &mut chunk.noise[..length];
        let current = &chunk.scratch.current[..length];
        self.last.forward(
            inputs.pass.parameters,
            current,
            noise,
            &mut chunk.last,
            count,
        );
        let constant = inputs.linear_log_det - 0.5 * self.features as f64 * (2.0 * PI).ln();
        let log_prob = &mut chunk.log_prob[..count];
        standard_normal(noise, T::from_f64(constant), log_prob);
        add_scaled(log_prob, &chunk.scratch.log_det[..count], T::ONE);
    }

    /// d log q / d noise = -noise, d log q / d log-det = 1, then through the last LU transform.
    fn density_back(&self, inputs: &Inputs<'_, T>, chunk: &mut Chunk<T>) {
        let count = chunk.count;
        let length = self.features * count;
        let seed = T::from_f64(inputs.seed);
        let noise = &mut chunk.noise[..length];
        for value in noise.iter_mut() {
            *value = -(*value * seed);
        }
        let Scratch {
            gradient,
            permuted,
            log_det_gradient,
            ..
        } = &mut chunk.scratch;
        log_det_gradient[..count].fill(seed);
        let (dx, permuted) = (&mut gradient[..length], &mut permuted[..length]);
        self.last
            .backward(noise, dx, &mut chunk.last, permuted, count);
        chunk.context_gradient.fill(T::ZERO);
    }

    fn step(
        &self,
        operation: ChunkOperation,
        step: usize,
        inputs: &Inputs<'_, T>,
        chunk: &mut Chunk<T>,
    ) -> Result<()> {
        let Chunk {
            count,
            context,
            steps,
            scratch,
            ..
        } = chunk;
        let (layer, count, pass) = (&self.steps[step], *count, inputs.pass);
        let own = step % steps.len();
        let buffers = &mut steps[own];
        match operation {
            ChunkOperation::StepBegin(_) => {
                let context = &context[..self.context * count];
                layer.forward_begin(pass, context, buffers, scratch, count);
            }
            ChunkOperation::StepEnd(_) => {
                layer.forward_end(pass, &self.splines, buffers, scratch, count)?;
            }
            ChunkOperation::StepBeginBack(_) => {
                layer.backward_begin(pass, &self.splines, buffers, scratch, count)?;
            }
            _ => layer.backward_end(buffers, scratch, count),
        }
        Ok(())
    }

    fn block_forward(
        &self,
        operation: ChunkOperation,
        (part, b): (Part, usize),
        inputs: &Inputs<'_, T>,
        chunk: &mut Chunk<T>,
    ) {
        let (count, first) = (chunk.count, chunk.first);
        let Some(trunk) = self.trunk(part) else {
            return;
        };
        let Some(buffers) = trunk_buffers(part, &mut chunk.embedding, &mut chunk.steps) else {
            return;
        };
        if let ChunkOperation::First(..) = operation {
            trunk.forward_first(b, inputs.pass, buffers, count);
            return;
        }
        let samples = inputs
            .batch
            .samples
            .get(first..first + count)
            .unwrap_or(&[]);
        let context: &[T] = match part {
            Part::Embedding => &[],
            Part::Step(_) => &chunk.context[..self.context * count],
        };
        trunk.forward_second(b, inputs.pass, (context, samples), buffers, count);
    }

    fn block_back(
        &self,
        operation: ChunkOperation,
        (part, b): (Part, usize),
        inputs: &Inputs<'_, T>,
        chunk: &mut Chunk<T>,
    ) {
        let Chunk {
            count,
            embedding,
            context_gradient,
            steps,
            scratch,
            ..
        } = chunk;
        let (count, pass) = (*count, inputs.pass);
        let Some(trunk) = self.trunk(part) else {
            return;
        };
        let Scratch {
            dh,
            upstream,
            condition,
            ..
        } = scratch;
        let length = trunk.inputs * count;
        let (buffers, input, context) = match part {
            Part::Embedding => {
                let Some(EmbeddingBuffers {
                    reduced_gradient,
                    trunk,
                    ..
                }) = embedding
                else {
                    return;
                };
                (trunk, reduced_gradient.get_mut(..length), None)
            }
            Part::Step(step) => {
                let own = step % steps.len();
                let context = context_gradient.get_mut(..self.context * count);
                // Nobody needs the gradient by a context that is not there.
                let context = context.filter(|c| !c.is_empty());
                (&mut steps[own].trunk, condition.get_mut(..length), context)
            }
        };
        match operation {
            ChunkOperation::SecondBack(..) => {
                trunk.backward_second(b, pass, (dh, upstream), context, buffers, count);
            }
            ChunkOperation::FirstBack(..) => {
                trunk.backward_first(b, pass, (dh, upstream), buffers, count);
            }
            _ => {
                let gradients = InputGradients { input, context };
                trunk.backward_skip(b, pass, (dh, upstream), gradients, buffers, count);
            }
        }
    }
}

/// Buffers of a part's residual network.
fn trunk_buffers<'a, T>(
    part: Part,
    embedding: &'a mut Option<EmbeddingBuffers<T>>,
    steps: &'a mut [super::coupling::CouplingBuffers<T>],
) -> Option<&'a mut TrunkBuffers<T>> {
    match part {
        Part::Embedding => embedding.as_mut().map(|e| &mut e.trunk),
        Part::Step(step) => {
            let own = step % steps.len();
            Some(&mut steps[own].trunk)
        }
    }
}
