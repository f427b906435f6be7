//! `svd_{IFO}.hdf5`: a reduced basis as dingo stores it.

use std::path::Path;

use dunnart_files::WriteOptions;
use dunnart_hdf5::{Attribute, Column, Content, Data};

use super::ReducedBasis;
use crate::{Error, Result};

impl ReducedBasis {
    /// Writes V over the whole grid (zeros below the first bin that reaches the network), the singular values,
    /// and a table of the validation waveforms' parameters with the mismatch at every size.
    ///
    /// # Shapes
    /// Every column of `parameters` has one value per validation waveform.
    ///
    /// # Errors
    /// [`Error::Data`] for a column of another length; what writing the file returns.
    pub fn write(
        &self,
        path: &Path,
        parameters: &[(String, Vec<f64>)],
        options: &WriteOptions,
    ) -> Result<()> {
        let (size, rows) = (self.singular_values.len(), self.mismatches[0].len());
        let mut columns = Vec::new();
        for (name, values) in parameters {
            if values.len() != rows {
                return Err(Error::Data {
                    what: format!("`{name}` of the validation waveforms"),
                    expected: format!("{rows} values"),
                    actual: values.len().to_string(),
                });
            }
            columns.push(Column::f64(name, values.clone()));
        }
        for (size, mismatches) in self.sizes.iter().zip(&self.mismatches) {
            columns.push(Column::f64(
                format!("mismatch n={size}"),
                mismatches.clone(),
            ));
        }
        let mut v = vec![[0.0; 2]; self.first * size];
        v.extend_from_slice(&self.v);
        let bins = (v.len() / size) as u64;
        let mut content = Content::new();
        content.dataset("V", &[bins, size as u64], Data::Complex128(v))?;
        content.dataset("s", &[size as u64], Data::F64(self.singular_values.clone()))?;
        content.dataset("mismatches", &[rows as u64], Data::Columns(columns))?;
        content.attribute("", "dataset_type", Attribute::Text("svd_basis".into()))?;
        content.write(path, options)?;
        Ok(())
    }
}
