//! Where a path of a settings file leads: beside the file first, then in the working folder.

use std::path::{Path, PathBuf};

use super::{DataSettings, Settings};
use crate::{Error, Result};

/// The folders a relative path of a settings file is looked up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSearch {
    /// The folder of the settings file.
    pub settings_folder: PathBuf,
    /// The folder the program was started in.
    pub working_folder: PathBuf,
}

impl PathSearch {
    /// The search for a settings file; a relative file is taken from the working folder.
    pub fn beside(settings_file: &Path, working_folder: &Path) -> Self {
        let file = working_folder.join(settings_file);
        Self {
            settings_folder: file.parent().unwrap_or(working_folder).to_path_buf(),
            working_folder: working_folder.to_path_buf(),
        }
    }

    /// The existing file or folder that `written` means.
    ///
    /// # Errors
    /// [`Error::MissingFile`] naming the setting and every place looked at.
    pub fn find(&self, name: &str, written: &Path) -> Result<PathBuf> {
        // Joining an absolute path gives that path, so that it is tried once.
        let mut tried = vec![self.settings_folder.join(written)];
        let second = self.working_folder.join(written);
        if !tried.contains(&second) {
            tried.push(second);
        }
        match tried.iter().find(|path| path.exists()) {
            Some(path) => Ok(path.clone()),
            None => Err(Error::MissingFile {
                name: name.into(),
                written: written.into(),
                tried,
            }),
        }
    }
}

impl Settings {
    /// Every input file of these settings: the name of the setting and the path as written.
    pub fn input_files(&mut self) -> Vec<(String, &mut PathBuf)> {
        let mut files: Vec<(String, &mut PathBuf)> = Vec::new();
        match &mut self.data {
            DataSettings::Simulations(data) => {
                files.push(("data.simulations".into(), &mut data.simulations));
                if let Some(reference) = &mut data.reference {
                    files.push(("data.reference".into(), reference));
                }
            }
            DataSettings::Waveforms(data) => files.push((
                "data.waveform_dataset_path".into(),
                &mut data.waveform_dataset_path,
            )),
        }
        for (index, stage) in self.training.stages.iter_mut().enumerate() {
            if let Some(path) = &mut stage.asd_dataset_path {
                files.push((format!("training.stage_{index}.asd_dataset_path"), path));
            }
        }
        files
    }

    /// The same settings with every input file found.
    ///
    /// # Errors
    /// [`Error::MissingFile`] for the first that is in neither place.
    pub fn found(&self, search: &PathSearch) -> Result<Self> {
        let mut settings = self.clone();
        for (name, path) in settings.input_files() {
            *path = search.find(&name, path)?;
        }
        Ok(settings)
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
