//! Tensors over memory of Rust's, and slices over memory of tensors'.

#![allow(unsafe_code)] // Here slices and tensors view each other's memory.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use tch::{Device, Kind, Tensor};

use crate::ffi::{self, Handle, handle};
use crate::{Error, Result};

/// An element that both Rust and libtorch know.
///
/// It is sealed: the memory layout of the types here is the same on both sides.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// libtorch's dtype of the element.
    const KIND: Kind;
}

mod sealed {
    use std::ffi::c_int;

    pub trait Sealed {
        /// libtorch's number of the dtype.
        const CODE: c_int;
    }
}

macro_rules! element {
    ($($type:ty => $kind:ident, $code:literal;)*) => {$(
        impl sealed::Sealed for $type {
            const CODE: c_int = $code;
        }
        impl Element for $type {
            const KIND: Kind = Kind::$kind;
        }
    )*};
}

element! {
    u8 => Uint8, 0;
    i32 => Int, 3;
    i64 => Int64, 4;
    f32 => Float, 6;
    f64 => Double, 7;
}

/// A CPU tensor over a vector's memory, which it takes over without a copy.
///
/// # Shapes
/// The product of `shape` is the length of `data`.
///
/// # Errors
/// [`Error::Shape`] when the two do not fit, [`Error::Libtorch`] otherwise.
pub fn tensor_from_vec<T: Element>(data: Vec<T>, shape: &[i64]) -> Result<Tensor> {
    fits(data.len(), shape)?;
    let mut owner = Box::new(data);
    let memory = owner.as_mut_ptr().cast::<c_void>();
    let owner = Box::into_raw(owner).cast::<c_void>();
    // SAFETY: the memory has as many elements as the shape says (checked) and lives until `release` is called on its
    // owner, which libtorch does once, when the last tensor goes or when it fails.
    unsafe { from_memory::<T>(memory, shape, owner, Some(release_vec::<T>)) }
}

/// Runs `body` with a CPU tensor over a slice's memory: what the tensor's operations write is in the slice afterwards.
///
/// A tensor that outlives `body`, or a graph that saved it, keeps a copy of the values at that moment.
///
/// # Shapes
/// The product of `shape` is the length of `data`.
///
/// # Domain
/// `body` leaves no other thread at work on the tensor when it returns.
///
/// # Errors
/// [`Error::Shape`] when shape and length do not fit, [`Error::Libtorch`] otherwise.
pub fn with_borrowed<T: Element, R>(
    data: &mut [T],
    shape: &[i64],
    body: impl FnOnce(Tensor) -> R,
) -> Result<R> {
    fits(data.len(), shape)?;
    // SAFETY: the memory has as many elements as the shape says (checked); `Loan` takes it away from every tensor before
    // the borrow of `data` ends, on a panic of `body`, too.
    let loan =
        Loan(unsafe { from_memory::<T>(data.as_mut_ptr().cast(), shape, null_mut(), None)? });
    Ok(body(loan.0.shallow_clone()))
}

/// A tensor over borrowed memory.
struct Loan(Tensor);

impl Drop for Loan {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this tensor.
        let status = unsafe { ffi::dunnart_shim_return_memory(handle(&self.0)) };
        if status != 0 {
            // A tensor would go on writing into memory that is no longer lent to it, so there is no way to go on.
            std::process::abort();
        }
    }
}

/// The elements of a contiguous CPU tensor, in place.
///
/// # Domain
/// Tensors share memory: while the slice lives, nobody may write to it through another tensor. The borrow checker only sees
/// this handle.
///
/// # Errors
/// [`Error::Device`], [`Error::Kind`] and [`Error::NotContiguous`] when the memory is not a slice of `T`.
pub fn as_slice<T: Element>(tensor: &Tensor) -> Result<&[T]> {
    let (data, length) = elements::<T>(tensor)?;
    // SAFETY: `elements` checked device, dtype and layout; the borrow of the tensor keeps the memory alive.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// The elements of a contiguous CPU tensor, in place and to be written.
///
/// # Domain
/// Tensors share memory: while the slice lives, nobody may read or write it through another tensor. The borrow checker only
/// sees this handle. Nor does libtorch notice what is written, so no graph may still need the values from before.
///
/// # Errors
/// As [`as_slice`].
pub fn as_mut_slice<T: Element>(tensor: &mut Tensor) -> Result<&mut [T]> {
    let (data, length) = elements::<T>(tensor)?;
    // SAFETY: `elements` checked device, dtype and layout; the borrow of the tensor keeps the memory alive.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, length) })
}

/// Address and number of the elements, once they are known to be a slice of `T`.
fn elements<T: Element>(tensor: &Tensor) -> Result<(*mut T, usize)> {
    let named = || "tensor".to_owned();
    if tensor.device() != Device::Cpu {
        let (expected, actual) = (Device::Cpu, tensor.device());
        return Err(Error::Device {
            tensor: named(),
            expected,
            actual,
        });
    }
    let actual = tensor.f_kind()?;
    if actual != T::KIND {
        return Err(Error::Kind {
            tensor: named(),
            expected: T::KIND,
            actual,
        });
    }
    if tensor.is_sparse() || tensor.is_mkldnn() || !tensor.is_contiguous() {
        let strides = if tensor.is_sparse() || tensor.is_mkldnn() {
            vec![]
        } else {
            tensor.stride()
        };
        return Err(Error::NotContiguous {
            tensor: named(),
            shape: tensor.size(),
            strides,
        });
    }
    let length = tensor.numel();
    if length == 0 {
        // An empty tensor may have no address, which a slice must not have.
        return Ok((std::ptr::NonNull::dangling().as_ptr(), 0));
    }
    Ok((tensor.data_ptr().cast(), length))
}

fn fits(length: usize, shape: &[i64]) -> Result<()> {
    let product = shape.iter().try_fold(1_usize, |product, &size| {
        usize::try_from(size)
            .ok()
            .and_then(|size| product.checked_mul(size))
    });
    if product == Some(length) {
        return Ok(());
    }
    let actual = vec![i64::try_from(length).unwrap_or(i64::MAX)];
    Err(Error::Shape {
        tensor: "data".into(),
        expected: shape.to_vec(),
        actual,
    })
}

/// # Safety
/// `data` points to the elements that `shape` says, and they live until `release(owner)` is called, or until the memory is
/// taken away from every tensor.
unsafe fn from_memory<T: Element>(
    data: *mut c_void,
    shape: &[i64],
    owner: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Result<Tensor> {
    let mut tensor: Handle = null_mut();
    // SAFETY: the caller vouches for the memory; on success the handle is new and ours.
    unsafe {
        let status = ffi::dunnart_shim_from_memory(
            data,
            shape.as_ptr(),
            shape.len(),
            <T as sealed::Sealed>::CODE,
            owner,
            release,
            &raw mut tensor,
        );
        ffi::check("a tensor over memory", status)?;
        Ok(Tensor::from_ptr(tensor))
    }
}

unsafe extern "C" fn release_vec<T>(owner: *mut c_void) {
    // SAFETY: `tensor_from_vec` made the box, and libtorch gives it back once. Freeing a vector of numbers cannot panic.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<T>>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_becomes_a_tensor_without_a_copy() {
        let data = vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let address = data.as_ptr();
        let mut tensor = tensor_from_vec(data, &[2, 3]).unwrap();
        assert_eq!(tensor.data_ptr().cast::<f32>().cast_const(), address);
        assert_eq!(tensor.double_value(&[1, 0]), 4.0);
        as_mut_slice::<f32>(&mut tensor).unwrap()[3] = 40.0;
        let row = tensor.select(0, 1);
        drop(tensor);
        assert_eq!(as_slice::<f32>(&row).unwrap(), [40.0, 5.0, 6.0]);
    }

    #[test]
    fn every_element_has_its_dtype() {
        assert_eq!(
            tensor_from_vec(vec![1_u8], &[1]).unwrap().kind(),
            Kind::Uint8
        );
        assert_eq!(
            tensor_from_vec(vec![1_i32], &[1]).unwrap().kind(),
            Kind::Int
        );
        assert_eq!(
            tensor_from_vec(vec![1_i64], &[1]).unwrap().kind(),
            Kind::Int64
        );
        assert_eq!(
            tensor_from_vec(vec![1_f32], &[1]).unwrap().kind(),
            Kind::Float
        );
        assert_eq!(
            tensor_from_vec(vec![1_f64], &[1]).unwrap().kind(),
            Kind::Double
        );
    }

    #[test]
    fn operations_on_a_borrowed_slice_write_to_it() {
        let mut data = [1.0_f64, 2.0, 3.0];
        let sum = with_borrowed(&mut data, &[3], |mut tensor| {
            let _ = tensor.g_mul_scalar_(2.0);
            tensor.sum(Kind::Double).double_value(&[])
        })
        .unwrap();
        assert_eq!(sum, 12.0);
        assert_eq!(data, [2.0, 4.0, 6.0]);
    }

    #[test]
    fn a_tensor_that_outlives_its_loan_keeps_a_copy() {
        let mut data = [1.0_f64, 2.0, 3.0];
        let (kept, view) = with_borrowed(&mut data, &[3], |tensor| {
            let view = tensor.narrow(0, 1, 2);
            (tensor, view)
        })
        .unwrap();
        data.fill(-1.0);
        assert_eq!(as_slice::<f64>(&kept).unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(as_slice::<f64>(&view).unwrap(), [2.0, 3.0]);
        assert_ne!(kept.data_ptr().cast::<f64>(), data.as_mut_ptr());
    }

    #[test]
    fn a_graph_over_a_loan_gives_the_gradient_after_it() {
        let x = Tensor::from_slice(&[3.0_f64]).set_requires_grad(true);
        let mut data = [5.0_f64];
        let y = with_borrowed(&mut data, &[1], |tensor| &x * tensor).unwrap();
        data.fill(0.0);
        crate::backward(&[&y], &[Tensor::from_slice(&[1.0_f64])], false).unwrap();
        assert_eq!(x.grad().double_value(&[0]), 5.0);
        assert_eq!(data, [0.0]);
    }

    #[test]
    fn memory_that_is_no_slice_is_refused() {
        let tensor = Tensor::ones([2, 3], (Kind::Float, Device::Cpu));
        let error = as_slice::<f32>(&tensor.tr()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor `tensor`: expected contiguous memory, got shape [3, 2] with strides [1, 3]"
        );
        assert!(matches!(
            as_slice::<f64>(&tensor),
            Err(Error::Kind {
                actual: Kind::Float,
                ..
            })
        ));
        assert!(as_slice::<f32>(&tensor.to_sparse_sparse_dim(2)).is_err());
        let empty = Tensor::ones([0, 3], (Kind::Float, Device::Cpu));
        assert!(as_slice::<f32>(&empty).unwrap().is_empty());
    }

    #[test]
    fn a_shape_that_does_not_fit_is_refused() {
        for shape in [vec![2], vec![-1], vec![i64::MAX, i64::MAX], vec![]] {
            let error = tensor_from_vec(vec![1.0_f32; 3], &shape).unwrap_err();
            assert!(matches!(error, Error::Shape { .. }), "{error}");
            let error = with_borrowed(&mut [1.0_f32; 3], &shape, |_| ()).unwrap_err();
            assert!(matches!(error, Error::Shape { .. }), "{error}");
        }
    }
}
