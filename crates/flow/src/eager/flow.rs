//! The flow: permutation, LU transform and spline of each step, and the base density.

use tch::Tensor;

use super::pass::Pass;
use crate::structure::{Conditioner, Network, Step, UnconditionalSpline};
use crate::{Error, Result};

/// Number of one row: `[B, D_]` to `[B]`.
fn over_features(log_det: &Tensor) -> Result<Tensor> {
    Ok(log_det.f_sum_dim_intlist([1_i64].as_slice(), false, None)?)
}

impl Pass<'_> {
    /// Logits of the context-free spline, the same for every row, `[B, D_id, 3K - 1]`.
    fn unconditional_logits(&self, spline: &UnconditionalSpline, rows: i64) -> Result<Tensor> {
        let parts = [spline.widths, spline.heights, spline.derivatives];
        let logits = Tensor::f_cat(&parts.map(|i| self.weights.parameter(i)), 1)?;
        let size = logits.size();
        Ok(logits
            .f_unsqueeze(0)?
            .f_expand([rows, size[0], size[1]], false)?)
    }

    /// One coupling or autoregressive spline, density direction.
    fn step_forward(
        &self,
        number: usize,
        step: &Step,
        x: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        if matches!(step.conditioner, Conditioner::Masked(_)) {
            let logits = self.conditioner(&step.conditioner, x, context)?;
            let (y, log_det) = self.spline.forward(x, &logits)?;
            return Ok((y, over_features(&log_det)?));
        }
        let indices = &self.weights.steps[number];
        let mut identity = x.f_index_select(1, &indices.identity)?;
        let transformed = x.f_index_select(1, &indices.transformed)?;
        let logits = self.conditioner(&step.conditioner, &identity, context)?;
        let (y, log_det) = self.spline.forward(&transformed, &logits)?;
        let mut log_det = over_features(&log_det)?;
        if let Some(spline) = &step.unconditional {
            let logits = self.unconditional_logits(spline, x.size()[0])?;
            let (passed, own) = self.unconditional.forward(&identity, &logits)?;
            identity = passed;
            log_det = log_det.f_add(&over_features(&own)?)?;
        }
        let y = Tensor::f_cat(&[identity, y], 1)?.f_index_select(1, &indices.merged)?;
        Ok((y, log_det))
    }

    /// One coupling or autoregressive spline, sampling direction.
    fn step_inverse(
        &self,
        number: usize,
        step: &Step,
        y: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        if matches!(step.conditioner, Conditioner::Masked(_)) {
            return self.masked_inverse(step, y, context);
        }
        let indices = &self.weights.steps[number];
        let mut identity = y.f_index_select(1, &indices.identity)?;
        let mut passed = None;
        if let Some(spline) = &step.unconditional {
            let logits = self.unconditional_logits(spline, y.size()[0])?;
            let (x, own) = self.unconditional.inverse(&identity, &logits)?;
            identity = x;
            passed = Some(over_features(&own)?);
        }
        let transformed = y.f_index_select(1, &indices.transformed)?;
        let logits = self.conditioner(&step.conditioner, &identity, context)?;
        let (x, log_det) = self.spline.inverse(&transformed, &logits)?;
        let mut log_det = over_features(&log_det)?;
        if let Some(own) = passed {
            log_det = log_det.f_add(&own)?;
        }
        let x = Tensor::f_cat(&[identity, x], 1)?.f_index_select(1, &indices.merged)?;
        Ok((x, log_det))
    }

    /// After d passes the first d parameters are right; the log-det is that of the last pass.
    fn masked_inverse(
        &self,
        step: &Step,
        y: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let mut x = y.f_zeros_like()?;
        let mut log_det = None;
        for _ in 0..y.size()[1] {
            let logits = self.conditioner(&step.conditioner, &x, context)?;
            let (next, own) = self.spline.inverse(y, &logits)?;
            x = next;
            log_det = Some(own);
        }
        let log_det = log_det.ok_or_else(|| Error::Length {
            name: "parameters of an autoregressive step".into(),
            expected: 1,
            found: 0,
        })?;
        Ok((x, over_features(&log_det)?))
    }

    /// Parameters to noise, with the log-det of that direction.
    ///
    /// # Shapes
    /// `theta` and the noise `[B, D]`, `context` `[B, C]`, log-det `[B]`.
    pub(super) fn forward(
        &self,
        network: &Network,
        theta: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let options = (theta.kind(), theta.device());
        let mut total = Tensor::f_zeros([theta.size()[0]], options)?;
        let mut x = theta.shallow_clone();
        for (number, step) in network.steps.iter().enumerate() {
            let (y, log_det) = self.linear_forward(number, &step.linear, &x)?;
            total = total.f_add(&log_det)?;
            let (y, log_det) = self.step_forward(number, step, &y, context)?;
            total = total.f_add(&log_det)?;
            x = y;
        }
        let (noise, log_det) = self.linear_forward(network.steps.len(), &network.last, &x)?;
        Ok((noise, total.f_add(&log_det)?))
    }

    /// Noise to parameters, with the log-det of that direction.
    ///
    /// # Shapes
    /// As [`Pass::forward`].
    pub(super) fn inverse(
        &self,
        network: &Network,
        noise: &Tensor,
        context: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let (mut y, log_det) = self.linear_inverse(network.steps.len(), &network.last, noise)?;
        let options = (noise.kind(), noise.device());
        let mut total = Tensor::f_zeros([noise.size()[0]], options)?.f_add(&log_det)?;
        for (number, step) in network.steps.iter().enumerate().rev() {
            let (x, log_det) = self.step_inverse(number, step, &y, context)?;
            total = total.f_add(&log_det)?;
            let (x, log_det) = self.linear_inverse(number, &step.linear, &x)?;
            total = total.f_add(&log_det)?;
            y = x;
        }
        Ok((y, total))
    }

    /// `log N(noise; 0, 1) = -sum(noise^2) / 2 - D ln(2 pi) / 2`, `[B]`.
    pub(super) fn base_log_density(&self, noise: &Tensor) -> Result<Tensor> {
        let d = noise.size()[1] as f64;
        let constant = 0.5 * d * std::f64::consts::TAU.ln();
        Ok(over_features(&noise.f_square()?)?
            .f_mul_scalar(-0.5)?
            .f_sub_scalar(constant)?)
    }
}
