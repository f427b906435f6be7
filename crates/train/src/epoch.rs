//! One pass over the training samples, one over the test samples.

use std::sync::Arc;
use std::time::Duration;

use dunnart_data::{Prefetch, test_batches};
use dunnart_flow::eager::EagerBatch;
use dunnart_flow::{Architecture, Dropout};
use tch::{Device, Tensor};

use crate::batches::Epoch;
use crate::engine::StepEngine;
use crate::observer::{Clock, Event, Observer, StepReport};
use crate::samples::{Draw, HostBatch, Samples};
use crate::step::Stepper;
use crate::storage::Storage;
use crate::{Error, Result};

/// Batches that may wait for the step.
const QUEUE: usize = 4;

/// Steps after which a device other than the CPU is asked for the losses.
const CHECK_EVERY: usize = 16;

/// What every pass needs.
pub(crate) struct Pass<'a> {
    pub(crate) architecture: &'a Architecture,
    pub(crate) source: &'a Arc<dyn Samples>,
    pub(crate) clock: &'a dyn Clock,
    /// Names the draws: seed, stage, epoch in the stage (from 0).
    pub(crate) draw: Draw,
}

/// Batches on their way to the device.
struct Feed<'a> {
    pass: &'a Pass<'a>,
    queue: Prefetch<HostBatch>,
    device: Device,
}

impl<'a> Feed<'a> {
    fn new(pass: &'a Pass<'a>, lists: Vec<Vec<u64>>, device: Device) -> Self {
        let (source, draw) = (Arc::clone(pass.source), pass.draw);
        let queue = Prefetch::start(lists, QUEUE, move |list, batch| {
            source.fill(list, draw, batch)
        });
        Self {
            pass,
            queue,
            device,
        }
    }

    fn next(&mut self) -> Result<EagerBatch> {
        let clock = || Duration::from_secs_f64(self.pass.clock.seconds());
        let batch = self.queue.next_timed(clock).ok_or(Error::DataEnded)??;
        let moved = EagerBatch::new(self.pass.architecture, &batch.view(), self.device)?;
        self.queue.recycle(batch);
        Ok(moved)
    }

    fn waited(&self) -> f64 {
        self.queue.waited().as_secs_f64()
    }
}

/// What a training pass did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trained {
    /// Mean loss over all rows.
    pub(crate) loss: f64,
    pub(crate) seconds: f64,
    pub(crate) waited: f64,
    pub(crate) steps: usize,
    /// Largest gradient norm before clipping, where there is clipping.
    pub(crate) largest_norm: Option<f64>,
}

impl Trained {
    pub(crate) fn waiting(&self) -> f64 {
        share(self.waited, self.seconds)
    }
}

/// A pass that ran to its end, or the step after which it was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Passed {
    Whole(Trained),
    StoppedAfter(usize),
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Losses that the device may still be computing.
struct Losses {
    every: usize,
    pending: Vec<(usize, usize, Tensor)>,
    sum: f64,
    rows: usize,
}

impl Losses {
    fn new(device: Device) -> Self {
        let every = if device == Device::Cpu {
            1
        } else {
            CHECK_EVERY
        };
        Self {
            every,
            pending: Vec::new(),
            sum: 0.0,
            rows: 0,
        }
    }

    /// Takes the loss of `rows` rows; asks the device when enough have come together.
    fn push(&mut self, draw: Draw, step: usize, rows: usize, loss: Tensor) -> Result<Option<f64>> {
        self.pending.push((step, rows, loss));
        if self.pending.len() < self.every {
            Ok(None)
        } else {
            self.read(draw)
        }
    }

    /// Reads what is pending; the last loss read.
    fn read(&mut self, draw: Draw) -> Result<Option<f64>> {
        let mut last = None;
        for (step, rows, loss) in self.pending.drain(..) {
            let loss = f64::try_from(&loss)?;
            if !loss.is_finite() {
                return Err(Error::Diverged {
                    what: "training loss",
                    found: loss,
                    stage: draw.stage as usize,
                    epoch: draw.epoch as usize + 1,
                    step: Some(step),
                });
            }
            self.sum += loss * rows as f64;
            self.rows += rows;
            last = Some(loss);
        }
        Ok(last)
    }
}

/// Trains one epoch.
///
/// On the CPU the loss is looked at before every step, so that a loss that is not finite never moves
/// the parameters; on other devices every few steps, and the state before the epoch is on disk.
pub(crate) fn train(
    pass: &Pass<'_>,
    epoch: &Epoch,
    stepper: &mut Stepper,
    storage: &mut Storage,
    learning_rate: f64,
    observer: &mut dyn Observer,
) -> Result<Passed> {
    let device = storage.options().1;
    let draw = pass.draw;
    let dropout = Dropout::new(draw.seed, draw.stage, draw.epoch);
    let start = pass.clock.seconds();
    let mut feed = Feed::new(pass, epoch.batches.clone(), device);
    let mut losses = Losses::new(device);
    let mut norms = Vec::new();
    for (index, window) in epoch.windows.iter().enumerate() {
        let step = index + 1;
        let mut last = None;
        for (number, &rows) in window.rows.iter().enumerate() {
            let batch = feed.next()?;
            let weight = window.weight(number);
            let loss = stepper.accumulate(storage, &batch, dropout, weight, number == 0)?;
            last = losses.push(draw, step, rows, loss)?.or(last);
        }
        if let Some(norm) = stepper.step(storage, learning_rate)? {
            norms.push(norm);
        }
        observer.observe(&Event::Step(StepReport {
            stage: draw.stage as usize,
            epoch: draw.epoch as usize + 1,
            step,
            steps: epoch.windows.len(),
            loss: last,
            rows: window.total(),
            waiting: share(feed.waited(), pass.clock.seconds() - start),
        }));
        if observer.stop_requested() && step < epoch.windows.len() {
            return Ok(Passed::StoppedAfter(step));
        }
    }
    losses.read(draw)?;
    Ok(Passed::Whole(Trained {
        loss: losses.sum / losses.rows as f64,
        seconds: pass.clock.seconds() - start,
        waited: feed.waited(),
        steps: epoch.windows.len(),
        largest_norm: largest(&norms)?,
    }))
}

/// The largest of scalars on a device, read at once.
fn largest(norms: &[Tensor]) -> Result<Option<f64>> {
    if norms.is_empty() {
        return Ok(None);
    }
    let largest = Tensor::f_stack(norms, 0)?.f_max()?;
    Ok(Some(f64::try_from(&largest)?))
}

/// Mean loss over the test samples in evaluation mode, every sample with the same weight.
///
/// Batches are formed as they come; neither accumulation nor batch size changes the result beyond
/// rounding.
pub(crate) fn test(
    pass: &Pass<'_>,
    samples: &[u64],
    batch_size: usize,
    engine: &mut dyn StepEngine,
    storage: &Storage,
) -> Result<f64> {
    let device = storage.options().1;
    let lists = test_batches(samples, batch_size)?;
    let count = lists.len();
    let mut feed = Feed::new(pass, lists, device);
    let mut sum = 0.0;
    for _ in 0..count {
        sum += engine.evaluate(storage, &feed.next()?)?;
    }
    let loss = sum / samples.len() as f64;
    if loss.is_finite() {
        return Ok(loss);
    }
    Err(Error::Diverged {
        what: "test loss",
        found: loss,
        stage: pass.draw.stage as usize,
        epoch: pass.draw.epoch as usize + 1,
        step: None,
    })
}
