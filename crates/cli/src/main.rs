//! The `dunnart` program.

fn main() {}
