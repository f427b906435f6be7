//! Golden values of the reference, through every path; and what is said of folders that are not whole.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod folders;
