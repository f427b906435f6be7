//! Simulation sets, observations, standardisation, the train/test split and batches.
//!
//! The way of the data: [`ArrayFile`] reads arrays from `.npz` or `.safetensors`; [`SimulationSet`]
//! checks them and holds parameters and observations row by row; [`Split`] parts the rows as torch
//! does; [`Standardization`] comes from the training part; [`epoch_batches`] makes lists of global
//! sample indices from the key; [`RowSource`] and [`Prefetch`] turn lists into buffers ahead of
//! time. For sampling: [`Observations`] in, [`PosteriorSamples`] out, [`Bounds`] for the mass
//! outside.
//!
//! A sample's index is its row in the set as loaded (after dropping, if rows were dropped);
//! everything that follows uses that index.
//!
//! Deliberately not here: networks, libtorch, the clock (waiting times are measured with the
//! caller's), and sets that do not fit into memory.

mod array;
mod batches;
mod bounds;
mod error;
mod file;
mod npy;
mod observations;
mod prefetch;
mod rows;
mod samples;
mod simulation_set;
mod split;
mod standardization;
mod table;

pub use array::{Array, ArrayInfo, Scalar, Values};
pub use batches::{EpochBatches, TrailingRow, epoch_batches, test_batches, worker_slice};
pub use bounds::Bounds;
pub use error::Error;
pub use file::{ARRAY_FORMATS, ArrayFile};
pub use observations::Observations;
pub use prefetch::Prefetch;
pub use rows::RowSource;
pub use samples::{PosteriorSamples, SAMPLE_FORMATS};
pub use simulation_set::{LoadReport, NonFiniteRows, SimulationOptions, SimulationSet};
pub use split::{SPLIT_SEED, Split};
pub use standardization::Standardization;
