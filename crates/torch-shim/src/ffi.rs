//! The C functions of `cpp/`, and the safe wrappers of handles and lists that every other file uses.

#![allow(unsafe_code)] // This crate is where C++ is called.

use std::borrow::Borrow;
use std::ffi::{c_char, c_int, c_void};

use tch::Tensor;
use torch_sys::C_tensor;

use crate::{Error, Result};

/// A tensor of C++, owned by whoever holds the [`Tensor`] it was taken from; null for a tensor without a value.
pub(crate) type Handle = *mut C_tensor;

/// A vector of tensors of C++.
#[repr(C)]
pub(crate) struct RawList {
    _opaque: [u8; 0],
}

/// A string of C++.
#[repr(C)]
pub(crate) struct RawText {
    _opaque: [u8; 0],
}

/// `FunctionTable` of `cpp/autograd.cpp`.
#[repr(C)]
pub(crate) struct FunctionTable {
    pub(crate) forward: unsafe extern "C" fn(
        user: *const c_void,
        inputs: *const Handle,
        input_count: usize,
        outputs: *mut RawList,
        saved: *mut RawList,
        error: *mut RawText,
    ) -> c_int,
    pub(crate) backward: unsafe extern "C" fn(
        user: *const c_void,
        saved: *const Handle,
        saved_count: usize,
        output_gradients: *const Handle,
        output_count: usize,
        needed: *const u8,
        input_count: usize,
        input_gradients: *mut RawList,
        error: *mut RawText,
    ) -> c_int,
    pub(crate) release: unsafe extern "C" fn(user: *const c_void),
}

unsafe extern "C" {
    fn dunnart_shim_error(length: *mut usize) -> *const c_char;

    fn dunnart_shim_list_length(list: *const RawList) -> usize;
    fn dunnart_shim_list_get(list: *const RawList, index: usize) -> Handle;
    pub(crate) fn dunnart_shim_list_push(list: *mut RawList, tensor: Handle);
    fn dunnart_shim_list_free(list: *mut RawList);
    pub(crate) fn dunnart_shim_set_text(target: *mut RawText, text: *const c_char, length: usize);

    pub(crate) fn dunnart_shim_set_matmul_precision(name: *const c_char) -> c_int;
    pub(crate) fn dunnart_shim_matmul_precision(precision: *mut c_int) -> c_int;

    pub(crate) fn dunnart_shim_autocast_state(
        device: c_int,
        enabled: *mut c_int,
        kind: *mut c_int,
    ) -> c_int;
    pub(crate) fn dunnart_shim_autocast_set(device: c_int, enabled: c_int, kind: c_int) -> c_int;
    pub(crate) fn dunnart_shim_autocast_enter() -> c_int;
    pub(crate) fn dunnart_shim_autocast_exit() -> c_int;

    pub(crate) fn dunnart_shim_foreach_norm(
        list: *const Handle,
        count: usize,
        norms: *mut *mut RawList,
    ) -> c_int;
    pub(crate) fn dunnart_shim_foreach_mul(
        list: *const Handle,
        count: usize,
        factor: Handle,
    ) -> c_int;
    pub(crate) fn dunnart_shim_foreach_zero(list: *const Handle, count: usize) -> c_int;
    pub(crate) fn dunnart_shim_foreach_unscale(
        list: *const Handle,
        count: usize,
        found_inf: Handle,
        inverse_scale: Handle,
    ) -> c_int;
    pub(crate) fn dunnart_shim_clip_grad_norm(
        list: *const Handle,
        count: usize,
        max_norm: f64,
        norm: *mut Handle,
    ) -> c_int;

    pub(crate) fn dunnart_shim_fused_adam(
        count: usize,
        parameters: *const Handle,
        gradients: *const Handle,
        exp_avg: *const Handle,
        exp_avg_sq: *const Handle,
        max_exp_avg_sq: *const Handle,
        steps: *const Handle,
        learning_rate: f64,
        beta1: f64,
        beta2: f64,
        weight_decay: f64,
        epsilon: f64,
        decoupled: c_int,
        maximize: c_int,
        grad_scale: Handle,
        found_inf: Handle,
    ) -> c_int;
    pub(crate) fn dunnart_shim_fused_sgd(
        count: usize,
        parameters: *const Handle,
        gradients: *const Handle,
        momentum_buffers: *const Handle,
        weight_decay: f64,
        momentum: f64,
        learning_rate: f64,
        dampening: f64,
        nesterov: c_int,
        maximize: c_int,
        first_step: c_int,
        grad_scale: Handle,
        found_inf: Handle,
    ) -> c_int;
    pub(crate) fn dunnart_shim_fused_adagrad(
        count: usize,
        parameters: *const Handle,
        gradients: *const Handle,
        state_sums: *const Handle,
        steps: *const Handle,
        learning_rate: f64,
        learning_rate_decay: f64,
        weight_decay: f64,
        epsilon: f64,
        maximize: c_int,
        grad_scale: Handle,
        found_inf: Handle,
    ) -> c_int;

    pub(crate) fn dunnart_shim_count_start(callback: *mut u64) -> c_int;
    pub(crate) fn dunnart_shim_count_stop(callback: u64) -> c_int;
    pub(crate) fn dunnart_shim_count_visit(
        user: *mut c_void,
        visit: unsafe extern "C" fn(*mut c_void, *const c_char, usize, u64),
    ) -> c_int;

    pub(crate) fn dunnart_shim_apply(
        table: *const FunctionTable,
        user: *const c_void,
        inputs: *const Handle,
        count: usize,
        outputs: *mut *mut RawList,
    ) -> c_int;
    pub(crate) fn dunnart_shim_gradients(
        outputs: *const Handle,
        output_gradients: *const Handle,
        output_count: usize,
        inputs: *const Handle,
        input_count: usize,
        keep_graph: c_int,
        create_graph: c_int,
        gradients: *mut *mut RawList,
    ) -> c_int;
    pub(crate) fn dunnart_shim_backward(
        outputs: *const Handle,
        output_gradients: *const Handle,
        output_count: usize,
        keep_graph: c_int,
    ) -> c_int;
    pub(crate) fn dunnart_shim_set_grad(tensor: Handle, gradient: Handle) -> c_int;

    pub(crate) fn dunnart_shim_from_memory(
        data: *mut c_void,
        shape: *const i64,
        dimensions: usize,
        kind: c_int,
        owner: *mut c_void,
        release: Option<unsafe extern "C" fn(*mut c_void)>,
        tensor: *mut Handle,
    ) -> c_int;
    pub(crate) fn dunnart_shim_return_memory(tensor: Handle) -> c_int;
}

/// Turns the status of a C function into a result.
pub(crate) fn check(operation: &'static str, status: c_int) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let mut length = 0;
    // SAFETY: the function returns this thread's text and its length; it is copied before any other call can change it.
    let text = unsafe {
        let data = dunnart_shim_error(&raw mut length);
        std::slice::from_raw_parts(data.cast::<u8>(), length)
    };
    Err(Error::libtorch(operation, &String::from_utf8_lossy(text)))
}

/// The handle of a borrowed tensor, for a call that ends before the borrow does.
pub(crate) fn handle(tensor: &Tensor) -> Handle {
    tensor.as_ptr().cast_mut()
}

/// The handle of a tensor that may be missing.
pub(crate) fn optional_handle(tensor: Option<&Tensor>) -> Handle {
    tensor.map_or(std::ptr::null_mut(), handle)
}

/// The handles of borrowed tensors, for a call that ends before the borrow does.
pub(crate) fn handles<T: Borrow<Tensor>>(tensors: &[T]) -> Vec<Handle> {
    tensors
        .iter()
        .map(|tensor| handle(tensor.borrow()))
        .collect()
}

/// Takes the tensors out of a list that C++ made for us, and frees the list.
///
/// # Safety
/// `list` comes from a C function that succeeded and handed over the list.
pub(crate) unsafe fn take_list(list: *mut RawList) -> Vec<Option<Tensor>> {
    // SAFETY: the caller vouches for the list; each handle is new and ours.
    unsafe {
        let tensors = (0..dunnart_shim_list_length(list))
            .map(|index| {
                let raw = dunnart_shim_list_get(list, index);
                (!raw.is_null()).then(|| Tensor::from_ptr(raw))
            })
            .collect();
        dunnart_shim_list_free(list);
        tensors
    }
}

/// Own handles on tensors that C++ lends for the time of a call; `None` for a tensor without a value.
///
/// # Safety
/// `list` points to `count` handles, each null or valid.
pub(crate) unsafe fn borrow_list(list: *const Handle, count: usize) -> Vec<Option<Tensor>> {
    // SAFETY: the caller vouches for the list; an own handle is a counted reference.
    (0..count)
        .map(|index| unsafe {
            let raw = *list.add(index);
            (!raw.is_null()).then(|| Tensor::clone_from_ptr(raw))
        })
        .collect()
}
