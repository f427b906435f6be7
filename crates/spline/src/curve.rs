//! The rational-quadratic curve inside one bin, and its derivatives.
//!
//! With w and h the width and height of the bin, s = h / w, d0 and d1 the derivatives at its
//! ends, t = (x - x0) / w, r = 1 - t, q = t r and e = d0 + d1 - 2 s:
//!
//! ```text
//! A = s t^2 + d0 q        D = s + e q        N = d1 t^2 + 2 s q + d0 r^2
//! y = y0 + h A / D        ln dy/dx = ln((s / D)^2 N)
//! ```

use dunnart_elementwise::{Real, clamp, minimum, softplus, softplus_and_sigmoid};

use crate::block::{Bin, Constants};

/// One bin.
#[derive(Clone, Copy)]
pub(crate) struct Curve<T> {
    pub(crate) x0: T,
    pub(crate) y0: T,
    x1: T,
    y1: T,
    /// Differences of the pinned knots: with them the curve meets both ends of the bin.
    span_x: T,
    span_y: T,
    /// Width, its inverse, and height from the logits, without the rounding of the knots: they
    /// make the slope and the gradients.
    width: T,
    inverse: T,
    height: T,
    slope: T,
    d0: T,
    d1: T,
    excess: T,
}

/// One point of a bin: t and what the formulas make of it.
#[derive(Clone, Copy)]
pub(crate) struct Point<T> {
    t: T,
    r: T,
    q: T,
    numerator: T,
    denominator: T,
    /// 1 / D.
    inverse: T,
    polynomial: T,
}

/// A loss differentiated by the value that went in and by the quantities of the bin.
#[derive(Clone, Copy)]
pub(crate) struct Gradient<T> {
    pub(crate) input: T,
    pub(crate) x0: T,
    pub(crate) width: T,
    pub(crate) y0: T,
    pub(crate) height: T,
    pub(crate) d0: T,
    pub(crate) d1: T,
}

impl<T: Real> Curve<T> {
    #[inline(always)]
    fn with_derivatives(c: &Constants<T>, bin: &Bin<T>, shares: (T, T), (d0, d1): (T, T)) -> Self {
        let (width, height) = (shares.0 + c.width_floor, shares.1 + c.height_floor);
        let inverse = T::ONE / width;
        let slope = height * inverse;
        let excess = d0 + d1 - (slope + slope);
        let (span_x, span_y) = (bin.x1 - bin.x0, bin.y1 - bin.y0);
        let Bin { x0, x1, y0, y1, .. } = *bin;
        Self {
            x0,
            y0,
            x1,
            y1,
            span_x,
            span_y,
            width,
            inverse,
            height,
            slope,
            d0,
            d1,
            excess,
        }
    }

    /// The curve of a bin; `shares` are width and height above their floors.
    #[inline(always)]
    pub(crate) fn new<const FMA: bool>(c: &Constants<T>, bin: &Bin<T>, shares: (T, T)) -> Self {
        let limit = c.max_derivative_logit;
        let d0 = softplus::<T, FMA>(minimum(bin.u0, limit)) + c.min_derivative;
        let d1 = softplus::<T, FMA>(minimum(bin.u1, limit)) + c.min_derivative;
        Self::with_derivatives(c, bin, shares, (d0, d1))
    }

    /// The curve of a bin, and the slopes of its derivatives with respect to their logits.
    #[inline(always)]
    pub(crate) fn with_slopes<const FMA: bool>(
        c: &Constants<T>,
        bin: &Bin<T>,
        shares: (T, T),
    ) -> (Self, T, T) {
        let limit = c.max_derivative_logit;
        let (d0, slope0) = softplus_and_sigmoid::<T, FMA>(minimum(bin.u0, limit));
        let (d1, slope1) = softplus_and_sigmoid::<T, FMA>(minimum(bin.u1, limit));
        let derivatives = (d0 + c.min_derivative, d1 + c.min_derivative);
        (
            Self::with_derivatives(c, bin, shares, derivatives),
            slope0,
            slope1,
        )
    }

    #[inline(always)]
    fn at<const FMA: bool>(&self, t: T) -> Point<T> {
        let t = clamp(t, T::ZERO, T::ONE);
        let r = T::ONE - t;
        let q = t * r;
        let square = t * t;
        let numerator = self.slope.fused::<FMA>(square, self.d0 * q);
        let denominator = self.excess.fused::<FMA>(q, self.slope);
        let ends = self.d1.fused::<FMA>(square, self.d0 * (r * r));
        let polynomial = (self.slope + self.slope).fused::<FMA>(q, ends);
        let inverse = T::ONE / denominator;
        Point {
            t,
            r,
            q,
            numerator,
            denominator,
            inverse,
            polynomial,
        }
    }

    /// The point above x.
    #[inline(always)]
    pub(crate) fn at_x<const FMA: bool>(&self, x: T) -> Point<T> {
        self.at::<FMA>((x - self.x0) / self.span_x)
    }

    /// The point beside y, and the root of the discriminant.
    ///
    /// t solves a t^2 + b t + c = 0. For b >= 0 it is 2 c / (-b - root); for b < 0, where that
    /// cancels, the same number is (root - b) / (2 a). Rounding may leave the discriminant below
    /// zero close under a knot with a small derivative, hence its floor. Where it is mostly
    /// rounding, the root is taken from h s N / D, which equals it and is a sum of positive terms.
    #[inline(always)]
    pub(crate) fn at_y<const FMA: bool>(&self, y: T) -> (Point<T>, T) {
        let two = T::from_f64(2.0);
        let v = y - self.y0;
        let a = v.fused::<FMA>(self.excess, self.span_y * (self.slope - self.d0));
        let b = (-v).fused::<FMA>(self.excess, self.span_y * self.d0);
        let minus_c = self.slope * v;
        let discriminant = b.fused::<FMA>(b, T::from_f64(4.0) * a * minus_c);
        // Written this way round so that NaN stays NaN.
        let floored = if discriminant < T::ZERO {
            T::ZERO
        } else {
            discriminant
        };
        let root = floored.square_root();
        let falling = b < T::ZERO;
        let upper = if falling { root - b } else { two * minus_c };
        let lower = if falling { two * a } else { b + root };
        let t = upper / lower;
        let point = self.at::<FMA>(if y >= self.y1 { T::ONE } else { t });
        let terms = self.span_y * (self.d0 + self.d1 + two * self.slope);
        let lost = discriminant <= T::from_f64(16.0) * T::EPSILON * terms * terms;
        let stable = self.height * self.slope * point.polynomial * point.inverse;
        (point, if lost { stable } else { root })
    }

    /// x of a point; never above the upper knot, and that knot itself at the upper end.
    #[inline(always)]
    pub(crate) fn x<const FMA: bool>(&self, point: &Point<T>) -> T {
        let x = point.t.fused::<FMA>(self.span_x, self.x0);
        if (point.t >= T::ONE) | (x > self.x1) {
            self.x1
        } else {
            x
        }
    }

    /// y of a point; never above the upper knot, and that knot itself at the upper end.
    #[inline(always)]
    pub(crate) fn y<const FMA: bool>(&self, point: &Point<T>) -> T {
        let y = self
            .span_y
            .fused::<FMA>(point.numerator * point.inverse, self.y0);
        if (point.t >= T::ONE) | (y > self.y1) {
            self.y1
        } else {
            y
        }
    }

    /// ln dy/dx at a point.
    #[inline(always)]
    pub(crate) fn log_slope<const FMA: bool>(&self, point: &Point<T>) -> T {
        let ratio = self.slope * point.inverse;
        (ratio * ratio * point.polynomial).logarithm::<FMA>()
    }

    /// g times ln dy/dx, differentiated by t, s, d0 and d1.
    #[inline(always)]
    fn log_slope_gradient<const FMA: bool>(&self, point: &Point<T>, g: T) -> (T, T, T, T) {
        let two = T::from_f64(2.0);
        let Point {
            t,
            r,
            q,
            inverse,
            polynomial,
            ..
        } = *point;
        let by_polynomial = g / polynomial;
        let by_denominator = two * g * inverse;
        let balance = r - t;
        // dN/dt = 2 (d1 t - d0 r + s (1 - 2 t)), dD/dt = e (1 - 2 t).
        let ends = self.d1.fused::<FMA>(t, -(self.d0 * r));
        let polynomial_t = two * self.slope.fused::<FMA>(balance, ends);
        let gt =
            by_polynomial.fused::<FMA>(polynomial_t, -(by_denominator * self.excess * balance));
        let two_q = q + q;
        let rest = two * g / self.slope - by_denominator * (T::ONE - two_q);
        let gs = by_polynomial.fused::<FMA>(two_q, rest);
        let middle = by_denominator * q;
        let gd0 = by_polynomial.fused::<FMA>(r * r, -middle);
        let gd1 = by_polynomial.fused::<FMA>(t * t, -middle);
        (gt, gs, gd0, gd1)
    }

    /// gy times y plus gl times ln dy/dx, differentiated; the input is x.
    #[inline(always)]
    pub(crate) fn forward_gradient<const FMA: bool>(
        &self,
        point: &Point<T>,
        gy: T,
        gl: T,
    ) -> Gradient<T> {
        let Point {
            t,
            r,
            q,
            numerator,
            inverse,
            polynomial,
            ..
        } = *point;
        let (lt, ls, l0, l1) = self.log_slope_gradient::<FMA>(point, gl);
        // (A' D - A D') / D^2 by t, s, d0, d1: s N, q (d1 t^2 - d0 r^2), q (s r^2 + d1 q) and
        // -q (s t^2 + d0 q), each over D^2.
        let factor = gy * self.height * (inverse * inverse);
        let factor_q = factor * q;
        let (tt, rr) = (t * t, r * r);
        let gt = factor.fused::<FMA>(self.slope * polynomial, lt);
        let gs = factor_q.fused::<FMA>(self.d1.fused::<FMA>(tt, -(self.d0 * rr)), ls);
        let d0 = factor_q.fused::<FMA>(self.slope.fused::<FMA>(rr, self.d1 * q), l0);
        let d1 = (-factor_q).fused::<FMA>(numerator, l1);
        let gx = gt * self.inverse;
        Gradient {
            input: gx,
            x0: -gx,
            width: -(gs.fused::<FMA>(self.slope, gt * t) * self.inverse),
            y0: gy,
            height: gs.fused::<FMA>(self.inverse, gy * (numerator * inverse)),
            d0,
            d1,
        }
    }

    /// gx times x minus gl times ln dy/dx, differentiated; the input is y.
    ///
    /// The derivatives are those of the root: dt = -(t^2 da + t db + dc) / root.
    #[inline(always)]
    pub(crate) fn inverse_gradient<const FMA: bool>(
        &self,
        point: &Point<T>,
        root: T,
        v: T,
        gx: T,
        gl: T,
    ) -> Gradient<T> {
        let Point {
            t,
            r,
            q,
            numerator,
            denominator,
            ..
        } = *point;
        let (lt, ls, l0, l1) = self.log_slope_gradient::<FMA>(point, -gl);
        let gt = gx.fused::<FMA>(self.width, lt);
        let m = gt / root;
        let mq = m * q;
        // v - h t^2 - 2 v q = v (1 - 2 q) - h t^2.
        let by_slope = v.fused::<FMA>(r * r, (v - self.height) * (t * t));
        let gs = m.fused::<FMA>(by_slope, ls);
        let input = m * denominator;
        Gradient {
            input,
            x0: gx,
            width: (-(gs * self.inverse)).fused::<FMA>(self.slope, gx * t),
            y0: -input,
            height: gs.fused::<FMA>(self.inverse, -(m * numerator)),
            d0: mq.fused::<FMA>(v - self.height, l0),
            d1: mq.fused::<FMA>(v, l1),
        }
    }
}
