//! The eager network where no golden file says what is right: properties, and faults of other projects.

#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch_norm;
#[path = "../discriminants/mod.rs"]
mod discriminants;
mod linear;
mod network;
mod precision;
mod support;
mod training;
