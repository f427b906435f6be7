//! Helpers that the integration tests share.

mod program;

pub use program::{Outcome, dunnart};
