//! A small simulation set with settings, and the program on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dunnart_checkpoint::Model;
use dunnart_random::{Key, Purpose};
use safetensors::tensor::{Dtype, TensorView};

pub(crate) const ROWS: usize = 200;

/// A folder with data and settings.
pub(crate) struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    /// Two stages of three epochs each, with batch norm, dropout and accumulation.
    pub(crate) fn new() -> Self {
        let case = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let mut theta = Vec::new();
        let mut x = Vec::new();
        for row in 0..ROWS {
            let mut stream = Key::new(5, Purpose::Benchmark).stream(row as u64);
            let drawn = [stream.normal(), stream.normal()];
            theta.extend(drawn.map(|v| v as f32));
            x.extend((0..3).map(|k| (0.5 * drawn[k % 2] + 0.3 * stream.normal()) as f32));
        }
        let bytes =
            |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let (theta, x) = (bytes(&theta), bytes(&x));
        let view = |data, columns| TensorView::new(Dtype::F32, vec![ROWS, columns], data).unwrap();
        let tensors = [("theta", view(&theta, 2)), ("x", view(&x, 3))];
        let file = safetensors::serialize(tensors, None).unwrap();
        std::fs::write(case.path("simulations.safetensors"), file).unwrap();
        case.settings("");
        case
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the settings; `local` is more lines of that block.
    pub(crate) fn settings(&self, local: &str) {
        let text = format!(
            "data: {{simulations: simulations.safetensors, train_fraction: 0.8}}
model:
  posterior_kwargs:
    num_flow_steps: 2
    base_transform_kwargs: {{hidden_dim: 32, num_transform_blocks: 1, activation: elu, norm: BatchNorm,
      num_bins: 4, tail_bound: 3.0, dropout_probability: 0.1, base_transform_type: rq-coupling}}
training:
  stage_0:
    epochs: 3
    batch_size: 16
    gradient_updates_per_optimizer_step: 3
    optimizer: {{type: adam, lr: 0.005}}
    scheduler: {{type: cosine, T_max: 3}}
  stage_1:
    epochs: 3
    batch_size: 32
    optimizer: {{type: adamw, lr: 0.002, fused: true}}
local:
  device: cpu
  seed: 11
  num_threads: 1
  checkpoint_epochs: 2
{local}"
        );
        std::fs::write(self.path("settings.yaml"), text).unwrap();
    }

    /// `train` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.verb("train", arguments)
    }

    /// Any verb with these arguments, run in the folder.
    pub(crate) fn verb(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunnart"));
        command
            .arg(verb)
            .args(arguments)
            .current_dir(self.folder.path());
        command
    }

    pub(crate) fn train(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Goes on to the end: resumes where there is a checkpoint, starts where there is none.
    pub(crate) fn to_the_end(&self, run: &str) {
        let latest = self.path(run).join("model_latest.safetensors");
        let output = if latest.exists() {
            self.train(&["--checkpoint", latest.to_str().unwrap(), "--train-dir", run])
        } else {
            self.train(&["--settings", "settings.yaml", "--train-dir", run])
        };
        assert_code(&output, 0);
    }

    pub(crate) fn model(&self, run: &str, name: &str) -> Model {
        Model::read(&self.path(run).join(format!("{name}.safetensors"))).unwrap()
    }

    /// Everything of two runs that must not depend on interruptions.
    pub(crate) fn assert_same(&self, one: &str, other: &str) {
        for name in [
            "model_latest",
            "model_stage_0",
            "model_stage_1",
            "model_002",
            "model_004",
        ] {
            let (a, b) = (self.model(one, name), self.model(other, name));
            assert_eq!(a.weights, b.weights, "{name} of {other}");
            assert_eq!(a.optimizer, b.optimizer, "{name} of {other}");
            assert_eq!(a.metadata.run, b.metadata.run, "{name} of {other}");
            assert_eq!(a.metadata.history, b.metadata.history, "{name} of {other}");
        }
        let best = |run| self.model(run, "best_model").weights;
        assert_eq!(best(one), best(other));
        let history = |run: &str| std::fs::read(self.path(run).join("history.txt")).unwrap();
        assert_eq!(history(one), history(other));
    }
}

pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
}

/// Names of the files of a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder);
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().into_owned()
    };
    entries.map_or_else(|_| Vec::new(), |entries| entries.map(name).collect())
}
