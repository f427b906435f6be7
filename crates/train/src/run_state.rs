//! Where a run stands, and what it does next.
//!
//! Stage, epoch and endings are said outright and never derived from sums of epochs: a stage that
//! ended early is over, the next one begins with an optimiser and a schedule of its own, and a run
//! that is over says so. Transitions are pure functions of state and settings.

use serde::{Deserialize, Serialize};

use crate::early_stopping::{EarlyStopping, Verdict};
use crate::settings::{RuntimeLimits, StageSettings, TrainingSettings};
use crate::{Error, Result};

/// Where a run stands; what a checkpoint keeps of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Index of the stage that is under way or comes next; their number when all are over.
    pub stage: usize,
    /// Whether that stage has begun, so that it has an optimiser and a schedule.
    pub stage_begun: bool,
    /// Epochs of that stage that are done.
    pub epoch_in_stage: usize,
    /// Epochs of the whole run that are done.
    pub epoch: usize,
    /// The stages that are over, in order.
    pub finished_stages: Vec<FinishedStage>,
    /// Whether every stage is over.
    pub finished: bool,
    /// Early stopping of the stage under way.
    pub early_stopping: Option<EarlyStopping>,
    /// Best watched loss of the stage under way, and the epoch of the stage that reached it.
    pub best: Option<BestEpoch>,
    /// Steps of the optimiser in the whole run.
    pub global_step: u64,
    /// Training samples seen in the whole run, repeats included.
    pub samples_seen: u64,
}

/// A stage that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishedStage {
    /// Epochs it took.
    pub epochs: usize,
    /// Why it ended.
    pub ending: StageEnding,
}

/// Why a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageEnding {
    /// All its epochs are done.
    Completed,
    /// Its loss no longer fell.
    EarlyStopped,
}

/// The best epoch of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BestEpoch {
    /// The watched loss.
    pub loss: f64,
    /// Epoch of the stage, counted from 1.
    pub epoch_in_stage: usize,
}

/// What a run does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Begin a stage: new optimiser, new schedule, the stage's trainable set.
    BeginStage {
        /// Index of the stage.
        stage: usize,
    },
    /// Train one epoch of the stage under way.
    TrainEpoch {
        /// Index of the stage.
        stage: usize,
        /// Index of the epoch in its stage, counted from 0: the generator's key.
        epoch_in_stage: usize,
    },
    /// Stop for now; the run resumes from its checkpoint.
    Pause(Limit),
    /// Every stage is over.
    Finish,
}

/// Why a run stops although its stages are not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `max_time_per_run` is used up.
    Time,
    /// `max_epochs_per_run` are done.
    Epochs,
}

/// What this run (since it was started or resumed) has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunUse {
    /// Time, s.
    pub seconds: f64,
    /// Epochs.
    pub epochs: usize,
}

/// What an epoch has brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochResult {
    /// Mean training loss, weighted by samples.
    pub train_loss: f64,
    /// Mean test loss, weighted by samples.
    pub test_loss: f64,
    /// Steps of the optimiser.
    pub steps: u64,
    /// Training samples.
    pub samples: u64,
}

/// What an epoch has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The model is the best of its stage: write `best_model`.
    pub best: bool,
    /// The stage is over: write `model_stage_N`.
    pub finished_stage: Option<(usize, StageEnding)>,
    /// The run is over.
    pub finished_run: bool,
}

impl RunState {
    /// The state of a run that has done nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What to do next.
    ///
    /// A finished run is finished whatever the limits say.
    ///
    /// # Errors
    /// [`Error::State`] if the state belongs to other stages than `training` has.
    pub fn next(
        &self,
        training: &TrainingSettings,
        limits: &RuntimeLimits,
        used: &RunUse,
    ) -> Result<Action> {
        let stages = training.stages.len();
        self.check(training)?;
        if self.stage == stages {
            return Ok(Action::Finish);
        }
        if limits
            .max_time_per_run
            .is_some_and(|limit| used.seconds >= limit)
        {
            return Ok(Action::Pause(Limit::Time));
        }
        if limits
            .max_epochs_per_run
            .is_some_and(|limit| used.epochs >= limit)
        {
            return Ok(Action::Pause(Limit::Epochs));
        }
        if !self.stage_begun {
            return Ok(Action::BeginStage { stage: self.stage });
        }
        Ok(Action::TrainEpoch {
            stage: self.stage,
            epoch_in_stage: self.epoch_in_stage,
        })
    }

    /// The state when the stage that comes next has begun.
    ///
    /// # Errors
    /// [`Error::State`] if no stage can begin.
    pub fn begin_stage(&self, training: &TrainingSettings) -> Result<Self> {
        self.check(training)?;
        let stage = self.current(training)?;
        if self.stage_begun {
            return Err(self.mismatch("a stage that has not begun", "one that has"));
        }
        Ok(Self {
            stage_begun: true,
            epoch_in_stage: 0,
            early_stopping: stage.early_stopping.map(|_| EarlyStopping::default()),
            best: None,
            ..self.clone()
        })
    }

    /// The state after an epoch of the stage under way, and what follows from it.
    ///
    /// Early stopping ends the stage; without it, the best epoch is the one of lowest test loss.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss that is no number, [`Error::State`] if no stage is under way.
    pub fn finish_epoch(
        &self,
        training: &TrainingSettings,
        result: &EpochResult,
    ) -> Result<(Self, Transition)> {
        self.check(training)?;
        let stage = self.current(training)?;
        if !self.stage_begun {
            return Err(self.mismatch("a stage that has begun", "one that has not"));
        }
        for (name, loss) in [
            ("training loss", result.train_loss),
            ("test loss", result.test_loss),
        ] {
            if !loss.is_finite() {
                return Err(Error::NonFinite {
                    name: name.into(),
                    found: loss,
                });
            }
        }
        let mut next = self.clone();
        next.epoch_in_stage += 1;
        next.epoch += 1;
        next.global_step += result.steps;
        next.samples_seen += result.samples;
        let (loss, verdict) = match &stage.early_stopping {
            None => {
                let best = self.best.is_none_or(|best| result.test_loss < best.loss);
                (
                    result.test_loss,
                    if best { Verdict::Best } else { Verdict::Worse },
                )
            }
            Some(settings) => {
                let loss = settings.watched(result.train_loss, result.test_loss);
                let before = self.early_stopping.unwrap_or_default();
                let (after, verdict) = before.after(settings, loss);
                next.early_stopping = Some(after);
                (loss, verdict)
            }
        };
        let best = verdict == Verdict::Best;
        if best {
            next.best = Some(BestEpoch {
                loss,
                epoch_in_stage: next.epoch_in_stage,
            });
        }
        let ending = if next.epoch_in_stage >= stage.epochs {
            Some(StageEnding::Completed)
        } else if verdict == Verdict::Stop {
            Some(StageEnding::EarlyStopped)
        } else {
            None
        };
        if let Some(ending) = ending {
            next.finished_stages.push(FinishedStage {
                epochs: next.epoch_in_stage,
                ending,
            });
            next.stage += 1;
            next.stage_begun = false;
            next.epoch_in_stage = 0;
            next.early_stopping = None;
            next.best = None;
            next.finished = next.stage == training.stages.len();
        }
        let transition = Transition {
            best,
            finished_stage: ending.map(|ending| (self.stage, ending)),
            finished_run: next.finished,
        };
        Ok((next, transition))
    }

    fn current<'a>(&self, training: &'a TrainingSettings) -> Result<&'a StageSettings> {
        training
            .stages
            .get(self.stage)
            .ok_or_else(|| self.mismatch("a run with a stage left", "a finished run"))
    }

    fn mismatch(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::State {
            name: format!("state of the run in stage {}", self.stage),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Whether the state can belong to these stages.
    fn check(&self, training: &TrainingSettings) -> Result<()> {
        let stages = training.stages.len();
        if self.stage > stages {
            return Err(self.mismatch(format!("at most {stages} stages"), self.stage.to_string()));
        }
        if self.finished_stages.len() != self.stage {
            let expected = format!("{} finished stages", self.stage);
            return Err(self.mismatch(expected, self.finished_stages.len().to_string()));
        }
        // A stage appended to a finished run is planned, not finished, and clears the flag.
        if self.finished != (self.stage == stages) {
            let what = |finished| {
                if finished {
                    "a finished run"
                } else {
                    "a run with a stage left"
                }
            };
            return Err(self.mismatch(what(self.stage == stages), what(self.finished)));
        }
        let done: usize = self.finished_stages.iter().map(|stage| stage.epochs).sum();
        if done + self.epoch_in_stage != self.epoch {
            let expected = format!("{} epochs of the run", done + self.epoch_in_stage);
            return Err(self.mismatch(expected, self.epoch.to_string()));
        }
        let Some(stage) = training.stages.get(self.stage) else {
            return Ok(());
        };
        if !self.stage_begun && self.epoch_in_stage > 0 {
            return Err(self.mismatch(
                "no epoch before the stage begins",
                self.epoch_in_stage.to_string(),
            ));
        }
        if self.stage_begun && self.epoch_in_stage >= stage.epochs {
            let expected = format!("fewer than the stage's {} epochs done", stage.epochs);
            return Err(self.mismatch(expected, self.epoch_in_stage.to_string()));
        }
        Ok(())
    }
}

impl TrainingSettings {
    /// Whether the reduced-basis layer is frozen in a stage: as said by it, or by the last stage
    /// before it that says anything; free if none does.
    pub fn reduced_basis_frozen(&self, stage: usize) -> bool {
        self.stages
            .iter()
            .take(stage + 1)
            .rev()
            .find_map(|stage| stage.freeze_rb_layer)
            .unwrap_or(false)
    }
}

#[cfg(test)]
#[path = "run_state_tests.rs"]
mod tests;
