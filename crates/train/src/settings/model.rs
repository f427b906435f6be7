//! The `model` block: the network before the data have told their sizes.
//!
//! Blocks of older dingo versions (`batch_norm`, `layer_norm`, `nsf+embedding`) are read as what
//! they became; crate `flow` knows the old words.

use dunnart_flow::settings::{
    BaseTransformSettings, EmbeddingSettings, NetworkSettings, PosteriorSettings, SvdSettings,
};
use dunnart_flow::{Activation, Norm, TransformKind};
use serde::Serialize;
use serde_json::Value;

use super::Warning;
use super::block::{
    Block, Unknown, at_least_one, count, flag, list, number, one_of, positive, show, wrong,
};
use crate::{Error, Result};

/// The `model` block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSettings {
    /// The family of the posterior.
    pub posterior_model_type: PosteriorKind,
    /// The flow.
    pub posterior_kwargs: FlowSettings,
    /// The family of the embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_type: Option<EmbeddingKind>,
    /// The embedding; absent when the observation itself is the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_kwargs: Option<EmbeddingKwargs>,
}

/// `posterior_model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PosteriorKind {
    /// A neural spline flow.
    NormalizingFlow,
}

/// `embedding_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EmbeddingKind {
    /// Reduced-basis projection and residual network.
    Resnet,
}

/// `posterior_kwargs`, with or without the sizes that follow from the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSettings {
    /// Number D of parameters; follows from the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_dim: Option<usize>,
    /// Number C of context features; follows from the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_dim: Option<usize>,
    /// Number N of spline steps.
    pub num_flow_steps: usize,
    /// Every spline step.
    pub base_transform_kwargs: BaseTransformSettings,
}

/// `embedding_kwargs`, with or without the sizes that follow from the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmbeddingKwargs {
    /// Detectors, channels, frequency bins; follow from the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_dims: Option<[usize; 3]>,
    /// Width of the output.
    pub output_dim: usize,
    /// Width of every residual block.
    pub hidden_dims: Vec<usize>,
    /// Activation; default elu.
    pub activation: Activation,
    /// Probability that dropout zeroes an element; default 0.
    pub dropout: f64,
    /// Normalisation; default batch normalisation.
    pub norm: Option<Norm>,
    /// The reduced basis.
    pub svd: SvdSettings,
    /// Whether context parameters are appended; follows from the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_context: Option<bool>,
}

/// The sizes of one sample of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleShape {
    /// Number D of parameters.
    pub parameters: usize,
    /// What is observed.
    pub observation: ObservationShape,
    /// Number P of context parameters.
    pub context_parameters: usize,
}

/// The shape of one observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservationShape {
    /// Nothing: the flow is unconditional.
    Nothing,
    /// A vector of C numbers.
    Vector(usize),
    /// Detectors, channels, frequency bins.
    Strain([usize; 3]),
}

impl ModelSettings {
    /// The network for data of this shape: `input_dim`, `context_dim`, `input_dims` and
    /// `added_context` are filled in.
    ///
    /// # Errors
    /// [`Error::Setting`] if a size is given and the data have another; [`Error::Conflict`] if strains
    /// have no embedding or plain vectors have one.
    pub fn complete(&self, shape: &SampleShape) -> Result<NetworkSettings> {
        let embedding = match (&self.embedding_kwargs, shape.observation) {
            (None, ObservationShape::Strain(_)) => {
                return Err(Error::MissingSetting {
                    name: "model.embedding_kwargs".into(),
                    expected: "the embedding that strains need".into(),
                });
            }
            (Some(_), ObservationShape::Nothing | ObservationShape::Vector(_)) => {
                return Err(Error::Conflict {
                    first: "model.embedding_kwargs".into(),
                    second: "data.simulations".into(),
                    reason: "the observations of a simulation set are the context as they are"
                        .into(),
                });
            }
            (None, _) => None,
            (Some(embedding), ObservationShape::Strain(dims)) => {
                let added = shape.context_parameters > 0;
                let name = "model.embedding_kwargs";
                agree(&format!("{name}.input_dims"), embedding.input_dims, dims)?;
                agree(
                    &format!("{name}.added_context"),
                    embedding.added_context,
                    added,
                )?;
                Some(EmbeddingSettings {
                    input_dims: dims,
                    output_dim: embedding.output_dim,
                    hidden_dims: embedding.hidden_dims.clone(),
                    svd: embedding.svd.clone(),
                    activation: embedding.activation,
                    dropout: embedding.dropout,
                    norm: embedding.norm,
                    added_context: added,
                })
            }
        };
        let observed = match (&embedding, shape.observation) {
            (Some(embedding), _) => embedding.output_dim,
            (None, ObservationShape::Vector(width)) => width,
            (None, _) => 0,
        };
        let context = observed + shape.context_parameters;
        let flow = &self.posterior_kwargs;
        let name = "model.posterior_kwargs";
        agree(
            &format!("{name}.input_dim"),
            flow.input_dim,
            shape.parameters,
        )?;
        if context > 0 || flow.context_dim.is_some() {
            agree(&format!("{name}.context_dim"), flow.context_dim, context)?;
        }
        Ok(NetworkSettings {
            posterior_kwargs: PosteriorSettings {
                input_dim: shape.parameters,
                context_dim: (context > 0).then_some(context),
                num_flow_steps: flow.num_flow_steps,
                base_transform_kwargs: flow.base_transform_kwargs.clone(),
            },
            embedding_kwargs: embedding,
        })
    }

    /// The same block with the sizes of a completed network written in.
    pub fn with_sizes(&self, network: &NetworkSettings) -> Self {
        let mut model = self.clone();
        model.posterior_kwargs.input_dim = Some(network.posterior_kwargs.input_dim);
        model.posterior_kwargs.context_dim = network.posterior_kwargs.context_dim;
        if let (Some(own), Some(embedding)) =
            (&mut model.embedding_kwargs, &network.embedding_kwargs)
        {
            own.input_dims = Some(embedding.input_dims);
            own.added_context = Some(embedding.added_context);
        }
        model
    }
}

fn agree<T: PartialEq + std::fmt::Debug>(name: &str, given: Option<T>, data: T) -> Result<()> {
    match given {
        Some(given) if given != data => Err(Error::Setting {
            name: name.into(),
            expected: format!("{data:?}, as in the data"),
            found: format!("{given:?}"),
        }),
        _ => Ok(()),
    }
}

/// The block in today's words; what crate `flow` refuses is named as a setting of the file.
fn current(value: &Value) -> Result<Value> {
    dunnart_flow::current_model_block("model", value).map_err(|error| match error {
        dunnart_flow::Error::Setting {
            name,
            found,
            expected,
        } => Error::Setting {
            name,
            expected,
            found,
        },
        dunnart_flow::Error::Conflict {
            first,
            second,
            reason,
        } => Error::Conflict {
            first,
            second,
            reason,
        },
        other => other.into(),
    })
}

/// Reads the `model` block.
pub(super) fn read(value: &Value, warnings: &mut Vec<Warning>) -> Result<ModelSettings> {
    let value = current(value)?;
    let mut block = Block::new("model", &value)?;
    let posterior_model_type = block.or(
        "posterior_model_type",
        PosteriorKind::NormalizingFlow,
        posterior_kind,
    )?;
    let flow = block
        .block("posterior_kwargs")?
        .ok_or_else(|| Error::MissingSetting {
            name: "model.posterior_kwargs".into(),
            expected: "a mapping with `num_flow_steps`, `base_transform_kwargs`".into(),
        })?;
    let posterior_kwargs = flow_settings(flow, warnings)?;
    let kind = block.optional("embedding_type", embedding_kind)?;
    let embedding_kwargs = block
        .block("embedding_kwargs")?
        .map(|b| embedding(b, warnings))
        .transpose()?;
    if kind.is_some() && embedding_kwargs.is_none() {
        return Err(Error::MissingSetting {
            name: "model.embedding_kwargs".into(),
            expected: "the arguments of `embedding_type`".into(),
        });
    }
    block.finish(Unknown::Warn, warnings)?;
    Ok(ModelSettings {
        posterior_model_type,
        posterior_kwargs,
        embedding_type: embedding_kwargs.is_some().then_some(EmbeddingKind::Resnet),
        embedding_kwargs,
    })
}

fn unsupported<T>(name: &str, value: &Value, remedy: &str) -> Result<T> {
    Err(Error::Unsupported {
        name: name.into(),
        value: show(value),
        remedy: remedy.into(),
    })
}

fn posterior_kind(name: &str, value: &Value) -> Result<PosteriorKind> {
    match value.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("normalizing_flow") => Ok(PosteriorKind::NormalizingFlow),
        Some("flow_matching" | "score_matching") => {
            unsupported(name, value, "only normalizing_flow is trained")
        }
        _ => wrong(name, "normalizing_flow", value),
    }
}

fn embedding_kind(name: &str, value: &Value) -> Result<EmbeddingKind> {
    match value.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("resnet") => Ok(EmbeddingKind::Resnet),
        Some("transformer") => unsupported(name, value, "only resnet embeddings are trained"),
        _ => wrong(name, "resnet", value),
    }
}

fn flow_settings(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<FlowSettings> {
    let base = block.block("base_transform_kwargs")?;
    let settings = FlowSettings {
        input_dim: block.optional("input_dim", at_least_one)?,
        context_dim: block.optional("context_dim", at_least_one)?,
        num_flow_steps: block.required(
            "num_flow_steps",
            "a number of spline steps",
            at_least_one,
        )?,
        base_transform_kwargs: match base {
            Some(base) => base_transform(base, warnings)?,
            None => BaseTransformSettings::default(),
        },
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}

const ACTIVATIONS: &[(&str, Activation)] = &[
    ("elu", Activation::Elu),
    ("relu", Activation::Relu),
    ("leaky_relu", Activation::LeakyRelu),
    ("gelu", Activation::Gelu),
];

fn base_transform(
    mut block: Block<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<BaseTransformSettings> {
    let default = BaseTransformSettings::default();
    let settings = BaseTransformSettings {
        hidden_dim: block.or("hidden_dim", default.hidden_dim, at_least_one)?,
        num_transform_blocks: block.or(
            "num_transform_blocks",
            default.num_transform_blocks,
            at_least_one,
        )?,
        activation: block.or("activation", default.activation, one_of(ACTIVATIONS))?,
        dropout_probability: block.or("dropout_probability", 0.0, dropout)?,
        norm: norm(&mut block, default.norm)?,
        num_bins: block.or("num_bins", default.num_bins, at_least_one)?,
        tail_bound: block.or("tail_bound", default.tail_bound, positive)?,
        apply_unconditional_transform: block.or("apply_unconditional_transform", false, flag)?,
        base_transform_type: block.or(
            "base_transform_type",
            default.base_transform_type,
            one_of(&[
                ("rq-coupling", TransformKind::Coupling),
                ("rq-autoregressive", TransformKind::Autoregressive),
            ]),
        )?,
        identity_init: block.or("identity_init", false, flag)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}

/// Normalisation: an explicit null means none, an absent key means the default.
fn norm(block: &mut Block<'_>, default: Option<Norm>) -> Result<Option<Norm>> {
    const NORMS: &[(&str, Norm)] = &[
        ("BatchNorm", Norm::BatchNorm),
        ("LayerNorm", Norm::LayerNorm),
    ];
    let given = block.has("norm");
    let norm = block.optional("norm", one_of(NORMS))?;
    Ok(if given { norm } else { default })
}

fn dropout(name: &str, value: &Value) -> Result<f64> {
    match number(name, value) {
        Ok(probability) if (0.0..1.0).contains(&probability) => Ok(probability),
        _ => wrong(name, "a probability of at least 0 and below 1", value),
    }
}

fn embedding(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<EmbeddingKwargs> {
    let svd = block.block("svd")?.ok_or_else(|| Error::MissingSetting {
        name: block.name("svd"),
        expected: "a mapping with `size`".into(),
    })?;
    let settings = EmbeddingKwargs {
        input_dims: block.optional("input_dims", input_dims)?,
        output_dim: block.required("output_dim", "a width", at_least_one)?,
        hidden_dims: block.required("hidden_dims", "a list of widths", list(at_least_one))?,
        activation: block.or("activation", Activation::Elu, one_of(ACTIVATIONS))?,
        dropout: block.or("dropout", 0.0, dropout)?,
        norm: norm(&mut block, Some(Norm::BatchNorm))?,
        svd: svd_settings(svd, warnings)?,
        added_context: block.optional("added_context", flag)?,
    };
    if settings.hidden_dims.is_empty() {
        return wrong(
            &block.name("hidden_dims"),
            "at least one width",
            &Value::Array(Vec::new()),
        );
    }
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}

fn input_dims(name: &str, value: &Value) -> Result<[usize; 3]> {
    let dims = list(at_least_one)(name, value)?;
    match dims.as_slice() {
        [detectors, channels, bins] => Ok([*detectors, *channels, *bins]),
        _ => wrong(name, "detectors, channels and frequency bins", value),
    }
}

fn svd_settings(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<SvdSettings> {
    let settings = SvdSettings {
        size: block.required("size", "a number of basis vectors", at_least_one)?,
        num_training_samples: block.optional("num_training_samples", at_least_one)?,
        num_validation_samples: block.optional("num_validation_samples", count)?,
        no_init: block.or("no_init", false, flag)?,
    };
    block.finish(Unknown::Refuse, warnings)?;
    Ok(settings)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
