//! The forms of the network that golden values are compared with: one file each.

mod adam;
mod eager;
#[cfg(feature = "torch")]
mod eager_network;
#[cfg(feature = "torch")]
mod eager_spline;
mod initialisation;
mod native;
mod network;
mod plan;
mod spline;

use std::collections::BTreeMap;

use dunnart_elementwise::Real;

use super::case::{Case, Precision};
use super::golden::Values;
use super::{Error, Result};

/// Values that a path computed, under the keys of the golden file.
#[derive(Clone, Debug, Default)]
pub struct Computed {
    values: BTreeMap<String, Values>,
}

impl Computed {
    /// Adds real numbers.
    pub fn reals<T: Real>(&mut self, key: impl Into<String>, values: &[T]) {
        let values = values.iter().map(|x| x.to_f64()).collect();
        self.values.insert(key.into(), Values::Reals(values));
    }

    /// Adds a tensor of any kind.
    pub fn insert(&mut self, key: impl Into<String>, values: Values) {
        self.values.insert(key.into(), values);
    }

    /// The values of a key.
    pub fn get(&self, key: &str) -> Option<&Values> {
        self.values.get(key)
    }

    /// All keys with their values, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Values)> {
        self.values
            .iter()
            .map(|(key, values)| (key.as_str(), values))
    }
}

/// One form of the network.
pub trait Path {
    /// Its name, as reports print it.
    fn name(&self) -> &'static str;

    /// Whether this program was built with what the path needs; else what is missing.
    ///
    /// # Errors
    /// The reason, as a sentence.
    fn available(&self) -> std::result::Result<(), String>;

    /// Whether it computes anything of that case.
    fn takes(&self, case: &Case) -> bool;

    /// Whether it computes the result of that key; everything, unless said otherwise.
    fn covers(&self, case: &Case, key: &str) -> bool;

    /// Computes the case's results from its inputs in the given precision.
    ///
    /// # Errors
    /// [`Error`] when the case lacks an input or the computation itself fails.
    fn compute(&self, case: &Case, precision: Precision) -> Result<Computed>;
}

/// Every path there is, in the order they run.
pub fn all_paths() -> Vec<Box<dyn Path>> {
    vec![
        Box::new(initialisation::Initialisation),
        Box::new(spline::Spline),
        Box::new(eager::Eager::fused()),
        Box::new(eager::Eager::tensor()),
        Box::new(plan::Compiled),
        Box::new(native::Native),
    ]
}

/// An error of a crate below, while a case is computed.
fn failed(case: &Case, error: impl std::fmt::Display) -> Error {
    Error::Path {
        file: case.golden.file().into(),
        path: String::new(),
        reason: error.to_string(),
    }
}
