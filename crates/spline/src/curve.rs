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
    pub(crate) width: T,
    pub(crate) height: T,
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
    fn with_derivatives(bin: &Bin<T>, d0: T, d1: T) -> Self {
        let (width, height) = (bin.x1 - bin.x0, bin.y1 - bin.y0);
        let slope = height / width;
        let excess = d0 + d1 - (slope + slope);
        Self {
            x0: bin.x0,
            y0: bin.y0,
            width,
            height,
            slope,
            d0,
            d1,
            excess,
        }
    }

    /// The curve of a bin.
    #[inline(always)]
    pub(crate) fn new<const FMA: bool>(constants: &Constants<T>, bin: &Bin<T>) -> Self {
        let limit = constants.max_derivative_logit;
        let d0 = softplus::<T, FMA>(minimum(bin.u0, limit)) + constants.min_derivative;
        let d1 = softplus::<T, FMA>(minimum(bin.u1, limit)) + constants.min_derivative;
        Self::with_derivatives(bin, d0, d1)
    }

    /// The curve of a bin, and the slopes of its derivatives with respect to their logits.
    #[inline(always)]
    pub(crate) fn with_slopes<const FMA: bool>(
        constants: &Constants<T>,
        bin: &Bin<T>,
    ) -> (Self, T, T) {
        let limit = constants.max_derivative_logit;
        let (d0, slope0) = softplus_and_sigmoid::<T, FMA>(minimum(bin.u0, limit));
        let (d1, slope1) = softplus_and_sigmoid::<T, FMA>(minimum(bin.u1, limit));
        let floor = constants.min_derivative;
        (
            Self::with_derivatives(bin, d0 + floor, d1 + floor),
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
        Point {
            t,
            r,
            q,
            numerator,
            denominator,
            polynomial,
        }
    }

    /// The point above x.
    #[inline(always)]
    pub(crate) fn at_x<const FMA: bool>(&self, x: T) -> Point<T> {
        self.at::<FMA>((x - self.x0) / self.width)
    }

    /// The point beside y, and the root of the discriminant.
    ///
    /// t solves a t^2 + b t + c = 0; the form 2 c / (-b - root) has no cancellation for either
    /// sign of b. Rounding may leave the discriminant below zero close under a knot with a small
    /// derivative, hence its floor; then the root is taken from h s N / D instead, which equals
    /// it and is a sum of positive terms.
    #[inline(always)]
    pub(crate) fn at_y<const FMA: bool>(&self, y: T) -> (Point<T>, T) {
        let two = T::from_f64(2.0);
        let v = y - self.y0;
        let a = v.fused::<FMA>(self.excess, self.height * (self.slope - self.d0));
        let b = (-v).fused::<FMA>(self.excess, self.height * self.d0);
        let c = -(self.slope * v);
        let discriminant = b.fused::<FMA>(b, T::from_f64(-4.0) * a * c);
        let known = clamp(discriminant, T::ZERO, T::MAX);
        let root = known.square_root();
        let point = self.at::<FMA>(two * c / (-b - root));
        let lost = discriminant < T::from_f64(64.0) * T::EPSILON * b * b;
        let stable = self.height * self.slope * point.polynomial / point.denominator;
        (point, if lost { stable } else { root })
    }

    /// x of a point.
    #[inline(always)]
    pub(crate) fn x<const FMA: bool>(&self, point: &Point<T>) -> T {
        point.t.fused::<FMA>(self.width, self.x0)
    }

    /// y of a point.
    #[inline(always)]
    pub(crate) fn y<const FMA: bool>(&self, point: &Point<T>) -> T {
        self.height
            .fused::<FMA>(point.numerator / point.denominator, self.y0)
    }

    /// ln dy/dx at a point.
    #[inline(always)]
    pub(crate) fn log_slope<const FMA: bool>(&self, point: &Point<T>) -> T {
        let ratio = self.slope / point.denominator;
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
            denominator,
            polynomial,
            ..
        } = *point;
        let by_polynomial = g / polynomial;
        let by_denominator = two * g / denominator;
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
            denominator,
            polynomial,
        } = *point;
        let (lt, ls, l0, l1) = self.log_slope_gradient::<FMA>(point, gl);
        // (A' D - A D') / D^2 by t, s, d0, d1: s N, q (d1 t^2 - d0 r^2), q (s r^2 + d1 q) and
        // -q (s t^2 + d0 q), each over D^2.
        let factor = gy * self.height / (denominator * denominator);
        let factor_q = factor * q;
        let (tt, rr) = (t * t, r * r);
        let gt = factor.fused::<FMA>(self.slope * polynomial, lt);
        let gs = factor_q.fused::<FMA>(self.d1.fused::<FMA>(tt, -(self.d0 * rr)), ls);
        let d0 = factor_q.fused::<FMA>(self.slope.fused::<FMA>(rr, self.d1 * q), l0);
        let d1 = (-factor_q).fused::<FMA>(numerator, l1);
        let inverse = T::ONE / self.width;
        let gx = gt * inverse;
        Gradient {
            input: gx,
            x0: -gx,
            width: -(gs.fused::<FMA>(self.slope, gt * t) * inverse),
            y0: gy,
            height: gs.fused::<FMA>(inverse, gy * (numerator / denominator)),
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
        let inverse = T::ONE / self.width;
        Gradient {
            input,
            x0: gx,
            width: (-(gs * inverse)).fused::<FMA>(self.slope, gx * t),
            y0: -input,
            height: gs.fused::<FMA>(inverse, -(m * numerator)),
            d0: mq.fused::<FMA>(v - self.height, l0),
            d1: mq.fused::<FMA>(v, l1),
        }
    }
}
