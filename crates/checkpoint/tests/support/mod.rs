//! Small models and damaged files.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test binary uses a part of it"
)]

use std::collections::BTreeMap;

use dunnart_checkpoint::{
    Element, EpochRecord, GeneratorKey, Metadata, Model, ParameterMetadata, ParameterMoments,
    PrecisionRun, Scale, Standardization, Tensor,
};
use dunnart_elementwise::Real;
use dunnart_flow::{Architecture, Layout, NetworkState};
use dunnart_random::{Key, Purpose};
use serde_json::{Value, json};

/// Settings of a coupling flow with batch norm, an embedding and a context parameter.
pub fn settings() -> Value {
    json!({
        "posterior_kwargs": {
            "input_dim": 3, "context_dim": 5, "num_flow_steps": 2,
            "base_transform_kwargs": {
                "hidden_dim": 4, "num_transform_blocks": 1, "activation": "elu",
                "norm": "BatchNorm", "num_bins": 3, "base_transform_type": "rq-coupling"
            }
        },
        "embedding_kwargs": {
            "input_dims": [2, 3, 4], "output_dim": 4, "hidden_dims": [5, 3], "svd": {"size": 2},
            "added_context": true
        }
    })
}

/// Settings of an autoregressive flow: masks and degrees.
pub fn autoregressive() -> Value {
    json!({"posterior_kwargs": {
        "input_dim": 3, "context_dim": 2, "num_flow_steps": 2,
        "base_transform_kwargs": {
            "hidden_dim": 4, "num_transform_blocks": 1, "norm": "BatchNorm", "num_bins": 3,
            "base_transform_type": "rq-autoregressive"
        }
    }})
}

/// Settings of a flow of one parameter: empty tensors.
pub fn single() -> Value {
    json!({"posterior_kwargs": {
        "input_dim": 1, "context_dim": 2, "num_flow_steps": 2,
        "base_transform_kwargs": {"hidden_dim": 4, "num_transform_blocks": 1, "num_bins": 3}
    }})
}

/// A network whose every number follows from the seed, statistics and counters included.
pub fn state<T: Real + Element>(
    settings: &Value,
    seed: u64,
) -> (Architecture, Layout, NetworkState<T>) {
    let architecture = Architecture::from_json(settings).unwrap();
    let layout = Layout::new(&architecture).unwrap();
    let mut state = NetworkState::<T>::initialize(&architecture, &layout, seed);
    let mut stream = Key::new(seed, Purpose::Benchmark).stream(0);
    for value in state.parameters.iter_mut() {
        *value = T::from_f64(stream.normal());
    }
    for value in state.statistics.iter_mut() {
        *value = T::from_f64(stream.uniform() + 0.1);
    }
    for counter in state.counters.iter_mut() {
        *counter = stream.below(1 << 40) as i64;
    }
    (architecture, layout, state)
}

/// A model with everything in it, moments for all parameters but the reduced basis.
pub fn model<T: Real + Element>(settings: &Value, seed: u64) -> Model {
    let (architecture, layout, state) = state::<T>(settings, seed);
    let d = architecture.parameters();
    let mut metadata = Metadata::new(&architecture);
    metadata.parameters = (0..d)
        .map(|i| ParameterMetadata {
            name: format!("θ {i}"),
            lower: Some(-1.0 / 3.0),
            upper: (i > 0).then_some(0.1 + i as f64),
        })
        .collect();
    metadata.standardization = Some(Standardization {
        theta: Scale {
            mean: vec![0.1; d],
            std: vec![1.0 / 3.0; d],
        },
        observation: None,
        context_parameters: None,
    });
    metadata.settings = Some(json!({"training": {"stage_0": {"optimizer": {"lr": 0.1}}}}));
    metadata.run = Some(json!({"stage": 1, "epoch_in_stage": 3, "global_step": 1234}));
    metadata.scheduler = Some(json!({"type": "cosine", "T_max": 10}));
    metadata.early_stopping = Some(json!({"best": 2.5, "bad_epochs": 1}));
    metadata.generator = Some(GeneratorKey::philox(u64::MAX));
    metadata.float32_matmul_precision = Some("high".into());
    for (from_epoch, precision) in [(0, "highest"), (2, "high")] {
        metadata
            .float32_matmul_precision_history
            .push(PrecisionRun {
                from_epoch,
                float32_matmul_precision: precision.into(),
            });
    }
    for (epoch, test_loss) in [(1, Some(0.1 + 0.2)), (2, None)] {
        metadata.history.push(EpochRecord {
            stage: 0,
            epoch,
            training_loss: Some(1e-300),
            test_loss,
            learning_rates: vec![1e-4],
        });
    }
    let mut model = Model::new(metadata, &layout, &state).unwrap();
    let mut stream = Key::new(seed, Purpose::Benchmark).stream(1);
    for spec in layout
        .parameters()
        .iter()
        .filter(|p| !p.name.contains("layers_rb"))
    {
        let mut moments = BTreeMap::new();
        for slot in ["exp_avg", "exp_avg_sq"] {
            let values = (0..spec.elements())
                .map(|_| T::from_f64(stream.normal()))
                .collect();
            moments.insert(slot.into(), Tensor::new(slot, &spec.shape, values).unwrap());
        }
        let entry = ParameterMoments {
            step: Some(17.0),
            moments,
        };
        model.optimizer.insert(&spec.name, entry).unwrap();
    }
    model
}

/// Header text and data of a file.
pub fn split(bytes: &[u8]) -> (String, Vec<u8>) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = String::from_utf8(bytes[8..8 + length].to_vec()).unwrap();
    (header.trim_end().to_string(), bytes[8 + length..].to_vec())
}

/// A file of given header text and data.
pub fn join(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}
