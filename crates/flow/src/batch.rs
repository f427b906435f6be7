//! What a network is fed with: rows of parameters and observations, in host memory.

use crate::{Architecture, Error, Result};

/// Rows of standardised parameters with their observations, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, T> {
    /// Parameters, `[B, D]`.
    pub theta: &'a [T],
    /// Observations, `[B, I, channels, F]` with an embedding, `[B, C]` without; empty if unconditional.
    pub observation: &'a [T],
    /// Context parameters, `[B, P]`; empty if there are none.
    pub context_parameters: &'a [T],
    /// Index of every row in the whole data set: the key of its dropout masks. Empty in evaluation.
    pub samples: &'a [u64],
}

impl<T> Batch<'_, T> {
    /// Number B of rows, after checking that every slice fits the architecture.
    ///
    /// # Errors
    /// [`Error::Length`] naming the slice that does not fit.
    pub fn rows(&self, architecture: &Architecture) -> Result<usize> {
        let rows = self.theta.len() / architecture.parameters();
        let check = |name: &str, width: usize, found: usize| {
            if found == rows * width {
                return Ok(());
            }
            Err(Error::Length {
                name: name.into(),
                expected: rows * width,
                found,
            })
        };
        check("theta", architecture.parameters(), self.theta.len())?;
        check(
            "observation",
            architecture.observation(),
            self.observation.len(),
        )?;
        let context = architecture.context_parameters();
        check("context parameters", context, self.context_parameters.len())?;
        Ok(rows)
    }
}
