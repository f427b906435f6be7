//! The rational-quadratic spline on tensors, by either of its formulations.

use std::sync::Arc;

use dunnart_spline::SplineSettings;
use tch::Tensor;

use super::spline_kernel::SplineKernel;
use super::spline_tensor::TensorSpline;
use super::storage::shape;
use crate::{Error, Result};

/// How the spline is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplinePath {
    /// Our own kernels as a function of the autograd graph; on CPU only.
    Fused,
    /// Tensor operations and their own gradients; on any device.
    Tensor,
}

/// A rational-quadratic spline with linear tails on tensors.
#[derive(Debug)]
pub struct EagerSpline {
    settings: SplineSettings,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Fused {
        forward: Arc<SplineKernel>,
        inverse: Arc<SplineKernel>,
    },
    Tensor(TensorSpline),
}

impl EagerSpline {
    /// A spline whose width and height logits are multiplied by `logit_scale`.
    ///
    /// # Errors
    /// [`Error::Spline`] when the settings make no spline.
    pub fn new(settings: SplineSettings, logit_scale: f64, path: SplinePath) -> Result<Self> {
        let form = match path {
            SplinePath::Fused => Form::Fused {
                forward: Arc::new(SplineKernel::new(settings, logit_scale, false)?),
                inverse: Arc::new(SplineKernel::new(settings, logit_scale, true)?),
            },
            SplinePath::Tensor => Form::Tensor(TensorSpline::new(settings, logit_scale)),
        };
        Ok(Self { settings, form })
    }

    /// `f(x)` and `ln f'(x)`, element by element.
    ///
    /// # Shapes
    /// `x`, `f(x)` and the log-det: `[B, n]`; `logits`: `[B, n, 3K - 1]`, per element
    /// `[K widths | K heights | K - 1 derivatives]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the two do not fit, [`Error::Torch`].
    pub fn forward(&self, x: &Tensor, logits: &Tensor) -> Result<(Tensor, Tensor)> {
        self.check(x, logits)?;
        match &self.form {
            Form::Fused { forward, .. } => forward.apply(x, logits),
            Form::Tensor(spline) => spline.forward(x, logits),
        }
    }

    /// `f^-1(y)` and `ln (f^-1)'(y)`, element by element.
    ///
    /// # Shapes
    /// As [`EagerSpline::forward`].
    ///
    /// # Errors
    /// As [`EagerSpline::forward`].
    pub fn inverse(&self, y: &Tensor, logits: &Tensor) -> Result<(Tensor, Tensor)> {
        self.check(y, logits)?;
        match &self.form {
            Form::Fused { inverse, .. } => inverse.apply(y, logits),
            Form::Tensor(spline) => spline.inverse(y, logits),
        }
    }

    fn check(&self, x: &Tensor, logits: &Tensor) -> Result<()> {
        let mut expected = x.size();
        expected.push(3 * self.settings.num_bins as i64 - 1);
        if logits.size() == expected {
            return Ok(());
        }
        Err(Error::Shape {
            name: "logits of the spline".into(),
            expected: expected.iter().map(|&n| n as usize).collect(),
            found: shape(logits),
        })
    }
}
