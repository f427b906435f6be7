//! The compiled step itself.

use super::batch_norm::BatchNormState;
use super::block::Pass;
use super::chunk::{Chunk, chunk_rows, each};
use super::network::{Inputs, NetworkLayers};
use super::norm::Norm;
use super::program::{Operation, Part, backward, forward};
use super::tasks::{Group, Sources, groups};
use crate::plan::{Scalar, rows};
use crate::reduction::BatchReduction;
use crate::structure::ParameterIndex;
use crate::{
    Architecture, Batch, Dropout, Error, Layout, Part as LayoutPart, Result, TrainableSet,
};

/// Whether a plan has a backward pass, and whose statistics batch norms use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Batch statistics, dropout, gradients.
    Training,
    /// Running statistics, no dropout, no gradients.
    Evaluation,
}

/// What a plan is made for; another key needs another plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// Most rows B of a batch.
    pub rows: usize,
    /// The parameters that get gradients.
    pub trainable: TrainableSet,
    /// Training or evaluation.
    pub mode: Mode,
}

/// Options of one training step.
#[derive(Clone, Copy, Debug)]
pub struct PlanStep {
    /// The key of the epoch's dropout masks.
    pub dropout: Dropout,
    /// Factor on the loss before the backward pass, such as 1 / accumulated batches.
    pub weight: f64,
    /// Whether gradients are added to what is there; otherwise they replace it.
    pub accumulate: bool,
}

/// A compiled network step: loss and gradients, or density, of batches of up to a fixed number of rows.
///
/// After the first step nothing is allocated here. Threads of the current rayon pool share the work;
/// results are the same bits for every number of them.
#[derive(Debug)]
pub struct Plan<T> {
    key: PlanKey,
    architecture: Architecture,
    /// Elements of the flat parameters, statistics, and number of counters.
    lengths: [usize; 3],
    chunk_rows: usize,
    network: NetworkLayers<T>,
    states: Vec<BatchNormState<T>>,
    chunks: Vec<Chunk<T>>,
    zeros: Vec<T>,
    forward: Vec<Operation>,
    backward: Vec<Operation>,
    groups: Vec<Group>,
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

impl<T: Scalar> Plan<T> {
    /// Builds the plan: the order of operations, and every buffer.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for autoregressive steps, [`Error::Setting`] for no rows at all (or one
    /// row where batch norms train), [`Error::Length`] for permutations or a trainable set of
    /// another network.
    pub fn new(
        architecture: &Architecture,
        layout: &Layout,
        permutations: &[Vec<usize>],
        key: PlanKey,
    ) -> Result<Self> {
        let network = NetworkLayers::new(architecture, layout, permutations)?;
        check(
            "trainable set",
            layout.parameters().len(),
            key.trainable.len(),
        )?;
        let training = key.mode == Mode::Training;
        let least = if training && network.batch_norms > 0 {
            2
        } else {
            1
        };
        check_rows(key.rows, least, usize::MAX)?;
        let trains = |part: &dyn Fn(usize) -> bool| key.trainable.indices().any(part);
        let part_of = |index: usize| layout.parameters()[index].part;
        let reduced = training && trains(&|i| part_of(i) == LayoutPart::ReducedBasis);
        let embedding = training && trains(&|i| part_of(i) != LayoutPart::Flow);
        let groups = if training {
            groups(&network, &key.trainable)
        } else {
            Vec::new()
        };
        let count = network.steps.len();
        // The last group also holds the last LU transform, which needs no step's backward pass.
        let needed = |step: usize| {
            let first = network.steps[step].lu.places[0].0;
            let end = network
                .steps
                .get(step + 1)
                .unwrap_or(&network.steps[step])
                .lu
                .places[0]
                .0;
            let end = if step + 1 < count {
                end
            } else {
                network.last.places[0].0
            };
            (first..end).any(|index| key.trainable.contains(index))
        };
        let lowest = if embedding {
            0
        } else {
            (0..count).find(|s| needed(*s)).unwrap_or(count)
        };
        let programs = if training {
            (
                forward(&network, true),
                backward(&network, lowest, embedding),
            )
        } else {
            (forward(&network, false), Vec::new())
        };
        let chunk = chunk_rows(key.rows);
        let steps = if training { count } else { count.min(2) };
        let chunks = (0..key.rows.div_ceil(chunk))
            .map(|_| network.chunk(chunk.min(key.rows), steps, (embedding, reduced)))
            .collect();
        let widths = network.batch_norm_widths();
        Ok(Self {
            lengths: [
                layout.parameter_elements(),
                layout.statistic_elements(),
                layout.batch_norms(),
            ],
            chunk_rows: chunk,
            states: widths.into_iter().map(BatchNormState::new).collect(),
            zeros: vec![T::ZERO; network.max_width()],
            architecture: architecture.clone(),
            key,
            chunks,
            network,
            forward: programs.0,
            backward: programs.1,
            groups,
        })
    }

    /// What the plan was made for.
    pub fn key(&self) -> &PlanKey {
        &self.key
    }

    /// Loss -mean(log q) of a batch and its gradients by the trainable parameters.
    ///
    /// The loss comes without [`PlanStep::weight`], the gradients with it. Gradients of parameters
    /// that do not train are left alone. `ready` is called for each trainable parameter as soon as
    /// its gradient is final. Running statistics and counters move as batch norms do in training.
    ///
    /// # Shapes
    /// `parameters`, `gradients`, `statistics`, `counters` as in [`crate::NetworkState`]; the batch
    /// has at most as many rows as the plan.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit, [`Error::Setting`] for too many or too
    /// few rows, [`Error::Unsupported`] on a plan for evaluation, and what the reduction reports.
    #[allow(clippy::too_many_arguments)] // Each is a buffer of the trainer's.
    pub fn loss_and_gradients(
        &mut self,
        parameters: &[T],
        statistics: &mut [T],
        counters: &mut [i64],
        batch: &Batch<'_, T>,
        options: &PlanStep,
        gradients: &mut [T],
        reduction: &dyn BatchReduction,
        ready: &mut (dyn FnMut(ParameterIndex) + Send),
    ) -> Result<f64> {
        if self.key.mode != Mode::Training {
            return Err(Error::Unsupported {
                what: "a training step".into(),
                where_: "in a plan for evaluation".into(),
                remedy: "build a plan with `Mode::Training`".into(),
            });
        }
        check("gradients", self.lengths[0], gradients.len())?;
        check("counters", self.lengths[2], counters.len())?;
        let rows = self.start(parameters, statistics, batch)?;
        let drops = self.architecture.coupling().dropout > 0.0
            || self
                .architecture
                .embedding()
                .is_some_and(|e| e.dropout > 0.0);
        if drops {
            check("sample indices", rows, batch.samples.len())?;
        }
        let mut run = || -> Result<f64> {
            let linear_log_det = self.network.load(parameters);
            let seed = -options.weight / rows as f64;
            let numbers = (linear_log_det, seed);
            let dropout = Some(options.dropout);
            let buffers = (&mut *statistics, &mut *counters);
            self.run_forward(parameters, buffers, batch, numbers, dropout, reduction)?;
            let loss = -self.sum_log_prob(rows) / rows as f64;
            let step = (options, rows, numbers);
            self.run_backward(parameters, batch, step, gradients, reduction, ready)?;
            Ok(loss)
        };
        // From inside the pool a join costs two microseconds, from outside ten.
        if rayon::current_thread_index().is_some() {
            run()
        } else {
            rayon::scope(|_| run())
        }
    }

    /// Log-densities log q of the last training step's rows, in their order.
    pub fn row_log_prob(&self) -> impl Iterator<Item = T> + '_ {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.log_prob[..chunk.count].iter().copied())
    }

    /// Log-density of a batch in evaluation, and on request its noise.
    ///
    /// # Shapes
    /// `log_prob` `[B]`, `noise` `[B, D]`; parameters and statistics as in [`crate::NetworkState`].
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit, [`Error::Setting`] for too many rows,
    /// [`Error::Unsupported`] on a plan for training.
    pub fn log_prob(
        &mut self,
        parameters: &[T],
        statistics: &[T],
        batch: &Batch<'_, T>,
        log_prob: &mut [T],
        noise: Option<&mut [T]>,
    ) -> Result<()> {
        if self.key.mode != Mode::Evaluation {
            return Err(Error::Unsupported {
                what: "an evaluation".into(),
                where_: "in a plan for training".into(),
                remedy: "build a plan with `Mode::Evaluation`".into(),
            });
        }
        let rows = self.start(parameters, statistics, batch)?;
        check("log_prob", rows, log_prob.len())?;
        let d = self.network.features;
        if let Some(noise) = &noise {
            check("noise", rows * d, noise.len())?;
        }
        let numbers = (self.network.load(parameters), 0.0);
        self.use_running(parameters, statistics);
        let program = self.forward.len();
        let all = self.chunks.len().min(rows.div_ceil(self.chunk_rows));
        let mut run = || self.run_chunks(parameters, batch, (0, program), numbers, None, all);
        if rayon::current_thread_index().is_some() {
            run()
        } else {
            rayon::scope(|_| run())
        }?;
        for chunk in &self.chunks[..all] {
            let listed = chunk.first..chunk.first + chunk.count;
            log_prob[listed].copy_from_slice(&chunk.log_prob[..chunk.count]);
        }
        if let Some(noise) = noise {
            for chunk in &self.chunks[..all] {
                let listed = chunk.first * d..(chunk.first + chunk.count) * d;
                rows::to_rows(&chunk.noise[..chunk.count * d], d, &mut noise[listed]);
            }
        }
        Ok(())
    }

    /// Checks a batch and cuts it; returns its rows.
    fn start(&mut self, parameters: &[T], statistics: &[T], batch: &Batch<'_, T>) -> Result<usize> {
        check("parameters", self.lengths[0], parameters.len())?;
        check("running statistics", self.lengths[1], statistics.len())?;
        let rows = batch.rows(&self.architecture)?;
        let training = self.key.mode == Mode::Training;
        let least = if training && self.network.batch_norms > 0 {
            2
        } else {
            1
        };
        check_rows(rows, least, self.key.rows)?;
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            chunk.first = (index * self.chunk_rows).min(rows);
            chunk.count = self.chunk_rows.min(rows - chunk.first);
        }
        Ok(rows)
    }

    /// Chunks that hold rows.
    fn used(&self) -> usize {
        self.chunks.iter().take_while(|c| c.count > 0).count()
    }

    fn sum_log_prob(&self, rows: usize) -> f64 {
        let used = rows.div_ceil(self.chunk_rows);
        let chunks = self.chunks[..used].iter();
        chunks
            .map(|c| {
                c.log_prob[..c.count]
                    .iter()
                    .map(|v| v.to_f64())
                    .sum::<f64>()
            })
            .sum()
    }

    /// Runs the operations `range` of the forward program, all of them on chunks.
    fn run_chunks(
        &mut self,
        parameters: &[T],
        batch: &Batch<'_, T>,
        (from, to): (usize, usize),
        (linear_log_det, seed): (f64, f64),
        dropout: Option<Dropout>,
        used: usize,
    ) -> Result<()> {
        let inputs = Inputs {
            batch: *batch,
            pass: Pass {
                parameters,
                states: &self.states,
                zeros: &self.zeros,
                training: dropout.is_some(),
                dropout: dropout.unwrap_or(Dropout::new(0, 0, 0)),
            },
            linear_log_det,
            seed,
        };
        run_operations(
            &self.network,
            &self.forward[from..to],
            &inputs,
            &mut self.chunks[..used],
        )
    }

    fn run_forward(
        &mut self,
        parameters: &[T],
        (statistics, counters): (&mut [T], &mut [i64]),
        batch: &Batch<'_, T>,
        numbers: (f64, f64),
        dropout: Option<Dropout>,
        reduction: &dyn BatchReduction,
    ) -> Result<()> {
        let used = self.used();
        let mut from = 0;
        while from < self.forward.len() {
            let to = next_joint(&self.forward, from);
            self.run_chunks(parameters, batch, (from, to), numbers, dropout, used)?;
            if let Some(&Operation::Moments(part, b, which)) = self.forward.get(to) {
                let moments = (&mut *statistics, &mut *counters);
                self.moments(parameters, (part, b, which), moments, reduction)?;
            }
            from = to + 1;
        }
        Ok(())
    }

    fn run_backward(
        &mut self,
        parameters: &[T],
        batch: &Batch<'_, T>,
        (options, rows, (linear_log_det, seed)): (&PlanStep, usize, (f64, f64)),
        gradients: &mut [T],
        reduction: &dyn BatchReduction,
        ready: &mut (dyn FnMut(ParameterIndex) + Send),
    ) -> Result<()> {
        let used = self.used();
        let mut from = 0;
        while from < self.backward.len() {
            let to = next_joint(&self.backward, from);
            let inputs = Inputs {
                batch: *batch,
                pass: Pass {
                    parameters,
                    states: &self.states,
                    zeros: &self.zeros,
                    training: true,
                    dropout: options.dropout,
                },
                linear_log_det,
                seed,
            };
            let chunks = &mut self.chunks[..used];
            run_operations(&self.network, &self.backward[from..to], &inputs, chunks)?;
            match self.backward.get(to) {
                Some(&Operation::Gradients(index)) => {
                    let group = &self.groups[index];
                    let sources = Sources {
                        network: &self.network,
                        inputs: &inputs,
                        chunks: &self.chunks[..used],
                        rows,
                        accumulate: options.accumulate,
                    };
                    group.run(sources, gradients);
                    group.parameters.iter().for_each(|index| ready(*index));
                }
                Some(&Operation::Sums(part, b, which)) => {
                    self.sums((part, b, which), used, reduction)?;
                }
                _ => {}
            }
            from = to + 1;
        }
        Ok(())
    }

    /// Joins the chunks' moments of a batch norm.
    fn moments(
        &mut self,
        parameters: &[T],
        (part, b, which): (Part, usize, usize),
        buffers: (&mut [T], &mut [i64]),
        reduction: &dyn BatchReduction,
    ) -> Result<()> {
        let Some(trunk) = self.network.trunk(part) else {
            return Ok(());
        };
        let block = &trunk.blocks[b];
        let Norm::Batch(place, _) = &block.norms[which] else {
            return Ok(());
        };
        let state = &mut self.states[place.state];
        state.start_moments();
        for chunk in self.chunks.iter().filter(|c| c.count > 0) {
            if let Some(sums) = norm_sums(chunk, (part, b, which)) {
                state.add_moments(chunk.count, sums);
            }
        }
        // The second norm sees the first layer's output without its bias.
        let offset = if which == 1 {
            block.linears[0].bias(parameters)
        } else {
            &[]
        };
        state.finish_moments(place, parameters, offset, buffers, reduction)
    }

    /// Joins the chunks' sums of a batch norm.
    fn sums(
        &mut self,
        (part, b, which): (Part, usize, usize),
        used: usize,
        reduction: &dyn BatchReduction,
    ) -> Result<()> {
        let Some(trunk) = self.network.trunk(part) else {
            return Ok(());
        };
        let Norm::Batch(place, _) = &trunk.blocks[b].norms[which] else {
            return Ok(());
        };
        let state = &mut self.states[place.state];
        state.start_sums();
        for chunk in &self.chunks[..used] {
            if let Some(sums) = norm_sums(chunk, (part, b, which)) {
                state.add_sums(sums);
            }
        }
        state.finish_sums(reduction)
    }

    /// Sets every batch norm to its running statistics.
    fn use_running(&mut self, parameters: &[T], statistics: &[T]) {
        let network = &self.network;
        let trunks = network.embedding.iter().map(|e| &e.trunk);
        for trunk in trunks.chain(network.steps.iter().map(|s| &s.trunk)) {
            for block in &trunk.blocks {
                for (which, norm) in block.norms.iter().enumerate() {
                    if let Norm::Batch(place, _) = norm {
                        let offset = if which == 1 {
                            block.linears[0].bias(parameters)
                        } else {
                            &[]
                        };
                        let state = &mut self.states[place.state];
                        state.use_running(place, parameters, offset, statistics);
                    }
                }
            }
        }
    }
}

fn check_rows(found: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let expected = if most == usize::MAX {
        format!("at least {least}")
    } else {
        format!("{least} to {most}, which the plan was built for")
    };
    Err(Error::Setting {
        name: "rows of a batch".into(),
        found: found.to_string(),
        expected,
    })
}

/// The next operation at or after `from` where chunks meet, or the end.
fn next_joint(program: &[Operation], from: usize) -> usize {
    let joint = |operation: &Operation| !matches!(operation, Operation::Chunk(_));
    program[from..]
        .iter()
        .position(joint)
        .map_or(program.len(), |offset| from + offset)
}

/// Operations that need no other chunk, chunk by chunk.
fn run_operations<T: Scalar>(
    network: &NetworkLayers<T>,
    operations: &[Operation],
    inputs: &Inputs<'_, T>,
    chunks: &mut [Chunk<T>],
) -> Result<()> {
    each(chunks, &|chunk| {
        for operation in operations {
            if let Operation::Chunk(operation) = operation {
                network.run(*operation, inputs, chunk)?;
            }
        }
        Ok(())
    })
}

/// Moments or sums of one norm of one chunk.
fn norm_sums<T>(chunk: &Chunk<T>, (part, b, which): (Part, usize, usize)) -> Option<&[f64]> {
    let trunk = match part {
        Part::Embedding => &chunk.embedding.as_ref()?.trunk,
        Part::Step(step) => &chunk.step(step).trunk,
    };
    Some(&trunk.blocks[b].norms[which].sums)
}
