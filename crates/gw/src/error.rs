//! What can be wrong with gravitational-wave data and their settings.

/// What can be wrong with gravitational-wave data and their settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not what it should be.
    #[error(transparent)]
    Hdf5(#[from] dunnart_hdf5::Error),
    /// A prior cannot be understood or makes no sense.
    #[error("prior of `{parameter}`, `{text}`: {reason}")]
    Prior {
        /// The parameter it belongs to.
        parameter: String,
        /// The prior as the settings spell it.
        text: String,
        /// What is wrong, with what was expected.
        reason: String,
    },
    /// No detector of that name is known.
    #[error("unknown detector `{name}`, expected one of {known}")]
    Detector {
        /// The name given.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// A parameter is asked for that neither the data set nor the transforms have.
    #[error("unknown parameter `{name}`, there are {known}")]
    Parameter {
        /// The name given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A parameter cannot be standardised.
    #[error("standardisation of `{name}`: {reason}")]
    Standardization {
        /// The parameter.
        name: String,
        /// What is wrong with its mean or standard deviation.
        reason: String,
    },
    /// The data do not fit the settings or each other.
    #[error("{what}: expected {expected}, got {actual}")]
    Data {
        /// What does not fit.
        what: String,
        /// What was expected.
        expected: String,
        /// What was found.
        actual: String,
    },
    /// Settings are no Python literal.
    #[error("not a Python literal: at byte {position}, {reason}, found {found}")]
    Literal {
        /// The byte, from 0, where it goes wrong.
        position: usize,
        /// What was expected.
        reason: String,
        /// What stands there.
        found: String,
    },
    /// A frequency domain makes no sense, or cannot be narrowed as asked.
    #[error("frequency domain: {reason}")]
    Domain {
        /// What is wrong, with what was expected.
        reason: String,
    },
}
