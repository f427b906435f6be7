//! What can go wrong between a settings file and a finished run.

use std::path::PathBuf;

/// An error of this crate; every variant names the thing, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was attempted: `read`, `write`, `rename`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file could not be written whole.
    #[error(transparent)]
    Files(#[from] dunnart_files::Error),
    /// A settings file is no YAML, or YAML of a kind that settings files do not need.
    #[error("settings, line {line}, column {column}: {reason}")]
    Yaml {
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A settings file is larger than any settings file can sensibly be.
    #[error("settings: expected at most {limit} {what}, got {found}")]
    SettingsTooLarge {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// What was found; for nodes, the number at which reading stopped.
        found: usize,
    },
    /// A required setting is absent.
    #[error("setting `{name}` is missing: expected {expected}")]
    MissingSetting {
        /// Path of the setting.
        name: String,
        /// What belongs there.
        expected: String,
    },
    /// A setting has a value that cannot be used.
    #[error("setting `{name}`: expected {expected}, got {found}")]
    Setting {
        /// Path of the setting, as in the settings file.
        name: String,
        /// What would be accepted.
        expected: String,
        /// The value found.
        found: String,
    },
    /// A setting that nothing knows, where it would have changed the computation.
    #[error("setting `{name}` is unknown: {}", crate::settings::hint(nearest.as_deref(), known))]
    UnknownSetting {
        /// Path of the setting.
        name: String,
        /// The known setting that resembles it most, if any does.
        nearest: Option<String>,
        /// Every known setting of that block.
        known: Vec<String>,
    },
    /// Two settings exclude each other.
    #[error("settings `{first}` and `{second}` exclude each other: {reason}")]
    Conflict {
        /// One setting.
        first: String,
        /// The other setting.
        second: String,
        /// Why they do not fit together.
        reason: String,
    },
    /// A setting asks for something that this version does not do.
    #[error("setting `{name}`: {value} is not supported: {remedy}")]
    Unsupported {
        /// Path of the setting.
        name: String,
        /// The value asked for.
        value: String,
        /// What to do instead.
        remedy: String,
    },
    /// A file named by a setting does not exist.
    #[error("setting `{name}`: no file {}; looked for {}", written.display(), tried_list(tried))]
    MissingFile {
        /// Path of the setting.
        name: String,
        /// The path as the settings give it.
        written: PathBuf,
        /// Every place that was looked at.
        tried: Vec<PathBuf>,
    },
    /// The network cannot be built.
    #[error("network: {0}")]
    Network(#[from] dunnart_flow::Error),
    /// A loss or learning rate that must be a number is none.
    #[error("{name}: expected a finite number, got {found}")]
    NonFinite {
        /// What the number is.
        name: String,
        /// The value found.
        found: f64,
    },
    /// A saved state does not belong to the settings it is used with.
    #[error("{name}: expected {expected}, got {found}")]
    State {
        /// Which part of the state.
        name: String,
        /// What the settings need.
        expected: String,
        /// What the state holds.
        found: String,
    },
    /// No parameter of the network trains in a stage.
    #[error("stage trains nothing: every parameter of the network is frozen")]
    NothingTrains,
    /// A checkpoint could not be written, or does not hold what it must.
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] dunnart_checkpoint::Error),
    /// The training data could not be read.
    #[error("training data: {0}")]
    Data(#[from] dunnart_data::Error),
    /// The source of training rows ended before the epoch did.
    #[error("training data: the source ended before the epoch did")]
    DataEnded,
    /// A loss is not a finite number.
    #[error(
        "{what} is {found} in stage {stage}, epoch {epoch}{}; the last good checkpoint stays",
        step.map_or(String::new(), |step| format!(", step {step}"))
    )]
    Diverged {
        /// Which loss.
        what: &'static str,
        /// Its value.
        found: f64,
        /// Stage, from 0 as in the settings.
        stage: usize,
        /// Epoch in the stage, from 1.
        epoch: usize,
        /// Optimiser step in the epoch, from 1; absent for a test loss.
        step: Option<usize>,
    },
    /// A new run was to start in the folder of another one.
    #[error(
        "run folder {}: expected none or one without a run, found {found}",
        path.display()
    )]
    RunFolderExists {
        /// The folder.
        path: PathBuf,
        /// The first file of the other run.
        found: String,
    },
    /// libtorch refused.
    #[cfg(feature = "torch")]
    #[error("libtorch: {0}")]
    Torch(#[from] dunnart_torch_shim::Error),
    /// A history file has a row that is no row of a history.
    #[error("{}, line {line}: {reason}", path.display())]
    History {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
}

#[cfg(feature = "torch")]
impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        Self::Torch(error.into())
    }
}

fn tried_list(tried: &[PathBuf]) -> String {
    let places: Vec<String> = tried.iter().map(|p| p.display().to_string()).collect();
    places.join(" and ")
}
