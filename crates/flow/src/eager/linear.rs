//! The permutation and the LU transform between spline steps.

use dunnart_torch_shim::{MatmulPrecision, matmul_precision};
use tch::{Kind, Tensor};

use super::pass::Pass;
use crate::Result;
use crate::structure::LinearTransform;

/// Added to the softplus of a diagonal logit, so that U is never singular.
const MIN_DIAGONAL: f64 = 1e-3;

/// `L`, `U` and `log |det U|`.
struct Factors {
    lower: Tensor,
    upper: Tensor,
    log_det: Tensor,
}

fn as_kind(x: &Tensor, kind: Kind) -> Result<Tensor> {
    if x.kind() == kind {
        return Ok(x.shallow_clone());
    }
    Ok(x.f_to_dtype(kind, false, false)?)
}

impl Pass<'_> {
    /// Precision of the products and solves: float64 where libtorch is allowed to round float32
    /// products to fewer digits, else the network's own.
    fn product_kind(&self) -> Result<Kind> {
        let own = self.weights.kind();
        if own == Kind::Float && matmul_precision()? != MatmulPrecision::Highest {
            return Ok(Kind::Double);
        }
        Ok(own)
    }

    fn factors(&self, transform: &LinearTransform) -> Result<Factors> {
        let w = self.weights;
        let bias = w.parameter(transform.bias);
        let d = bias.size()[0];
        let square = [d, d];
        let options = (w.kind(), w.device());
        let zero = Tensor::f_zeros([1], options)?;
        let one = Tensor::f_ones([1], options)?;
        let diagonal = w
            .parameter(transform.diagonal)
            .f_softplus()?
            .f_add_scalar(MIN_DIAGONAL)?;
        let lower = Tensor::f_cat(&[w.parameter(transform.lower), &zero, &one], 0)?;
        let upper = Tensor::f_cat(&[w.parameter(transform.upper), &zero, &diagonal], 0)?;
        Ok(Factors {
            lower: lower.f_index_select(0, &w.lower)?.f_reshape(square)?,
            upper: upper.f_index_select(0, &w.upper)?.f_reshape(square)?,
            log_det: diagonal.f_log()?.f_sum(None)?,
        })
    }

    /// `y = L (U x[permutation]) + b` and its log-det, one number for all rows.
    ///
    /// # Shapes
    /// `x`, `y`: `[B, D]`; log-det `[]`.
    pub(super) fn linear_forward(
        &self,
        number: usize,
        transform: &LinearTransform,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let factors = self.factors(transform)?;
        let kind = self.product_kind()?;
        let x = x.f_index_select(1, self.weights.permutation(number, false))?;
        let bias = as_kind(self.weights.parameter(transform.bias), kind)?;
        let x = as_kind(&x, kind)?.f_linear(&as_kind(&factors.upper, kind)?, None::<&Tensor>)?;
        let y = x.f_linear(&as_kind(&factors.lower, kind)?, Some(&bias))?;
        Ok((self.full_precision(&y)?, factors.log_det))
    }

    /// The inverse of [`Pass::linear_forward`], by two triangular solves, and its log-det.
    ///
    /// # Shapes
    /// As [`Pass::linear_forward`].
    pub(super) fn linear_inverse(
        &self,
        number: usize,
        transform: &LinearTransform,
        y: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let factors = self.factors(transform)?;
        let kind = self.product_kind()?;
        let columns = y
            .f_sub(self.weights.parameter(transform.bias))?
            .f_transpose(0, 1)?;
        let columns = as_kind(&factors.lower, kind)?.f_linalg_solve_triangular(
            &as_kind(&columns, kind)?,
            false,
            true,
            true,
        )?;
        let columns = as_kind(&factors.upper, kind)?
            .f_linalg_solve_triangular(&columns, true, true, false)?;
        let x = self
            .full_precision(&columns)?
            .f_transpose(0, 1)?
            .f_index_select(1, self.weights.permutation(number, true))?;
        Ok((x, factors.log_det.f_neg()?))
    }
}
