//! torch's state of a schedule and ours (crate `train`, `SchedulerState`).

use serde_json::{Value, json};

use super::entry;
use crate::Result;
use crate::pt::TAG;

/// Our state of a schedule; `first` is the rate it began with, where the state does not say it.
pub(super) fn read(state: &Value, first: Option<f64>) -> Result<Value> {
    let name = |key: &str| format!("scheduler_state_dict.{key}");
    let count = |key: &str, default: Option<u64>| {
        let found = state.get(key);
        let count = found.map_or(default, Value::as_u64);
        count.ok_or_else(|| entry(&name(key), "a count", found))
    };
    let rate = |key: &str| state.get(key).map(|list| list[0].as_f64());
    let (lr, base) = (
        rate("_last_lr").flatten(),
        rate("base_lrs").flatten().or(first),
    );
    let (Some(lr), Some(base_lr)) = (lr.or(first), base.or(lr)) else {
        return Err(entry(
            &name("_last_lr"),
            "learning rates",
            state.get("_last_lr"),
        ));
    };
    Ok(json!({
        "epoch": count("last_epoch", None)?,
        "base_lr": base_lr,
        "lr": lr,
        "best": state.get("best").and_then(Value::as_f64),
        "bad_epochs": count("num_bad_epochs", Some(0))?,
        "cooldown_left": count("cooldown_counter", Some(0))?,
    }))
}

/// torch's state of our schedule, with the keys in torch's order.
///
/// # Source
/// torch 2.11, `lr_scheduler.py`: the attributes of `StepLR`, `CosineAnnealingLR` and `ReduceLROnPlateau`.
pub(super) fn write(kwargs: &Value, state: &Value) -> Result<Value> {
    let number = |key: &str| {
        let found = state.get(key).filter(|v| v.is_number());
        found
            .cloned()
            .ok_or_else(|| entry(&format!("scheduler.{key}"), "a number", state.get(key)))
    };
    let setting = |key: &str, default: Value| match kwargs.get(key) {
        Some(value) if !value.is_null() => value.clone(),
        _ => default,
    };
    let wanted = |key: &str| {
        let name = format!("scheduler.{key}");
        kwargs
            .get(key)
            .cloned()
            .ok_or_else(|| entry(&name, "a number", None))
    };
    let (epoch, lr) = (number("epoch")?, number("lr")?);
    let steps = epoch.as_u64().map_or(1, |epoch| epoch + 1);
    let stepped = |mut own: serde_json::Map<String, Value>| -> Result<Value> {
        own.insert("base_lrs".into(), json!([number("base_lr")?]));
        own.insert("last_epoch".into(), epoch.clone());
        own.insert("_step_count".into(), steps.into());
        own.insert("_is_initial".into(), false.into());
        own.insert("_get_lr_called_within_step".into(), false.into());
        own.insert("_last_lr".into(), json!([lr]));
        Ok(own.into())
    };
    let mut own = serde_json::Map::new();
    let kind = kwargs["type"]
        .as_str()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match kind.as_str() {
        "step" => {
            own.insert("step_size".into(), wanted("step_size")?);
            own.insert("gamma".into(), setting("gamma", json!(0.1)));
            stepped(own)
        }
        "cosine" => {
            own.insert("T_max".into(), wanted("T_max")?);
            own.insert("eta_min".into(), setting("eta_min", json!(0.0)));
            stepped(own)
        }
        "reduce_on_plateau" => {
            let infinite = json!({TAG: "float", "value": "inf"});
            let best = state.get("best").filter(|best| best.is_number());
            let min_lr = setting("min_lr", json!(0));
            Ok(json!({
                "factor": setting("factor", json!(0.1)),
                "default_min_lr": min_lr,
                "min_lrs": [min_lr],
                "patience": setting("patience", json!(10)),
                "cooldown": setting("cooldown", json!(0)),
                "eps": setting("eps", json!(1e-8)),
                "last_epoch": epoch,
                "_last_lr": [lr],
                "mode_worse": infinite,
                "mode": "min",
                "threshold": setting("threshold", json!(1e-4)),
                "threshold_mode": setting("threshold_mode", json!("rel")),
                "best": best.unwrap_or(&infinite),
                "cooldown_counter": number("cooldown_left")?,
                "num_bad_epochs": number("bad_epochs")?,
            }))
        }
        _ => Err(entry(
            "scheduler.type",
            "step, cosine or reduce_on_plateau",
            kwargs.get("type"),
        )),
    }
}
