//! Rational-quadratic spline with linear tails: forward, inverse, gradients.
