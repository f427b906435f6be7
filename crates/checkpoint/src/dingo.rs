//! What a dingo model says, and our words for it.
//!
//! A [`Record`] is a dingo model without its tensors, as JSON: `.pt` and HDF5 files both read into it and
//! are written from it. What dingo does not store (run state, generator, histories, bounds, `local`
//! settings) stands in one further entry, [`OWN_KEY`], a JSON text that dingo ignores; where it is there
//! it wins. dingo's own entries are always written from the same state, so that dingo can go on.

mod names;
mod optimizer;
mod own;
mod run;
mod schedule;
mod settings;

use serde_json::{Map, Value};

use crate::{DingoMetadata, Error, Metadata, ModelArchitecture, Result};

pub(crate) use optimizer::{Group, group, moment_names};

/// Key of the entry that holds what dingo does not store.
pub(crate) const OWN_KEY: &str = "dunnart";

/// The dingo version whose layout is written, where the model did not come with its own.
const LAYOUT_VERSION: &str = "dingo=0.10.3";

/// A dingo model without its tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) model_kwargs: Value,
    pub(crate) epoch: u64,
    pub(crate) iteration: u64,
    pub(crate) version: Option<String>,
    /// `dataset_settings`, `train_settings`, `float32_matmul_precision` and what else there is.
    pub(crate) metadata: Map<String, Value>,
    pub(crate) context: Option<Value>,
    pub(crate) event_metadata: Option<Value>,
    /// The stage's `scheduler` block and the schedule's state.
    pub(crate) scheduler_kwargs: Option<Value>,
    pub(crate) scheduler_state: Option<Value>,
    /// The stage's `optimizer` block, and the learning rate of the optimiser's group.
    pub(crate) optimizer_kwargs: Option<Value>,
    pub(crate) learning_rate: Option<f64>,
    /// The text of [`OWN_KEY`].
    pub(crate) own: Option<String>,
    /// Entries that are not known.
    pub(crate) other: Map<String, Value>,
}

impl Record {
    /// Our metadata of a dingo model.
    ///
    /// # Errors
    /// [`Error::Entry`] naming what is missing or is not what belongs there, [`Error::Newer`].
    pub(crate) fn into_metadata(mut self) -> Result<Metadata> {
        let own = self.own.as_deref().map(own::parse).transpose()?;
        if own.as_ref().is_some_and(|own| own.identity_init) {
            settings::set_identity_init(&mut self.model_kwargs);
        }
        let architecture = ModelArchitecture::from_model_block(&self.model_kwargs)?;
        let mut train_settings = match self.metadata.shift_remove("train_settings") {
            Some(Value::Object(settings)) => settings,
            other => return Err(entry("metadata.train_settings", "a dict", other.as_ref())),
        };
        let names = names::read(&train_settings, architecture.parameters())?;
        let stages = run::stages(train_settings.get("training"))?;
        let precision = match self.metadata.shift_remove("float32_matmul_precision") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            other => {
                let name = "metadata.float32_matmul_precision";
                return Err(entry(name, "text", other.as_ref()));
            }
        };
        let mut metadata = Metadata::of_architecture(architecture);
        metadata.dataset_settings = self.metadata.shift_remove("dataset_settings");
        metadata.float32_matmul_precision = precision;
        metadata.parameters = names.parameters;
        metadata.context_parameters = names.context_parameters;
        metadata.standardization = names.standardization;
        metadata.run = run::read(&stages, self.epoch, self.iteration);
        metadata.scheduler = self.schedule()?;
        let staged = metadata.run.is_some();
        metadata.dingo = Some(DingoMetadata {
            version: self.version,
            epoch: (!staged).then_some(self.epoch),
            iteration: (!staged).then_some(self.iteration),
            context: self.context,
            event_metadata: self.event_metadata,
            metadata: self.metadata,
            other: self.other,
        });
        if let Some(own) = own {
            own.win(&mut metadata, &mut train_settings, stages.len())?;
        } else {
            metadata.settings = Some(Value::Object(train_settings));
        }
        Ok(metadata)
    }

    fn schedule(&self) -> Result<Option<Value>> {
        let rate = self.learning_rate;
        let first = self
            .optimizer_kwargs
            .as_ref()
            .and_then(|o| o["lr"].as_f64());
        match &self.scheduler_state {
            Some(state) => schedule::read(state, first.or(rate)).map(Some),
            None => Ok(None),
        }
    }

    /// The dingo model of our metadata; `trained` says whether it goes with an optimiser's state.
    ///
    /// # Errors
    /// [`Error::Entry`] for a run state, schedule or settings that dingo has no words for.
    pub(crate) fn from_metadata(metadata: &Metadata, trained: bool) -> Result<Self> {
        let (model_kwargs, identity_init) = settings::model_kwargs(metadata)?;
        let (mut train_settings, made) = settings::train_settings(metadata)?;
        let (epoch, iteration) = run::counts(metadata)?;
        let mut record = Self {
            epoch,
            iteration,
            own: Some(own::format(metadata, made, identity_init)?),
            ..Self::default()
        };
        if trained {
            let blocks = run::stage_blocks(metadata)?;
            let kwargs = blocks.optimizer.ok_or_else(|| {
                let expected = "the block of the stage whose optimiser is saved";
                entry("settings.training.stage_N.optimizer", expected, None)
            })?;
            record.optimizer_kwargs = Some(optimizer::lower_case(kwargs));
            let none = |block: &Value| block.is_null() || block["type"] == "none";
            record.scheduler_kwargs = blocks.scheduler.filter(|block| !none(block));
            if let (Some(kwargs), Some(state)) = (&record.scheduler_kwargs, &metadata.scheduler) {
                record.scheduler_state = Some(schedule::write(kwargs, state)?);
            }
            record.learning_rate = metadata.scheduler.as_ref().and_then(|s| s["lr"].as_f64());
        }
        train_settings.insert("model".into(), model_kwargs.clone());
        record.model_kwargs = model_kwargs;
        if let Some(settings) = &metadata.dataset_settings {
            record
                .metadata
                .insert("dataset_settings".into(), settings.clone());
        }
        record
            .metadata
            .insert("train_settings".into(), train_settings.into());
        if let Some(precision) = &metadata.float32_matmul_precision {
            let precision = precision.as_str().into();
            record
                .metadata
                .insert("float32_matmul_precision".into(), precision);
        }
        let dingo = metadata.dingo.clone().unwrap_or_default();
        record.version = Some(dingo.version.unwrap_or_else(|| LAYOUT_VERSION.into()));
        record.context = dingo.context;
        record.event_metadata = dingo.event_metadata;
        record.metadata.extend(dingo.metadata);
        record.other = dingo.other;
        Ok(record)
    }
}

/// An entry that is missing or is not what belongs there.
pub(crate) fn entry(name: &str, expected: &str, found: Option<&Value>) -> Error {
    let found = found.map_or("nothing".into(), Value::to_string);
    let cut = found
        .char_indices()
        .nth(80)
        .map_or(found.len(), |(at, _)| at);
    Error::Entry {
        name: name.into(),
        expected: expected.into(),
        found: found[..cut].into(),
    }
}

#[cfg(test)]
#[path = "dingo/tests.rs"]
mod tests;
