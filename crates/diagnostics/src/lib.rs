//! How good a sampled posterior is.
//!
//! Here: the classifier two-sample test ([`c2st`]) against reference samples, with the small
//! network it trains. Deliberately not here: files, plots, and anything that needs libtorch;
//! coverage tests come with the data they need.

mod adam;
mod c2st;
mod classifier;
mod dense;
mod error;

pub use c2st::{C2st, FOLDS, Pair, c2st, c2st_all};
pub use error::Error;
