//! The training loop: stages, epochs, evaluation, checkpoints, and when to stop.
//!
//! What comes next is decided by [`RunState`]; this file does it. A checkpoint is written when an
//! epoch is over, `model_latest` last of all, so that a run killed at any instant goes on from the
//! last epoch that is complete and redoes the rest from the key.

mod job;
mod live;

pub use job::{Job, Outcome, Start};

use dunnart_data::TrailingRow;

use crate::batches::Epoch;
use crate::epoch::{Pass, Passed, test, train};
use crate::history::EpochLog;
use crate::observer::{EpochReport, Event, Observer};
use crate::run_state::{Action, EpochResult, RunUse};
use crate::samples::Draw;
use crate::{Error, Result};
use live::Live;

/// Trains until the stages are over, a limit is reached or the observer asks to stop.
///
/// # Errors
/// [`Error::Diverged`] when a loss is not finite: nothing of that epoch is saved, so that
/// `model_latest` holds the last good one. Otherwise settings, data and states that do not fit.
pub fn run(job: &Job<'_>, start: Start, observer: &mut dyn Observer) -> Result<Outcome> {
    job.check(observer)?;
    let mut live = Live::new(job, start)?;
    if !live.state.finished {
        live.save_latest(observer)?;
    }
    let begun = job.clock.seconds();
    let mut epochs = 0;
    loop {
        if observer.stop_requested() && !live.state.finished {
            return Ok(Outcome::Stopped {
                stage: live.state.stage,
                epoch: live.state.epoch_in_stage,
                step: None,
            });
        }
        let used = RunUse {
            seconds: job.clock.seconds() - begun,
            epochs,
        };
        match live
            .state
            .next(job.training, &job.local.runtime_limits, &used)?
        {
            Action::Finish => return Ok(Outcome::Finished),
            Action::Pause(limit) => return Ok(Outcome::Paused(limit)),
            Action::BeginStage { stage } => live.begin_stage(stage, observer)?,
            Action::TrainEpoch {
                stage,
                epoch_in_stage,
            } => {
                live.enter_stage(stage, observer)?;
                if let Some(step) = one_epoch(&mut live, (stage, epoch_in_stage), observer)? {
                    return Ok(Outcome::Stopped {
                        stage,
                        epoch: epoch_in_stage,
                        step: Some(step),
                    });
                }
                epochs += 1;
            }
        }
    }
}

/// One pass over the test samples with the network as it is; nothing is saved.
///
/// # Errors
/// As [`run`].
pub fn evaluate(job: &Job<'_>, start: Start) -> Result<f64> {
    let live = Live::new(job, start)?;
    let stage = live.state.stage.min(job.training.stages.len() - 1);
    let draw = Draw {
        seed: live.seed,
        stage: stage as u32,
        epoch: live.state.epoch_in_stage as u32,
    };
    let mut engine = live.engine(stage)?;
    let pass = Pass {
        architecture: job.architecture,
        source: &job.source,
        clock: job.clock,
        draw,
    };
    let batch_size = job.training.stages[stage].batch_size;
    test(
        &pass,
        &job.split.test,
        batch_size,
        engine.as_mut(),
        &live.storage,
    )
}

/// Trains, evaluates and saves one epoch; the step it was stopped after, if it was.
fn one_epoch(
    live: &mut Live<'_>,
    (stage, epoch): (usize, usize),
    observer: &mut dyn Observer,
) -> Result<Option<usize>> {
    let job = live.job;
    let settings = &job.training.stages[stage];
    let draw = Draw {
        seed: live.seed,
        stage: stage as u32,
        epoch: epoch as u32,
    };
    let pass = Pass {
        architecture: job.architecture,
        source: &job.source,
        clock: job.clock,
        draw,
    };
    let batches = Epoch::new(
        &job.split.train,
        (draw.seed, draw.stage, draw.epoch),
        (
            settings.batch_size,
            settings.gradient_updates_per_optimizer_step,
        ),
        job.trailing(),
    )?;
    let (storage, stage_now) = live.parts()?;
    let learning_rate = stage_now.scheduler.lr();
    let stepper = &mut stage_now.stepper;
    let trained = match train(&pass, &batches, stepper, storage, learning_rate, observer)? {
        Passed::Whole(trained) => trained,
        Passed::StoppedAfter(step) => return Ok(Some(step)),
    };
    let begun = job.clock.seconds();
    let engine = stepper.engine.as_mut();
    let test_loss = test(&pass, &job.split.test, settings.batch_size, engine, storage)?;
    let test_seconds = job.clock.seconds() - begun;
    stage_now.scheduler.step(test_loss)?;
    let samples: usize = batches.windows.iter().map(|w| w.total()).sum();
    let result = EpochResult {
        train_loss: trained.loss,
        test_loss,
        steps: trained.steps as u64,
        samples: samples as u64,
    };
    let (state, transition) = live.state.finish_epoch(job.training, &result)?;
    live.state = state;
    live.tell_waiting(trained.waiting(), epoch + 1, observer);
    let report = EpochReport {
        stage,
        epoch: epoch + 1,
        epochs: settings.epochs,
        total_epoch: live.state.epoch,
        train_loss: trained.loss,
        test_loss,
        learning_rate,
        train_seconds: trained.seconds,
        test_seconds,
        waiting: trained.waiting(),
        steps: trained.steps,
        best: transition.best,
    };
    live.log(
        &EpochLog {
            epoch: report.total_epoch,
            stage,
            epoch_in_stage: report.epoch,
            train_loss: Some(trained.loss),
            test_loss: Some(test_loss),
            learning_rate,
            best: transition.best,
            float32_matmul_precision: job.local.float32_matmul_precision.name().into(),
            automatic_mixed_precision: settings.automatic_mixed_precision,
            train_seconds: trained.seconds,
            test_seconds,
            waiting_share: trained.waiting(),
            steps: result.steps,
            samples: result.samples,
            global_step: live.state.global_step,
            largest_gradient_norm: trained.largest_norm,
        },
        observer,
    );
    live.save_epoch(stage, &transition, observer)?;
    observer.observe(&Event::Epoch(report));
    Ok(None)
}

impl Job<'_> {
    /// What becomes of a last batch of one sample.
    fn trailing(&self) -> TrailingRow {
        if self.architecture.has_batch_norm() {
            TrailingRow::Drop
        } else {
            TrailingRow::Keep
        }
    }

    /// Finds what would stop the run later, and says once what its author should know.
    fn check(&self, observer: &mut dyn Observer) -> Result<()> {
        let local = self.local;
        if local.num_gpus > 1 {
            return Err(Error::Unsupported {
                name: "local.num_gpus".into(),
                value: local.num_gpus.to_string(),
                remedy: "one device is used; set it to 1".into(),
            });
        }
        let mut single = false;
        for (index, stage) in self.training.stages.iter().enumerate() {
            if !self.architecture.has_batch_norm() {
                break;
            }
            if stage.batch_size == 1 {
                return Err(Error::Setting {
                    name: format!("training.stage_{index}.batch_size"),
                    expected: "at least 2, since batch norm needs two rows".into(),
                    found: "1".into(),
                });
            }
            single |= self.split.train.len() % stage.batch_size == 1;
        }
        if single {
            observer.observe(&Event::Note(
                "the last training batch of an epoch holds one sample, which batch norm cannot use: \
                 it is left out, another sample in every epoch",
            ));
        }
        let half = self
            .training
            .stages
            .iter()
            .any(|stage| stage.automatic_mixed_precision);
        if half && local.float32_matmul_precision != crate::settings::MatmulPrecision::Highest {
            observer.observe(&Event::Note(
                "automatic_mixed_precision and float32_matmul_precision do not add up: products are \
                 in bfloat16 already",
            ));
        }
        Ok(())
    }
}
