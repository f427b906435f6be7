//! The rational-quadratic spline in tensor operations of static shape.
//!
//! No element is ever picked by a mask: elements in the tails run through the same arithmetic with 0
//! in their place, before anything is computed, so that no NaN of an unused branch reaches a
//! gradient.

use dunnart_spline::SplineSettings;
use tch::{Kind, Tensor};

use crate::Result;

/// Floor of what is taken a root or logarithm of: the smallest normal float32.
const TINY: f64 = 1.175_494_350_822_287_5e-38;

#[derive(Clone, Copy, Debug)]
pub(super) struct TensorSpline {
    settings: SplineSettings,
    logit_scale: f64,
}

/// Knots and derivatives of every element's bin, each of the shape of the input.
struct Bin {
    left: Tensor,
    width: Tensor,
    bottom: Tensor,
    height: Tensor,
    slope: Tensor,
    left_derivative: Tensor,
    right_derivative: Tensor,
}

impl TensorSpline {
    pub(super) fn new(settings: SplineSettings, logit_scale: f64) -> Self {
        Self {
            settings,
            logit_scale,
        }
    }

    /// Knots `[.., K + 1]` and the distances between them `[.., K]`.
    fn knots(&self, logits: &Tensor, floor: f64) -> Result<(Tensor, Tensor)> {
        let (k, bound) = (self.settings.num_bins as i64, self.settings.tail_bound);
        let shares = logits
            .f_mul_scalar(self.logit_scale)?
            .f_softmax(-1, None)?
            .f_mul_scalar(1.0 - floor * k as f64)?
            .f_add_scalar(floor)?;
        let inner = shares
            .f_cumsum(-1, None)?
            .f_narrow(-1, 0, k - 1)?
            .f_mul_scalar(2.0 * bound)?
            .f_sub_scalar(bound)?;
        // The outer knots are the bound itself, whatever the rounding of the sums.
        let edge = |value: f64| shares.f_narrow(-1, 0, 1)?.f_full_like(value);
        let knots = Tensor::f_cat(&[edge(-bound)?, inner, edge(bound)?], -1)?;
        let sizes = knots
            .f_narrow(-1, 1, k)?
            .f_sub(&knots.f_narrow(-1, 0, k)?)?;
        Ok((knots, sizes))
    }

    fn bin(&self, value: &Tensor, logits: &Tensor, inverse: bool) -> Result<Bin> {
        let k = self.settings.num_bins as i64;
        let (x, widths) = self.knots(&logits.f_narrow(-1, 0, k)?, self.settings.min_bin_width)?;
        let (y, heights) = self.knots(&logits.f_narrow(-1, k, k)?, self.settings.min_bin_height)?;
        let inner = logits.f_narrow(-1, 2 * k, k - 1)?;
        let edge = logits
            .f_narrow(-1, 0, 1)?
            .f_full_like(self.settings.boundary_derivative_logit())?;
        let derivatives = Tensor::f_cat(&[&edge, &inner, &edge], -1)?
            .f_softplus()?
            .f_add_scalar(self.settings.min_derivative)?;
        // Only inner knots are counted, so the index lies in 0 .. K - 1 without rounding anything up.
        let searched = if inverse { &y } else { &x };
        let searched = searched.f_detach()?.f_narrow(-1, 1, k - 1)?;
        let index = value
            .f_detach()?
            .f_unsqueeze(-1)?
            .f_ge_tensor(&searched)?
            .f_sum_dim_intlist([-1_i64].as_slice(), true, Kind::Int64)?;
        let at = |rows: &Tensor, shift: i64| -> Result<Tensor> {
            let rows = rows.f_narrow(-1, shift, k)?;
            Ok(rows.f_gather(-1, &index, false)?.f_squeeze_dim(-1)?)
        };
        let slopes = heights.f_div(&widths)?;
        Ok(Bin {
            left: at(&x, 0)?,
            width: at(&widths, 0)?,
            bottom: at(&y, 0)?,
            height: at(&heights, 0)?,
            slope: at(&slopes, 0)?,
            left_derivative: at(&derivatives, 0)?,
            right_derivative: at(&derivatives, 1)?,
        })
    }

    /// Whether each element is inside the tail bound, and a safe stand-in for those that are not.
    fn inside(&self, value: &Tensor) -> Result<(Tensor, Tensor)> {
        let bound = self.settings.tail_bound;
        let inside = value.f_ge(-bound)?.f_logical_and(&value.f_le(bound)?)?;
        let safe = value.f_where_self(&inside, &value.f_zeros_like()?)?;
        Ok((inside, safe))
    }

    pub(super) fn forward(&self, x: &Tensor, logits: &Tensor) -> Result<(Tensor, Tensor)> {
        let (inside, safe) = self.inside(x)?;
        let bin = self.bin(&safe, logits, false)?;
        let t = safe.f_sub(&bin.left)?.f_div(&bin.width)?;
        let (numerator, denominator) = bin.curve(&t)?;
        let y = bin
            .height
            .f_mul(&numerator)?
            .f_div(&denominator)?
            .f_add(&bin.bottom)?;
        let log_det = bin.log_slope(&t, &denominator)?;
        finish(x, &inside, &y, &log_det)
    }

    pub(super) fn inverse(&self, y: &Tensor, logits: &Tensor) -> Result<(Tensor, Tensor)> {
        let (inside, safe) = self.inside(y)?;
        let bin = self.bin(&safe, logits, true)?;
        let v = safe.f_sub(&bin.bottom)?;
        let e = bin.excess()?;
        let (s, d) = (&bin.slope, &bin.left_derivative);
        let a = v.f_mul(&e)?.f_add(&bin.height.f_mul(&s.f_sub(d)?)?)?;
        let b = bin.height.f_mul(d)?.f_sub(&v.f_mul(&e)?)?;
        let c = s.f_mul(&v)?.f_neg()?;
        let discriminant = b
            .f_square()?
            .f_sub(&a.f_mul(&c)?.f_mul_scalar(4.0)?)?
            .f_clamp_min(TINY)?;
        let root = c
            .f_mul_scalar(2.0)?
            .f_div(&b.f_neg()?.f_sub(&discriminant.f_sqrt()?)?)?;
        // Rounding may put the root beside [0, 1]; its gradient is right all the same, and a clamp
        // would drop it.
        let correction = root.f_clamp(0.0, 1.0)?.f_sub(&root)?.f_detach()?;
        let t = root.f_add(&correction)?;
        let x = t.f_mul(&bin.width)?.f_add(&bin.left)?;
        let (_, denominator) = bin.curve(&t)?;
        let log_det = bin.log_slope(&t, &denominator)?.f_neg()?;
        finish(y, &inside, &x, &log_det)
    }
}

impl Bin {
    /// `d_k + d_(k+1) - 2 s`.
    fn excess(&self) -> Result<Tensor> {
        let both = self.left_derivative.f_add(&self.right_derivative)?;
        Ok(both.f_sub(&self.slope.f_mul_scalar(2.0)?)?)
    }

    /// `s t^2 + d_k t (1 - t)` and `s + excess t (1 - t)`.
    fn curve(&self, t: &Tensor) -> Result<(Tensor, Tensor)> {
        let q = t.f_mul(&one_minus(t)?)?;
        let numerator = self
            .slope
            .f_mul(&t.f_square()?)?
            .f_add(&self.left_derivative.f_mul(&q)?)?;
        let denominator = self.slope.f_add(&self.excess()?.f_mul(&q)?)?;
        Ok((numerator, denominator))
    }

    /// `ln(s^2 (d_(k+1) t^2 + 2 s q + d_k (1 - t)^2)) - 2 ln(denominator)`.
    fn log_slope(&self, t: &Tensor, denominator: &Tensor) -> Result<Tensor> {
        let rest = one_minus(t)?;
        let q = t.f_mul(&rest)?;
        let sum = self
            .right_derivative
            .f_mul(&t.f_square()?)?
            .f_add(&self.slope.f_mul(&q)?.f_mul_scalar(2.0)?)?
            .f_add(&self.left_derivative.f_mul(&rest.f_square()?)?)?;
        let numerator = self.slope.f_square()?.f_mul(&sum)?.f_clamp_min(TINY)?;
        let denominator = denominator.f_clamp_min(TINY)?;
        Ok(numerator
            .f_log()?
            .f_sub(&denominator.f_log()?.f_mul_scalar(2.0)?)?)
    }
}

fn one_minus(t: &Tensor) -> Result<Tensor> {
    Ok(t.f_neg()?.f_add_scalar(1.0)?)
}

/// The identity with log-det 0 outside.
fn finish(
    input: &Tensor,
    inside: &Tensor,
    output: &Tensor,
    log_det: &Tensor,
) -> Result<(Tensor, Tensor)> {
    Ok((
        output.f_where_self(inside, input)?,
        log_det.f_where_self(inside, &log_det.f_zeros_like()?)?,
    ))
}
