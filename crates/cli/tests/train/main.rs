//! The `train` verb, run as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod append_stage;
mod kills;
mod support;
mod verb;
