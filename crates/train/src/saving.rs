//! Between a run in memory and a checkpoint's model.

use std::collections::BTreeMap;

use dunnart_checkpoint::{
    Data, EpochRecord, Metadata, Model, OptimizerState, ParameterMoments, Tensor,
};
use dunnart_flow::{Layout, NetworkState};

use crate::history::HistoryRow;
use crate::optimizer::{Method, Optimizer, ParameterState};
use crate::run_state::RunState;
use crate::scheduler::{Scheduler, SchedulerState};
use crate::{Error, Result};

/// A model of everything a run goes on from.
pub(crate) fn model(
    metadata: Metadata,
    layout: &Layout,
    state: &NetworkState<f32>,
    optimizer: Option<&Optimizer>,
) -> Result<Model> {
    let mut model = Model::new(metadata, layout, state)?;
    if let Some(optimizer) = optimizer {
        model.optimizer = optimizer_state(layout, optimizer)?;
    }
    Ok(model)
}

fn optimizer_state(layout: &Layout, optimizer: &Optimizer) -> Result<OptimizerState> {
    let mut saved = OptimizerState::new();
    for (spec, state) in layout
        .parameters()
        .iter()
        .zip(optimizer.states::<f32>(layout)?)
    {
        let Some(state) = state else { continue };
        let mut moments = BTreeMap::new();
        for (name, values) in optimizer.method().moments().iter().zip(state.moments) {
            let tensor = Tensor::from_data(name, &spec.shape, Data::F32(values))?;
            moments.insert((*name).to_owned(), tensor);
        }
        saved.insert(
            &spec.name,
            ParameterMoments {
                step: Some(state.step),
                moments,
            },
        )?;
    }
    Ok(saved)
}

/// The optimiser's state of every parameter of the network, where the checkpoint has one.
pub(crate) fn parameter_states(
    layout: &Layout,
    method: &Method,
    saved: &OptimizerState,
) -> Result<Vec<Option<ParameterState<f32>>>> {
    layout
        .parameters()
        .iter()
        .map(|spec| {
            saved
                .get(&spec.name)
                .map(|entry| state(&spec.name, method, entry))
                .transpose()
        })
        .collect()
}

fn state(
    parameter: &str,
    method: &Method,
    saved: &ParameterMoments,
) -> Result<ParameterState<f32>> {
    let refuse = |expected: &str, found: &str| Error::State {
        name: format!("optimiser state of `{parameter}`"),
        expected: expected.into(),
        found: found.into(),
    };
    let moments = method
        .moments()
        .iter()
        .map(|&name| {
            let tensor = saved
                .moments
                .get(name)
                .ok_or_else(|| refuse(name, "none"))?;
            match tensor.data() {
                Data::F32(values) => Ok(values.clone()),
                _ => Err(refuse("float32 moments", tensor.dtype().name())),
            }
        })
        .collect::<Result<_>>()?;
    Ok(ParameterState {
        step: saved
            .step
            .ok_or_else(|| refuse("a number of steps", "none"))?,
        moments,
    })
}

/// Writes where a run stands into a checkpoint's metadata.
pub(crate) fn record(
    metadata: &mut Metadata,
    state: &RunState,
    scheduler: Option<&Scheduler>,
) -> Result<()> {
    metadata.run = Some(json("run state", state)?);
    metadata.early_stopping = state
        .early_stopping
        .map(|s| json("early stopping", &s))
        .transpose()?;
    if let Some(scheduler) = scheduler {
        metadata.scheduler = Some(json("scheduler state", scheduler.state())?);
    }
    Ok(())
}

fn json(name: &str, value: &impl serde::Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(|error| Error::State {
        name: name.into(),
        expected: "values with a JSON form".into(),
        found: error.to_string(),
    })
}

/// Where the run of a checkpoint stands; a network that nobody has trained is at the beginning.
pub(crate) fn run_state(metadata: &Metadata) -> Result<RunState> {
    match &metadata.run {
        None => Ok(RunState::new()),
        Some(value) => from_json("run state", value),
    }
}

/// Where the schedule of a checkpoint stands.
pub(crate) fn scheduler_state(metadata: &Metadata) -> Result<SchedulerState> {
    let Some(value) = &metadata.scheduler else {
        return Err(Error::State {
            name: "scheduler state".into(),
            expected: "one, since a stage is under way".into(),
            found: "none".into(),
        });
    };
    from_json("scheduler state", value)
}

fn from_json<T: serde::de::DeserializeOwned>(name: &str, value: &serde_json::Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|error| Error::State {
        name: format!("{name} of the checkpoint"),
        expected: "what this version writes".into(),
        found: error.to_string(),
    })
}

/// A row of `history.txt`.
pub(crate) fn history_row(record: &EpochRecord) -> HistoryRow {
    HistoryRow {
        epoch: record.epoch as usize,
        train_loss: record.training_loss.unwrap_or(f64::NAN),
        test_loss: record.test_loss.unwrap_or(f64::NAN),
        learning_rates: record.learning_rates.clone(),
    }
}
