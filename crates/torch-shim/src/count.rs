//! How many operations libtorch dispatches.

#![allow(unsafe_code)] // Calls of C++.

use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Result;
use crate::ffi;

/// The counts are global in C++, so one counter lives at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One operation and how often it was dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationCount {
    /// libtorch's name, such as `aten::mm`.
    pub name: String,
    /// How often it was dispatched.
    pub count: u64,
}

/// While it lives, the operations dispatched by this thread, and for it by the autograd engine, are counted.
///
/// An operation that is made of others counts, and so do the others. A second counter waits until the first is gone;
/// making two on one thread therefore never returns.
#[derive(Debug)]
pub struct OperationCounter {
    callback: u64,
    _alone: MutexGuard<'static, ()>,
}

impl OperationCounter {
    /// Starts counting from zero.
    ///
    /// # Errors
    /// [`Error::Libtorch`](crate::Error::Libtorch).
    pub fn start() -> Result<Self> {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut callback = 0;
        // SAFETY: the function writes one integer.
        let status = unsafe { ffi::dunnart_shim_count_start(&raw mut callback) };
        ffi::check("counting operations", status)?;
        Ok(Self {
            callback,
            _alone: alone,
        })
    }

    /// The operations so far, the most frequent first.
    ///
    /// # Errors
    /// [`Error::Libtorch`](crate::Error::Libtorch).
    pub fn by_name(&self) -> Result<Vec<OperationCount>> {
        let mut counts: Vec<OperationCount> = Vec::new();
        let user = (&raw mut counts).cast::<c_void>();
        // SAFETY: `visit` is called with this vector, which nobody else uses, and with texts that live during the call.
        let status = unsafe { ffi::dunnart_shim_count_visit(user, visit) };
        ffi::check("counting operations", status)?;
        counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        Ok(counts)
    }

    /// The number of operations so far.
    ///
    /// # Errors
    /// [`Error::Libtorch`](crate::Error::Libtorch).
    pub fn total(&self) -> Result<u64> {
        Ok(self
            .by_name()?
            .iter()
            .map(|operation| operation.count)
            .sum())
    }
}

impl Drop for OperationCounter {
    fn drop(&mut self) {
        // SAFETY: the number is the one that starting gave us, and it is given back once.
        unsafe { ffi::dunnart_shim_count_stop(self.callback) };
    }
}

unsafe extern "C" fn visit(user: *mut c_void, name: *const c_char, length: usize, count: u64) {
    // SAFETY: `by_name` passes its vector, and C++ a text of this length.
    let (counts, name) = unsafe {
        (
            &mut *user.cast::<Vec<OperationCount>>(),
            std::slice::from_raw_parts(name.cast::<u8>(), length),
        )
    };
    counts.push(OperationCount {
        name: String::from_utf8_lossy(name).into_owned(),
        count,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn operations_forward_and_backward_are_counted_until_the_counter_goes() {
        let x = Tensor::ones([2, 2], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        let counter = OperationCounter::start().unwrap();
        assert_eq!(counter.total().unwrap(), 0);
        let y = x.mm(&x).mm(&x);
        let count = |counter: &OperationCounter, name: &str| {
            let all = counter.by_name().unwrap();
            all.iter()
                .find(|operation| operation.name == name)
                .map_or(0, |found| found.count)
        };
        assert_eq!(count(&counter, "aten::mm"), 2);
        crate::backward(&[&y], &[Tensor::ones_like(&y)], false).unwrap();
        assert_eq!(
            count(&counter, "aten::mm"),
            6,
            "two products for each in the backward pass"
        );
        std::thread::spawn(|| {
            let z = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
            let _ = z.mm(&z);
        })
        .join()
        .unwrap();
        assert_eq!(
            count(&counter, "aten::mm"),
            6,
            "another thread's work is not counted"
        );
        drop(counter);
        let _ = x.mm(&x);
        let counter = OperationCounter::start().unwrap();
        assert_eq!(counter.total().unwrap(), 0);
    }
}
