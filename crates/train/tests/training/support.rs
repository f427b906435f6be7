//! A small problem: theta is noisy data plus a little structure, every row a function of its index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dunnart_checkpoint::{Metadata, Model};
use dunnart_data::Split;
use dunnart_flow::{Architecture, Layout, NetworkSettings};
use dunnart_random::{Key, Purpose};
use dunnart_train::engine::EngineKind;
use dunnart_train::observer::{Clock, Event, Observer, StoppedClock};
use dunnart_train::samples::{Draw, HostBatch, Samples};
use dunnart_train::settings::{LocalSettings, TrainingSettings};
use dunnart_train::{Job, Outcome, Result, RunFolder, Settings, Start};
use serde_json::{Value, json};

pub(crate) const D: usize = 2;

/// Rows of a vector (or of a strain, flattened) of `width` numbers around their parameters.
pub(crate) struct Toy {
    pub(crate) width: usize,
    /// Rows of this sample are NaN from that (stage, epoch) on.
    pub(crate) broken: Option<(u64, (u32, u32))>,
}

impl Samples for Toy {
    fn fill(
        &self,
        samples: &[u64],
        draw: Draw,
        batch: &mut HostBatch,
    ) -> std::result::Result<(), dunnart_data::Error> {
        *batch = HostBatch {
            samples: samples.to_vec(),
            ..HostBatch::default()
        };
        for &sample in samples {
            let mut stream = Key::new(7, Purpose::Benchmark).stream(sample);
            let theta = [stream.normal(), stream.normal()];
            let nan = self
                .broken
                .is_some_and(|(row, from)| row == sample && (draw.stage, draw.epoch) >= from);
            batch
                .theta
                .extend(theta.map(|v| if nan { f32::NAN } else { v as f32 }));
            for k in 0..self.width {
                let signal = theta[k % D] * (1.0 + k as f64 / 7.0);
                batch
                    .observation
                    .push((0.5 * signal + 0.3 * stream.normal()) as f32);
            }
        }
        Ok(())
    }
}

/// A network, its data and its stages.
pub(crate) struct Problem {
    pub(crate) architecture: Architecture,
    pub(crate) layout: Layout,
    pub(crate) settings: Settings,
    pub(crate) split: Split,
    pub(crate) source: Arc<dyn Samples>,
    pub(crate) engine: EngineKind,
    pub(crate) clock: &'static dyn Clock,
}

/// A stage of `epochs` epochs of Adam.
pub(crate) fn stage(epochs: usize) -> Value {
    json!({
        "epochs": epochs, "batch_size": 16,
        "optimizer": {"type": "adam", "lr": 0.005},
        "scheduler": {"type": "cosine", "T_max": epochs},
    })
}

/// Changes keys of a stage.
pub(crate) fn with(mut stage: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        stage[key] = value.clone();
    }
    stage
}

impl Problem {
    /// A conditional flow on vectors of three numbers, with batch norm and dropout if asked for.
    pub(crate) fn vectors(norm: Option<&str>, dropout: f64, stages: &[Value]) -> Self {
        let network = json!({"posterior_kwargs": {
            "input_dim": D, "context_dim": 3, "num_flow_steps": 2,
            "base_transform_kwargs": {
                "hidden_dim": 8, "num_transform_blocks": 1, "activation": "elu", "num_bins": 4,
                "tail_bound": 3.0, "norm": norm, "dropout_probability": dropout,
                "base_transform_type": "rq-coupling",
            }
        }});
        Self::new(network, 3, stages)
    }

    /// A flow behind an embedding with a reduced basis.
    pub(crate) fn strains(stages: &[Value]) -> Self {
        let network = json!({
            "posterior_kwargs": {
                "input_dim": D, "context_dim": 4, "num_flow_steps": 2,
                "base_transform_kwargs": {
                    "hidden_dim": 8, "num_transform_blocks": 1, "activation": "elu", "num_bins": 4,
                    "tail_bound": 3.0, "norm": "BatchNorm", "base_transform_type": "rq-coupling",
                }
            },
            "embedding_kwargs": {
                "input_dims": [2, 3, 5], "output_dim": 4, "hidden_dims": [6, 5], "svd": {"size": 3},
                "activation": "elu", "norm": "BatchNorm",
            }
        });
        Self::new(network, 30, stages)
    }

    fn new(network: Value, width: usize, stages: &[Value]) -> Self {
        let network: NetworkSettings = serde_json::from_value(network).unwrap();
        let architecture = Architecture::new(network).unwrap();
        let layout = Layout::new(&architecture).unwrap();
        let mut training = serde_json::Map::new();
        for (index, stage) in stages.iter().enumerate() {
            training.insert(format!("stage_{index}"), stage.clone());
        }
        let settings = json!({
            "data": {"simulations": "unused.npz"},
            "model": {"posterior_kwargs": {"num_flow_steps": 2}},
            "training": training,
            "local": {"device": "cpu", "num_threads": 1, "checkpoint_epochs": 2},
        });
        let (settings, _) = Settings::from_value(&settings).unwrap();
        let split = Split::new(100, 0.7).unwrap();
        let source = Arc::new(Toy {
            width,
            broken: None,
        });
        Self {
            architecture,
            layout,
            settings,
            split,
            source,
            engine: EngineKind::Eager,
            clock: &StoppedClock,
        }
    }

    pub(crate) fn training(&self) -> &TrainingSettings {
        &self.settings.training
    }

    pub(crate) fn start(&self, seed: u64) -> Start {
        let metadata = Metadata::new(&self.architecture);
        Start::fresh(metadata, &self.architecture, &self.layout, seed)
    }

    /// Runs from `start` in `folder` under `local`.
    pub(crate) fn run_with(
        &self,
        folder: &Path,
        start: Start,
        local: &LocalSettings,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let folder = RunFolder::open(folder)?;
        let job = Job {
            architecture: &self.architecture,
            layout: &self.layout,
            training: &self.settings.training,
            local,
            source: Arc::clone(&self.source),
            split: &self.split,
            folder: &folder,
            engine: self.engine,
            clock: self.clock,
        };
        dunnart_train::run(&job, start, observer)
    }

    /// A whole run from the seed.
    pub(crate) fn run(&self, folder: &Path, observer: &mut dyn Observer) -> Result<Outcome> {
        self.run_with(folder, self.start(3), &self.settings.local, observer)
    }

    /// Goes on from `model_latest` to the end, under the settings' limits.
    pub(crate) fn resume(&self, folder: &Path, observer: &mut dyn Observer) -> Result<Outcome> {
        let start = Start::resume(latest(folder)).unwrap();
        self.run_with(folder, start, &self.settings.local, observer)
    }

    /// `local` with at most `epochs` epochs a run.
    pub(crate) fn at_most(&self, epochs: usize) -> LocalSettings {
        let mut local = self.settings.local.clone();
        local.runtime_limits.max_epochs_per_run = Some(epochs);
        local
    }
}

pub(crate) fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.safetensors"))
}

pub(crate) fn model(folder: &Path, name: &str) -> Model {
    Model::read(&file(folder, name)).unwrap()
}

pub(crate) fn latest(folder: &Path) -> Model {
    model(folder, "model_latest")
}

/// What an observer has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) notes: Vec<String>,
    pub(crate) epochs: Vec<dunnart_train::observer::EpochReport>,
    pub(crate) steps: usize,
    /// Ask to stop after this many steps.
    pub(crate) stop_after: Option<usize>,
}

impl Observer for Seen {
    fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::Note(text) => self.notes.push((*text).into()),
            Event::Epoch(report) => self.epochs.push(*report),
            Event::Step(_) => self.steps += 1,
            _ => {}
        }
    }

    fn stop_requested(&self) -> bool {
        self.stop_after.is_some_and(|steps| self.steps >= steps)
    }
}

/// A copy of the checkpoint under a name of its own after every epoch.
pub(crate) struct Keeping(pub(crate) PathBuf, pub(crate) AtomicU32);

impl Observer for Keeping {
    fn observe(&mut self, event: &Event<'_>) {
        if let Event::Epoch(_) = event {
            let number = self.1.fetch_add(1, Ordering::Relaxed);
            let to = file(&self.0, &format!("kept_{number}"));
            std::fs::copy(file(&self.0, "model_latest"), to).unwrap();
        }
    }
}
