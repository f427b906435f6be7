//! What can be wrong with gravitational-wave data and their settings.

/// What can be wrong with gravitational-wave data and their settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not what it should be.
    #[error(transparent)]
    Hdf5(#[from] dunnart_hdf5::Error),
}
