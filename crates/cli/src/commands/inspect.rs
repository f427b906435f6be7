//! `inspect`: says what a checkpoint or data file is.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use dunnart_checkpoint::{Error, Header, Metadata, Model, read_header};
use dunnart_data::{ArrayFile, ArrayInfo};
use serde_json::{Value, json};

use crate::output::{say, thousands};

/// Arguments of `inspect`.
#[derive(Args)]
pub(crate) struct Inspect {
    /// The file to describe: a checkpoint, or a data set (.npz, .safetensors).
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Read all of a checkpoint and check it, its checksum included; exit with 1 if it is damaged.
    #[arg(long)]
    check: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = &self.file;
        let is_array_file = path.extension().is_some_and(|e| {
            e.eq_ignore_ascii_case("npz") || e.eq_ignore_ascii_case("safetensors")
        });
        match read_header(path) {
            Ok(header) => self.checkpoint(&header),
            Err(Error::File { fault, .. })
                if is_array_file
                    && matches!(
                        *fault,
                        Error::NotACheckpoint { .. }
                            | Error::OtherFormat { .. }
                            | Error::ElementType { .. }
                    ) =>
            {
                if self.check {
                    bail!(
                        "{}: --check reads checkpoints, this is a data file",
                        path.display()
                    );
                }
                self.data(&ArrayFile::open(path)?.arrays()?)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn checkpoint(&self, header: &Header) -> anyhow::Result<ExitCode> {
        let (_, layout) = header.layout()?;
        let count = layout.count();
        let parameters = json!({
            "embedding": count.embedding,
            "reduced_basis": count.reduced_basis,
            "flow": count.flow,
            "total": count.total(),
        });
        let moments = header
            .tensors
            .iter()
            .filter(|t| t.name.starts_with("optim."))
            .count();
        let history = history(&header.metadata);
        if self.json {
            let description = json!({
                "file": self.file,
                "bytes": header.bytes,
                "kind": "checkpoint",
                "parameters": parameters,
                "tensors": header.tensors.len(),
                "optimizer_tensors": moments,
                "history_summary": history,
                "metadata": header.metadata,
            });
            say(serde_json::to_string_pretty(&description)?);
        } else {
            say(format!(
                "file: {} ({} bytes)",
                self.file.display(),
                thousands(header.bytes)
            ));
            say(describe(&header.metadata));
            say("parameters by part");
            for (part, number) in parameters.as_object().into_iter().flatten() {
                say(format!(
                    "  {part}: {}",
                    thousands(number.as_u64().unwrap_or(0))
                ));
            }
            say(format!(
                "tensors: {}, {moments} of them the optimiser's",
                header.tensors.len()
            ));
            say("history");
            tree(&history, 1);
        }
        if !self.check {
            return Ok(ExitCode::SUCCESS);
        }
        match Model::read(&self.file) {
            Ok(_) => {
                say("check: whole, checksum right");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                say(format!("check: {error}"));
                Ok(ExitCode::from(1))
            }
        }
    }

    fn data(&self, arrays: &[ArrayInfo]) -> anyhow::Result<ExitCode> {
        let bytes = std::fs::metadata(&self.file)?.len();
        if self.json {
            let arrays: Vec<Value> = arrays
                .iter()
                .map(|a| json!({"name": a.name, "element_type": a.element_type, "shape": a.shape}))
                .collect();
            let description =
                json!({"file": self.file, "bytes": bytes, "kind": "data", "arrays": arrays});
            say(serde_json::to_string_pretty(&description)?);
            return Ok(ExitCode::SUCCESS);
        }
        say(format!(
            "file: {} ({} bytes)",
            self.file.display(),
            thousands(bytes)
        ));
        say(format!("kind: data, {} arrays", arrays.len()));
        for array in arrays {
            say(format!(
                "  {}: {} {:?}",
                array.name, array.element_type, array.shape
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Number of epochs, first and last losses and the best one.
fn history(metadata: &Metadata) -> Value {
    let epochs = &metadata.history;
    let (Some(first), Some(last)) = (epochs.first(), epochs.last()) else {
        return json!({"epochs": 0});
    };
    let best = epochs
        .iter()
        .filter_map(|e| Some((e.epoch, e.test_loss?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    json!({
        "epochs": epochs.len(),
        "first": {"epoch": first.epoch, "training_loss": first.training_loss, "test_loss": first.test_loss},
        "last": {
            "epoch": last.epoch, "stage": last.stage, "training_loss": last.training_loss,
            "test_loss": last.test_loss, "learning_rates": last.learning_rates
        },
        "best": best.map(|(epoch, loss)| json!({"epoch": epoch, "test_loss": loss})),
    })
}

/// Version, state, architecture and metadata as an indented list.
fn describe(metadata: &Metadata) -> String {
    let mut lines = vec![format!(
        "kind: checkpoint, format version {}, written by dunnart {}",
        metadata.format_version, metadata.dunnart_version
    )];
    let mut value = serde_json::to_value(metadata).unwrap_or(Value::Null);
    if let Value::Object(map) = &mut value {
        for told in ["format_version", "dunnart_version", "history"] {
            map.remove(told);
        }
        // State and architecture come first.
        for first in ["run", "architecture"] {
            if let Some(section) = map.remove(first) {
                if section.is_null() && first == "run" {
                    lines.push("state: none, not saved by a training run".into());
                    continue;
                }
                lines.push(if first == "run" {
                    "state".into()
                } else {
                    first.to_string()
                });
                push_tree(&section, 1, &mut lines);
            }
        }
        lines.push("metadata".into());
    }
    push_tree(&value, 1, &mut lines);
    lines.join("\n")
}

fn tree(value: &Value, depth: usize) {
    let mut lines = Vec::new();
    push_tree(value, depth, &mut lines);
    say(lines.join("\n"));
}

/// A value as indented lines; what is absent is left out.
fn push_tree(value: &Value, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(_, v)| !v.is_null()) {
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        lines.push(format!("{indent}{key}"));
                        push_tree(value, depth + 1, lines);
                    }
                    _ => lines.push(format!("{indent}{key}: {}", short(value))),
                }
            }
        }
        _ => lines.push(format!("{indent}{}", short(value))),
    }
}

/// One line of text for a value; long lists are cut.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if values.len() > 12 => {
            let head: Vec<_> = values.iter().take(6).map(Value::to_string).collect();
            format!("[{}, .. {} in all]", head.join(","), values.len())
        }
        other => other.to_string(),
    }
}
