//! libtorch's fused kernels read each list's memory by the parameter's length and dtype without looking, so all of it is
//! checked here before a call.

use tch::{Kind, Tensor};

use super::LossScale;
use crate::{Error, Result};

pub(super) fn check_length(
    operation: &'static str,
    list: &'static str,
    expected: usize,
    actual: usize,
) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::ListLength {
        operation,
        list,
        expected,
        actual,
    })
}

/// Each tensor of a list must be like the parameter at the same place.
pub(super) fn check_list(
    operation: &'static str,
    list: &'static str,
    parameters: &[Tensor],
    tensors: &[Tensor],
) -> Result<()> {
    check_length(operation, list, parameters.len(), tensors.len())?;
    for (index, (parameter, tensor)) in parameters.iter().zip(tensors).enumerate() {
        let named = || format!("{list}[{index}]");
        let (expected, actual) = (parameter.size(), tensor.size());
        if expected != actual {
            return Err(Error::Shape {
                tensor: named(),
                expected,
                actual,
            });
        }
        let (expected, actual) = (parameter.f_kind()?, tensor.f_kind()?);
        if expected != actual {
            return Err(Error::Kind {
                tensor: named(),
                expected,
                actual,
            });
        }
        let (expected, actual) = (parameter.device(), tensor.device());
        if expected != actual {
            return Err(Error::Device {
                tensor: named(),
                expected,
                actual,
            });
        }
        for (name, tensor) in [
            (format!("parameters[{index}]"), parameter),
            (named(), tensor),
        ] {
            if !tensor.is_contiguous() {
                let (shape, strides) = (tensor.size(), tensor.stride());
                return Err(Error::NotContiguous {
                    tensor: name,
                    shape,
                    strides,
                });
            }
        }
    }
    Ok(())
}

pub(super) fn check_steps(
    operation: &'static str,
    parameters: &[Tensor],
    steps: &[Tensor],
) -> Result<()> {
    check_length(operation, "steps", parameters.len(), steps.len())?;
    steps
        .iter()
        .enumerate()
        .try_for_each(|(index, step)| one_value(&format!("steps[{index}]"), step))
}

pub(super) fn check_scale(scale: LossScale<'_>) -> Result<()> {
    for (name, value) in [
        ("grad_scale", scale.grad_scale),
        ("found_inf", scale.found_inf),
    ] {
        if let Some(tensor) = value {
            one_value(name, tensor)?;
        }
    }
    Ok(())
}

fn one_value(name: &str, tensor: &Tensor) -> Result<()> {
    let named = || name.to_owned();
    if tensor.numel() != 1 {
        return Err(Error::Shape {
            tensor: named(),
            expected: vec![],
            actual: tensor.size(),
        });
    }
    let (expected, actual) = (Kind::Float, tensor.f_kind()?);
    if expected != actual {
        return Err(Error::Kind {
            tensor: named(),
            expected,
            actual,
        });
    }
    Ok(())
}
