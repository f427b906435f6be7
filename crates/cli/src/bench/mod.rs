//! Timing: what is timed, the machine it runs on, and how rows are shown.

pub(crate) mod machine;
pub(crate) mod report;
pub(crate) mod size;
pub(crate) mod train;
