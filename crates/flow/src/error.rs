//! What can go wrong between settings and a computed network.

/// An error of this crate; every variant names the thing, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that no network can be built from.
    #[error("setting `{name}`: {found} is not possible, expected {expected}")]
    Setting {
        /// Path of the setting, as in the settings file.
        name: String,
        /// The value found.
        found: String,
        /// What would be accepted.
        expected: String,
    },
    /// The settings could not be read as a network at all.
    #[error("network settings: {0}")]
    Settings(#[from] serde_json::Error),
    /// Two settings exclude each other.
    #[error("settings `{first}` and `{second}` exclude each other: {reason}")]
    Conflict {
        /// One setting and its value.
        first: String,
        /// The other setting and its value.
        second: String,
        /// Why they do not fit together.
        reason: String,
    },
    /// The network would have more parameters than any machine can hold.
    #[error("the network of these settings would have more than {limit} parameters")]
    TooLarge {
        /// The limit in numbers of elements.
        limit: u64,
    },
    /// A slice or tensor has another number of elements than the network needs.
    #[error("{name}: expected {expected} elements, got {found}")]
    Length {
        /// What the slice is.
        name: String,
        /// Elements needed.
        expected: usize,
        /// Elements found.
        found: usize,
    },
    /// A tensor has another shape than the network needs.
    #[error("tensor `{name}`: expected shape {expected:?}, got {found:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape needed.
        expected: Vec<usize>,
        /// Shape found.
        found: Vec<usize>,
    },
    /// The network has no tensor of this name.
    #[error("tensor `{name}` does not belong to this network")]
    UnknownTensor {
        /// Name of the tensor.
        name: String,
    },
    /// A buffer that follows from the architecture has another value.
    #[error("buffer `{name}`: its value contradicts the architecture: {reason}")]
    Buffer {
        /// Name of the buffer.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The spline refused its settings or its slices.
    #[error("spline: {0}")]
    Spline(#[from] dunnart_spline::Error),
    /// A part of the network is not available in this form of computation.
    #[error("{what} is not available {where_}: {remedy}")]
    Unsupported {
        /// The part of the network.
        what: String,
        /// The form of computation.
        where_: String,
        /// What to do instead.
        remedy: String,
    },
    /// A training batch has too few rows: none, or one where batch norm needs a variance.
    #[error(
        "training batch: expected at least {needed} rows (two where there is batch norm), got {found}"
    )]
    TooFewRows {
        /// Rows needed.
        needed: usize,
        /// Rows found.
        found: usize,
    },
    /// The workers that share a batch could not join their sums.
    #[error("joining batch norm's sums over the workers: {0}")]
    Reduction(String),
    /// libtorch reported an error.
    #[error("libtorch: {0}")]
    Torch(String),
}

#[cfg(feature = "torch")]
impl From<dunnart_torch_shim::Error> for Error {
    fn from(error: dunnart_torch_shim::Error) -> Self {
        Self::Torch(error.to_string())
    }
}

/// The text of libtorch's exception without its backtrace.
#[cfg(feature = "torch")]
impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        match dunnart_torch_shim::Error::from(error) {
            dunnart_torch_shim::Error::Libtorch { message, .. } => Self::Torch(message),
            other => other.into(),
        }
    }
}
