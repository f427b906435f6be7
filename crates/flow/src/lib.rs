//! Neural spline flows for posterior estimation: what a network is, and how it is computed.
//!
//! The way of a network through this crate: [`settings`] are read, validated into an
//! [`Architecture`], expanded into a [`Layout`] (every parameter and buffer by its name), filled
//! as a [`NetworkState`], and computed by `plan` (pure Rust) or, with feature `torch`, by `eager`
//! (the same network in libtorch operations).
//!
//! Deliberately not here: files (crate `checkpoint`), optimisers and the training loop (crate
//! `train`), and any source of randomness other than the generator handed in.

mod architecture;
mod batch;
mod dropout;
#[cfg(feature = "torch")]
pub mod eager;
mod error;
mod initialization;
mod layout;
mod legacy;
mod names;
pub mod plan;
pub mod reduction;
pub mod settings;
mod state;
pub mod structure;
mod trainable;

pub use architecture::{Architecture, CouplingArchitecture, EmbeddingArchitecture};
pub use batch::Batch;
pub use dropout::Dropout;
pub use error::Error;
pub use initialization::{Initialization, reduced_basis_weight};
pub use layout::{BufferKind, BufferSpec, Entry, Layout, ParameterCount, ParameterSpec, Part};
pub use legacy::current_model_block;
pub use settings::{
    Activation, EmbeddingSettings, NetworkSettings, Norm, PosteriorSettings, TransformKind,
};
pub use state::{BufferValue, NetworkState};
pub use trainable::TrainableSet;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
