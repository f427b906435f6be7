//! Autocast: the conditioner may be coarser, spline and LU transform never.

use dunnart_flow::eager::{SplinePath, StepOptions};
use dunnart_flow::{Error, NetworkState};
use serde_json::json;
use tch::Kind;

use crate::support::{all_kinds, close, embedding, flow, options};

/// A peer stops here at the first step: its knots are bfloat16, and the last one rounds onto its
/// neighbour, so that the search leaves the bins.
#[test]
fn case_33b_autocast_leaves_the_spline_alone() {
    let mut kinds = all_kinds();
    let wide = json!({"hidden_dim": 256, "num_bins": 8, "tail_bound": 1.0});
    kinds.push(("hidden 256", flow(6, 4, 3, &wide)));
    for (name, setup) in kinds {
        let state = NetworkState::<f32>::initialize(&setup.architecture, &setup.layout, 3);
        let batch = setup.batch::<f32>(&(0..200).collect::<Vec<u64>>());
        for path in [SplinePath::Fused, SplinePath::Tensor] {
            let exact = setup.pass(path, &state, &batch, &options());
            let coarse = StepOptions {
                autocast: Some(Kind::BFloat16),
                ..options()
            };
            let coarse = setup.pass(path, &state, &batch, &coarse);
            assert!(coarse.gradients.iter().all(|g| g.is_finite()), "{name}");
            let bound = 0.05 * exact.loss.abs().max(1.0);
            close(name, &[coarse.loss], &[exact.loss], bound);
            let differ = coarse.loss != exact.loss;
            // Without inputs to its products a conditioner is exact in any precision.
            assert!(
                differ || name == "one parameter, no context",
                "{name}: autocast is off"
            );
            // The conditioner has two or three digits left; the direction stays.
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (c, e) = (&coarse.gradients, &exact.gradients);
            let cosine = product(c, e) / (product(c, c) * product(e, e)).sqrt();
            assert!(
                cosine > 0.5,
                "{name}: the gradient's direction has cosine {cosine}"
            );
        }
    }
}

#[test]
fn autocast_does_not_outlive_its_step() {
    let setup = embedding("BatchNorm", 1);
    let state = setup.state::<f32>(3);
    let batch = setup.batch::<f32>(&[0, 1, 2, 3]);
    let before = setup.pass(SplinePath::Fused, &state, &batch, &options());
    let coarse = StepOptions {
        autocast: Some(Kind::BFloat16),
        ..options()
    };
    setup.pass(SplinePath::Fused, &state, &batch, &coarse);
    let after = setup.pass(SplinePath::Fused, &state, &batch, &options());
    assert_eq!(before.loss, after.loss);
    assert_eq!(before.gradients, after.gradients);
}

#[test]
fn autocast_of_a_float64_network_is_refused() {
    let setup = flow(3, 2, 1, &json!({}));
    let mut storage = setup.storage(&setup.state::<f64>(1));
    let gradients = storage.zeros().unwrap();
    let coarse = StepOptions {
        autocast: Some(Kind::BFloat16),
        ..options()
    };
    let error = setup
        .network(SplinePath::Fused)
        .training(&storage, &gradients, &setup.all())
        .unwrap()
        .loss_and_gradients(
            &mut storage,
            &setup.batch::<f64>(&[1, 2]),
            &coarse,
            &mut |_| {},
        )
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

/// Fifty steps in bfloat16 learn as fifty steps in float32 do, none of them lost.
#[test]
fn training_under_autocast_learns() {
    let setup = flow(3, 2, 3, &json!({"hidden_dim": 32, "norm": "BatchNorm"}));
    let batch = setup.batch::<f32>(&(0..256).collect::<Vec<u64>>());
    let train = |autocast: Option<Kind>| {
        let mut state = setup.state::<f32>(3);
        let mut losses = Vec::new();
        for _ in 0..50 {
            let step = StepOptions {
                autocast,
                ..options()
            };
            let pass = setup.pass(SplinePath::Fused, &state, &batch, &step);
            assert!(pass.loss.is_finite());
            losses.push(pass.loss);
            for (p, g) in state.parameters.iter_mut().zip(&pass.gradients) {
                *p -= 0.02 * *g as f32;
            }
        }
        losses
    };
    let (exact, coarse) = (train(None), train(Some(Kind::BFloat16)));
    assert!(coarse[49] < coarse[0] - 0.1, "{coarse:?}");
    let gain = exact[0] - exact[49];
    close("last loss", &coarse[49..], &exact[49..], 0.2 * gain);
}
