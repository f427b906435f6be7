//! The program as a user runs it: results, messages, exit codes.

mod arguments;
mod c2st;
mod inspect;
mod model;
mod sample;
