//! `append-stage`: adds or replaces a planned stage in a checkpoint.
//!
//! Exit codes: 0 when the new checkpoint is written, 2 when it could not be.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use dunnart_checkpoint::Model;
use dunnart_files::WriteOptions;
use dunnart_train::append_stage::append_stage;
use dunnart_train::settings::read_yaml_file;
use dunnart_train::{RunState, Settings};

use crate::failure::InFile;

/// Arguments of `append-stage`.
#[derive(Args)]
pub(crate) struct AppendStage {
    /// The checkpoint of the run.
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    /// YAML file with the keys of one stage.
    #[arg(long, value_name = "FILE", visible_alias = "stage_settings_file")]
    stage_settings: PathBuf,
    /// The checkpoint to write; the one read may be replaced, and is then kept as the previous one.
    #[arg(long, value_name = "FILE", visible_alias = "out_file")]
    out: PathBuf,
    /// Replace stage N, which must not have begun, instead of adding one.
    #[arg(long, value_name = "N")]
    replace: Option<usize>,
}

impl AppendStage {
    #[allow(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "what was done goes to stdout, warnings go to stderr"
    )]
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut model = Model::read(&self.checkpoint)?;
        let settings = model.metadata.settings.as_ref().with_context(|| {
            format!(
                "{}: expected the settings of a run, got a network without any\n\
                 hint: use a checkpoint that `dunnart train` has written",
                self.checkpoint.display()
            )
        })?;
        let state: RunState = match &model.metadata.run {
            Some(run) => serde_json::from_value(run.clone())
                .with_context(|| format!("state of the run in {}", self.checkpoint.display()))?,
            None => RunState::new(),
        };
        let stage = read_yaml_file(&self.stage_settings).in_file(&self.stage_settings)?;
        let appended = append_stage(settings, &state, &stage, self.replace)
            .with_context(|| format!("no stage made of {}", self.stage_settings.display()))?;
        for warning in &appended.warnings {
            eprintln!("warning: {warning}");
        }
        let (after, _) = Settings::from_value(&appended.settings)?;
        model.metadata.settings = Some(appended.settings);
        model.metadata.run = Some(serde_json::to_value(&appended.state)?);
        let options = WriteOptions {
            keep_previous: true,
            ..WriteOptions::default()
        };
        model.write(&self.out, &options)?;
        let verb = if self.replace.is_some() {
            "replaced"
        } else {
            "added"
        };
        println!(
            "{}: stage {} {verb}; {} stages, {} of them finished",
            self.out.display(),
            appended.stage,
            after.training.stages.len(),
            appended.state.finished_stages.len()
        );
        Ok(ExitCode::SUCCESS)
    }
}
