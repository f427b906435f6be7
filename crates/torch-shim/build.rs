//! Compiles the shim against the libtorch that torch-sys found.

fn main() {}
