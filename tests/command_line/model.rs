//! A small network with bounds and standardisation, in a folder with spaces.

use std::path::PathBuf;

use dunnart_checkpoint::{
    EpochRecord, Metadata, Model, ParameterMetadata, Rounding, Scale, Standardization,
};
use dunnart_files::WriteOptions;
use dunnart_flow::plan::Sampler;
use dunnart_flow::{Architecture, Layout, NetworkState};
use dunnart_random::{Key, Purpose};
use serde_json::json;

/// Means and standard deviations of the parameters.
pub(crate) const MEAN: [f64; 2] = [10.0, -3.0];
pub(crate) const STD: [f64; 2] = [2.0, 0.25];

/// A folder with a checkpoint and two observations.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    /// The checkpoint.
    pub(crate) checkpoint: PathBuf,
    /// Two observations of two values.
    pub(crate) observations: PathBuf,
}

/// The observations.
pub(crate) const OBSERVED: [[f64; 2]; 2] = [[0.5, -1.0], [3.0, 2.0]];

/// Weights far from their start make posteriors that depend on the observation.
pub(crate) fn far_from_its_start(architecture: &Architecture) -> (Layout, NetworkState<f32>) {
    let layout = Layout::new(architecture).unwrap();
    let mut state = NetworkState::<f32>::initialize(architecture, &layout, 5);
    let mut random = Key::new(5, Purpose::Benchmark).stream(0);
    for spec in layout.parameters() {
        if spec.name.contains("transform_net") {
            for value in &mut state.parameters[spec.range()] {
                *value += 0.25 * random.normal() as f32;
            }
        }
    }
    (layout, state)
}

impl Bench {
    /// `bounds` hold for the first parameter.
    pub(crate) fn new(bounds: Option<(f64, f64)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path().join("a model.safetensors");
        let observations = folder.path().join("observations.csv");
        let rows = OBSERVED.map(|[a, b]| format!("{a},{b}\n")).concat();
        std::fs::write(&observations, format!("x0,x1\n{rows}")).unwrap();
        let architecture = Architecture::from_json(&json!({"posterior_kwargs": {
            "input_dim": 2, "context_dim": 2, "num_flow_steps": 3,
            "base_transform_kwargs": {
                "hidden_dim": 12, "num_transform_blocks": 1, "activation": "elu",
                "norm": "BatchNorm", "num_bins": 5, "tail_bound": 3.0,
                "base_transform_type": "rq-coupling"
            }
        }}))
        .unwrap();
        let (layout, state) = far_from_its_start(&architecture);
        let mut metadata = Metadata::new(&architecture);
        metadata.parameters = ["mass", "distance"]
            .into_iter()
            .enumerate()
            .map(|(i, name)| ParameterMetadata {
                name: name.into(),
                lower: bounds.filter(|_| i == 0).map(|b| b.0),
                upper: bounds.filter(|_| i == 0).map(|b| b.1),
            })
            .collect();
        metadata.standardization = Some(Standardization {
            theta: Scale {
                mean: MEAN.into(),
                std: STD.into(),
            },
            observation: Some(Scale {
                mean: vec![1.0, 0.5],
                std: vec![2.0, 3.0],
            }),
            context_parameters: None,
        });
        metadata.run = Some(json!({"stage": 1, "epoch_in_stage": 4, "finished": true}));
        metadata.float32_matmul_precision = Some("highest".into());
        for (epoch, loss) in [(1, 3.5), (2, 2.25), (3, 2.75)] {
            metadata.history.push(EpochRecord {
                stage: 0,
                epoch,
                training_loss: Some(loss + 0.1),
                test_loss: Some(loss),
                learning_rates: vec![0.001],
            });
        }
        let model = Model::new(metadata, &layout, &state).unwrap();
        model.write(&checkpoint, &WriteOptions::default()).unwrap();
        Self {
            folder,
            checkpoint,
            observations,
        }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Log-density in physical units of physical parameters, in float64.
    pub(crate) fn log_prob(&self, observation: usize, theta: &[f64]) -> Vec<f64> {
        let model = Model::read(&self.checkpoint).unwrap();
        let network = model.network::<f64>(Rounding::Refuse).unwrap();
        let sampler = Sampler::new(&network.architecture, &network.layout, &network.state).unwrap();
        let [a, b] = OBSERVED[observation];
        let context = [(a - 1.0) / 2.0, (b - 0.5) / 3.0];
        let prepared = sampler.prepare(&context).unwrap();
        let standard: Vec<f64> = theta
            .iter()
            .enumerate()
            .map(|(i, v)| (v - MEAN[i % 2]) / STD[i % 2])
            .collect();
        let mut log_prob = vec![0.0; theta.len() / 2];
        prepared.log_prob(&standard, &mut log_prob, None).unwrap();
        log_prob
            .iter()
            .map(|v| v - STD[0].ln() - STD[1].ln())
            .collect()
    }
}
