//! The transforms of training, in the order of the chain, one a file.
//!
//! | step | file | what it does |
//! |---|---|---|
//! | 1 | `extrinsic` | draws sky position, polarisation angle, time and distance |
//! | 2 | `detector_times` | arrival times and antenna patterns of the detectors |
//! | 3 | `time_shifts` | proxies: arrival times blurred by a kernel |
//! | 4 | `projection` | strain per detector, scaled to the distance and shifted in time |
//! | 5 | `asd_choice` | which noise spectrum a sample and detector gets |
//! | 6 | `whitening` | division by spectrum and noise level |
//! | 7 | `noise` | adds a standard complex normal to each bin |
//! | 8 | `parameters` | picks and standardises what is inferred and what is conditioned on |
//! | 9 | `repackage` | the network's input: real part, imaginary part, inverse spectrum |
//!
//! The functions here are the reference: double precision, one sample, whole arrays, every input an
//! argument. `fused` computes the same from the draws of a key to the network's rows in single precision,
//! block by block, and is what training runs.

mod asd_choice;
mod detector_times;
mod draw;
mod extrinsic;
mod fused;
mod grid;
mod noise;
mod parameters;
mod projection;
mod repackage;
mod spectrum;
mod time_shifts;
mod whitening;

pub use asd_choice::choose_asd;
pub use detector_times::{DetectorNetwork, Sky};
pub use draw::Draw;
pub use extrinsic::{Extrinsic, ExtrinsicPriors};
pub use fused::{Basis, DetectorDraw, Fused, Layout, Observer, Rows, Stage};
pub use grid::{Band, Grid};
pub use noise::{add_noise, draw_noise};
pub use parameters::{ParameterTable, standardize};
pub use projection::{apply_time_shift, project};
pub use repackage::{ASD_SCALE, CHANNELS, repackage};
pub use spectrum::Spectrum;
pub use time_shifts::{ShiftedTimes, TimeShifts};
pub use whitening::whiten;
use whitening::whitening_scale;
