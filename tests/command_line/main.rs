//! The program as a user runs it: results, messages, exit codes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod arguments;
mod c2st;
mod inspect;
mod kinds;
mod model;
mod sample;
