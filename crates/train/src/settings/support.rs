//! What settings may ask for and this version does not do yet, all in one place.
//!
//! Reading settings accepts everything that dingo's schema has; a run refuses these, by name,
//! before it does any work.

use super::{DataSettings, Device, Settings, Warning};
use crate::{Error, Result};

fn refuse(name: &str, value: impl Into<String>, remedy: &str) -> Error {
    Error::Unsupported {
        name: name.into(),
        value: value.into(),
        remedy: remedy.into(),
    }
}

impl Settings {
    /// Refuses what a run cannot do, and says what it does otherwise than asked.
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the setting.
    pub fn check_supported(&self) -> Result<Vec<Warning>> {
        if let DataSettings::Simulations(data) = &self.data
            && data.observations.is_none()
        {
            return Err(refuse(
                "data.observations",
                "null",
                "this version trains flows that see an observation",
            ));
        }
        if let DataSettings::Waveforms(_) = self.data {
            return Err(refuse(
                "data.waveform_dataset_path",
                "training on a waveform data set",
                "this version trains on simulation sets, see `data.simulations`",
            ));
        }
        if let Device::Cuda(_) = self.local.device {
            return Err(refuse(
                "local.device",
                "a CUDA device",
                "this version's libtorch is the CPU build; use cpu",
            ));
        }
        if self.local.num_gpus > 1 {
            return Err(refuse(
                "local.num_gpus",
                self.local.num_gpus.to_string(),
                "this version trains in one process; use 1",
            ));
        }
        for (index, stage) in self.training.stages.iter().enumerate() {
            if stage.automatic_mixed_precision {
                return Err(refuse(
                    &format!("training.stage_{index}.automatic_mixed_precision"),
                    "true",
                    "this version trains in float32; use false",
                ));
            }
        }
        Ok(Vec::new())
    }
}
