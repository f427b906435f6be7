//! Each fused optimiser against the same formula in plain f64 arithmetic, and what a loss scaler makes of it.

use tch::{Kind, Tensor};

use super::*;
use crate::{Error, Result};

const SHAPES: [&[i64]; 3] = [&[5], &[2, 3], &[1]];
const STEPS: usize = 20;

/// Values without a pattern that an error could hide in.
fn wave(count: usize, phase: f64) -> Vec<f64> {
    (0..count)
        .map(|i| (1.7 * i as f64 + phase).sin() + 0.1 * (0.3 * i as f64).cos())
        .collect()
}

fn count(shape: &[i64]) -> usize {
    shape.iter().product::<i64>() as usize
}

fn tensors(kind: Kind, value: impl Fn(usize, usize) -> Vec<f64>) -> Vec<Tensor> {
    let make = |(index, shape): (usize, &&[i64])| {
        Tensor::from_slice(&value(index, count(shape)))
            .reshape(*shape)
            .to_kind(kind)
    };
    SHAPES.iter().enumerate().map(make).collect()
}

fn parameters(kind: Kind) -> Vec<Tensor> {
    tensors(kind, |index, count| wave(count, index as f64))
}

fn gradients(kind: Kind, step: usize) -> Vec<Tensor> {
    tensors(kind, |index, count| {
        wave(count, 10.0 + 3.1 * index as f64 + 0.7 * step as f64)
    })
}

fn zeros(kind: Kind) -> Vec<Tensor> {
    tensors(kind, |_, count| vec![0.0; count])
}

fn counts() -> Vec<Tensor> {
    SHAPES.iter().map(|_| Tensor::from(0.0_f32)).collect()
}

fn flat(list: &[Tensor]) -> Vec<f64> {
    list.iter()
        .flat_map(|tensor| {
            Vec::<f64>::try_from(tensor.to_kind(Kind::Double).flatten(0, -1)).unwrap()
        })
        .collect()
}

fn assert_close(what: &str, actual: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        let difference = (a - e).abs();
        assert!(
            difference <= bound,
            "{what}[{index}]: {a} against {e}, differing by {difference:e}, bound {bound:e}"
        );
    }
}

/// The formula of the documentation, element by element.
fn adam_by_hand(settings: &AdamSettings, amsgrad: bool) -> Vec<f64> {
    let mut p = flat(&parameters(Kind::Double));
    let (mut m, mut v, mut largest) = (
        vec![0.0; p.len()],
        vec![0.0; p.len()],
        vec![0.0_f64; p.len()],
    );
    for step in 0..STEPS {
        let t = (step + 1) as i32;
        for (i, g) in flat(&gradients(Kind::Double, step)).into_iter().enumerate() {
            let mut g = if settings.maximize { -g } else { g };
            if settings.decoupled {
                p[i] *= 1.0 - settings.learning_rate * settings.weight_decay;
            } else {
                g += settings.weight_decay * p[i];
            }
            m[i] = settings.beta1 * m[i] + (1.0 - settings.beta1) * g;
            v[i] = settings.beta2 * v[i] + (1.0 - settings.beta2) * g * g;
            largest[i] = largest[i].max(v[i]);
            let second = if amsgrad { largest[i] } else { v[i] };
            let corrected = second / (1.0 - settings.beta2.powi(t));
            p[i] -= settings.learning_rate / (1.0 - settings.beta1.powi(t)) * m[i]
                / (corrected.sqrt() + settings.epsilon);
        }
    }
    p
}

fn adam_fused(kind: Kind, settings: &AdamSettings, amsgrad: bool) -> Vec<f64> {
    let p = parameters(kind);
    let (m, v, x, steps) = (zeros(kind), zeros(kind), zeros(kind), counts());
    let state = AdamState {
        exp_avg: &m,
        exp_avg_sq: &v,
        max_exp_avg_sq: amsgrad.then_some(x.as_slice()),
        steps: &steps,
    };
    for step in 0..STEPS {
        fused_adam(
            &p,
            &gradients(kind, step),
            &state,
            settings,
            LossScale::default(),
        )
        .unwrap();
    }
    assert_eq!(flat(&steps), [STEPS as f64; 3]);
    flat(&p)
}

#[test]
fn adam_and_adamw_follow_the_formula() {
    let base = AdamSettings {
        learning_rate: 0.01,
        ..AdamSettings::default()
    };
    let cases = [
        ("Adam", base, false),
        (
            "Adam with weight decay",
            AdamSettings {
                weight_decay: 0.1,
                ..base
            },
            false,
        ),
        (
            "AdamW",
            AdamSettings {
                weight_decay: 0.1,
                decoupled: true,
                ..base
            },
            false,
        ),
        ("AMSGrad", AdamSettings { beta2: 0.7, ..base }, true),
        (
            "ascent",
            AdamSettings {
                maximize: true,
                beta1: 0.5,
                epsilon: 1e-3,
                ..base
            },
            false,
        ),
    ];
    let mut results: Vec<Vec<f64>> = Vec::new();
    for (what, settings, amsgrad) in cases {
        let expected = adam_by_hand(&settings, amsgrad);
        // Twenty steps of float64 rounding; and of float32's at values of order one.
        assert_close(
            what,
            &adam_fused(Kind::Double, &settings, amsgrad),
            &expected,
            1e-14,
        );
        assert_close(
            what,
            &adam_fused(Kind::Float, &settings, amsgrad),
            &expected,
            2e-6,
        );
        assert!(!results.contains(&expected), "{what} tells nothing apart");
        results.push(expected);
    }
}

#[test]
fn gradient_descent_follows_the_formula() {
    let base = SgdSettings {
        learning_rate: 0.02,
        momentum: 0.9,
        dampening: 0.0,
        weight_decay: 0.0,
        nesterov: false,
        maximize: false,
    };
    let cases = [
        (
            "plain",
            SgdSettings {
                momentum: 0.0,
                ..base
            },
        ),
        (
            "momentum",
            SgdSettings {
                dampening: 0.3,
                ..base
            },
        ),
        (
            "Nesterov",
            SgdSettings {
                nesterov: true,
                weight_decay: 0.1,
                ..base
            },
        ),
    ];
    for (what, settings) in cases {
        let mut expected = flat(&parameters(Kind::Double));
        let mut buffer = vec![0.0; expected.len()];
        let p = parameters(Kind::Double);
        let b = zeros(Kind::Double);
        for step in 0..STEPS {
            for (i, g) in flat(&gradients(Kind::Double, step)).into_iter().enumerate() {
                let g = g + settings.weight_decay * expected[i];
                let part = if step == 0 {
                    1.0
                } else {
                    1.0 - settings.dampening
                };
                buffer[i] = settings.momentum * buffer[i] + part * g;
                let direction = if settings.nesterov {
                    g + settings.momentum * buffer[i]
                } else {
                    buffer[i]
                };
                let direction = if settings.momentum == 0.0 {
                    g
                } else {
                    direction
                };
                expected[i] -= settings.learning_rate * direction;
            }
            let state = SgdState {
                momentum_buffers: (settings.momentum != 0.0).then_some(b.as_slice()),
                first_step: step == 0,
            };
            fused_sgd(
                &p,
                &gradients(Kind::Double, step),
                &state,
                &settings,
                LossScale::default(),
            )
            .unwrap();
        }
        assert_close(what, &flat(&p), &expected, 1e-14);
    }
}

#[test]
fn adagrad_follows_the_formula() {
    let settings = AdagradSettings {
        learning_rate: 0.05,
        learning_rate_decay: 0.1,
        epsilon: 1e-10,
        weight_decay: 0.01,
        maximize: false,
    };
    let mut expected = flat(&parameters(Kind::Double));
    let mut sums = vec![0.0; expected.len()];
    let p = parameters(Kind::Double);
    let (s, steps) = (zeros(Kind::Double), counts());
    for step in 0..STEPS {
        let rate = settings.learning_rate / (1.0 + step as f64 * settings.learning_rate_decay);
        for (i, g) in flat(&gradients(Kind::Double, step)).into_iter().enumerate() {
            let g = g + settings.weight_decay * expected[i];
            sums[i] += g * g;
            expected[i] -= rate * g / (sums[i].sqrt() + settings.epsilon);
        }
        let state = AdagradState {
            sums: &s,
            steps: &steps,
        };
        fused_adagrad(
            &p,
            &gradients(Kind::Double, step),
            &state,
            &settings,
            LossScale::default(),
        )
        .unwrap();
    }
    assert_close("parameters", &flat(&p), &expected, 1e-14);
    assert_close("sums", &flat(&s), &sums, 1e-13);
    assert_eq!(flat(&steps), [STEPS as f64; 3]);
}

#[test]
fn a_step_with_an_infinity_found_changes_nothing_and_is_not_counted() {
    let kind = Kind::Float;
    let settings = AdamSettings::default();
    let (p, m, v, steps) = (parameters(kind), zeros(kind), zeros(kind), counts());
    let state = AdamState {
        exp_avg: &m,
        exp_avg_sq: &v,
        max_exp_avg_sq: None,
        steps: &steps,
    };
    let (found, clean) = (Tensor::from(1.0_f32), Tensor::from(0.0_f32));
    let step = |number: usize, found: &Tensor| {
        let scale = LossScale {
            grad_scale: None,
            found_inf: Some(found),
        };
        fused_adam(&p, &gradients(kind, number), &state, &settings, scale).unwrap();
        (flat(&p), flat(&m), flat(&v), flat(&steps))
    };
    let first = step(0, &clean);
    assert_eq!(first.3, [1.0; 3]);
    let skipped = step(1, &found);
    assert_eq!(first, skipped);
    let second = step(2, &clean);
    assert_ne!(first.0, second.0);
    assert_eq!(second.3, [2.0; 3]);
}

#[test]
fn gradients_are_divided_by_the_scale() {
    let kind = Kind::Double;
    let settings = AdamSettings {
        learning_rate: 0.01,
        ..AdamSettings::default()
    };
    let scale = Tensor::from(1024.0_f32);
    let clean = Tensor::from(0.0_f32);
    let p = parameters(kind);
    let (m, v, steps) = (zeros(kind), zeros(kind), counts());
    let state = AdamState {
        exp_avg: &m,
        exp_avg_sq: &v,
        max_exp_avg_sq: None,
        steps: &steps,
    };
    for step in 0..STEPS {
        let scaled: Vec<Tensor> = gradients(kind, step).iter().map(|g| g * 1024.0).collect();
        let scale = LossScale {
            grad_scale: Some(&scale),
            found_inf: Some(&clean),
        };
        fused_adam(&p, &scaled, &state, &settings, scale).unwrap();
    }
    assert_close(
        "parameters",
        &flat(&p),
        &adam_by_hand(&settings, false),
        1e-14,
    );
}

#[test]
fn lists_that_do_not_fit_are_refused_before_anything_changes() {
    let kind = Kind::Float;
    let (p, g, m, v, steps) = (
        parameters(kind),
        gradients(kind, 0),
        zeros(kind),
        zeros(kind),
        counts(),
    );
    let before = flat(&p);
    let run = |gradients: &[Tensor], exp_avg: &[Tensor], steps: &[Tensor]| -> Result<()> {
        let state = AdamState {
            exp_avg,
            exp_avg_sq: &v,
            max_exp_avg_sq: None,
            steps,
        };
        fused_adam(
            &p,
            gradients,
            &state,
            &AdamSettings::default(),
            LossScale::default(),
        )
    };
    let error = run(&g[..2], &m, &steps).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fused Adam, list `gradients`: expected 3 tensors, got 2"
    );
    let mut wrong = zeros(kind);
    wrong[1] = Tensor::zeros([3, 2], (kind, tch::Device::Cpu));
    let error = run(&g, &wrong, &steps).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `exp_avg[1]`: expected shape [2, 3], got [3, 2]"
    );
    let error = run(&gradients(Kind::Double, 0), &m, &steps).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `gradients[0]`: expected dtype Float, got Double"
    );
    wrong[1] = Tensor::zeros([3, 2], (kind, tch::Device::Cpu)).tr();
    assert!(matches!(
        run(&g, &wrong, &steps),
        Err(Error::NotContiguous { .. })
    ));
    let integers: Vec<Tensor> = (0..3).map(|_| Tensor::from(0_i64)).collect();
    let error = run(&g, &m, &integers).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `steps[0]`: expected dtype Float, got Int64"
    );
    assert_eq!(flat(&p), before);
    assert_eq!(flat(&steps), [0.0; 3]);
}
