//! Both directions of every kind of network, by both formulations of the spline.

use dunnart_flow::eager::{EagerStorage, SplinePath, TensorReal};
use dunnart_flow::{Error, NetworkState};
use dunnart_torch_shim::tensor_from_vec;
use serde_json::json;
use tch::{Device, Tensor};

use crate::discriminants::DISCRIMINANTS;
use crate::support::{Setup, all_kinds, close, flow, largest, normals, options, wide};

const ROWS: std::ops::Range<u64> = 0..9;

#[test]
fn kernel_and_tensor_spline_give_the_same_loss_and_gradients() {
    for (name, setup) in all_kinds() {
        let state = setup.state::<f64>(3);
        let samples: Vec<u64> = ROWS.collect();
        let batch = setup.batch::<f64>(&samples);
        let [kernel, tensor] = [SplinePath::Fused, SplinePath::Tensor]
            .map(|path| setup.pass(path, &state, &batch, &options()));
        close(
            name,
            &[kernel.loss],
            &[tensor.loss],
            1e-12 * kernel.loss.abs(),
        );
        close(name, &kernel.log_prob, &tensor.log_prob, 1e-11);
        let bound = 1e-11 * largest(&kernel.gradients);
        close(name, &kernel.gradients, &tensor.gradients, bound);
        assert!(largest(&kernel.gradients) > 1e-3, "{name}: no gradient");
    }
}

#[test]
fn samples_are_the_inverse_of_noise_with_the_same_density() {
    for (name, setup) in all_kinds() {
        for path in [SplinePath::Fused, SplinePath::Tensor] {
            let storage = setup.storage(&setup.state::<f64>(4));
            let evaluation = setup.network(path).evaluation(&storage).unwrap();
            let samples: Vec<u64> = ROWS.collect();
            let batch = setup.batch::<f64>(&samples);
            let (noise, _) = evaluation.noise(&batch).unwrap();
            let log_prob = evaluation.log_prob(&batch).unwrap();
            let context = evaluation.embed(&batch).unwrap();
            let (theta, density) = evaluation.sample(&noise, context.as_ref()).unwrap();
            close(name, &wide(&theta), &wide(&batch.theta), 1e-8);
            close(name, &wide(&density), &wide(&log_prob), 1e-7);
        }
    }
}

/// log q against the determinant of the Jacobian by central differences.
#[test]
fn the_log_det_is_that_of_the_map() {
    for (name, setup) in all_kinds() {
        let storage = setup.storage(&setup.state::<f64>(5));
        let evaluation = setup
            .network(SplinePath::Fused)
            .evaluation(&storage)
            .unwrap();
        let d = setup.architecture.parameters();
        let step = 1e-6;
        let row = 2;
        let mut batch = setup.batch::<f64>(&vec![row; 2 * d + 1]);
        let shifts: Vec<f64> = (0..2 * d + 1)
            .flat_map(|i| {
                (0..d).map(move |j| match i.checked_sub(1) {
                    Some(k) if k / 2 == j => step * if k % 2 == 0 { 1.0 } else { -1.0 },
                    _ => 0.0,
                })
            })
            .collect();
        let shifts = Tensor::from_slice(&shifts).reshape([2 * d as i64 + 1, d as i64]);
        batch.theta = &batch.theta + &shifts;
        let (noise, log_det) = evaluation.noise(&batch).unwrap();
        let noise = wide(&noise);
        let jacobian: Vec<f64> = (0..d * d)
            .map(|e| {
                let (i, j) = (e / d, e % d);
                (noise[(1 + 2 * j) * d + i] - noise[(2 + 2 * j) * d + i]) / (2.0 * step)
            })
            .collect();
        let expected = crate::linear::log_determinant(jacobian, d);
        close(name, &wide(&log_det)[..1], &[expected], 1e-6);
    }
}

/// Other projects' identity flag left the conditioner's last layer random: 1e-8 became 1.37.
#[test]
fn case_11_an_identity_start_returns_its_inputs() {
    for (kind, unconditional) in [
        ("rq-coupling", false),
        ("rq-coupling", true),
        ("rq-autoregressive", false),
    ] {
        for norm in [None, Some("BatchNorm"), Some("LayerNorm")] {
            if norm == Some("LayerNorm") && kind == "rq-autoregressive" {
                continue;
            }
            let base = json!({"identity_init": true, "norm": norm, "base_transform_type": kind,
                              "apply_unconditional_transform": unconditional});
            let setup = flow(5, 3, 4, &base);
            // In float32 each of the 20 splined elements may round its log-det once.
            identity::<f32>(kind, &setup, 1e-6, 20.0 * f64::from(f32::EPSILON));
            identity::<f64>(kind, &setup, 1e-13, 1e-13);
        }
    }
}

fn identity<T: TensorReal>(what: &str, setup: &Setup, bound: f64, log_det_bound: f64) {
    let rows = [1.0, 1e-2, 1e-6, 1e-8, 100.0].repeat(3);
    let typed: Vec<T> = rows.iter().map(|&x| T::from_f64(x)).collect();
    let state = NetworkState::<T>::initialize(&setup.architecture, &setup.layout, 7);
    let storage = setup.storage(&state);
    for path in [SplinePath::Fused, SplinePath::Tensor] {
        let evaluation = setup.network(path).evaluation(&storage).unwrap();
        let mut batch = setup.batch::<T>(&[1, 2, 3]);
        batch.theta = tensor_from_vec(typed.clone(), &[3, 5]).unwrap();
        let (noise, log_det) = evaluation.noise(&batch).unwrap();
        for (a, b) in wide(&noise).iter().zip(&rows) {
            assert!(
                (a - b).abs() <= bound * b.abs().max(1.0),
                "{what}: {b} -> {a}"
            );
        }
        close(what, &wide(&log_det), &[0.0; 3], log_det_bound);
    }
}

/// Other projects fail in three ways when there is nothing to condition on.
#[test]
fn case_15_one_parameter_trains_with_and_without_context() {
    for (c, steps) in [(0, 1), (0, 2), (1, 1), (1, 2), (1, 16)] {
        for kind in ["rq-coupling", "rq-autoregressive"] {
            let setup = flow(1, c, steps, &json!({"base_transform_type": kind}));
            let mut state = NetworkState::<f32>::initialize(&setup.architecture, &setup.layout, 5);
            let samples: Vec<u64> = (0..500).collect();
            let batch = setup.batch::<f32>(&samples);
            let mut losses = Vec::new();
            for _ in 0..3 {
                let pass = setup.pass(SplinePath::Fused, &state, &batch, &options());
                assert!(pass.loss.is_finite() && pass.gradients.iter().all(|g| g.is_finite()));
                losses.push(pass.loss);
                for (p, g) in state.parameters.iter_mut().zip(&pass.gradients) {
                    *p -= 1e-3 * *g as f32;
                }
            }
            assert!(losses[2] < losses[0], "{kind}, context {c}: {losses:?}");
        }
    }
}

/// Both parities of the alternating mask at the smallest sizes.
#[test]
fn case_15_two_and_three_parameters_transform_every_feature() {
    for d in [2, 3] {
        let setup = flow(d, 1, 2, &json!({}));
        let steps = &setup.layout.network().steps;
        let mut all: Vec<usize> = steps[..2]
            .iter()
            .flat_map(|s| s.transformed.clone())
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..d).collect::<Vec<_>>());
        let state = setup.state::<f64>(2);
        let batch = setup.batch::<f64>(&[1, 2, 3]);
        let pass = setup.pass(SplinePath::Fused, &state, &batch, &options());
        assert!(pass.loss.is_finite());
    }
}

#[test]
fn case_19_a_row_alone_has_the_density_it_has_in_a_large_batch() {
    for (name, setup) in all_kinds() {
        let storage = setup.storage(&setup.state::<f32>(6));
        let evaluation = setup
            .network(SplinePath::Fused)
            .evaluation(&storage)
            .unwrap();
        let samples: Vec<u64> = (0..4096).map(|i| i % 300).collect();
        let many = wide(&evaluation.log_prob(&setup.batch::<f32>(&samples)).unwrap());
        for row in [0_usize, 17, 299] {
            let alone = evaluation
                .log_prob(&setup.batch::<f32>(&[row as u64]))
                .unwrap();
            let bound = 1e-5 * many[row].abs().max(1.0);
            close(name, &wide(&alone), &many[row..=row], bound);
        }
    }
}

#[test]
fn case_19_a_fresh_network_can_be_inverted_before_any_step() {
    for (name, setup) in all_kinds() {
        let state = NetworkState::<f64>::initialize(&setup.architecture, &setup.layout, 8);
        let storage = setup.storage(&state);
        let evaluation = setup
            .network(SplinePath::Tensor)
            .evaluation(&storage)
            .unwrap();
        let batch = setup.batch::<f64>(&[0, 1, 2, 3]);
        let context = evaluation.embed(&batch).unwrap();
        let (theta, log_prob) = evaluation.sample(&batch.theta, context.as_ref()).unwrap();
        assert!(
            wide(&theta)
                .iter()
                .chain(&wide(&log_prob))
                .all(|x| x.is_finite()),
            "{name}"
        );
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let setup = flow(3, 2, 1, &json!({}));
    let storage = setup.storage(&setup.state::<f64>(1));
    let evaluation = setup
        .network(SplinePath::Fused)
        .evaluation(&storage)
        .unwrap();
    let mut batch = setup.batch::<f64>(&[1, 2]);
    batch.theta = batch.theta.narrow(1, 0, 2);
    let error = evaluation.log_prob(&batch).unwrap_err().to_string();
    assert_eq!(error, "tensor `theta`: expected shape [2, 3], got [2, 2]");
    let mut batch = setup.batch::<f64>(&[1, 2]);
    batch.observation = None;
    let error = evaluation.log_prob(&batch).unwrap_err().to_string();
    assert_eq!(error, "tensor `observation`: expected shape [2, 2], got []");
    let batch = setup.batch::<f32>(&[1, 2]);
    let error = evaluation.log_prob(&batch).unwrap_err().to_string();
    assert!(
        error.contains("`theta`: expected Double, got Float"),
        "{error}"
    );
    let other = flow(4, 2, 1, &json!({}));
    let wrong = EagerStorage::from_state(&other.layout, &setup.state::<f64>(1), Device::Cpu);
    assert!(matches!(wrong, Err(Error::Shape { .. })), "{wrong:?}");
    let noise = Tensor::from_slice(&normals::<f64>(1, 3)).reshape([1, 3]);
    let error = evaluation.sample(&noise, None).unwrap_err().to_string();
    assert_eq!(error, "tensor `context`: expected shape [1, 2], got []");
}

#[test]
fn point_34_a_negative_discriminant_neither_stops_sampling_nor_spreads() {
    for case in &DISCRIMINANTS {
        let (architecture, layout, state) = case.network();
        let setup = Setup {
            architecture,
            layout,
        };
        let storage = setup.storage(&state);
        for path in [SplinePath::Fused, SplinePath::Tensor] {
            let evaluation = setup.network(path).evaluation(&storage).unwrap();
            let noise = case.noise();
            let rows = noise.len() as i64 / 2;
            let noise = tensor_from_vec(noise, &[rows, 2]).unwrap();
            let (theta, log_prob) = evaluation.sample(&noise, None).unwrap();
            let narrow = |tensor: &Tensor| -> Vec<f32> {
                wide(tensor).into_iter().map(|v| v as f32).collect()
            };
            case.check("eager", &narrow(&theta), &narrow(&log_prob));
        }
    }
}
