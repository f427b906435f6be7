//! Steps: frozen parameters, accumulation, dropout, training against evaluation.

use dunnart_flow::eager::{SplinePath, StepOptions};
use dunnart_flow::{Dropout, Error, TrainableSet};
use serde_json::json;

use crate::support::{close, embedding, flow, largest, options, wide};

#[test]
fn frozen_parameters_are_not_touched_and_not_reported() {
    let setup = embedding("BatchNorm", 1);
    let state = setup.state::<f64>(1);
    let mut storage = setup.storage(&state);
    let mut gradients = storage.zeros().unwrap();
    let _ = gradients.fill_(7.0);
    let frozen = TrainableSet::with_reduced_basis(&setup.layout, true);
    let mut training = setup
        .network(SplinePath::Fused)
        .training(&storage, &gradients, &frozen)
        .unwrap();
    let batch = setup.batch::<f64>(&[0, 1, 2, 3, 4]);
    let accumulate = StepOptions {
        accumulate: true,
        ..options()
    };
    let mut ready = Vec::new();
    let _ = training
        .loss_and_gradients(&mut storage, &batch, &accumulate, &mut |i| ready.push(i))
        .unwrap();
    let all = setup.pass(SplinePath::Fused, &state, &batch, &options());
    let gradients = wide(&gradients);
    for (index, spec) in setup.layout.parameters().iter().enumerate() {
        let trains = !spec.name.contains("layers_rb");
        assert_eq!(ready.contains(&index), trains, "{}", spec.name);
        let expected: Vec<f64> = all.gradients[spec.range()]
            .iter()
            .map(|g| 7.0 + if trains { *g } else { 0.0 })
            .collect();
        close(&spec.name, &gradients[spec.range()], &expected, 1e-12);
    }
    let backwards: Vec<usize> = frozen
        .indices()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    assert_eq!(ready, backwards);
}

#[test]
fn nothing_to_train_gives_a_loss_and_no_gradient() {
    let setup = flow(3, 2, 2, &json!({}));
    let state = setup.state::<f64>(1);
    let mut storage = setup.storage(&state);
    let gradients = storage.zeros().unwrap();
    let none = TrainableSet::except(&setup.layout, |_| true);
    let mut training = setup
        .network(SplinePath::Fused)
        .training(&storage, &gradients, &none)
        .unwrap();
    let batch = setup.batch::<f64>(&[0, 1, 2]);
    let loss = training
        .loss_and_gradients(&mut storage, &batch, &options(), &mut |_| {
            panic!("none trains")
        })
        .unwrap();
    let expected = setup.pass(SplinePath::Fused, &state, &batch, &options());
    close("loss", &wide(&loss), &[expected.loss], 0.0);
    assert_eq!(largest(&wide(&gradients)), 0.0);
}

#[test]
fn accumulated_halves_are_the_whole_batch() {
    let setup = flow(4, 3, 2, &json!({}));
    let state = setup.state::<f64>(2);
    let samples: Vec<u64> = (0..10).collect();
    let whole = setup.pass(
        SplinePath::Fused,
        &state,
        &setup.batch::<f64>(&samples),
        &options(),
    );
    let mut storage = setup.storage(&state);
    let gradients = storage.zeros().unwrap();
    let mut training = setup
        .network(SplinePath::Fused)
        .training(&storage, &gradients, &setup.all())
        .unwrap();
    let mut loss = 0.0;
    // The gradients of the step before must not stay.
    for accumulate in [false, true, false, true] {
        let rows = if accumulate { 4..10 } else { 0..4 };
        let weight = rows.clone().count() as f64 / 10.0;
        let step = StepOptions {
            weight,
            accumulate,
            ..options()
        };
        let batch = setup.batch::<f64>(&rows.collect::<Vec<u64>>());
        let part = training
            .loss_and_gradients(&mut storage, &batch, &step, &mut |_| {})
            .unwrap();
        loss = if accumulate { loss } else { 0.0 } + weight * wide(&part)[0];
    }
    close("loss", &[loss], &[whole.loss], 1e-13);
    close("gradients", &wide(&gradients), &whole.gradients, 1e-13);
}

#[test]
fn steps_follow_parameters_that_change_in_place_and_that_are_replaced() {
    let setup = flow(3, 2, 2, &json!({"norm": "BatchNorm"}));
    let batch = setup.batch::<f64>(&[0, 1, 2, 3]);
    let mut storage = setup.storage(&setup.state::<f64>(1));
    let gradients = storage.zeros().unwrap();
    let mut training = setup
        .network(SplinePath::Fused)
        .training(&storage, &gradients, &setup.all())
        .unwrap();
    for replace in [false, true] {
        let mut state = setup.state::<f64>(if replace { 3 } else { 2 });
        if !replace {
            // Permutations are not trained; only new tensors bring new ones.
            state.permutations = storage.permutations.clone();
        }
        let other = setup.storage(&state);
        if replace {
            storage = other;
        } else {
            storage.parameters.copy_(&other.parameters);
            storage.statistics.copy_(&other.statistics);
        }
        let loss = training
            .loss_and_gradients(&mut storage, &batch, &options(), &mut |_| {})
            .unwrap();
        let expected = setup.pass(SplinePath::Fused, &state, &batch, &options());
        close("loss", &wide(&loss), &[expected.loss], 0.0);
        close("gradients", &wide(&gradients), &expected.gradients, 0.0);
    }
}

#[test]
fn one_row_trains_only_without_batch_norm() {
    let mut setup = flow(3, 2, 1, &json!({"norm": "BatchNorm"}));
    for expected in [false, true] {
        let mut storage = setup.storage(&setup.state::<f32>(1));
        let before = wide(&storage.statistics);
        let gradients = storage.zeros().unwrap();
        let mut training = setup
            .network(SplinePath::Fused)
            .training(&storage, &gradients, &setup.all())
            .unwrap();
        let batch = setup.batch::<f32>(&[4]);
        let result = training.loss_and_gradients(&mut storage, &batch, &options(), &mut |_| {});
        match result {
            Ok(loss) => assert!(expected && wide(&loss)[0].is_finite()),
            Err(error) => {
                assert!(!expected);
                assert!(
                    matches!(
                        error,
                        Error::TooFewRows {
                            needed: 2,
                            found: 1
                        }
                    ),
                    "{error}"
                );
                assert!(error.to_string().contains("batch norm"), "{error}");
                assert_eq!(wide(&storage.statistics), before);
                assert_eq!(storage.counters, vec![0; storage.counters.len()]);
            }
        }
        setup = flow(3, 2, 1, &json!({}));
    }
    let mut storage = setup.storage(&setup.state::<f32>(1));
    let gradients = storage.zeros().unwrap();
    let mut training = setup
        .network(SplinePath::Fused)
        .training(&storage, &gradients, &setup.all())
        .unwrap();
    let empty = setup.batch::<f32>(&[]);
    let error = training
        .loss_and_gradients(&mut storage, &empty, &options(), &mut |_| {})
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooFewRows {
                needed: 1,
                found: 0
            }
        ),
        "{error}"
    );
}

/// Batch norm's training mode sees the batch, its evaluation mode the running statistics only.
#[test]
fn case_19_after_a_step_training_and_evaluation_densities_differ_and_meet_again() {
    let setup = flow(4, 3, 2, &json!({"norm": "BatchNorm"}));
    let state = setup.state::<f64>(3);
    let mut storage = setup.storage(&state);
    let gradients = storage.zeros().unwrap();
    let network = setup.network(SplinePath::Fused);
    let mut training = network
        .training(&storage, &gradients, &setup.all())
        .unwrap();
    let samples: Vec<u64> = (0..64).collect();
    let batch = setup.batch::<f64>(&samples);
    let evaluation = network.evaluation(&storage).unwrap();
    let mut differences = Vec::new();
    for step in 0..300 {
        let loss = training
            .loss_and_gradients(&mut storage, &batch, &options(), &mut |_| {})
            .unwrap();
        if step % 299 == 0 {
            let evaluated = -evaluation.log_prob(&batch).unwrap().mean(tch::Kind::Double);
            differences.push((wide(&loss)[0] - wide(&evaluated)[0]).abs());
        }
    }
    // The running variance is unbiased, so 64/63 of the batch's own remains between them.
    assert!(
        differences[0] > 0.01 && differences[1] < differences[0] / 4.0,
        "{differences:?}"
    );
    assert!(differences[1] > 0.0);
    assert_eq!(storage.counters, vec![300; storage.counters.len()]);
}

#[test]
fn dropout_masks_belong_to_samples_not_to_batches() {
    for kind in ["rq-coupling", "rq-autoregressive"] {
        let base = json!({"dropout_probability": 0.4, "base_transform_type": kind});
        let setup = flow(4, 3, 2, &base);
        let state = setup.state::<f64>(3);
        let density = |samples: &[u64], epoch: u32| {
            let options = StepOptions::new(Dropout::new(9, 1, epoch));
            let batch = setup.batch::<f64>(samples);
            setup
                .pass(SplinePath::Fused, &state, &batch, &options)
                .log_prob
        };
        let forwards = density(&[5, 6, 7, 8], 0);
        let backwards: Vec<f64> = density(&[8, 7, 6, 5], 0).into_iter().rev().collect();
        close("order", &forwards, &backwards, 1e-12);
        let part = density(&[7, 100], 0);
        close("batch", &part[..1], &forwards[2..3], 1e-12);
        let later = density(&[5, 6, 7, 8], 1);
        assert!(
            (later[0] - forwards[0]).abs() > 1e-6,
            "another epoch, another mask"
        );
        let single = setup.state::<f32>(3);
        let batch = setup.batch::<f32>(&[5, 6, 7, 8]);
        let options = StepOptions::new(Dropout::new(9, 1, 0));
        let single = setup
            .pass(SplinePath::Fused, &single, &batch, &options)
            .log_prob;
        close("float32 draws the same masks", &single, &forwards, 1e-3);
        let mut unnamed = setup.batch::<f64>(&[5, 6]);
        unnamed.samples.clear();
        let mut storage = setup.storage(&state);
        let gradients = storage.zeros().unwrap();
        let error = setup
            .network(SplinePath::Fused)
            .training(&storage, &gradients, &setup.all())
            .unwrap()
            .loss_and_gradients(&mut storage, &unnamed, &options, &mut |_| {})
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::Length {
                    expected: 2,
                    found: 0,
                    ..
                }
            ),
            "{error}"
        );
    }
}
