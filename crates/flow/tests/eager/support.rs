//! Small networks, batches and steps for the tests of this binary.

use dunnart_flow::eager::{
    EagerBatch, EagerNetwork, EagerStorage, SplinePath, StepOptions, TensorReal,
};
use dunnart_flow::{Architecture, Batch, Dropout, Layout, NetworkState, TrainableSet};
use dunnart_random::{Key, Purpose};
use dunnart_torch_shim::as_slice;
use serde_json::{Value, json};
use tch::{Device, Tensor};

/// A network with everything it needs to be computed.
pub(crate) struct Setup {
    pub(crate) architecture: Architecture,
    pub(crate) layout: Layout,
}

/// A flow of `d` parameters and `c` context features; `base` overrides settings of its steps.
pub(crate) fn flow(d: usize, c: usize, steps: usize, base: &Value) -> Setup {
    let mut settings = json!({
        "hidden_dim": 12, "num_transform_blocks": 2, "activation": "elu", "num_bins": 6,
        "tail_bound": 2.0, "base_transform_type": "rq-coupling"
    });
    for (key, value) in base.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    let context = if c == 0 { json!(null) } else { json!(c) };
    setup(&json!({"posterior_kwargs": {
        "input_dim": d, "context_dim": context, "num_flow_steps": steps,
        "base_transform_kwargs": settings
    }}))
}

pub(crate) fn setup(settings: &Value) -> Setup {
    let architecture = Architecture::from_json(settings).unwrap();
    let layout = Layout::new(&architecture).unwrap();
    Setup {
        architecture,
        layout,
    }
}

/// Every kind of step there is.
pub(crate) fn all_kinds() -> Vec<(&'static str, Setup)> {
    let auto = "rq-autoregressive";
    vec![
        ("plain", flow(5, 3, 3, &json!({}))),
        ("batch norm", flow(4, 3, 2, &json!({"norm": "BatchNorm"}))),
        (
            "layer norm",
            flow(4, 3, 2, &json!({"norm": "LayerNorm", "activation": "gelu"})),
        ),
        (
            "layer norm, no context",
            flow(4, 0, 2, &json!({"norm": "LayerNorm"})),
        ),
        ("no context", flow(3, 0, 3, &json!({"activation": "relu"}))),
        (
            "unconditional",
            flow(5, 2, 2, &json!({"apply_unconditional_transform": true})),
        ),
        (
            "autoregressive",
            flow(4, 3, 2, &json!({"base_transform_type": auto})),
        ),
        (
            "autoregressive, batch norm",
            flow(
                3,
                2,
                2,
                &json!({"base_transform_type": auto, "norm": "BatchNorm"}),
            ),
        ),
        ("one parameter", flow(1, 3, 2, &json!({}))),
        ("one parameter, no context", flow(1, 0, 2, &json!({}))),
        (
            "one parameter, autoregressive",
            flow(1, 2, 2, &json!({"base_transform_type": auto})),
        ),
        ("two parameters", flow(2, 1, 3, &json!({}))),
        ("embedding", embedding("BatchNorm", 1)),
        ("embedding, layer norm", embedding("LayerNorm", 0)),
    ]
}

pub(crate) fn embedding(norm: &str, context_parameters: usize) -> Setup {
    setup(&json!({
        "posterior_kwargs": {
            "input_dim": 3, "context_dim": 4 + context_parameters, "num_flow_steps": 2,
            "base_transform_kwargs": {
                "hidden_dim": 8, "num_transform_blocks": 1, "num_bins": 4, "tail_bound": 2.0,
                "norm": norm, "activation": "elu", "base_transform_type": "rq-coupling"
            }
        },
        "embedding_kwargs": {
            "input_dims": [2, 3, 7], "output_dim": 4, "hidden_dims": [10, 10, 6],
            "svd": {"size": 3}, "norm": norm, "added_context": context_parameters > 0
        }
    }))
}

/// Normal numbers from a key of their own.
pub(crate) fn normals<T: TensorReal>(seed: u64, count: usize) -> Vec<T> {
    let mut values = vec![0.0; count];
    Key::new(seed, Purpose::DataNoise)
        .stream(0)
        .fill_normal(&mut values);
    values.into_iter().map(T::from_f64).collect()
}

impl Setup {
    pub(crate) fn network(&self, path: SplinePath) -> EagerNetwork {
        EagerNetwork::new(&self.architecture, &self.layout, path).unwrap()
    }

    /// A state far from its initialisation, so that every layer matters.
    pub(crate) fn state<T: TensorReal>(&self, seed: u64) -> NetworkState<T> {
        let mut state = NetworkState::<T>::initialize(&self.architecture, &self.layout, seed);
        let noise = normals::<T>(seed + 1000, state.parameters.len());
        for (parameter, n) in state.parameters.iter_mut().zip(noise) {
            *parameter += n * T::from_f64(0.2);
        }
        state
    }

    pub(crate) fn storage<T: TensorReal>(&self, state: &NetworkState<T>) -> EagerStorage {
        EagerStorage::from_state(&self.layout, state, Device::Cpu).unwrap()
    }

    /// Rows `samples` of an endless data set.
    pub(crate) fn batch<T: TensorReal>(&self, samples: &[u64]) -> EagerBatch {
        let a = &self.architecture;
        let rows = |width: usize, salt: u64| -> Vec<T> {
            let row = |&s: &u64| normals::<T>(s * 7 + salt, width);
            samples.iter().flat_map(row).collect()
        };
        let theta = rows(a.parameters(), 1);
        let observation = rows(a.observation(), 2);
        let context_parameters = rows(a.context_parameters(), 3);
        let batch = Batch {
            theta: &theta,
            observation: &observation,
            context_parameters: &context_parameters,
            samples,
        };
        EagerBatch::new(a, &batch, Device::Cpu).unwrap()
    }

    pub(crate) fn all(&self) -> TrainableSet {
        TrainableSet::all(&self.layout)
    }

    /// Loss, gradients and log-densities of one training pass from `state`.
    pub(crate) fn pass<T: TensorReal>(
        &self,
        path: SplinePath,
        state: &NetworkState<T>,
        batch: &EagerBatch,
        options: &StepOptions,
    ) -> Pass {
        let mut storage = self.storage(state);
        let gradients = storage.zeros().unwrap();
        let mut training = self
            .network(path)
            .training(&storage, &gradients, &self.all())
            .unwrap();
        let loss = training
            .loss_and_gradients(&mut storage, batch, options, &mut |_| {})
            .unwrap();
        Pass {
            loss: f64::try_from(&loss).unwrap(),
            gradients: wide(&gradients),
            log_prob: wide(training.log_prob().unwrap()),
        }
    }
}

/// What one training pass gives.
pub(crate) struct Pass {
    pub(crate) loss: f64,
    pub(crate) gradients: Vec<f64>,
    pub(crate) log_prob: Vec<f64>,
}

pub(crate) fn options() -> StepOptions {
    StepOptions::new(Dropout::new(1, 0, 0))
}

/// All elements as f64.
pub(crate) fn wide(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor
        .to_kind(tch::Kind::Double)
        .flatten(0, -1)
        .contiguous();
    as_slice::<f64>(&tensor).unwrap().to_vec()
}

/// Fails with the worst element when two slices differ by more than `bound`; NaN always fails.
pub(crate) fn close(what: &str, a: &[f64], b: &[f64], bound: f64) {
    assert_eq!(a.len(), b.len(), "{what}: lengths");
    let worst = (0..a.len()).max_by(|&i, &j| {
        let d = |i: usize| (a[i] - b[i]).abs();
        d(i).total_cmp(&d(j))
    });
    if let Some(i) = worst {
        let difference = (a[i] - b[i]).abs();
        assert!(
            difference <= bound,
            "{what}: at {i} of {}: {} against {}, difference {difference:e}, bound {bound:e}",
            a.len(),
            a[i],
            b[i]
        );
    }
}

/// Largest magnitude.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m: f64, x| m.max(x.abs()))
}
