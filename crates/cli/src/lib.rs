//! What the `dunnart` program does beyond calling the other crates, where tests can reach it.
//!
//! Here: [`verify`], the comparison of every form of the network with golden values. Deliberately not
//! here: arguments and printing, which are the program's.

pub mod verify;
