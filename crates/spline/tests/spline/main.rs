//! Checks of the spline crate against golden files, known hard cases and properties.

mod cases;
mod common;
mod golden;
mod masked;
mod properties;
