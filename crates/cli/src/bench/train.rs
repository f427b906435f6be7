//! `bench train`: a training step of each implementation, one of each in turn.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use dunnart_flow::eager::EagerBatch;
use dunnart_flow::{Architecture, Batch, Dropout, Layout, NetworkState, TrainableSet};
use dunnart_random::{Key, Purpose};
use dunnart_torch_shim::{AdamSettings, OperationCounter};
use dunnart_train::engine::{EngineKind, engine};
use dunnart_train::optimizer::{Method, Optimizer};
use dunnart_train::step::Stepper;
use dunnart_train::storage::Storage;
use serde_json::{Map, json};
use tch::Device;

use super::machine::Machine;
use super::report::{Row, median_and_minimum, show};
use super::size::Size;
use crate::commands::bench::Train;

/// Untimed steps before the timed ones.
const WARM_UP: usize = 2;

/// Learning rate of the steps; it changes no time.
const LEARNING_RATE: f64 = 1e-4;

/// One implementation at one size, ready to step.
struct Contender {
    mode: String,
    storage: Storage,
    stepper: Stepper,
    gradient_seconds: Vec<f64>,
    optimizer_seconds: Vec<f64>,
}

impl Contender {
    fn new(
        architecture: &Architecture,
        layout: &Layout,
        mode: &str,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let kind = EngineKind::from_name(mode).with_context(|| {
            format!(
                "mode `{mode}` does not exist, expected {}",
                EngineKind::NAMES.join(", ")
            )
        })?;
        let state: NetworkState<f32> = NetworkState::initialize(architecture, layout, seed);
        let storage = Storage::from_state(layout, &state, Device::Cpu)?;
        let trainable = TrainableSet::all(layout);
        let engine = engine(kind, architecture, layout, &storage, &trainable, None)?;
        let method = Method::Adam(AdamSettings {
            learning_rate: LEARNING_RATE,
            ..Default::default()
        });
        let optimizer = Optimizer::new(method, layout, &trainable, storage.options())?;
        let stepper = Stepper {
            engine,
            optimizer,
            clip_grad_norm: None,
            autocast: None,
        };
        Ok(Self {
            mode: mode.to_owned(),
            storage,
            stepper,
            gradient_seconds: vec![],
            optimizer_seconds: vec![],
        })
    }

    /// One step; the loss is read, as the trainer reads it.
    fn step(&mut self, batch: &EagerBatch, dropout: Dropout) -> anyhow::Result<()> {
        let start = Instant::now();
        let loss = self
            .stepper
            .accumulate(&mut self.storage, batch, dropout, 1.0, true)?;
        let gradient = start.elapsed().as_secs_f64();
        self.stepper.step(&mut self.storage, LEARNING_RATE)?;
        let value = f64::try_from(&loss)?;
        let all = start.elapsed().as_secs_f64();
        anyhow::ensure!(
            value.is_finite(),
            "mode `{}`: the loss became {value}",
            self.mode
        );
        self.gradient_seconds.push(gradient);
        self.optimizer_seconds.push(all - gradient);
        Ok(())
    }

    fn row(&self, size: &Size, threads: u16, parameters: usize, operations: u64) -> Row {
        let both = self.gradient_seconds.iter().zip(&self.optimizer_seconds);
        let steps: Vec<f64> = both.map(|(g, o)| g + o).collect();
        let (median, minimum) = median_and_minimum(&steps);
        let rounded = |seconds: &[f64]| (median_and_minimum(seconds).0 * 100.0).round() / 100.0;
        let mut parts = Map::new();
        parts.insert("gradient_ms".into(), json!(rounded(&self.gradient_seconds)));
        parts.insert(
            "optimizer_ms".into(),
            json!(rounded(&self.optimizer_seconds)),
        );
        parts.insert("libtorch_operations".into(), json!(operations));
        Row {
            what: "train",
            size: size.name,
            mode: self.mode.clone(),
            threads,
            steps: steps.len(),
            parameters,
            rows: size.rows,
            step_ms_median: median,
            step_ms_min: minimum,
            parts,
        }
    }
}

/// Standard normal parameters and contexts.
fn batch(architecture: &Architecture, rows: usize, seed: u64) -> anyhow::Result<EagerBatch> {
    let key = Key::new(seed, Purpose::Benchmark);
    let mut theta = vec![0.0_f32; rows * architecture.parameters()];
    let mut observation = vec![0.0_f32; rows * architecture.observation()];
    key.stream(0).fill_normal_f32(&mut theta);
    key.stream(1).fill_normal_f32(&mut observation);
    let samples: Vec<u64> = (0..rows as u64).collect();
    let host = Batch {
        theta: &theta,
        observation: &observation,
        context_parameters: &[],
        samples: &samples,
    };
    Ok(EagerBatch::new(architecture, &host, Device::Cpu)?)
}

/// Runs `bench train`.
pub(crate) fn run(arguments: &Train) -> anyhow::Result<ExitCode> {
    let machine = Machine::look();
    tch::set_num_threads(i32::from(arguments.threads));
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(arguments.threads))
        .build_global()
        .context("starting threads")?;
    let mut rows = Vec::new();
    let sizes = arguments.size.iter().map(|name| Size::find(name));
    for size in sizes.collect::<anyhow::Result<Vec<_>>>()? {
        let architecture = size.architecture()?;
        let layout = Layout::new(&architecture)?;
        let batch = batch(&architecture, size.rows, arguments.seed)?;
        let dropout = Dropout::new(arguments.seed, 0, 0);
        let mut contenders = arguments
            .mode
            .iter()
            .map(|mode| Contender::new(&architecture, &layout, mode, arguments.seed))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut operations = BTreeMap::new();
        for contender in &mut contenders {
            for _ in 0..WARM_UP {
                contender.step(&batch, dropout)?;
            }
            let counter = OperationCounter::start()?;
            contender.step(&batch, dropout)?;
            operations.insert(contender.mode.clone(), counter.total()?);
            contender.gradient_seconds.clear();
            contender.optimizer_seconds.clear();
        }
        for _ in 0..arguments.steps.unwrap_or(size.repetitions) {
            for contender in &mut contenders {
                contender.step(&batch, dropout)?;
            }
        }
        rows.extend(contenders.iter().map(|contender| {
            let count = operations[&contender.mode];
            contender.row(&size, arguments.threads, layout.parameter_elements(), count)
        }));
    }
    show(&machine, &rows, arguments.json.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
