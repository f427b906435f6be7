//! Whole runs of small networks: what a run writes, how it ends, and that resuming changes nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod endings;
mod gradients;
mod non_finite;
mod resume;
mod stages;
mod support;
