//! dingo's count of epochs and our state of a run.
//!
//! dingo stores the epochs that are done; its stage is the first whose end, the sum of the epochs of
//! all stages up to it, lies beyond them. Our state says stage and epoch outright (crate `train`,
//! `RunState`); the keys written here are that type's. What dingo does not store is zero or absent:
//! samples seen, early stopping, best loss.

use serde_json::{Map, Value, json};

use super::entry;
use crate::{Metadata, Result};

/// Epochs of each stage, in order; none for a model that is not trained in stages.
pub(super) fn stages(training: Option<&Value>) -> Result<Vec<u64>> {
    let Some(Value::Object(training)) = training else {
        return Ok(Vec::new());
    };
    // As in dingo, numbering stops at the first gap.
    let blocks = (0..training.len()).map_while(|i| training.get(&format!("stage_{i}")));
    let epochs = |(index, block): (usize, &Value)| {
        let found = block.get("epochs");
        let name = format!("training.stage_{index}.epochs");
        found
            .and_then(Value::as_u64)
            .ok_or_else(|| entry(&name, "a number of epochs", found))
    };
    blocks.enumerate().map(epochs).collect()
}

/// The state of a run of these stages after so many epochs.
pub(super) fn read(stages: &[u64], epoch: u64, iteration: u64) -> Option<Value> {
    if stages.is_empty() {
        return None;
    }
    let mut left = epoch;
    let mut finished = Vec::new();
    for &epochs in stages {
        if left < epochs {
            break;
        }
        left -= epochs;
        finished.push(epochs);
    }
    if finished.len() == stages.len()
        && let Some(last) = finished.last_mut()
    {
        // A stage that was replaced by a shorter one: its epochs were trained all the same.
        *last += left;
        left = 0;
    }
    let finished_stages: Vec<_> = finished
        .iter()
        .map(|epochs| json!({"epochs": epochs, "ending": "completed"}))
        .collect();
    Some(json!({
        "stage": finished.len(),
        "stage_begun": left > 0,
        "epoch_in_stage": left,
        "epoch": epoch,
        "finished_stages": finished_stages,
        "finished": finished.len() == stages.len(),
        "early_stopping": null,
        "best": null,
        "global_step": iteration,
        "samples_seen": 0,
    }))
}

/// Epochs and steps that are done.
pub(super) fn counts(metadata: &Metadata) -> Result<(u64, u64)> {
    let Some(run) = &metadata.run else {
        let dingo = metadata.dingo.as_ref();
        let trained = metadata
            .history
            .last()
            .map(|record| u64::from(record.epoch));
        let epoch = dingo.and_then(|d| d.epoch).or(trained);
        let iteration = dingo.and_then(|d| d.iteration);
        return Ok((epoch.unwrap_or(0), iteration.unwrap_or(0)));
    };
    let count = |key: &str| {
        let found = run.get(key);
        found
            .and_then(Value::as_u64)
            .ok_or_else(|| entry(&format!("run.{key}"), "a count", found))
    };
    Ok((count("epoch")?, count("global_step")?))
}

/// The blocks of the stage that the saved optimiser belongs to.
#[derive(Debug, Default)]
pub(super) struct StageBlocks {
    pub(super) optimizer: Option<Value>,
    pub(super) scheduler: Option<Value>,
}

/// Finds them: the stage under way or, between two stages, the one that has just ended.
pub(super) fn stage_blocks(metadata: &Metadata) -> Result<StageBlocks> {
    let empty = Value::Null;
    let training = metadata
        .settings
        .as_ref()
        .map_or(&empty, |s| &s["training"]);
    let block = match &metadata.run {
        None => training,
        Some(run) => {
            let (Some(stage), Some(begun)) = (run["stage"].as_u64(), run["stage_begun"].as_bool())
            else {
                return Err(entry(
                    "run",
                    "a state with `stage` and `stage_begun`",
                    Some(run),
                ));
            };
            let stage = if begun {
                stage
            } else {
                stage.saturating_sub(1)
            };
            &training[format!("stage_{stage}")]
        }
    };
    let of = |key: &str| block.get(key).filter(|b| !b.is_null()).cloned();
    Ok(StageBlocks {
        optimizer: of("optimizer"),
        scheduler: of("scheduler"),
    })
}

/// Makes a state that was saved fit settings that were given another stage since.
pub(super) fn refit(run: &mut Map<String, Value>, stages: usize) {
    if let Some(stage) = run.get("stage").and_then(Value::as_u64) {
        run.insert("finished".into(), (stage == stages as u64).into());
    }
}
