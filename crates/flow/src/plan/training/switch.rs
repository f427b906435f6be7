//! Options of a fused pass that are settled when it is compiled.

/// Whether an option is on.
pub(crate) trait Switch: Copy + Send + Sync + 'static {
    /// The answer.
    const ON: bool;
}

/// The option is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct On;

/// The option is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Off;

impl Switch for On {
    const ON: bool = true;
}

impl Switch for Off {
    const ON: bool = false;
}

/// Runs an expression with [`On`] or [`Off`] under the given name.
macro_rules! with_switch {
    ($condition:expr, $name:ident => $body:expr) => {
        if $condition {
            let $name = $crate::plan::training::switch::On;
            $body
        } else {
            let $name = $crate::plan::training::switch::Off;
            $body
        }
    };
}
pub(crate) use with_switch;
