//! What a run shows while it goes on: a bar on a terminal, plain lines elsewhere.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "this is where training speaks"
)]

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use dunnart_train::observer::{Clock, EpochReport, Event, Observer, StepReport};
use indicatif::{ProgressBar, ProgressStyle};

use super::interrupt::Interrupt;

/// The program's clock: time since it was made.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Stopwatch {
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Seconds between two plain lines within an epoch.
const QUIET: Duration = Duration::from_secs(30);

/// Shows events and hands on the wish to stop.
pub(super) struct Progress {
    interrupt: Interrupt,
    bar: Option<ProgressBar>,
    epochs: usize,
    /// When the epoch under way began, and when a line was last printed.
    begun: Instant,
    spoken: Instant,
    /// Epoch of the stage that the times above belong to.
    epoch: usize,
    told: bool,
}

impl Progress {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::no_length);
        let now = Instant::now();
        Self {
            interrupt,
            bar,
            epochs: 0,
            begun: now,
            spoken: now,
            epoch: 0,
            told: false,
        }
    }

    /// A line that stays, above the bar where there is one.
    pub(super) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) if !bar.is_finished() => bar.suspend(|| println!("{text}")),
            _ => println!("{text}"),
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn stage(&mut self, stage: usize, epochs: usize, done: usize, trainable: usize) {
        self.epochs = epochs;
        self.epoch = 0;
        let from = if done > 0 {
            format!(", {done} done")
        } else {
            String::new()
        };
        self.say(&format!(
            "stage {stage}: {epochs} epochs{from}, {trainable} parameters train"
        ));
        if let Some(bar) = &self.bar {
            bar.reset();
            let template = "{prefix} [{bar:30}] {percent} % {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
        }
    }

    fn step(&mut self, report: &StepReport) {
        let now = Instant::now();
        if report.epoch != self.epoch {
            self.epoch = report.epoch;
            self.begun = now;
            self.spoken = now;
        }
        let rate = (report.step - 1) as f64 / (now - self.begun).as_secs_f64().max(1e-9);
        let loss = report
            .loss
            .map_or_else(|| "-".into(), |loss| format!("{loss:.4}"));
        let waiting = 100.0 * report.waiting;
        if self.interrupt.asked() && !self.told {
            self.told = true;
            self.say("stopping after this step; Ctrl-C again ends the program at once");
        }
        if let Some(bar) = &self.bar {
            let position = (report.epoch - 1) * report.steps + report.step;
            let total = self.epochs * report.steps;
            let left = (total - position) as f64 / rate.max(1e-9);
            bar.set_length(total as u64);
            bar.set_position(position as u64);
            bar.set_prefix(format!(
                "stage {} epoch {}/{}",
                report.stage, report.epoch, self.epochs
            ));
            let left = if report.step > 1 {
                duration(left)
            } else {
                "-".into()
            };
            bar.set_message(format!(
                "loss {loss}, {rate:.1} steps/s, {left} left, {waiting:.0} % waiting for data"
            ));
        } else if now - self.spoken > QUIET {
            self.spoken = now;
            println!(
                "stage {} epoch {}/{} step {}/{}: loss {loss}, {rate:.1} steps/s, {waiting:.0} % waiting for data",
                report.stage, report.epoch, self.epochs, report.step, report.steps
            );
        }
    }

    fn epoch(&self, report: &EpochReport) {
        let left =
            (report.epochs - report.epoch) as f64 * (report.train_seconds + report.test_seconds);
        self.say(&format!(
            "stage {} epoch {}/{}: train {:.4}, test {:.4}{}, lr {:.3e}, {:.1} s, {:.1} steps/s, {} left, {:.0} % waiting for data",
            report.stage,
            report.epoch,
            report.epochs,
            report.train_loss,
            report.test_loss,
            if report.best { " (best)" } else { "" },
            report.learning_rate,
            report.train_seconds + report.test_seconds,
            report.steps as f64 / report.train_seconds.max(1e-9),
            duration(left),
            100.0 * report.waiting,
        ));
    }
}

impl Observer for Progress {
    fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::Note(text) => self.say(&format!("note: {text}")),
            Event::Stage {
                stage,
                epochs,
                done,
                trainable,
            } => {
                self.stage(*stage, *epochs, *done, *trainable);
            }
            Event::Step(report) => self.step(report),
            Event::Epoch(report) => self.epoch(report),
            _ => {}
        }
    }

    fn stop_requested(&self) -> bool {
        self.interrupt.asked()
    }
}

/// Seconds as hours, minutes, seconds.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}
