//! Set-up, checks and starting the program.

fn main() {}
