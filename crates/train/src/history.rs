//! What a run leaves behind of every epoch: `history.txt` as dingo writes it, and a JSON-lines log.
//!
//! The history is rewritten whole after every epoch, so that it is never half a row; the log grows
//! line by line. Both are written before the checkpoint of the epoch, so that a resumed run finds at
//! most rows too many, and drops those after its checkpoint.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dunnart_files::{WriteOptions, atomic_write};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::python_float::{parse_python, python_repr};
use crate::{Error, Result};

/// One epoch of `history.txt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryRow {
    /// Epoch of the whole run, counted from 1.
    pub epoch: usize,
    /// Mean training loss.
    pub train_loss: f64,
    /// Mean test loss.
    pub test_loss: f64,
    /// The learning rate used in the epoch, one per parameter group.
    pub learning_rates: Vec<f64>,
}

impl HistoryRow {
    /// The row as dingo writes it, without its line end.
    fn line(&self) -> String {
        let mut fields = vec![self.epoch.to_string()];
        fields.extend([self.train_loss, self.test_loss].map(python_repr));
        fields.extend(self.learning_rates.iter().copied().map(python_repr));
        fields.join("\t")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let epoch = fields.next()?.parse().ok().filter(|epoch| *epoch > 0)?;
        let mut numbers = fields.map(parse_python);
        let (train_loss, test_loss) = (numbers.next()??, numbers.next()??);
        let learning_rates: Option<Vec<f64>> = numbers.collect();
        Some(Self {
            epoch,
            train_loss,
            test_loss,
            learning_rates: learning_rates.filter(|rates| !rates.is_empty())?,
        })
    }
}

/// The file `history.txt`: tab separated, lines ended by CR LF, no header.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    path: PathBuf,
    rows: Vec<HistoryRow>,
}

impl History {
    /// A history without rows; nothing is written yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            rows: Vec::new(),
        }
    }

    /// Reads a history; a file that does not exist has no rows.
    ///
    /// # Errors
    /// [`Error::History`] naming the first line that is no row or out of order, [`Error::File`].
    pub fn read(path: &Path) -> Result<Self> {
        let Some(text) = read_text(path)? else {
            return Ok(Self::new(path));
        };
        let mut rows: Vec<HistoryRow> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let fault = |reason: String| Error::History {
                path: path.into(),
                line: index + 1,
                reason,
            };
            let row = HistoryRow::parse(line).ok_or_else(|| {
                fault(
                    "expected epoch, training loss, test loss and learning rate, tab separated"
                        .into(),
                )
            })?;
            if let Some(last) = rows.last()
                && row.epoch != last.epoch + 1
            {
                return Err(fault(format!(
                    "expected epoch {}, got {}",
                    last.epoch + 1,
                    row.epoch
                )));
            }
            rows.push(row);
        }
        Ok(Self {
            path: path.into(),
            rows,
        })
    }

    /// The history of a run that goes on after `epoch`: later rows are dropped, also in the file.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::push`].
    pub fn resume(path: &Path, epoch: usize) -> Result<Self> {
        let mut history = Self::read(path)?;
        let before = history.rows.len();
        history.rows.retain(|row| row.epoch <= epoch);
        if history.rows.len() < before {
            history.write()?;
        }
        Ok(history)
    }

    /// The rows, in order.
    pub fn rows(&self) -> &[HistoryRow] {
        &self.rows
    }

    /// Adds a row and writes the file.
    ///
    /// # Errors
    /// [`Error::State`] if the row does not follow the last one, [`Error::Files`]; the file then is as
    /// it was.
    pub fn push(&mut self, row: HistoryRow) -> Result<()> {
        if let Some(last) = self.rows.last()
            && row.epoch != last.epoch + 1
        {
            return Err(Error::State {
                name: format!("row for {}", self.path.display()),
                expected: format!("epoch {}", last.epoch + 1),
                found: row.epoch.to_string(),
            });
        }
        self.rows.push(row);
        let written = self.write();
        if written.is_err() {
            self.rows.pop();
        }
        written
    }

    fn write(&self) -> Result<()> {
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(&row.line());
            text.push_str("\r\n");
        }
        write_text(&self.path, &text)
    }
}

/// One epoch of the JSON-lines log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochLog {
    /// Epoch of the whole run, counted from 1.
    pub epoch: usize,
    /// Index of the stage.
    pub stage: usize,
    /// Epoch of the stage, counted from 1.
    pub epoch_in_stage: usize,
    /// Mean training loss; null if it was no number.
    pub train_loss: Option<f64>,
    /// Mean test loss; null if it was no number.
    pub test_loss: Option<f64>,
    /// The learning rate used in the epoch.
    pub learning_rate: f64,
    /// Whether the model was the best of its stage.
    pub best: bool,
    /// Precision of float32 matrix products: rows of different precision are not comparable.
    pub float32_matmul_precision: String,
    /// Whether conditioner and embedding computed in half precision.
    pub automatic_mixed_precision: bool,
    /// Time of the training pass, s.
    pub train_seconds: f64,
    /// Time of the test pass, s.
    pub test_seconds: f64,
    /// Share of the training pass spent waiting for data.
    pub waiting_share: f64,
    /// Steps of the optimiser in this epoch.
    pub steps: u64,
    /// Training samples of this epoch.
    pub samples: u64,
    /// Steps of the optimiser in the whole run.
    pub global_step: u64,
    /// Largest gradient norm before clipping in this epoch, where it was measured.
    pub largest_gradient_norm: Option<f64>,
}

/// The JSON-lines log: one object a line.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: fs::File,
}

impl JsonLines {
    /// Opens the log of a run that goes on after `epoch` (0: a new run): lines of later epochs and a
    /// torn last line are dropped, lines without an epoch stay.
    ///
    /// # Errors
    /// [`Error::History`] for a line in the middle that is no JSON, [`Error::File`], [`Error::Files`].
    pub fn resume(path: &Path, epoch: usize) -> Result<Self> {
        if let Some(text) = read_text(path)? {
            let mut kept = String::new();
            let lines: Vec<&str> = text.lines().collect();
            for (index, line) in lines.iter().enumerate() {
                let value: Value = match serde_json::from_str(line) {
                    Ok(value) => value,
                    // Only a kill within a write leaves a torn line, and only at the end.
                    Err(_) if index + 1 == lines.len() => continue,
                    Err(error) => {
                        return Err(Error::History {
                            path: path.into(),
                            line: index + 1,
                            reason: format!("expected a JSON object: {error}"),
                        });
                    }
                };
                let later = value["epoch"].as_u64().is_some_and(|e| e > epoch as u64);
                if !later {
                    kept.push_str(line);
                    kept.push('\n');
                }
            }
            if kept != text {
                write_text(path, &kept)?;
            }
        }
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(failed("write", path))?;
        Ok(Self {
            path: path.into(),
            file,
        })
    }

    /// Adds one line.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn push(&mut self, row: &impl Serialize) -> Result<()> {
        let mut write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(row)?;
            line.push(b'\n');
            // One call writes the line, so that another reader never sees half of it.
            self.file.write_all(&line)?;
            self.file.flush()
        };
        write().map_err(failed("write", &self.path))
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File {
        action,
        path: path.into(),
        source,
    }
}

/// The text of a file; `None` if there is no such file.
fn read_text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    atomic_write(path, &WriteOptions::default(), |out| {
        out.write_all(text.as_bytes())
    })?;
    Ok(())
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
