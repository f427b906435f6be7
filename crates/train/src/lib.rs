//! Settings, stages, optimisers, schedulers, history and resume of a training run.
//!
//! Here, without libtorch: what a run is told ([`settings`]), when it stops ([`EarlyStopping`],
//! [`RunState`]), how its learning rate moves ([`Scheduler`]) and what it leaves behind
//! ([`history`]). With feature `torch`: the step and the loop.
//!
//! Deliberately not here: the network (crate `flow`), data sets (crate `data`), the format of
//! checkpoints (crate `checkpoint`), and anything that prints or reads the clock.

pub mod append_stage;
mod early_stopping;
mod error;
pub mod history;
pub mod python_float;
pub mod run_state;
mod scheduler;
pub mod settings;

pub use early_stopping::{EarlyStopping, Verdict};
pub use error::Error;
pub use run_state::RunState;
pub use scheduler::{Scheduler, SchedulerState};
pub use settings::Settings;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
