//! Functions of the autograd graph whose forward and backward are Rust.

#![allow(unsafe_code)] // C++ calls back here.

use std::any::Any;
use std::borrow::Borrow;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;

use tch::Tensor;

use crate::ffi::{self, FunctionTable, Handle, RawList, RawText, handle, handles};
use crate::{Error, Result};

/// Whatever a custom function may fail with; its text reaches the caller of [`apply`] or of the backward pass.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the forward direction of a [`CustomFunction`] gives back.
#[derive(Debug)]
pub struct Forward {
    /// The outputs, in order; integer tensors among them have no gradient.
    pub outputs: Vec<Tensor>,
    /// Whatever the backward direction needs: inputs and outputs as shallow clones, and anything computed on the way.
    /// Nothing in here may be changed before the backward pass, libtorch checks that.
    pub saved: Vec<Tensor>,
}

/// A function of the autograd graph whose two directions are Rust.
///
/// Both directions run without recording. On CPU they run on the calling thread; a device has threads of its own, hence
/// `Send + Sync`. A function is not twice differentiable: asking for a graph of its backward pass is an error.
pub trait CustomFunction: Send + Sync + 'static {
    /// Outputs of the inputs, and what to save for [`backward`](Self::backward).
    ///
    /// # Errors
    /// Anything; the text becomes [`Error::Libtorch`] of [`apply`].
    fn forward(&self, inputs: &[Tensor]) -> Result<Forward, BoxError>;

    /// Gradients of the inputs, in their order; `None` where there is none, or where `needed` is false.
    ///
    /// # Shapes
    /// `output_gradients` has an entry for each output, `None` where an output did not reach the loss; `needed` has one
    /// for each input. The result has one for each input, of the input's shape.
    ///
    /// # Errors
    /// Anything; the text becomes [`Error::Libtorch`] of whoever runs the backward pass.
    fn backward(
        &self,
        saved: &[Tensor],
        output_gradients: &[Option<Tensor>],
        needed: &[bool],
    ) -> Result<Vec<Option<Tensor>>, BoxError>;
}

/// Applies a custom function, and puts it on the graph where an input requires a gradient.
///
/// # Errors
/// [`Error::Libtorch`] with the text of the function's own error or panic.
pub fn apply<F: CustomFunction, T: Borrow<Tensor>>(
    function: &Arc<F>,
    inputs: &[T],
) -> Result<Vec<Tensor>> {
    const OPERATION: &str = "applying a custom function";
    let list = handles(inputs);
    let user = Arc::into_raw(Arc::clone(function)).cast::<c_void>();
    let mut outputs = null_mut();
    // SAFETY: the table lives as long as the program, the counted reference `user` passes to C++, the handles belong to
    // borrowed tensors, and on success the list is ours.
    let outputs = unsafe {
        let status = ffi::dunnart_shim_apply(
            std::ptr::from_ref(Table::<F>::TABLE),
            user,
            list.as_ptr(),
            list.len(),
            &raw mut outputs,
        );
        ffi::check(OPERATION, status)?;
        ffi::take_list(outputs)
    };
    outputs
        .into_iter()
        .map(|output| output.ok_or_else(|| Error::libtorch(OPERATION, "an output has no value")))
        .collect()
}

/// The C functions for one type.
struct Table<F>(std::marker::PhantomData<F>);

impl<F: CustomFunction> Table<F> {
    const STATIC: FunctionTable = FunctionTable {
        forward: forward::<F>,
        backward: backward::<F>,
        release: release::<F>,
    };
    const TABLE: &'static FunctionTable = &Self::STATIC;
}

unsafe extern "C" fn forward<F: CustomFunction>(
    user: *const c_void,
    inputs: *const Handle,
    input_count: usize,
    outputs: *mut RawList,
    saved: *mut RawList,
    error: *mut RawText,
) -> c_int {
    caught(error, || {
        // SAFETY: C++ passes the reference that `apply` gave it, and lends the list for the time of this call.
        let (function, inputs) =
            unsafe { (&*user.cast::<F>(), ffi::borrow_list(inputs, input_count)) };
        let result = function.forward(&all_present(inputs, "an input")?)?;
        for (list, tensors) in [(outputs, &result.outputs), (saved, &result.saved)] {
            for tensor in tensors {
                // SAFETY: C++ lends the list; pushing takes a reference of its own.
                unsafe { ffi::dunnart_shim_list_push(list, handle(tensor)) };
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn backward<F: CustomFunction>(
    user: *const c_void,
    saved: *const Handle,
    saved_count: usize,
    output_gradients: *const Handle,
    output_count: usize,
    needed: *const u8,
    input_count: usize,
    input_gradients: *mut RawList,
    error: *mut RawText,
) -> c_int {
    caught(error, || {
        // SAFETY: C++ passes the reference that `apply` gave it, and lends the lists for the time of this call.
        let (function, saved, output_gradients, needed) = unsafe {
            (
                &*user.cast::<F>(),
                ffi::borrow_list(saved, saved_count),
                ffi::borrow_list(output_gradients, output_count),
                std::slice::from_raw_parts(needed, input_count),
            )
        };
        let needed: Vec<bool> = needed.iter().map(|&need| need != 0).collect();
        let saved = all_present(saved, "a saved tensor")?;
        let gradients = function.backward(&saved, &output_gradients, &needed)?;
        if gradients.len() != input_count {
            let got = gradients.len();
            return Err(format!("expected {input_count} input gradients, got {got}").into());
        }
        for (gradient, needed) in gradients.iter().zip(needed) {
            let gradient = gradient.as_ref().filter(|_| needed);
            // SAFETY: C++ lends the list; pushing takes a reference of its own.
            unsafe {
                ffi::dunnart_shim_list_push(input_gradients, ffi::optional_handle(gradient));
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn release<F: CustomFunction>(user: *const c_void) {
    // SAFETY: C++ gives back the counted reference that `apply` handed over, once.
    let function = unsafe { Arc::from_raw(user.cast::<F>()) };
    // Nobody is left to tell about a destructor that panics.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(function)));
}

fn all_present(tensors: Vec<Option<Tensor>>, what: &str) -> Result<Vec<Tensor>, BoxError> {
    let count = tensors.len();
    let present: Vec<Tensor> = tensors.into_iter().flatten().collect();
    if present.len() == count {
        return Ok(present);
    }
    Err(format!("{what} has no value").into())
}

/// Runs `body`; its error or panic goes to C++ as a text.
fn caught(error: *mut RawText, body: impl FnOnce() -> Result<(), BoxError>) -> c_int {
    let text = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(reason)) => reason.to_string(),
        Err(payload) => format!("it panicked: {}", panic_text(payload.as_ref())),
    };
    // SAFETY: C++ lends the string for the time of the call, and copies the text.
    unsafe { ffi::dunnart_shim_set_text(error, text.as_ptr().cast(), text.len()) };
    -1
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a payload that is no text")
}

#[cfg(test)]
mod tests;
