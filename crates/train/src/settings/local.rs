//! `local`: what belongs to the machine and the run, not to the model.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::Warning;
use super::block::{
    Block, Unknown, at_least_one, count, flag, one_of, path, positive, show, wrong,
};
use crate::{Error, Result};

/// The `local` block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalSettings {
    /// Where the network is computed; default the CPU.
    pub device: Device,
    /// Devices; default 1.
    pub num_gpus: usize,
    /// Threads that prepare data; default 0: the training thread does.
    pub num_workers: usize,
    /// Threads that compute; absent: as many as there are cores. Not an option of dingo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_threads: Option<usize>,
    /// Seed of initialisation, shuffling, dropout and noise; default 0. Not an option of dingo.
    pub seed: u64,
    /// Whether the step is compiled ahead; default on, it costs milliseconds.
    pub torch_compile: Compile,
    /// Where compiled code is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch_compile_cache_dir: Option<PathBuf>,
    /// Precision of float32 matrix products; default highest.
    pub float32_matmul_precision: MatmulPrecision,
    /// When a run stops although its stages are not done.
    pub runtime_limits: RuntimeLimits,
    /// Epochs between two numbered checkpoints; absent: none are written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_epochs: Option<usize>,
    /// Whether waveforms are read batch by batch; default true.
    pub leave_waveforms_on_disk: bool,
    /// A folder on fast storage that the data set is copied to first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_cache_path: Option<PathBuf>,
    /// Port over which processes find each other; default 12355.
    pub ddp_port: u16,
    /// One pass over the test set and nothing saved; default false.
    pub test_only: bool,
}

/// Where a network is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    Cpu,
    /// A CUDA device by its number.
    Cuda(usize),
}

impl Serialize for Device {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Cpu => serializer.serialize_str("cpu"),
            Self::Cuda(0) => serializer.serialize_str("cuda"),
            Self::Cuda(index) => serializer.collect_str(&format_args!("cuda:{index}")),
        }
    }
}

/// `torch_compile` or `compile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compile {
    /// `false`: operation by operation.
    Off,
    /// `true`: compiled where that is possible.
    On,
    /// `require`: compiled, or an error that says why not.
    Require,
}

impl Serialize for Compile {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::On => serializer.serialize_bool(true),
            Self::Require => serializer.serialize_str("require"),
        }
    }
}

/// Precision of float32 matrix products, in torch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MatmulPrecision {
    /// Full float32.
    Highest,
    /// Ten bits of mantissa on devices that offer it.
    High,
    /// Seven bits of mantissa on devices that offer it.
    Medium,
}

impl MatmulPrecision {
    /// The name as settings files and checkpoints spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Highest => "highest",
            Self::High => "high",
            Self::Medium => "medium",
        }
    }
}

/// `runtime_limits`: checked between epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RuntimeLimits {
    /// Longest time of one run, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_per_run: Option<f64>,
    /// Most epochs of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_epochs_per_run: Option<usize>,
}

/// Reads the `local` block.
pub(super) fn read(value: &Value, warnings: &mut Vec<Warning>) -> Result<LocalSettings> {
    let mut block = Block::new("local", value)?;
    let torch_compile = block.optional("torch_compile", compile)?;
    let compile = block.optional("compile", compile)?;
    if let (Some(first), Some(second)) = (torch_compile, compile)
        && first != second
    {
        return Err(Error::Conflict {
            first: "local.torch_compile".into(),
            second: "local.compile".into(),
            reason: "both mean the same and must agree".into(),
        });
    }
    let limits = match block.block("runtime_limits")? {
        Some(limits) => runtime_limits(limits, warnings)?,
        None => RuntimeLimits::default(),
    };
    let condor_gpus = value
        .get("condor")
        .and_then(|condor| condor.get("num_gpus"));
    let condor_gpus = condor_gpus
        .map(|gpus| at_least_one("local.condor.num_gpus", gpus))
        .transpose()?;
    let settings = LocalSettings {
        device: block.or("device", Device::Cpu, device)?,
        num_gpus: block
            .optional("num_gpus", at_least_one)?
            .or(condor_gpus)
            .unwrap_or(1),
        num_workers: block.or("num_workers", 0, count)?,
        num_threads: block.optional("num_threads", at_least_one)?,
        seed: block.or("seed", 0, seed)?,
        torch_compile: torch_compile.or(compile).unwrap_or(Compile::On),
        torch_compile_cache_dir: block.optional("torch_compile_cache_dir", path)?,
        float32_matmul_precision: block.or(
            "float32_matmul_precision",
            MatmulPrecision::Highest,
            one_of(&[
                ("highest", MatmulPrecision::Highest),
                ("high", MatmulPrecision::High),
                ("medium", MatmulPrecision::Medium),
            ]),
        )?,
        runtime_limits: limits,
        checkpoint_epochs: block.optional("checkpoint_epochs", at_least_one)?,
        leave_waveforms_on_disk: block.or("leave_waveforms_on_disk", true, flag)?,
        local_cache_path: block.optional("local_cache_path", path)?,
        ddp_port: block.or("ddp_port", 12355, port)?,
        test_only: block.or("test_only", false, flag)?,
    };
    let log = "not supported and ignored: every epoch stands in the JSON-lines log `log.jsonl` of \
               the run folder";
    block.ignored("wandb", log, warnings);
    let jobs = "not supported and ignored: start the program in a job of your own; a stopped run \
                resumes from its checkpoint";
    block.ignored("condor", jobs, warnings);
    block.finish(Unknown::Warn, warnings)?;
    Ok(settings)
}

fn device(name: &str, value: &Value) -> Result<Device> {
    let expected = "cpu, cuda or cuda:N";
    let Some(text) = value.as_str() else {
        return wrong(name, expected, value);
    };
    match text.to_ascii_lowercase().as_str() {
        "cpu" => Ok(Device::Cpu),
        "cuda" => Ok(Device::Cuda(0)),
        other => match other.strip_prefix("cuda:").map(str::parse::<u8>) {
            Some(Ok(index)) => Ok(Device::Cuda(index.into())),
            _ => wrong(name, expected, value),
        },
    }
}

fn compile(name: &str, value: &Value) -> Result<Compile> {
    match value {
        Value::Bool(false) => Ok(Compile::Off),
        Value::Bool(true) => Ok(Compile::On),
        Value::String(text) if text.eq_ignore_ascii_case("require") => Ok(Compile::Require),
        _ => wrong(name, "true, false or require", value),
    }
}

fn seed(name: &str, value: &Value) -> Result<u64> {
    value.as_u64().ok_or_else(|| Error::Setting {
        name: name.into(),
        expected: "a whole number from 0 to 2^64 - 1".into(),
        found: show(value),
    })
}

fn port(name: &str, value: &Value) -> Result<u16> {
    match value.as_u64().map(u16::try_from) {
        Some(Ok(port)) if port > 0 => Ok(port),
        _ => wrong(name, "a port number", value),
    }
}

fn runtime_limits(mut block: Block<'_>, warnings: &mut Vec<Warning>) -> Result<RuntimeLimits> {
    let limits = RuntimeLimits {
        max_time_per_run: block.optional("max_time_per_run", positive)?,
        max_epochs_per_run: block.optional("max_epochs_per_run", at_least_one)?,
    };
    block.finish(Unknown::Warn, warnings)?;
    Ok(limits)
}
