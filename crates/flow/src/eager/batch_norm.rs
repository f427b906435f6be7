//! Batch norm whose rows lie on several workers.

use std::sync::Arc;

use dunnart_torch_shim::{BoxError, CustomFunction, Forward, apply, as_slice};
use tch::{Device, Kind, Tensor};

use crate::reduction::{BatchReduction, Moments};
use crate::{Error, Result};

/// Added to the variance before the square root.
pub(super) const BATCH_NORM_EPSILON: f64 = 1e-3;

/// Weight of a new batch in the running statistics.
pub(super) const BATCH_NORM_MOMENTUM: f64 = 0.1;

/// `weight xhat + bias` with `xhat = (x - mean) / sqrt(variance + eps)` over all workers' rows, and
/// the update of the running statistics.
///
/// # Shapes
/// `x`: `[B, H]`, this worker's rows; parameters and running statistics `[H]`.
pub(super) fn synchronised_batch_norm(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    running: (Option<&Tensor>, Option<&Tensor>),
    reduction: &Arc<dyn BatchReduction>,
) -> Result<Tensor> {
    let function = Arc::new(SynchronisedBatchNorm {
        reduction: Arc::clone(reduction),
    });
    let x = x.f_to_dtype(weight.kind(), false, false)?;
    let mut outputs = apply(&function, &[&x, weight, bias])?.into_iter();
    let (Some(y), Some(mean), Some(variance)) = (outputs.next(), outputs.next(), outputs.next())
    else {
        return Err(Error::Torch("batch norm: three outputs expected".into()));
    };
    tch::no_grad(|| -> Result<()> {
        for (running, batch) in [(running.0, mean), (running.1, variance)] {
            let Some(running) = running else { continue };
            let mut running = running.shallow_clone();
            let difference = batch.f_detach()?.f_sub(&running)?;
            let _ = running.f_add_(&difference.f_mul_scalar(BATCH_NORM_MOMENTUM)?)?;
        }
        Ok(())
    })?;
    Ok(y)
}

#[derive(Debug)]
struct SynchronisedBatchNorm {
    reduction: Arc<dyn BatchReduction>,
}

fn host(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = tensor
        .f_to(Device::Cpu)?
        .f_to_dtype(Kind::Double, false, false)?;
    Ok(as_slice(&tensor.f_contiguous()?)?.to_vec())
}

impl CustomFunction for SynchronisedBatchNorm {
    fn forward(&self, inputs: &[Tensor]) -> Result<Forward, BoxError> {
        let [x, weight, bias] = inputs else {
            return Err(format!("three inputs, not {}", inputs.len()).into());
        };
        let back = |values: &[f64]| -> Result<Tensor> { Ok(Tensor::f_from_slice(values)?) };
        let wide = x.f_to_dtype(Kind::Double, false, false)?;
        let rows = x.size()[0];
        let mut moments = Moments::none(x.size()[1] as usize);
        if rows > 0 {
            let mean = wide.f_mean_dim([0_i64].as_slice(), false, Kind::Double)?;
            let deviations = wide.f_sub(&mean)?.f_square()?;
            let deviations = deviations.f_sum_dim_intlist([0_i64].as_slice(), false, None)?;
            moments = Moments {
                rows: rows as u64,
                mean: host(&mean)?,
                deviations: host(&deviations)?,
            };
        }
        self.reduction.moments(&mut moments)?;
        if moments.rows < 2 {
            return Err(Box::new(Error::TooFewRows {
                needed: 2,
                found: moments.rows as usize,
            }));
        }
        let count = moments.rows as f64;
        let mean = back(&moments.mean)?.f_to(x.device())?;
        let deviations = back(&moments.deviations)?.f_to(x.device())?;
        let scale = deviations
            .f_div_scalar(count)?
            .f_add_scalar(BATCH_NORM_EPSILON)?
            .f_rsqrt()?;
        let normalised = wide.f_sub(&mean)?.f_mul(&scale)?;
        let normalised = normalised.f_to_dtype(x.kind(), false, false)?;
        let y = normalised.f_mul(weight)?.f_add(bias)?;
        let unbiased = deviations.f_div_scalar(count - 1.0)?;
        let outputs = vec![
            y,
            mean.f_to_dtype(x.kind(), false, false)?,
            unbiased.f_to_dtype(x.kind(), false, false)?,
        ];
        let count = Tensor::f_from_slice(&[count])?;
        let saved = vec![normalised, weight.shallow_clone(), scale, count];
        Ok(Forward { outputs, saved })
    }

    fn backward(
        &self,
        saved: &[Tensor],
        output_gradients: &[Option<Tensor>],
        _: &[bool],
    ) -> Result<Vec<Option<Tensor>>, BoxError> {
        let ([normalised, weight, scale, count], Some(Some(upstream))) =
            (saved, output_gradients.first())
        else {
            return Ok(vec![None, None, None]);
        };
        let kind = normalised.kind();
        let over_rows = |x: &Tensor| x.f_sum_dim_intlist([0_i64].as_slice(), false, Kind::Double);
        let sum = over_rows(upstream)?;
        let product = over_rows(&upstream.f_mul(normalised)?)?;
        let by_weight = product.f_to_dtype(kind, false, false)?;
        let by_bias = sum.f_to_dtype(kind, false, false)?;
        let mut sums = host(&sum)?;
        sums.extend(host(&product)?);
        self.reduction.sums(&mut sums)?;
        let count = count.f_double_value(&[0])?;
        let means: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let (mean, mean_product) = means.split_at(means.len() / 2);
        let on_device = |values: &[f64]| -> Result<Tensor> {
            Ok(Tensor::f_from_slice(values)?.f_to(upstream.device())?)
        };
        let by_input = upstream
            .f_to_dtype(Kind::Double, false, false)?
            .f_sub(&on_device(mean)?)?
            .f_sub(&normalised.f_mul(&on_device(mean_product)?)?)?
            .f_mul(&scale.f_mul(weight)?)?
            .f_to_dtype(kind, false, false)?;
        Ok(vec![Some(by_input), Some(by_weight), Some(by_bias)])
    }
}
