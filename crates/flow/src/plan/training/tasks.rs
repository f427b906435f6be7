//! Gradients of parameters: independent tasks, each with its own elements of the flat gradients.
//!
//! Activations are split by rows of the batch, weight gradients by rows of the weight: each task
//! goes through all chunks in their order and writes its elements directly. Nothing is summed over
//! threads, so gradients are the same for every number of them.

use std::ops::Range;

use super::chunk::Chunk;
use super::coupling::CouplingLayer;
use super::linear::{LinearLayer, backward_bias};
use super::lu::LuLayer;
use super::network::{Inputs, NetworkLayers};
use super::norm::Norm;
use super::program::Part;
use super::trunk::{LayerId, TrunkLayer};
use crate::TrainableSet;
use crate::plan::Scalar;
use crate::structure::ParameterIndex;

/// Rows of a weight in one task, where it has at least twice as many.
const BLOCK_ROWS: usize = 128;

/// What a task computes.
#[derive(Clone, Debug)]
enum Work {
    /// Some rows of a weight.
    Weight(Part, LayerId, Range<usize>),
    /// A bias.
    Bias(Part, LayerId),
    /// w (0) or b (1) of a normalisation of a block.
    Norm(Part, usize, usize, usize),
    /// One of the four parameters of an LU transform; the last one for the number of steps.
    Lu(usize, usize),
    /// Widths, heights or derivatives of a step's context-free spline.
    Unconditional(usize, usize),
    /// Some rows of a reduced-basis layer's weight.
    ReducedWeight(usize, Range<usize>),
    /// A reduced-basis layer's bias.
    ReducedBias(usize),
}

/// A part of the flat gradients and how to compute it.
#[derive(Clone, Debug)]
struct Task {
    /// Its elements of the flat gradients.
    range: Range<usize>,
    work: Work,
}

/// Parameters whose gradients are ready at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// In ascending order of their elements.
    tasks: Vec<Task>,
    /// The parameters, in ascending order.
    pub(crate) parameters: Vec<ParameterIndex>,
}

/// Collects the tasks of a group.
struct Collector<'a> {
    trainable: &'a TrainableSet,
    group: Group,
}

impl Collector<'_> {
    fn add(&mut self, (index, range): (ParameterIndex, Range<usize>), work: Work) {
        self.blocks((index, range), 1, |_| work.clone());
    }

    /// Tasks for blocks of the `rows` rows of a parameter.
    fn blocks(
        &mut self,
        (index, range): (ParameterIndex, Range<usize>),
        rows: usize,
        work: impl Fn(Range<usize>) -> Work,
    ) {
        if !self.trainable.contains(index) {
            return;
        }
        self.group.parameters.push(index);
        if range.is_empty() {
            return;
        }
        let blocks = (rows / BLOCK_ROWS).max(1);
        let columns = range.len() / rows;
        for block in 0..blocks {
            let listed = block * rows / blocks..(block + 1) * rows / blocks;
            let start = range.start + listed.start * columns;
            let range = start..start + listed.len() * columns;
            self.group.tasks.push(Task {
                range,
                work: work(listed),
            });
        }
    }

    fn linear(&mut self, part: Part, id: LayerId, layer: Option<&LinearLayer>) {
        if let Some(layer) = layer {
            let weight = |rows| Work::Weight(part, id, rows);
            self.blocks(layer.weight.clone(), layer.outputs, weight);
            self.add(layer.bias.clone(), Work::Bias(part, id));
        }
    }

    fn trunk(&mut self, part: Part, trunk: &TrunkLayer) {
        self.linear(part, LayerId::Initial, Some(&trunk.initial));
        for (b, block) in trunk.blocks.iter().enumerate() {
            for (which, norm) in block.norms.iter().enumerate() {
                let (ranges, indices) = match norm {
                    Norm::None => continue,
                    Norm::Batch(place, indices) => {
                        ([place.weight.clone(), place.bias.clone()], indices)
                    }
                    Norm::Layer(ranges, indices) => (ranges.clone(), indices),
                };
                for (kind, (range, index)) in ranges.into_iter().zip(indices).enumerate() {
                    self.add((*index, range), Work::Norm(part, b, which, kind));
                }
            }
            for id in [
                LayerId::Gate(b),
                LayerId::First(b),
                LayerId::Second(b),
                LayerId::Resize(b),
            ] {
                self.linear(part, id, trunk.layer(id));
            }
        }
        self.linear(part, LayerId::Output, Some(&trunk.output));
    }

    fn lu<T: Scalar>(&mut self, step: usize, lu: &LuLayer<T>) {
        for (which, place) in lu.places.iter().enumerate() {
            self.add(place.clone(), Work::Lu(step, which));
        }
    }

    fn step<T: Scalar>(&mut self, index: usize, step: &CouplingLayer<T>) {
        self.lu(index, &step.lu);
        self.trunk(Part::Step(index), &step.trunk);
        for (which, place) in step.unconditional.iter().flatten().enumerate() {
            self.add(place.clone(), Work::Unconditional(index, which));
        }
    }

    fn finish(mut self) -> Group {
        self.group.tasks.sort_by_key(|task| task.range.start);
        self.group.parameters.sort_unstable();
        self.group
    }
}

/// The groups: one for each step (the last with the last LU transform), then the embedding.
pub(crate) fn groups<T: Scalar>(
    network: &NetworkLayers<T>,
    trainable: &TrainableSet,
) -> Vec<Group> {
    let empty = || Collector {
        trainable,
        group: Group {
            tasks: Vec::new(),
            parameters: Vec::new(),
        },
    };
    let count = network.steps.len();
    let mut groups: Vec<Group> = network
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            let mut collector = empty();
            collector.step(index, step);
            if index + 1 == count {
                collector.lu(count, &network.last);
            }
            collector.finish()
        })
        .collect();
    if let Some(embedding) = &network.embedding {
        let mut collector = empty();
        for (detector, layer) in embedding.reduced_basis.detectors.iter().enumerate() {
            let weight = |rows| Work::ReducedWeight(detector, rows);
            collector.blocks(layer.weight.clone(), layer.outputs, weight);
            collector.add(layer.bias.clone(), Work::ReducedBias(detector));
        }
        collector.trunk(Part::Embedding, &embedding.trunk);
        groups.push(collector.finish());
    }
    groups
}

/// What tasks read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a, T> {
    /// The layers.
    pub(crate) network: &'a NetworkLayers<T>,
    /// Parameters and rows.
    pub(crate) inputs: &'a Inputs<'a, T>,
    /// Activations and their gradients, in the order of the rows.
    pub(crate) chunks: &'a [Chunk<T>],
    /// Rows of the batch.
    pub(crate) rows: usize,
    /// Whether gradients are added to what is there.
    pub(crate) accumulate: bool,
}

impl Group {
    /// Computes the group's gradients.
    pub(crate) fn run<T: Scalar>(&self, sources: Sources<'_, T>, gradients: &mut [T]) {
        run(&self.tasks, sources, gradients, 0);
    }
}

/// Runs tasks on as many threads as there are; `gradients` starts at flat element `base`.
fn run<T: Scalar>(tasks: &[Task], sources: Sources<'_, T>, gradients: &mut [T], base: usize) {
    match tasks {
        [] => {}
        [task] => {
            let range = task.range.start - base..task.range.end - base;
            sources.compute(&task.work, &mut gradients[range]);
        }
        _ => {
            let (before, after) = tasks.split_at(tasks.len() / 2);
            let cut = after[0].range.start;
            let (left, right) = gradients.split_at_mut(cut - base);
            rayon::join(
                || run(before, sources, left, base),
                || run(after, sources, right, cut),
            );
        }
    }
}

impl<'a, T: Scalar> Sources<'a, T> {
    fn compute(&self, work: &Work, gradient: &mut [T]) {
        match work {
            Work::Weight(part, id, rows) => self.weight(*part, *id, rows, gradient),
            Work::Bias(part, id) => {
                self.start(gradient);
                for chunk in self.chunks {
                    if let Some((dy, _)) = self.gradient_and_input(*part, *id, chunk) {
                        backward_bias(dy, chunk.count, gradient);
                    }
                }
            }
            Work::Norm(part, b, which, kind) => self.norm(*part, (*b, *which, *kind), gradient),
            Work::Lu(step, which) => self.lu(*step, *which, gradient),
            Work::Unconditional(step, which) => {
                let buffers = self.chunks.iter().map(|chunk| chunk.step(*step));
                let (layer, splines) = (&self.network.steps[*step], &self.network.splines);
                let gradient = (gradient, self.accumulate);
                layer.unconditional_gradient(*which, splines, buffers, gradient);
            }
            Work::ReducedWeight(detector, rows) => self.reduced_weight(*detector, rows, gradient),
            Work::ReducedBias(detector) => {
                self.start(gradient);
                for chunk in self.chunks {
                    if let Some(dy) = self.reduced_gradient(*detector, chunk) {
                        backward_bias(dy, chunk.count, gradient);
                    }
                }
            }
        }
    }

    /// Zeroes a gradient that is added to, unless it continues an older one.
    fn start(&self, gradient: &mut [T]) {
        if !self.accumulate {
            gradient.fill(T::ZERO);
        }
    }

    /// The gradient by a layer's output and its input, for one chunk.
    fn gradient_and_input(
        &self,
        part: Part,
        id: LayerId,
        chunk: &'a Chunk<T>,
    ) -> Option<(&'a [T], &'a [T])> {
        let trunk = self.network.trunk(part)?;
        let count = chunk.count;
        let outputs = trunk.output.outputs * count;
        let (buffers, inputs, dout) = match part {
            Part::Embedding => {
                let embedding = chunk.embedding.as_ref()?;
                let reduced = &embedding.reduced[..trunk.inputs * count];
                let dout = chunk.context_gradient.get(..outputs)?;
                (&embedding.trunk, (reduced, &[][..]), dout)
            }
            Part::Step(step) => {
                let buffers = chunk.step(step);
                let condition = &buffers.condition[..trunk.inputs * count];
                let context = &chunk.context[..self.network.context * count];
                (
                    &buffers.trunk,
                    (condition, context),
                    &buffers.logits[..outputs],
                )
            }
        };
        Some(trunk.gradient_and_input(id, inputs, dout, buffers, count))
    }

    fn weight(&self, part: Part, id: LayerId, rows: &Range<usize>, gradient: &mut [T]) {
        let Some(trunk) = self.network.trunk(part) else {
            return;
        };
        let Some(layer) = trunk.layer(id) else { return };
        for (index, chunk) in self.chunks.iter().enumerate() {
            let Some((dy, x)) = self.gradient_and_input(part, id, chunk) else {
                continue;
            };
            let count = chunk.count;
            let dy = &dy[rows.start * count..rows.end * count];
            let accumulate = self.accumulate || index > 0;
            let columns = if id == LayerId::Initial {
                trunk.inputs
            } else {
                layer.inputs
            };
            layer.backward_weight(&(0..columns), dy, x, (gradient, accumulate), count);
            if columns < layer.inputs {
                let context = &chunk.context[..self.network.context * count];
                let columns = columns..layer.inputs;
                layer.backward_weight(&columns, dy, context, (gradient, accumulate), count);
            }
        }
    }

    fn norm(&self, part: Part, (b, which, kind): (usize, usize, usize), gradient: &mut [T]) {
        for (h, slot) in gradient.iter_mut().enumerate() {
            let sums = self.chunks.iter().filter_map(|chunk| {
                let trunk = match part {
                    Part::Embedding => &chunk.embedding.as_ref()?.trunk,
                    Part::Step(step) => &chunk.step(step).trunk,
                };
                let sums = &trunk.blocks[b].norms[which].sums;
                // The sums hold sum(g) for b, then sum(g xhat) for w.
                let start = if kind == 0 { sums.len() / 2 } else { 0 };
                Some(sums[start + h])
            });
            let old = if self.accumulate { slot.to_f64() } else { 0.0 };
            *slot = T::from_f64(old + sums.sum::<f64>());
        }
    }

    fn lu(&self, step: usize, which: usize, gradient: &mut [T]) {
        // Every row's log-density has the same ln |det| in it.
        let log_det_gradient = self.inputs.seed * self.rows as f64;
        let parameters = self.inputs.pass.parameters;
        let gradient = (gradient, self.accumulate);
        match self.network.steps.get(step) {
            Some(layer) => {
                let buffers = self.chunks.iter().map(|chunk| &chunk.step(step).lu);
                let lu = &layer.lu;
                lu.parameter_gradient(which, parameters, buffers, log_det_gradient, gradient);
            }
            None => {
                let buffers = self.chunks.iter().map(|chunk| &chunk.last);
                let lu = &self.network.last;
                lu.parameter_gradient(which, parameters, buffers, log_det_gradient, gradient);
            }
        }
    }

    /// Gradient by one detector's coefficients, `[2 n][T]`.
    fn reduced_gradient(&self, detector: usize, chunk: &'a Chunk<T>) -> Option<&'a [T]> {
        let layers = &self.network.embedding.as_ref()?.reduced_basis.detectors;
        let before: usize = layers[..detector].iter().map(|l| l.outputs).sum();
        let range = before * chunk.count..(before + layers[detector].outputs) * chunk.count;
        chunk.embedding.as_ref()?.reduced_gradient.get(range)
    }

    fn reduced_weight(&self, detector: usize, rows: &Range<usize>, gradient: &mut [T]) {
        let Some(embedding) = &self.network.embedding else {
            return;
        };
        let width = self.network.observation;
        for (index, chunk) in self.chunks.iter().enumerate() {
            let Some(dy) = self.reduced_gradient(detector, chunk) else {
                continue;
            };
            let count = chunk.count;
            let observation =
                &self.inputs.batch.observation[chunk.first * width..(chunk.first + count) * width];
            let dy = &dy[rows.start * count..rows.end * count];
            let gradient = (&mut *gradient, self.accumulate || index > 0);
            embedding
                .reduced_basis
                .backward_weight(detector, dy, observation, gradient, count);
        }
    }
}
