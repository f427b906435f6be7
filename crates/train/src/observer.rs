//! What a run tells whoever started it, and what it asks: events, a clock, a request to stop.
//!
//! The library neither prints nor reads a clock; the program hands in all three.

/// Time as the program measures it.
pub trait Clock: Sync {
    /// Seconds since some fixed moment, never going back.
    fn seconds(&self) -> f64;
}

/// A clock that stands still: runs under it have no time limit and report no durations.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn seconds(&self) -> f64 {
        0.0
    }
}

/// Something worth telling while a run goes on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A remark that needs no answer, said once.
    Note(&'a str),
    /// A stage begins or goes on.
    Stage {
        /// Index of the stage.
        stage: usize,
        /// Epochs the stage has in all.
        epochs: usize,
        /// Epochs of it that are already done.
        done: usize,
        /// Elements that train.
        trainable: usize,
    },
    /// An optimiser step was taken.
    Step(StepReport),
    /// An epoch was trained and evaluated, its checkpoint written.
    Epoch(EpochReport),
    /// A checkpoint was written.
    Saved(&'a std::path::Path),
}

/// One optimiser step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Stage.
    pub stage: usize,
    /// Epoch in the stage, from 1.
    pub epoch: usize,
    /// Step in the epoch, from 1.
    pub step: usize,
    /// Steps of the epoch.
    pub steps: usize,
    /// Mean loss of the step's rows; `None` where the device was not asked.
    pub loss: Option<f64>,
    /// Rows of the step.
    pub rows: usize,
    /// Share of the epoch's time so far spent waiting for data.
    pub waiting: f64,
}

/// One epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochReport {
    /// Stage.
    pub stage: usize,
    /// Epoch in the stage, from 1.
    pub epoch: usize,
    /// Epochs of the stage.
    pub epochs: usize,
    /// Epoch of the run, from 1.
    pub total_epoch: usize,
    /// Mean training loss over rows.
    pub train_loss: f64,
    /// Mean test loss over rows.
    pub test_loss: f64,
    /// Learning rate used.
    pub learning_rate: f64,
    /// Seconds of training.
    pub train_seconds: f64,
    /// Seconds of evaluation.
    pub test_seconds: f64,
    /// Share of the training time spent waiting for data.
    pub waiting: f64,
    /// Optimiser steps of the epoch.
    pub steps: usize,
    /// Whether this is the best test loss so far.
    pub best: bool,
}

/// Receives a run's events.
pub trait Observer {
    /// Takes one event.
    fn observe(&mut self, event: &Event<'_>);

    /// Whether the run should stop after the step it is at.
    fn stop_requested(&self) -> bool {
        false
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&mut self, _: &Event<'_>) {}
}
