//! The model block of a settings file, in the words and with the defaults of dingo's builder.
//!
//! Nothing is checked here beyond types; [`crate::Architecture::new`] validates.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Elementwise nonlinearity of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x` for x > 0, `exp(x) - 1` otherwise.
    Elu,
    /// `max(x, 0)`.
    Relu,
    /// `x` for x > 0, `0.01 x` otherwise.
    LeakyRelu,
    /// `x (1 + erf(x / sqrt 2)) / 2`, the exact form.
    Gelu,
}

/// Normalisation inside residual blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Norm {
    /// Batch normalisation, eps 1e-3, momentum 0.1.
    BatchNorm,
    /// Layer normalisation, eps 1e-5.
    LayerNorm,
}

/// How the spline's parameters depend on the other parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransformKind {
    /// Half of the parameters condition the other half.
    Coupling,
    /// Every parameter is conditioned on those before it, through masked layers.
    Autoregressive,
}

/// The spellings of a closed set of names, matched without regard to case.
macro_rules! named {
    ($type:ty, $what:literal, $($variant:ident => $name:literal),+) => {
        impl $type {
            /// The name as settings files spell it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
            /// Reads a name without regard to case; `None` if there is no such name.
            pub fn from_name(name: &str) -> Option<Self> {
                $(if name.eq_ignore_ascii_case($name) { return Some(Self::$variant); })+
                None
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.name())
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::from_name(&text).ok_or_else(|| {
                    let names: &[&str] = &[$($name),+];
                    serde::de::Error::custom(format!(
                        "unknown {} `{text}`, expected one of {}", $what, names.join(", ")
                    ))
                })
            }
        }
    };
}

named!(Activation, "activation", Elu => "elu", Relu => "relu", LeakyRelu => "leaky_relu", Gelu => "gelu");
named!(Norm, "norm", BatchNorm => "BatchNorm", LayerNorm => "LayerNorm");
named!(TransformKind, "base_transform_type", Coupling => "rq-coupling", Autoregressive => "rq-autoregressive");

/// `posterior_kwargs.base_transform_kwargs`: one spline step and its conditioner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BaseTransformSettings {
    /// Width H of the conditioner.
    pub hidden_dim: usize,
    /// Residual blocks of the conditioner.
    pub num_transform_blocks: usize,
    /// Activation of the conditioner.
    pub activation: Activation,
    /// Probability that dropout zeroes an element.
    pub dropout_probability: f64,
    /// Normalisation in the conditioner's blocks.
    pub norm: Option<Norm>,
    /// Bins K of the spline.
    pub num_bins: usize,
    /// The spline acts on [-tail_bound, tail_bound]; outside it is the identity.
    pub tail_bound: f64,
    /// Whether a learnable context-free spline acts on the identity features.
    pub apply_unconditional_transform: bool,
    /// Coupling or autoregressive.
    pub base_transform_type: TransformKind,
    /// Start as the identity map; not an option of dingo.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub identity_init: bool,
}

impl Default for BaseTransformSettings {
    fn default() -> Self {
        Self {
            hidden_dim: 512,
            num_transform_blocks: 2,
            activation: Activation::Relu,
            dropout_probability: 0.0,
            norm: None,
            num_bins: 8,
            tail_bound: 1.0,
            apply_unconditional_transform: false,
            base_transform_type: TransformKind::Coupling,
            identity_init: false,
        }
    }
}

/// `posterior_kwargs`: the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PosteriorSettings {
    /// Number D of parameters.
    pub input_dim: usize,
    /// Number C of context features the flow sees; absent for an unconditional flow.
    #[serde(default)]
    pub context_dim: Option<usize>,
    /// Number N of spline steps.
    pub num_flow_steps: usize,
    /// Every spline step.
    #[serde(default)]
    pub base_transform_kwargs: BaseTransformSettings,
}

/// `embedding_kwargs.svd`: the reduced basis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SvdSettings {
    /// Basis vectors n per detector.
    pub size: usize,
    /// Waveforms the basis is built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_training_samples: Option<usize>,
    /// Waveforms the basis is tested on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_validation_samples: Option<usize>,
    /// Leave the projection at its random initialisation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_init: bool,
}

/// `embedding_kwargs`: reduced-basis projection, then a dense residual network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// Detectors I, channels, frequency bins F of one observation.
    pub input_dims: [usize; 3],
    /// Width of the embedding's output.
    pub output_dim: usize,
    /// Width of every residual block.
    pub hidden_dims: Vec<usize>,
    /// The reduced basis.
    pub svd: SvdSettings,
    /// Activation of the residual network.
    #[serde(default = "elu")]
    pub activation: Activation,
    /// Probability that dropout zeroes an element.
    #[serde(default)]
    pub dropout: f64,
    /// Normalisation in the residual blocks.
    #[serde(default = "batch_norm")]
    pub norm: Option<Norm>,
    /// Whether context parameters are appended to the embedding's output.
    #[serde(default)]
    pub added_context: bool,
}

fn elu() -> Activation {
    Activation::Elu
}

fn batch_norm() -> Option<Norm> {
    Some(Norm::BatchNorm)
}

/// The whole network: flow and, where observations are embedded, the embedding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSettings {
    /// The flow.
    pub posterior_kwargs: PosteriorSettings,
    /// The embedding; absent when the observation itself is the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding_kwargs: Option<EmbeddingSettings>,
}
