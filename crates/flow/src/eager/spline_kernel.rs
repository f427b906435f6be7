//! The spline crate's kernels as a function of the autograd graph.

use std::sync::Arc;

use dunnart_spline::{
    Parameters, ParametersMut, RationalQuadraticSpline, SplineReal, SplineSettings, Upstream,
};
use dunnart_torch_shim::{
    BoxError, CustomFunction, Element, Forward, apply, as_slice, tensor_from_vec,
};
use tch::{Kind, Tensor};

use crate::{Error, Result};

/// One direction of the spline; its backward is the kernel of the analytic gradients.
#[derive(Debug)]
pub(super) struct SplineKernel {
    spline: RationalQuadraticSpline,
    inverse: bool,
}

impl SplineKernel {
    pub(super) fn new(settings: SplineSettings, logit_scale: f64, inverse: bool) -> Result<Self> {
        let spline = RationalQuadraticSpline::new(settings, logit_scale)?;
        Ok(Self { spline, inverse })
    }

    /// Output and log-det of `x` `[B, n]` with `logits` `[B, n, 3K - 1]`.
    pub(super) fn apply(self: &Arc<Self>, x: &Tensor, logits: &Tensor) -> Result<(Tensor, Tensor)> {
        let mut outputs = apply(self, &[x, logits])?.into_iter();
        match (outputs.next(), outputs.next()) {
            (Some(output), Some(log_det)) => Ok((output, log_det)),
            _ => Err(Error::Torch("spline: two outputs expected".into())),
        }
    }

    fn evaluate<T: SplineReal + Element>(
        &self,
        x: &Tensor,
        logits: &Tensor,
    ) -> Result<[Tensor; 2]> {
        let input: &[T] = as_slice(x)?;
        let parameters = Parameters::ElementMajor(as_slice(logits)?);
        let mut output = vec![T::ZERO; input.len()];
        let mut log_det = vec![T::ZERO; input.len()];
        if self.inverse {
            self.spline
                .inverse(input, parameters, &mut output, &mut log_det)?;
        } else {
            self.spline
                .forward(input, parameters, &mut output, &mut log_det)?;
        }
        Ok([
            tensor_from_vec(output, &x.size())?,
            tensor_from_vec(log_det, &x.size())?,
        ])
    }

    fn differentiate<T: SplineReal + Element>(
        &self,
        x: &Tensor,
        logits: &Tensor,
        upstream: [&Tensor; 2],
    ) -> Result<[Tensor; 2]> {
        let input: &[T] = as_slice(x)?;
        let values: &[T] = as_slice(logits)?;
        let upstream = Upstream {
            output: as_slice(upstream[0])?,
            log_det: as_slice(upstream[1])?,
        };
        let mut by_input = vec![T::ZERO; input.len()];
        let mut by_logits = vec![T::ZERO; values.len()];
        let parameters = Parameters::ElementMajor(values);
        let into = ParametersMut::ElementMajor(&mut by_logits);
        if self.inverse {
            self.spline
                .inverse_gradients(input, parameters, upstream, &mut by_input, into)?;
        } else {
            self.spline
                .forward_gradients(input, parameters, upstream, &mut by_input, into)?;
        }
        Ok([
            tensor_from_vec(by_input, &x.size())?,
            tensor_from_vec(by_logits, &logits.size())?,
        ])
    }
}

fn unsupported(kind: Kind) -> BoxError {
    format!("the spline's kernel: expected Float or Double, got {kind:?}").into()
}

impl CustomFunction for SplineKernel {
    fn forward(&self, inputs: &[Tensor]) -> Result<Forward, BoxError> {
        let [x, logits] = inputs else {
            return Err(format!("two inputs, not {}", inputs.len()).into());
        };
        let (x, logits) = (x.f_contiguous()?, logits.f_contiguous()?);
        let outputs = match x.kind() {
            Kind::Float => self.evaluate::<f32>(&x, &logits)?,
            Kind::Double => self.evaluate::<f64>(&x, &logits)?,
            other => return Err(unsupported(other)),
        };
        Ok(Forward {
            outputs: outputs.into(),
            saved: vec![x, logits],
        })
    }

    fn backward(
        &self,
        saved: &[Tensor],
        output_gradients: &[Option<Tensor>],
        needed: &[bool],
    ) -> Result<Vec<Option<Tensor>>, BoxError> {
        let ([x, logits], [by_output, by_log_det]) = (saved, output_gradients) else {
            return Err("two saved tensors and two output gradients expected".into());
        };
        if needed.iter().all(|&needed| !needed) {
            return Ok(vec![None, None]);
        }
        let dense = |gradient: &Option<Tensor>| match gradient {
            Some(gradient) => gradient.f_contiguous(),
            None => x.f_zeros_like(),
        };
        let (by_output, by_log_det) = (dense(by_output)?, dense(by_log_det)?);
        let upstream = [&by_output, &by_log_det];
        let gradients = match x.kind() {
            Kind::Float => self.differentiate::<f32>(x, logits, upstream)?,
            Kind::Double => self.differentiate::<f64>(x, logits, upstream)?,
            other => return Err(unsupported(other)),
        };
        Ok(gradients.into_iter().map(Some).collect())
    }
}
