//! A run in memory: numbers, stage, state, and the files it leaves behind.

use std::path::Path;

use dunnart_checkpoint::{EpochRecord, Metadata, Model, OptimizerState, PrecisionRun};
use dunnart_files::WriteOptions;
use dunnart_flow::TrainableSet;
use dunnart_torch_shim::{MatmulPrecision, set_matmul_precision};
use tch::{Device, Kind};

use super::{Job, Start};
use crate::engine::{StepEngine, engine};
use crate::history::{EpochLog, History, JsonLines};
use crate::observer::{Event, Observer};
use crate::optimizer::{Method, Optimizer};
use crate::run_state::{RunState, Transition};
use crate::saving;
use crate::scheduler::Scheduler;
use crate::settings;
use crate::step::Stepper;
use crate::storage::Storage;
use crate::{Error, Result};

/// Share of an epoch's time spent waiting for data above which the user is told.
const WAITING: f64 = 0.1;

/// What belongs to the stage under way.
pub(super) struct Stage {
    pub(super) stepper: Stepper,
    pub(super) scheduler: Scheduler,
}

pub(super) struct Live<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) seed: u64,
    pub(super) state: RunState,
    pub(super) storage: Storage,
    metadata: Metadata,
    stage: Option<Stage>,
    /// Moments of the checkpoint, until the stage they belong to is entered.
    moments: OptimizerState,
    history: History,
    log: Option<JsonLines>,
    /// Whether it was said that the steps wait for their data.
    waiting_told: bool,
}

impl<'a> Live<'a> {
    pub(super) fn new(job: &'a Job<'a>, start: Start) -> Result<Self> {
        let seed = start.seed()?;
        let state = saving::run_state(&start.metadata)?;
        if let Some(threads) = job.local.num_threads {
            tch::set_num_threads(i32::try_from(threads).unwrap_or(i32::MAX));
        }
        let name = job.local.float32_matmul_precision.name();
        set_matmul_precision(name.parse::<MatmulPrecision>()?)?;
        let device = device(job.local.device)?;
        let storage = Storage::from_state(job.layout, &start.state, device)?;
        let mut metadata = start.metadata;
        metadata.float32_matmul_precision = Some(name.into());
        metadata
            .float32_matmul_precision_history
            .push(PrecisionRun {
                from_epoch: state.epoch as u32,
                float32_matmul_precision: name.into(),
            });
        Ok(Self {
            job,
            seed,
            state,
            storage,
            metadata,
            stage: None,
            moments: start.optimizer,
            history: History::new(job.folder.history()),
            log: None,
            waiting_told: false,
        })
    }

    /// Says, once a run, that an epoch waited for its data for a large share of its time.
    pub(super) fn tell_waiting(&mut self, share: f64, epoch: usize, observer: &mut dyn Observer) {
        if share <= WAITING || self.waiting_told {
            return;
        }
        self.waiting_told = true;
        observer.observe(&Event::Note(&format!(
            "epoch {epoch} of the stage waited for data for {:.0} % of its time: the steps are faster than \
             what prepares their batches",
            100.0 * share
        )));
    }

    /// The storage and the stage under way.
    pub(super) fn parts(&mut self) -> Result<(&mut Storage, &mut Stage)> {
        match &mut self.stage {
            Some(stage) => Ok((&mut self.storage, stage)),
            None => Err(Error::State {
                name: "run".into(),
                expected: "a stage under way".into(),
                found: "none".into(),
            }),
        }
    }

    fn trainable(&self, stage: usize) -> TrainableSet {
        let frozen = self.job.training.reduced_basis_frozen(stage);
        TrainableSet::with_reduced_basis(self.job.layout, frozen)
    }

    /// A new engine for a stage's trainable set.
    pub(super) fn engine(&self, stage: usize) -> Result<Box<dyn StepEngine>> {
        let job = self.job;
        let trainable = self.trainable(stage);
        engine(
            job.engine,
            job.architecture,
            job.layout,
            &self.storage,
            &trainable,
            job.local.num_threads,
        )
    }

    fn stepper(&self, stage: usize, optimizer: Optimizer) -> Result<Stepper> {
        let settings = &self.job.training.stages[stage];
        Ok(Stepper {
            engine: self.engine(stage)?,
            optimizer,
            clip_grad_norm: settings.clip_grad_norm,
            autocast: settings.automatic_mixed_precision.then_some(Kind::BFloat16),
        })
    }

    /// Begins a stage: new optimiser, new schedule, the stage's trainable set.
    pub(super) fn begin_stage(&mut self, stage: usize, observer: &mut dyn Observer) -> Result<()> {
        let settings = &self.job.training.stages[stage];
        let method = Method::from(settings.optimizer);
        let trainable = self.trainable(stage);
        let optimizer =
            Optimizer::new(method, self.job.layout, &trainable, self.storage.options())?;
        self.stage = Some(Stage {
            stepper: self.stepper(stage, optimizer)?,
            scheduler: Scheduler::new(settings.scheduler, settings.optimizer.lr()),
        });
        self.state = self.state.begin_stage(self.job.training)?;
        self.moments = OptimizerState::new();
        self.announce(stage, observer);
        Ok(())
    }

    /// Enters the stage that the checkpoint was in the middle of; nothing where it is entered already.
    pub(super) fn enter_stage(&mut self, stage: usize, observer: &mut dyn Observer) -> Result<()> {
        if self.stage.is_some() {
            return Ok(());
        }
        let settings = &self.job.training.stages[stage];
        let method = Method::from(settings.optimizer);
        let layout = self.job.layout;
        let states = saving::parameter_states(layout, &method, &self.moments)?;
        let trainable = self.trainable(stage);
        let optimizer =
            Optimizer::resume(method, layout, &trainable, &states, self.storage.options())?;
        let schedule = saving::scheduler_state(&self.metadata)?;
        self.stage = Some(Stage {
            stepper: self.stepper(stage, optimizer)?,
            scheduler: Scheduler::resume(settings.scheduler, schedule)?,
        });
        self.moments = OptimizerState::new();
        self.announce(stage, observer);
        Ok(())
    }

    fn announce(&self, stage: usize, observer: &mut dyn Observer) {
        observer.observe(&Event::Stage {
            stage,
            epochs: self.job.training.stages[stage].epochs,
            done: self.state.epoch_in_stage,
            trainable: self.trainable(stage).elements(self.job.layout),
        });
    }

    /// Adds an epoch to history and log. Neither is worth losing a run for: what cannot be written is
    /// said, and the history is made whole again from the checkpoint's after the next epoch.
    pub(super) fn log(&mut self, row: &EpochLog, observer: &mut dyn Observer) {
        self.metadata.history.push(EpochRecord {
            stage: row.stage as u32,
            epoch: row.epoch as u32,
            training_loss: row.train_loss,
            test_loss: row.test_loss,
            learning_rates: vec![row.learning_rate],
        });
        let written = self.write_history().and_then(|()| match &mut self.log {
            Some(log) => log.push(row),
            None => Ok(()),
        });
        if let Err(error) = written {
            observer.observe(&Event::Note(&format!(
                "history or log not written: {error}"
            )));
        }
    }

    fn write_history(&mut self) -> Result<()> {
        let rows: Vec<_> = self
            .metadata
            .history
            .iter()
            .map(saving::history_row)
            .collect();
        let known = self.history.rows().len();
        if known > rows.len() || self.history.rows() != &rows[..known] {
            self.history = History::new(self.job.folder.history());
        }
        for row in &rows[self.history.rows().len()..] {
            self.history.push(row.clone())?;
        }
        Ok(())
    }

    fn model(&mut self) -> Result<Model> {
        let stage = self.stage.as_ref();
        saving::record(
            &mut self.metadata,
            &self.state,
            stage.map(|stage| &stage.scheduler),
        )?;
        let state = self.storage.to_state::<f32>()?;
        let optimizer = stage.map(|stage| &stage.stepper.optimizer);
        let mut model = saving::model(self.metadata.clone(), self.job.layout, &state, optimizer)?;
        if stage.is_none() {
            model.optimizer = self.moments.clone();
        }
        Ok(model)
    }

    /// Writes where the run starts, and brings history and log to that epoch.
    pub(super) fn save_latest(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let folder = self.job.folder;
        write(&self.model()?, &folder.latest(), true)?;
        observer.observe(&Event::Saved(&folder.latest()));
        self.history = History::resume(&folder.history(), self.state.epoch)?;
        self.write_history()?;
        self.log = Some(JsonLines::resume(&folder.log(), self.state.epoch)?);
        Ok(())
    }

    /// Writes what an epoch leaves behind, `model_latest` last.
    ///
    /// Within a stage a file that cannot be written is said and the run goes on: the file before it
    /// stays. At the end of a stage it is an error.
    pub(super) fn save_epoch(
        &mut self,
        stage: usize,
        transition: &Transition,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let model = self.model()?;
        let folder = self.job.folder;
        let mut save = |model: &Model, path: &Path, keep: bool| -> Result<()> {
            match write(model, path, keep) {
                Ok(()) => {
                    observer.observe(&Event::Saved(path));
                    Ok(())
                }
                Err(error) if transition.finished_stage.is_none() => {
                    let text = format!("{}: not written, the run goes on: {error}", path.display());
                    observer.observe(&Event::Note(&text));
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        if transition.best {
            let network = Model {
                optimizer: OptimizerState::new(),
                ..model.clone()
            };
            save(&network, &folder.best(), true)?;
        }
        let every = self.job.local.checkpoint_epochs;
        if every.is_some_and(|every| every > 0 && self.state.epoch.is_multiple_of(every)) {
            save(&model, &folder.numbered(self.state.epoch as u64), false)?;
        }
        if transition.finished_stage.is_some() {
            save(&model, &folder.stage(stage), false)?;
        }
        save(&model, &folder.latest(), true)?;
        if transition.finished_stage.is_some() {
            // The next stage begins with an optimiser of its own.
            self.stage = None;
        }
        Ok(())
    }
}

fn write(model: &Model, path: &Path, keep_previous: bool) -> Result<()> {
    Ok(model.write(
        path,
        &WriteOptions {
            keep_previous,
            ..WriteOptions::default()
        },
    )?)
}

/// The device of the settings, if this machine has it.
fn device(wanted: settings::Device) -> Result<Device> {
    match wanted {
        settings::Device::Cpu => Ok(Device::Cpu),
        settings::Device::Cuda(index) => {
            let count = if tch::Cuda::is_available() {
                tch::Cuda::device_count()
            } else {
                0
            };
            if (index as i64) < count {
                return Ok(Device::Cuda(index));
            }
            let expected = match count {
                0 => "cpu, since libtorch finds no CUDA device here".into(),
                1 => "cpu or cuda:0, the one CUDA device here".into(),
                count => format!("cpu or cuda:0 to cuda:{}", count - 1),
            };
            let found = format!("cuda:{index}");
            Err(Error::Setting {
                name: "local.device".into(),
                expected,
                found,
            })
        }
    }
}
