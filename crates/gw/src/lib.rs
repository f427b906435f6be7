//! Gravitational-wave data: from a dingo data set to what the network sees.
//!
//! The way of the data: a data set's row (coefficients or polarisations and intrinsic parameters) ->
//! extrinsic parameters drawn from their priors -> detector times and antenna patterns -> strain per
//! detector -> noise -> the network's input. Deliberately not here: how waveforms are generated, how
//! noise spectra are estimated, and the network.

mod detector;
mod domain;
mod error;
mod literal;
#[cfg(test)]
mod memory_waveforms;
pub mod pipeline;
mod prior;
mod reduced_basis;
mod source;
mod standardization;
mod time;

pub use detector::{Antenna, Detector, Direction};
pub use domain::{Cut, Domain, MultibandedFrequencyDomain, UniformFrequencyDomain};
pub use error::Error;
pub use literal::{literal, parse_literal};
pub use prior::{Moments, Prior};
pub use reduced_basis::{ReducedBasis, ReducedBasisSettings, reduced_bases};
pub use source::{NoiseSpectra, Samples, SourceSettings, WaveformSource, Waveforms};
pub use standardization::Standardization;
pub use time::{greenwich_mean_sidereal_time, leap_seconds};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
