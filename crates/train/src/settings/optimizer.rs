//! `optimizer`: the update rule of a stage, with torch's argument names and defaults.

use serde::Serialize;
use serde_json::Value;

use super::Warning;
use super::block::{Block, Unknown, flag, non_negative, show, wrong};
use super::nearest::nearest;
use crate::{Error, Result};

/// An update rule and its arguments; g is the gradient, t the number of the step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum OptimizerSettings {
    /// Adam; weight decay is added to the gradient.
    Adam(AdamSettings),
    /// AdamW; weight decay shrinks the weights by `1 - lr weight_decay`.
    AdamW(AdamSettings),
    /// Gradient descent with momentum.
    Sgd(SgdSettings),
    /// Adagrad.
    Adagrad(AdagradSettings),
}

/// Arguments of Adam and AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AdamSettings {
    /// Learning rate; default 1e-3.
    pub lr: f64,
    /// Decay of the first and second moment; default 0.9, 0.999.
    pub betas: [f64; 2],
    /// Added to the root of the second moment; default 1e-8.
    pub eps: f64,
    /// Weight decay; default 0 for Adam, 0.01 for AdamW.
    pub weight_decay: f64,
    /// Whether one kernel updates all parameters; the numbers differ in rounding only.
    pub fused: bool,
}

/// Arguments of gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SgdSettings {
    /// Learning rate; default 1e-3.
    pub lr: f64,
    /// Momentum; default 0.
    pub momentum: f64,
    /// Share of the gradient kept out of the momentum; default 0.
    pub dampening: f64,
    /// Weight decay, added to the gradient; default 0.
    pub weight_decay: f64,
    /// Nesterov's form of the momentum.
    pub nesterov: bool,
    /// Whether one kernel updates all parameters.
    pub fused: bool,
}

/// Arguments of Adagrad.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AdagradSettings {
    /// Learning rate; default 1e-2.
    pub lr: f64,
    /// `lr / (1 + (t - 1) lr_decay)` is the rate of step t; default 0.
    pub lr_decay: f64,
    /// Weight decay, added to the gradient; default 0.
    pub weight_decay: f64,
    /// What the sum of squares starts from; default 0.
    pub initial_accumulator_value: f64,
    /// Added to the root of the sum of squares; default 1e-10.
    pub eps: f64,
    /// Whether one kernel updates all parameters.
    pub fused: bool,
}

impl OptimizerSettings {
    /// The learning rate that a stage starts from.
    pub fn lr(&self) -> f64 {
        match self {
            Self::Adam(settings) | Self::AdamW(settings) => settings.lr,
            Self::Sgd(settings) => settings.lr,
            Self::Adagrad(settings) => settings.lr,
        }
    }

    /// The name as settings files spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Adam(_) => "adam",
            Self::AdamW(_) => "adamw",
            Self::Sgd(_) => "sgd",
            Self::Adagrad(_) => "adagrad",
        }
    }
}

const NAMES: [&str; 6] = ["adam", "adamw", "sgd", "adagrad", "lbfgs", "rmsprop"];

pub(super) fn read(
    name: &str,
    value: &Value,
    warnings: &mut Vec<Warning>,
) -> Result<OptimizerSettings> {
    let mut block = Block::new(name, value)?;
    let kind = block.required("type", "one of adam, adamw, sgd, adagrad", |_, v| Ok(v))?;
    let type_name = block.name("type");
    let lower = kind.as_str().unwrap_or_default().to_ascii_lowercase();
    let settings = match lower.as_str() {
        "adam" => OptimizerSettings::Adam(adam(&mut block, false)?),
        "adamw" => OptimizerSettings::AdamW(adam(&mut block, true)?),
        "sgd" => OptimizerSettings::Sgd(sgd(&mut block)?),
        "adagrad" => OptimizerSettings::Adagrad(AdagradSettings {
            lr: block.or("lr", 1e-2, non_negative)?,
            lr_decay: block.or("lr_decay", 0.0, non_negative)?,
            weight_decay: block.or("weight_decay", 0.0, non_negative)?,
            initial_accumulator_value: block.or("initial_accumulator_value", 0.0, non_negative)?,
            eps: block.or("eps", 1e-10, non_negative)?,
            fused: block.or("fused", false, flag)?,
        }),
        "lbfgs" | "rmsprop" => {
            return Err(Error::Unsupported {
                name: type_name,
                value: show(kind),
                remedy: "use adam, adamw, sgd or adagrad".into(),
            });
        }
        other => {
            let near = nearest(other, NAMES).map(|near| format!(" (did you mean `{near}`?)"));
            let expected = format!(
                "one of adam, adamw, sgd, adagrad{}",
                near.unwrap_or_default()
            );
            return wrong(&type_name, expected, kind);
        }
    };
    block.refused("maximize", "the loss is always minimised; remove it")?;
    block.refused("differentiable", "steps are not differentiated; remove it")?;
    let same = "makes no difference to the numbers and is ignored";
    block.ignored("foreach", same, warnings);
    block.ignored("capturable", same, warnings);
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}

fn adam(block: &mut Block<'_>, decoupled: bool) -> Result<AdamSettings> {
    block.refused("amsgrad", "the running maximum is not kept; remove it")?;
    // torch's AdamW is its Adam with this flag set, so that its state files carry it.
    let asked = block.or("decoupled_weight_decay", decoupled, flag)?;
    if asked != decoupled {
        return Err(Error::Unsupported {
            name: block.name("decoupled_weight_decay"),
            value: asked.to_string(),
            remedy: "the type says it: adamw decouples, adam does not".into(),
        });
    }
    Ok(AdamSettings {
        lr: block.or("lr", 1e-3, non_negative)?,
        betas: block.or("betas", [0.9, 0.999], betas)?,
        eps: block.or("eps", 1e-8, non_negative)?,
        weight_decay: block.or(
            "weight_decay",
            if decoupled { 0.01 } else { 0.0 },
            non_negative,
        )?,
        fused: block.or("fused", false, flag)?,
    })
}

fn betas(name: &str, value: &Value) -> Result<[f64; 2]> {
    let Some([first, second]) = value.as_array().map(Vec::as_slice) else {
        return wrong(name, "two numbers of at least 0 and below 1", value);
    };
    let one = |index: usize, value: &Value| match value.as_f64() {
        Some(beta) if (0.0..1.0).contains(&beta) => Ok(beta),
        _ => wrong(
            &format!("{name}[{index}]"),
            "a number of at least 0 and below 1",
            value,
        ),
    };
    Ok([one(0, first)?, one(1, second)?])
}

fn sgd(block: &mut Block<'_>) -> Result<SgdSettings> {
    let settings = SgdSettings {
        lr: block.or("lr", 1e-3, non_negative)?,
        momentum: block.or("momentum", 0.0, non_negative)?,
        dampening: block.or("dampening", 0.0, super::block::number)?,
        weight_decay: block.or("weight_decay", 0.0, non_negative)?,
        nesterov: block.or("nesterov", false, flag)?,
        fused: block.or("fused", false, flag)?,
    };
    if settings.nesterov && (settings.momentum <= 0.0 || settings.dampening != 0.0) {
        return Err(Error::Conflict {
            first: format!("{}: true", block.name("nesterov")),
            second: format!(
                "momentum: {}, dampening: {}",
                settings.momentum, settings.dampening
            ),
            reason: "Nesterov's form needs a momentum above 0 and no dampening".into(),
        });
    }
    Ok(settings)
}
