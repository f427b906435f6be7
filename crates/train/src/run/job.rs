//! What a run is made of, where it starts and how it ends.

use std::sync::Arc;

use dunnart_checkpoint::{GeneratorKey, Metadata, Model, OptimizerState, Rounding};
use dunnart_data::Split;
use dunnart_flow::{Architecture, Layout, NetworkState};

use crate::engine::EngineKind;
use crate::folder::RunFolder;
use crate::observer::Clock;
use crate::run_state::Limit;
use crate::samples::Samples;
use crate::settings::{LocalSettings, TrainingSettings};
use crate::{Error, Result};

/// Everything a run is made of.
pub struct Job<'a> {
    /// The network.
    pub architecture: &'a Architecture,
    /// Where its parameters lie.
    pub layout: &'a Layout,
    /// The stages.
    pub training: &'a TrainingSettings,
    /// The machine and the limits.
    pub local: &'a LocalSettings,
    /// Where rows come from.
    pub source: Arc<dyn Samples>,
    /// Which rows train and which test.
    pub split: &'a Split,
    /// Where the run is written.
    pub folder: &'a RunFolder,
    /// What computes the steps.
    pub engine: EngineKind,
    /// Time.
    pub clock: &'a dyn Clock,
}

/// What a run starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// Everything of the checkpoint that is not a tensor.
    pub metadata: Metadata,
    /// The network's numbers.
    pub state: NetworkState<f32>,
    /// The optimiser's moments; empty at the beginning of a stage.
    pub optimizer: OptimizerState,
}

impl Start {
    /// A network initialised from a seed, which becomes the key of every draw of the run.
    pub fn fresh(
        mut metadata: Metadata,
        architecture: &Architecture,
        layout: &Layout,
        seed: u64,
    ) -> Self {
        metadata.generator = Some(GeneratorKey::philox(seed));
        Self {
            metadata,
            state: NetworkState::initialize(architecture, layout, seed),
            optimizer: OptimizerState::new(),
        }
    }

    /// The network and the run of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the checkpoint is damaged or not in single precision.
    pub fn resume(model: Model) -> Result<Self> {
        let network = model.network::<f32>(Rounding::Refuse)?;
        Ok(Self {
            metadata: model.metadata,
            state: network.state,
            optimizer: model.optimizer,
        })
    }

    /// The seed that every draw of the run follows from.
    ///
    /// # Errors
    /// [`Error::State`] when the checkpoint has none of ours.
    pub fn seed(&self) -> Result<u64> {
        match &self.metadata.generator {
            Some(key) if *key == GeneratorKey::philox(key.seed) => Ok(key.seed),
            other => Err(Error::State {
                name: "generator of the checkpoint".into(),
                expected: GeneratorKey::philox(0).name,
                found: other.as_ref().map_or("none".into(), |key| key.name.clone()),
            }),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every stage is over.
    Finished,
    /// A limit of this run is reached; the stages are not over.
    Paused(Limit),
    /// The observer asked to stop. The epoch under way is redone from its key on resuming.
    Stopped {
        /// Stage under way.
        stage: usize,
        /// Epochs of it that are complete.
        epoch: usize,
        /// Step after which the epoch under way was left; absent between epochs.
        step: Option<usize>,
    },
}
