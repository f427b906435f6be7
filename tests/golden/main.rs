//! Golden values of the reference, through every path.
