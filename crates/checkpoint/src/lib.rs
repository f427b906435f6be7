//! Plain-key checkpoints: one model in memory; safetensors, dingo's `.pt` and HDF5 on disk.
//!
//! A [`Model`] is everything that a file says about a network: [`Metadata`] that rebuilds it and
//! goes on with its training, the state dict by the reference's plain names, and the optimiser's
//! moments. Every file format reads into and writes from this one type; the native format is one
//! safetensors file, described in `docs/checkpoint-format.md`.
//!
//! Reading trusts nothing: sizes are compared with the file before anything is allocated, and every
//! kind of damage is an error of its own. Writing is atomic and refuses what could not be read back.
//!
//! Deliberately not here: what the run state, scheduler and early-stopping sections mean (crate
//! `train`), and how a network is computed (crate `flow`).

mod architecture;
mod checks;
mod checksum;
mod dingo;
mod error;
mod format;
mod json;
mod metadata;
mod model;
mod named;
mod names;
mod pt;
mod safetensors;
mod tensor;

pub use architecture::ModelArchitecture;
pub use error::{Error, KeySetMismatch};
pub use format::{Format, read_header};
pub use metadata::{
    DingoMetadata, EpochRecord, FORMAT_VERSION, GeneratorKey, Metadata, ParameterMetadata,
    PrecisionRun, Scale, Standardization,
};
pub use model::{Model, Network, OptimizerState, ParameterMoments, Rounding, StateDict};
pub use named::Named;
pub use safetensors::{Header, TensorInfo};
pub use tensor::{DType, Data, Element, Tensor};

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
