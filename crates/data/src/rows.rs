//! Rows of a set, standardised and gathered into buffers.

use std::sync::Arc;

use crate::array::{Scalar, Values};
use crate::error::Error;
use crate::simulation_set::SimulationSet;
use crate::standardization::Standardization;

/// A simulation set with the standardisation of both arrays: what fills batches.
///
/// Cheap to clone and to share between threads; the set is never changed.
#[derive(Clone, Debug)]
pub struct RowSource {
    set: Arc<SimulationSet>,
    parameters: Standardization,
    observations: Standardization,
}

impl RowSource {
    /// Joins a set and its standardisations.
    ///
    /// # Errors
    /// Numbers of columns that differ.
    pub fn new(
        set: Arc<SimulationSet>,
        parameters: Standardization,
        observations: Standardization,
    ) -> Result<Self, Error> {
        for (what, map, names) in [
            (
                "standardization of the parameters",
                &parameters,
                set.parameter_names(),
            ),
            (
                "standardization of the observations",
                &observations,
                set.observation_names(),
            ),
        ] {
            if map.columns() != names.len() {
                return Err(Error::Length {
                    what: what.into(),
                    expected: names.len(),
                    actual: map.columns(),
                });
            }
        }
        Ok(Self {
            set,
            parameters,
            observations,
        })
    }

    /// The set.
    pub fn set(&self) -> &SimulationSet {
        &self.set
    }

    /// Standardisation of the parameters.
    pub fn parameters(&self) -> &Standardization {
        &self.parameters
    }

    /// Standardisation of the observations.
    pub fn observations(&self) -> &Standardization {
        &self.observations
    }

    /// Replaces the contents of both buffers by the standardised rows of `indices`.
    ///
    /// # Shapes
    /// `parameters` becomes [B, D], `observations` [B, C].
    ///
    /// # Numerics
    /// In f64, rounded once, so that f32 buffers hold the rounded values of f64 buffers.
    ///
    /// # Errors
    /// An index beyond the set; the buffers are then empty.
    pub fn gather<T: Scalar>(
        &self,
        indices: &[u64],
        parameters: &mut Vec<T>,
        observations: &mut Vec<T>,
    ) -> Result<(), Error> {
        parameters.clear();
        observations.clear();
        let rows = self.set.rows();
        if let Some(&index) = indices.iter().find(|&&index| index >= rows as u64) {
            return Err(Error::Index { index, rows });
        }
        gather(self.set.parameters(), &self.parameters, indices, parameters);
        gather(
            self.set.observations(),
            &self.observations,
            indices,
            observations,
        );
        Ok(())
    }
}

fn gather<T: Scalar>(values: &Values, map: &Standardization, indices: &[u64], buffer: &mut Vec<T>) {
    fn rows<S: Scalar, T: Scalar>(
        values: &[S],
        map: &Standardization,
        indices: &[u64],
        buffer: &mut Vec<T>,
    ) {
        let columns = map.columns();
        for &index in indices {
            let row = &values[index as usize * columns..][..columns];
            buffer.extend(
                row.iter()
                    .enumerate()
                    .map(|(column, value)| T::from_f64(map.value(column, value.into_f64()))),
            );
        }
    }
    buffer.reserve(indices.len() * map.columns());
    match values {
        Values::F32(values) => rows(values, map, indices, buffer),
        Values::F64(values) => rows(values, map, indices, buffer),
    }
}
