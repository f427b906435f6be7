//! Counter-based random numbers keyed by what they are for.
