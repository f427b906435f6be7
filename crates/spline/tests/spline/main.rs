//! Checks of the spline crate against golden files, known hard cases and properties.

mod common;
mod golden;
