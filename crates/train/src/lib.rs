//! Settings, stages, optimisers, schedulers, history and resume of a training run.
//!
//! Here, without libtorch: what a run is told ([`settings`]), when it stops ([`EarlyStopping`],
//! [`RunState`]), how its learning rate moves ([`Scheduler`]) and what it leaves behind
//! ([`history`]). With feature `torch`: flat storage ([`storage`]), optimisers ([`optimizer`]), what
//! computes a step ([`engine`], [`step`]) and the loop ([`run()`]).
//!
//! Deliberately not here: the network (crate `flow`), data sets (crate `data`), the format of
//! checkpoints (crate `checkpoint`), and anything that prints or reads the clock.

pub mod append_stage;
#[cfg(feature = "torch")]
pub mod batches;
mod early_stopping;
#[cfg(feature = "torch")]
pub mod engine;
#[cfg(feature = "torch")]
mod epoch;
mod error;
mod folder;
pub mod history;
pub mod observer;
#[cfg(feature = "torch")]
pub mod optimizer;
pub mod python_float;
#[cfg(feature = "torch")]
mod run;
pub mod run_state;
#[cfg(feature = "torch")]
pub mod samples;
#[cfg(feature = "torch")]
mod saving;
mod scheduler;
pub mod settings;
#[cfg(feature = "torch")]
pub mod step;
#[cfg(feature = "torch")]
pub mod storage;

pub use early_stopping::{EarlyStopping, Verdict};
pub use error::Error;
pub use folder::RunFolder;
#[cfg(feature = "torch")]
pub use run::{Job, Outcome, Start, evaluate, run};
pub use run_state::RunState;
pub use scheduler::{Scheduler, SchedulerState};
pub use settings::Settings;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
