//! One call of `train`: a new run or a resumed one, to its end and to the report.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "this is where training speaks"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use dunnart_checkpoint::Model;
use dunnart_train::engine::EngineKind;
use dunnart_train::run_state::Limit;
use dunnart_train::settings::{LocalSettings, PathSearch, read_yaml_file, to_yaml};
use dunnart_train::{Error, Job, Outcome, RunFolder, Settings, Start, evaluate};

use super::Train;
use super::interrupt::Interrupt;
use super::progress::{Progress, Stopwatch, duration};
use super::setup::{Setup, inputs, known_inputs, same_data, setup, write_text};
use super::{loss_plot, report};
use crate::failure::InFile;

pub(super) fn run(arguments: Train) -> Result<ExitCode> {
    let working_folder = std::env::current_dir().context("the working folder")?;
    let opened = match (&arguments.settings, &arguments.checkpoint) {
        (Some(file), None) => new_run(&arguments, file, &working_folder)?,
        (None, Some(file)) => resumed_run(&arguments, file, &working_folder)?,
        _ => bail!(
            "expected --settings FILE for a new run or --checkpoint FILE for one that goes on\nhint: dunnart train --settings train_settings.yaml --train-dir runs/first"
        ),
    };
    let interrupt = Interrupt::listen().context("listening for Ctrl-C")?;
    let mut progress = Progress::new(interrupt);
    for note in &opened.setup.notes {
        println!("{note}");
    }
    let setup = &opened.setup;
    let (engine_kind, note) = EngineKind::choose(opened.local.torch_compile, &setup.architecture)?;
    if let Some(note) = note {
        println!("{note}");
    }
    let clock = Stopwatch::start();
    let job = Job {
        architecture: &setup.architecture,
        layout: &setup.layout,
        training: &setup.found.training,
        local: &opened.local,
        source: Arc::new(setup.source.clone()),
        split: &setup.split,
        folder: &opened.folder,
        engine: engine_kind,
        clock: &clock,
    };
    if opened.local.test_only {
        println!("test loss: {:.6}", evaluate(&job, opened.start)?);
        return Ok(ExitCode::SUCCESS);
    }
    let description = Description::write(opened.files)?;
    let result = dunnart_train::run(&job, opened.start, &mut progress);
    progress.finish();
    let latest = opened.folder.latest();
    if result.is_err() && !latest.exists() {
        description.remove();
    }
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error @ Error::Diverged { .. }) => {
            eprintln!("error: {error}");
            eprintln!("  the state before that epoch: {}", latest.display());
            eprintln!(
                "hint: a lower learning rate or `clip_grad_norm` in that stage usually helps"
            );
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    println!(
        "training took {}",
        duration(dunnart_train::observer::Clock::seconds(&clock))
    );
    finish(&arguments, &opened.folder, setup, outcome)
}

/// What happens after the last epoch.
fn finish(
    arguments: &Train,
    folder: &RunFolder,
    setup: &Setup,
    outcome: Outcome,
) -> Result<ExitCode> {
    let resume = format!(
        "hint: dunnart train --checkpoint {} --train-dir {}",
        folder.latest().display(),
        folder.path().display()
    );
    match outcome {
        Outcome::Finished => {}
        Outcome::Paused(limit) => {
            let which = match limit {
                Limit::Time => "max_time_per_run",
                Limit::Epochs => "max_epochs_per_run",
            };
            println!("paused: {which} is reached, the stages are not over\n{resume}");
            return Ok(ExitCode::SUCCESS);
        }
        Outcome::Stopped { stage, epoch, step } => {
            match step {
                Some(step) => println!(
                    "stopped in stage {stage}, epoch {}, after step {step}: saved is the end of epoch {epoch}, \
                     from which resuming redoes epoch {} to the same numbers",
                    epoch + 1,
                    epoch + 1
                ),
                None => println!("stopped in stage {stage}, after epoch {epoch}, which is saved"),
            }
            println!("{resume}");
            return Ok(ExitCode::FAILURE);
        }
    }
    println!(
        "finished: every stage is over, {}",
        folder.latest().display()
    );
    loss_plot::write(folder).context("plot of the losses")?;
    report::report(folder, setup).context("report against the reference posterior")?;
    if let Some(command) = &arguments.exit_command {
        let status = Command::new("sh")
            .arg("-c")
            .arg(command)
            .status()
            .context("exit command")?;
        if !status.success() {
            bail!("exit command `{command}`: {status}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything before the first step.
struct Opened {
    folder: RunFolder,
    local: LocalSettings,
    setup: Setup,
    start: Start,
    /// What describes the run in its folder, to be written when nothing can refuse it any more.
    files: Vec<(PathBuf, String)>,
}

/// The files that describe a run in its folder.
struct Description {
    /// Those that were not there before.
    fresh: Vec<PathBuf>,
}

impl Description {
    fn write(files: Vec<(PathBuf, String)>) -> Result<Self> {
        let mut fresh = Vec::new();
        for (path, text) in files {
            let new = !path.exists();
            write_text(&path, &text)?;
            if new {
                fresh.push(path);
            }
        }
        Ok(Self { fresh })
    }

    /// Takes back what was written for a run that did not begin.
    fn remove(&self) {
        for path in &self.fresh {
            // The error that is about to be told matters more than a file left behind.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn new_run(arguments: &Train, file: &Path, working_folder: &Path) -> Result<Opened> {
    let (mut settings, warnings) = Settings::from_file(file).in_file(file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    if let Some(seed) = arguments.seed {
        settings.local.seed = seed;
    }
    let folder = RunFolder::create(&arguments.train_dir).map_err(|error| match error {
        Error::RunFolderExists { .. } => anyhow!(
            "{error}\nhint: choose another folder, or go on with --checkpoint {}",
            arguments
                .train_dir
                .join("model_latest.safetensors")
                .display()
        ),
        error => error.into(),
    })?;
    let setup = setup(&settings, &PathSearch::beside(file, working_folder))?;
    let local = settings.local.clone();
    let files = vec![
        (
            folder.local_settings(),
            to_yaml(&serde_json::to_value(&local)?),
        ),
        inputs(folder.path(), &setup.found),
    ];
    let start = Start::fresh(
        setup.metadata.clone(),
        &setup.architecture,
        &setup.layout,
        local.seed,
    );
    Ok(Opened {
        folder,
        local,
        setup,
        start,
        files,
    })
}

fn resumed_run(arguments: &Train, file: &Path, working_folder: &Path) -> Result<Opened> {
    let model = Model::read(file)?;
    let Some(value) = &model.metadata.settings else {
        bail!("{}: it holds no settings to go on with", file.display());
    };
    let (mut settings, _) =
        Settings::from_value(value).with_context(|| format!("settings in {}", file.display()))?;
    let folder = RunFolder::open(&arguments.train_dir)?;
    let beside: PathBuf = working_folder.join(file);
    let beside = beside.parent().unwrap_or(working_folder).to_path_buf();
    known_inputs(&mut settings, &[folder.path(), &beside])?;
    let local_file = folder.local_settings();
    let local = if local_file.exists() {
        let (local, warnings) = read_yaml_file(&local_file)
            .and_then(|value| LocalSettings::from_value(&value))
            .in_file(&local_file)?;
        for warning in warnings {
            eprintln!("warning: {warning}");
        }
        local
    } else {
        settings.local.clone()
    };
    let search = PathSearch {
        settings_folder: beside,
        working_folder: working_folder.to_path_buf(),
    };
    let setup = setup(&settings, &search)?;
    same_data(&model.metadata, &setup)?;
    let mut files = vec![inputs(folder.path(), &setup.found)];
    if !local_file.exists() {
        files.push((local_file, to_yaml(&serde_json::to_value(&local)?)));
    }
    let start = Start::resume(model).in_file(file)?;
    Ok(Opened {
        folder,
        local,
        setup,
        start,
        files,
    })
}
