//! Calls into the HDF5 library that end in a value or an error, whatever the file holds.
//!
//! The library is careful, but it is large and young, and some of its parsers index past their slice on
//! crafted headers. A panic there is the file's fault, not the program's: it is caught here and becomes an
//! error. The message of such a panic is kept from the standard error output by a hook that asks a
//! thread-local flag and passes every other panic to the hook that stood before.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

fn install_hook() {
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                MESSAGE.with_borrow_mut(|message| *message = info.to_string());
            } else {
                previous(info);
            }
        }));
    });
}

/// Calls `body`, a call into the library; a panic inside becomes `Err` with its message.
///
/// `body` may be interrupted at any point, so it may only hold values of the library that are not used
/// again after an error, or that the library itself guards against poisoning.
pub(crate) fn guarded<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let outer = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    INSIDE.set(outer);
    result.map_err(|_| {
        let message = MESSAGE.take();
        format!(
            "the HDF5 library gave up on it ({})",
            message.replace('\n', " ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(guarded(|| 3), Ok(3));
        let error = guarded(|| {
            let empty: Vec<u8> = Vec::new();
            empty[std::hint::black_box(4)]
        })
        .expect_err("an index past the end panics");
        assert!(error.contains("index out of bounds"), "{error}");
        assert!(!INSIDE.get());
    }
}
