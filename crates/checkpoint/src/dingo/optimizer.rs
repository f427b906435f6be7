//! torch's parameter group of an optimiser, from the stage's block.

use serde_json::{Map, Value, json};

use super::entry;
use crate::Result;

/// What torch calls the moments of an optimiser, in its order, and whether it counts steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MomentNames {
    pub(crate) counts_steps: bool,
    pub(crate) moments: &'static [&'static str],
}

/// The moments of an optimiser of that name.
pub(crate) fn moment_names(kind: &str) -> Option<MomentNames> {
    let (counts_steps, moments): (_, &[_]) = match kind.to_ascii_lowercase().as_str() {
        "adam" | "adamw" => (true, &["exp_avg", "exp_avg_sq"]),
        "sgd" => (false, &["momentum_buffer"]),
        "adagrad" => (true, &["sum"]),
        _ => return None,
    };
    Some(MomentNames {
        counts_steps,
        moments,
    })
}

/// A parameter group without its `params`; `betas` is a tuple in torch.
pub(crate) type Group = Map<String, Value>;

/// The group that torch makes of a stage's `optimizer` block.
///
/// `rate` is the rate of the next epoch, and `first` the one the schedule began with, which schedules
/// that need it leave in the group.
///
/// # Source
/// torch 2.11, the constructors of `Adam`, `AdamW`, `SGD` and `Adagrad`.
pub(crate) fn group(kwargs: &Value, rate: Option<f64>, first: Option<f64>) -> Result<Group> {
    let kind = kwargs["type"]
        .as_str()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let defaults = match kind.as_str() {
        "adam" | "adamw" => json!({
            "lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8,
            "weight_decay": if kind == "adam" { json!(0) } else { json!(0.01) },
            "amsgrad": false, "maximize": false, "foreach": null, "capturable": false,
            "differentiable": false, "fused": null, "decoupled_weight_decay": kind == "adamw",
        }),
        "sgd" => json!({
            "lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": false,
            "maximize": false, "foreach": null, "differentiable": false, "fused": null,
        }),
        "adagrad" => json!({
            "lr": 0.01, "lr_decay": 0, "eps": 1e-10, "weight_decay": 0,
            "initial_accumulator_value": 0, "foreach": null, "maximize": false,
            "differentiable": false, "fused": null,
        }),
        _ => {
            let known = "adam, adamw, sgd or adagrad";
            return Err(entry("optimizer.type", known, kwargs.get("type")));
        }
    };
    let mut group = defaults.as_object().cloned().unwrap_or_default();
    for (key, value) in kwargs.as_object().into_iter().flatten() {
        if key != "type" {
            group.insert(key.clone(), value.clone());
        }
    }
    if let Some(rate) = rate {
        group.insert("lr".into(), rate.into());
    }
    if let Some(first) = first {
        group.insert("initial_lr".into(), first.into());
    }
    Ok(group)
}

/// The block with its `type` in the lower case that dingo looks for.
pub(super) fn lower_case(mut block: Value) -> Value {
    if let Some(Value::String(kind)) = block.get_mut("type") {
        *kind = kind.to_ascii_lowercase();
    }
    block
}
