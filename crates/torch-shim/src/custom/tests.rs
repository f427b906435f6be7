//! Custom functions: their gradients, their lives, and every way to fail.

use super::*;
use crate::{GradientOptions, backward, gradients};
use std::sync::atomic::{AtomicUsize, Ordering};
use tch::{Device, Kind};

/// Outputs `a^2 sin(b)` and `a + b`, element by element, in plain Rust.
struct Toy {
    drops: Option<Arc<AtomicUsize>>,
}

impl Drop for Toy {
    fn drop(&mut self) {
        if let Some(drops) = &self.drops {
            drops.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn values(tensor: &Tensor) -> Result<&[f64]> {
    crate::as_slice(tensor)
}

fn map2(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Tensor {
    Tensor::from_slice(&a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>())
}

impl CustomFunction for Toy {
    fn forward(&self, inputs: &[Tensor]) -> Result<Forward, BoxError> {
        let [a, b] = inputs else {
            return Err(format!("two inputs, not {}", inputs.len()).into());
        };
        let (x, y) = (values(a)?, values(b)?);
        let outputs = vec![map2(x, y, |a, b| a * a * b.sin()), map2(x, y, |a, b| a + b)];
        Ok(Forward {
            outputs,
            saved: vec![a.shallow_clone(), b.shallow_clone()],
        })
    }

    fn backward(
        &self,
        saved: &[Tensor],
        output_gradients: &[Option<Tensor>],
        needed: &[bool],
    ) -> Result<Vec<Option<Tensor>>, BoxError> {
        let (x, y) = (values(&saved[0])?, values(&saved[1])?);
        let mut result = Vec::new();
        for (input, &needed) in needed.iter().enumerate() {
            if !needed {
                result.push(None);
                continue;
            }
            let mut sum = Tensor::zeros([x.len() as i64], (Kind::Double, Device::Cpu));
            if let Some(g) = &output_gradients[0] {
                let slope = if input == 0 {
                    map2(x, y, |a, b| 2.0 * a * b.sin())
                } else {
                    map2(x, y, |a, b| a * a * b.cos())
                };
                sum += slope * g;
            }
            if let Some(g) = &output_gradients[1] {
                sum += g;
            }
            result.push(Some(sum));
        }
        Ok(result)
    }
}

fn toy() -> Arc<Toy> {
    Arc::new(Toy { drops: None })
}

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_slice(values).set_requires_grad(true)
}

/// Central differences against the analytic gradient, for each output and input.
#[test]
fn the_gradient_of_a_custom_function_is_that_of_its_values() {
    let (a, b) = ([0.3, -1.2, 2.0], [0.7, 0.1, -2.5]);
    let evaluate = |a: &[f64], b: &[f64], output: usize| {
        let outputs = apply(&toy(), &[Tensor::from_slice(a), Tensor::from_slice(b)]).unwrap();
        Vec::<f64>::try_from(&outputs[output]).unwrap()
    };
    for output in 0..2 {
        let (x, y) = (leaf(&a), leaf(&b));
        let outputs = apply(&toy(), &[&x, &y]).unwrap();
        let weights = Tensor::from_slice(&[1.0, -2.0, 0.5]);
        let got = gradients(
            &[&outputs[output]],
            &[&weights],
            &[&x, &y],
            GradientOptions::default(),
        )
        .unwrap();
        for input in 0..2 {
            let got = Vec::<f64>::try_from(got[input].as_ref().unwrap()).unwrap();
            for element in 0..3 {
                let step = 1e-6;
                let at = |sign: f64| {
                    let (mut a, mut b) = (a, b);
                    if input == 0 {
                        a[element] += sign * step
                    } else {
                        b[element] += sign * step
                    }
                    evaluate(&a, &b, output)[element]
                };
                let weight = [1.0, -2.0, 0.5][element];
                let expected = weight * (at(1.0) - at(-1.0)) / (2.0 * step);
                let difference = (got[element] - expected).abs();
                assert!(
                    difference < 1e-8,
                    "output {output}, input {input}[{element}]: {difference:e}"
                );
            }
        }
    }
}

#[test]
fn both_outputs_add_up_and_a_constant_gets_no_gradient() {
    let (x, b) = (leaf(&[2.0]), Tensor::from_slice(&[1.0]));
    let outputs = apply(&toy(), &[&x, &b]).unwrap();
    let one = Tensor::from_slice(&[1.0]);
    backward(&[&outputs[0], &outputs[1]], &[&one, &one], false).unwrap();
    assert!((x.grad().double_value(&[0]) - (4.0 * 1.0_f64.sin() + 1.0)).abs() < 1e-15);
    assert!(!b.grad().defined());
}

#[test]
fn the_function_lives_as_long_as_a_graph_needs_it() {
    let drops = Arc::new(AtomicUsize::new(0));
    let function = Arc::new(Toy {
        drops: Some(drops.clone()),
    });
    let x = leaf(&[2.0]);
    let outputs = apply(&function, &[&x, &Tensor::from_slice(&[1.0])]).unwrap();
    drop(function);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(outputs);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn an_error_of_forward_is_told() {
    let error = apply(&toy(), &[leaf(&[1.0])]).unwrap_err().to_string();
    assert_eq!(
        error,
        "applying a custom function: custom function, forward: two inputs, not 1"
    );
    let single = Tensor::from_slice(&[1.0_f32]);
    let error = apply(&toy(), &[&single, &single]).unwrap_err().to_string();
    assert!(
        error.ends_with("expected dtype Double, got Float"),
        "{error}"
    );
}

struct Breaks {
    backward: fn() -> Result<Vec<Option<Tensor>>, BoxError>,
}

impl CustomFunction for Breaks {
    fn forward(&self, inputs: &[Tensor]) -> Result<Forward, BoxError> {
        assert!(
            inputs.len() < 2,
            "forward takes {} too many",
            inputs.len() - 1
        );
        Ok(Forward {
            outputs: vec![inputs[0].copy()],
            saved: vec![],
        })
    }

    fn backward(
        &self,
        _: &[Tensor],
        _: &[Option<Tensor>],
        _: &[bool],
    ) -> Result<Vec<Option<Tensor>>, BoxError> {
        (self.backward)()
    }
}

fn failure_of(function: fn() -> Result<Vec<Option<Tensor>>, BoxError>) -> String {
    let x = leaf(&[1.0]);
    let outputs = apply(&Arc::new(Breaks { backward: function }), &[&x]).unwrap();
    backward(&[&outputs[0]], &[Tensor::from_slice(&[1.0])], false)
        .unwrap_err()
        .to_string()
}

#[test]
fn errors_and_panics_of_backward_are_told_without_a_backtrace() {
    let prefix = "backward pass: custom function, backward: ";
    assert_eq!(
        failure_of(|| Err("no slope here".into())),
        format!("{prefix}no slope here")
    );
    assert_eq!(
        failure_of(|| panic!("boom {}", 7)),
        format!("{prefix}it panicked: boom 7")
    );
    assert_eq!(
        failure_of(|| std::panic::panic_any(7)),
        format!("{prefix}it panicked: with a payload that is no text")
    );
    assert_eq!(
        failure_of(|| Ok(vec![])),
        format!("{prefix}expected 1 input gradients, got 0")
    );
    let long = failure_of(|| Err("x".repeat(5000).into()));
    assert_eq!(long.len(), prefix.len() + 5000, "long texts arrive whole");
}

#[test]
fn a_gradient_of_the_wrong_shape_is_refused() {
    let text = failure_of(|| Ok(vec![Some(Tensor::from_slice(&[1.0, 2.0]))]));
    let expected = "gradient of input 0: expected shape [1], got [2]";
    assert_eq!(
        text,
        format!("backward pass: custom function, backward: {expected}")
    );
}

#[test]
fn a_panic_of_forward_is_told() {
    let function = Arc::new(Breaks {
        backward: || Ok(vec![]),
    });
    let error = apply(&function, &[leaf(&[1.0]), leaf(&[1.0])])
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("it panicked: forward takes 1 too many"),
        "{error}"
    );
}

#[test]
fn second_derivatives_are_refused() {
    let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
    let outputs = apply(&toy(), &[&x, &y]).unwrap();
    let options = GradientOptions {
        create_graph: true,
        ..Default::default()
    };
    let one = Tensor::from_slice(&[1.0]);
    let error = gradients(&[&outputs[0]], &[&one], &[&x], options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("not twice differentiable"), "{error}");
}

#[test]
fn a_saved_tensor_that_was_changed_is_noticed() {
    let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
    let outputs = apply(&toy(), &[&x, &y]).unwrap();
    tch::no_grad(|| {
        let _ = x.shallow_clone().fill_(5.0);
    });
    let one = Tensor::from_slice(&[1.0]);
    let error = backward(&[&outputs[0]], &[&one], false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("modified by an inplace operation"),
        "{error}"
    );
}
