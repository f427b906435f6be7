//! The spline on tensors, its gradients by autograd.

use dunnart_flow::eager::{EagerSpline, SplinePath, TensorReal};
use dunnart_spline::SplineReal;
use dunnart_torch_shim::{GradientOptions, as_slice, gradients, tensor_from_vec};
use tch::Tensor;

use super::spline::{packed, unpack};
use crate::verify::Result;
use crate::verify::case::Case;
use crate::verify::paths::{Computed, failed};

pub(super) fn compute<T: TensorReal + SplineReal>(
    case: &Case,
    path: SplinePath,
) -> Result<Computed> {
    let settings = case.spline_settings()?;
    let bins = settings.num_bins;
    let spline = EagerSpline::new(settings, 1.0, path).map_err(|error| failed(case, error))?;
    let shape: Vec<i64> = case
        .golden
        .tensor("x")?
        .shape
        .iter()
        .map(|&n| n as i64)
        .collect();
    let mut logit_shape = shape.clone();
    logit_shape.push(3 * bins as i64 - 1);
    let tensor = |values: Vec<T>, shape: &[i64]| {
        tensor_from_vec(values, shape).map_err(|error| failed(case, error))
    };
    let leaf = |values: Vec<T>, shape: &[i64]| -> Result<Tensor> {
        Ok(tensor(values, shape)?.set_requires_grad(true))
    };
    let mut computed = Computed::default();
    for direction in ["forward", "inverse"] {
        let x = leaf(case.numbers::<T>("x")?, &shape)?;
        let logits = leaf(packed::<T>(case, bins)?, &logit_shape)?;
        let result = if direction == "forward" {
            spline.forward(&x, &logits)
        } else {
            spline.inverse(&x, &logits)
        };
        let (y, log_det) = result.map_err(|error| failed(case, error))?;
        let upstream = |what: &str| -> Result<Tensor> {
            tensor(
                case.numbers::<T>(&format!("{direction}.grad_out_{what}"))?,
                &shape,
            )
        };
        let upstream = [upstream("y")?, upstream("logabsdet")?];
        let by = gradients(
            &[&y, &log_det],
            &upstream,
            &[&x, &logits],
            GradientOptions::default(),
        )
        .map_err(|error| failed(case, error))?;
        let [Some(by_x), Some(by_logits)] = by.as_slice() else {
            return Err(failed(case, "the spline has no gradient"));
        };
        for (what, values) in [("y", &y), ("logabsdet", &log_det), ("grad_x", by_x)] {
            let values = values.detach().contiguous();
            let values: &[T] = as_slice(&values).map_err(|error| failed(case, error))?;
            computed.reals(format!("{direction}.{what}"), values);
        }
        let by_logits = by_logits.contiguous();
        let by_logits: &[T] = as_slice(&by_logits).map_err(|error| failed(case, error))?;
        unpack(&mut computed, direction, bins, by_logits);
    }
    Ok(computed)
}
