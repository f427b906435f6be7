//! Validated settings: an [`Architecture`] that exists can be built.

use dunnart_spline::SplineSettings;

use crate::settings::{Activation, EmbeddingSettings, NetworkSettings, Norm, TransformKind};
use crate::{Error, Result};

/// A network that can be built: validated settings, ready to be laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    settings: NetworkSettings,
    spline: SplineSettings,
}

/// The conditioner and spline of every step, in the words of the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CouplingArchitecture {
    /// Coupling or autoregressive.
    pub kind: TransformKind,
    /// Conditioner width H.
    pub hidden: usize,
    /// Residual blocks.
    pub blocks: usize,
    /// Activation of the conditioner.
    pub activation: Activation,
    /// Normalisation of the conditioner.
    pub norm: Option<Norm>,
    /// Probability that dropout zeroes an element.
    pub dropout: f64,
    /// Whether identity features pass through a learnable context-free spline.
    pub unconditional_transform: bool,
    /// Whether the network starts as the identity map.
    pub identity_init: bool,
}

/// The embedding of observations.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingArchitecture {
    /// Detectors I.
    pub detectors: usize,
    /// Channels per detector: real, imaginary, inverse noise amplitude.
    pub channels: usize,
    /// Frequency bins F.
    pub bins: usize,
    /// Reduced-basis vectors n per detector.
    pub basis_size: usize,
    /// Widths of the residual blocks.
    pub hidden: Vec<usize>,
    /// Width of the output.
    pub output: usize,
    /// Activation.
    pub activation: Activation,
    /// Normalisation.
    pub norm: Option<Norm>,
    /// Probability that dropout zeroes an element.
    pub dropout: f64,
    /// Context parameters P appended to the output.
    pub context_parameters: usize,
}

fn positive(name: &str, value: usize) -> Result<()> {
    if value == 0 {
        return Err(Error::Setting {
            name: name.into(),
            found: "0".into(),
            expected: "a positive number".into(),
        });
    }
    Ok(())
}

fn probability(name: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::Setting {
        name: name.into(),
        found: value.to_string(),
        expected: "a probability of at least 0 and less than 1".into(),
    })
}

impl Architecture {
    /// Validates settings.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Conflict`] or [`Error::Spline`] naming what cannot be built.
    pub fn new(settings: NetworkSettings) -> Result<Self> {
        let flow = &settings.posterior_kwargs;
        let base = &flow.base_transform_kwargs;
        positive("posterior_kwargs.input_dim", flow.input_dim)?;
        positive("posterior_kwargs.num_flow_steps", flow.num_flow_steps)?;
        if let Some(context) = flow.context_dim {
            positive("posterior_kwargs.context_dim", context)?;
        }
        let prefix = "posterior_kwargs.base_transform_kwargs";
        positive(&format!("{prefix}.hidden_dim"), base.hidden_dim)?;
        positive(
            &format!("{prefix}.num_transform_blocks"),
            base.num_transform_blocks,
        )?;
        probability(
            &format!("{prefix}.dropout_probability"),
            base.dropout_probability,
        )?;
        let spline = SplineSettings::new(base.num_bins, base.tail_bound);
        spline.validate()?;
        if base.base_transform_type == TransformKind::Autoregressive {
            if base.norm == Some(Norm::LayerNorm) {
                return Err(Error::Conflict {
                    first: "base_transform_type: rq-autoregressive".into(),
                    second: "norm: LayerNorm".into(),
                    reason: "masked conditioners have batch normalisation or none".into(),
                });
            }
            if base.apply_unconditional_transform {
                return Err(Error::Conflict {
                    first: "base_transform_type: rq-autoregressive".into(),
                    second: "apply_unconditional_transform: true".into(),
                    reason: "an autoregressive step has no identity features".into(),
                });
            }
        }
        if let Some(embedding) = &settings.embedding_kwargs {
            Self::check_embedding(embedding, flow.context_dim)?;
        }
        Ok(Self { settings, spline })
    }

    fn check_embedding(embedding: &EmbeddingSettings, context: Option<usize>) -> Result<()> {
        let [detectors, channels, bins] = embedding.input_dims;
        positive("embedding_kwargs.input_dims[0] (detectors)", detectors)?;
        positive("embedding_kwargs.input_dims[2] (frequency bins)", bins)?;
        if channels < 2 {
            return Err(Error::Setting {
                name: "embedding_kwargs.input_dims[1] (channels)".into(),
                found: channels.to_string(),
                expected: "at least 2 (real and imaginary part)".into(),
            });
        }
        positive("embedding_kwargs.output_dim", embedding.output_dim)?;
        positive("embedding_kwargs.svd.size", embedding.svd.size)?;
        probability("embedding_kwargs.dropout", embedding.dropout)?;
        positive(
            "embedding_kwargs.hidden_dims (its length)",
            embedding.hidden_dims.len(),
        )?;
        for (k, &width) in embedding.hidden_dims.iter().enumerate() {
            positive(&format!("embedding_kwargs.hidden_dims[{k}]"), width)?;
        }
        let output = embedding.output_dim;
        let fits = match context {
            Some(context) if embedding.added_context => context > output,
            Some(context) => context == output,
            None => false,
        };
        if fits {
            return Ok(());
        }
        Err(Error::Conflict {
            first: format!("posterior_kwargs.context_dim: {context:?}"),
            second: format!(
                "embedding_kwargs.output_dim: {output}, added_context: {}",
                embedding.added_context
            ),
            reason: "the context is the embedding's output, followed by the context parameters \
                     where added_context is true"
                .into(),
        })
    }

    /// Reads and validates `{"posterior_kwargs": .., "embedding_kwargs": ..}`.
    ///
    /// # Errors
    /// As [`Architecture::new`], and [`Error::Settings`] for unknown or mistyped keys.
    pub fn from_json(value: &serde_json::Value) -> Result<Self> {
        Self::new(NetworkSettings::deserialize_from(value)?)
    }

    /// The settings this architecture was validated from.
    pub fn settings(&self) -> &NetworkSettings {
        &self.settings
    }

    /// The spline of every step.
    pub fn spline(&self) -> &SplineSettings {
        &self.spline
    }

    /// Number D of parameters.
    pub fn parameters(&self) -> usize {
        self.settings.posterior_kwargs.input_dim
    }

    /// Number C of context features the flow sees; 0 for an unconditional flow.
    pub fn context(&self) -> usize {
        self.settings.posterior_kwargs.context_dim.unwrap_or(0)
    }

    /// Number N of spline steps.
    pub fn steps(&self) -> usize {
        self.settings.posterior_kwargs.num_flow_steps
    }

    /// Numbers per observation that enter the network: I x channels x F with an embedding, C without.
    pub fn observation(&self) -> usize {
        match &self.settings.embedding_kwargs {
            Some(embedding) => embedding.input_dims.iter().product(),
            None => self.context(),
        }
    }

    /// Number P of context parameters appended to the embedding's output.
    pub fn context_parameters(&self) -> usize {
        match &self.settings.embedding_kwargs {
            Some(embedding) => self.context() - embedding.output_dim,
            None => 0,
        }
    }

    /// The conditioner and spline step.
    pub fn coupling(&self) -> CouplingArchitecture {
        let base = &self.settings.posterior_kwargs.base_transform_kwargs;
        CouplingArchitecture {
            kind: base.base_transform_type,
            hidden: base.hidden_dim,
            blocks: base.num_transform_blocks,
            activation: base.activation,
            norm: base.norm,
            dropout: base.dropout_probability,
            unconditional_transform: base.apply_unconditional_transform,
            identity_init: base.identity_init,
        }
    }

    /// The embedding, if there is one.
    pub fn embedding(&self) -> Option<EmbeddingArchitecture> {
        let embedding = self.settings.embedding_kwargs.as_ref()?;
        let [detectors, channels, bins] = embedding.input_dims;
        Some(EmbeddingArchitecture {
            detectors,
            channels,
            bins,
            basis_size: embedding.svd.size,
            hidden: embedding.hidden_dims.clone(),
            output: embedding.output_dim,
            activation: embedding.activation,
            norm: embedding.norm,
            dropout: embedding.dropout,
            context_parameters: self.context_parameters(),
        })
    }

    /// Whether any layer has batch normalisation, so that a training batch needs two rows.
    pub fn has_batch_norm(&self) -> bool {
        self.coupling().norm == Some(Norm::BatchNorm)
            || self
                .embedding()
                .is_some_and(|e| e.norm == Some(Norm::BatchNorm))
    }

    /// Factor on width and height logits: 1/sqrt(H) for coupling conditioners, 1 for masked ones.
    ///
    /// # Source
    /// Durkan et al. 2019, "Neural Spline Flows", reference implementation.
    pub fn logit_scale(&self) -> f64 {
        match self.coupling().kind {
            TransformKind::Coupling => 1.0 / (self.coupling().hidden as f64).sqrt(),
            TransformKind::Autoregressive => 1.0,
        }
    }
}

impl NetworkSettings {
    fn deserialize_from(value: &serde_json::Value) -> Result<Self> {
        Ok(<Self as serde::Deserialize>::deserialize(value)?)
    }
}
