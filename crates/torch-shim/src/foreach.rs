//! Operations over lists of tensors, none of which waits for a device.

#![allow(unsafe_code)] // Calls of C++.

use std::borrow::Borrow;
use std::ptr::null_mut;

use tch::{Device, Kind, Tensor};

use crate::ffi::{self, handle, handles};
use crate::{Error, Result};

/// The Euclidean norm of each tensor, `(sum_i x_i^2)^(1/2)`.
///
/// # Errors
/// [`Error::Libtorch`], for instance for integers.
pub fn foreach_norm<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    let list = handles(tensors);
    let mut norms = null_mut();
    // SAFETY: the handles belong to borrowed tensors; on success the list is ours.
    let norms = unsafe {
        let status = ffi::dunnart_shim_foreach_norm(list.as_ptr(), list.len(), &raw mut norms);
        ffi::check("norms of a list", status)?;
        ffi::take_list(norms)
    };
    Ok(norms.into_iter().flatten().collect())
}

/// Multiplies every tensor in place by the one value of `factor`.
///
/// # Errors
/// [`Error::Shape`] when `factor` has more than one value, [`Error::Libtorch`] otherwise.
pub fn foreach_mul<T: Borrow<Tensor>>(tensors: &[T], factor: &Tensor) -> Result<()> {
    if factor.dim() != 0 {
        let actual = factor.size();
        return Err(Error::Shape {
            tensor: "factor".into(),
            expected: vec![],
            actual,
        });
    }
    if tensors.is_empty() {
        return Ok(());
    }
    let list = handles(tensors);
    // SAFETY: the handles belong to borrowed tensors.
    let status =
        unsafe { ffi::dunnart_shim_foreach_mul(list.as_ptr(), list.len(), handle(factor)) };
    ffi::check("product of a list", status)
}

/// Sets every element of every tensor to zero, in place.
///
/// # Errors
/// [`Error::Libtorch`].
pub fn foreach_zero<T: Borrow<Tensor>>(tensors: &[T]) -> Result<()> {
    if tensors.is_empty() {
        return Ok(());
    }
    let list = handles(tensors);
    // SAFETY: the handles belong to borrowed tensors.
    let status = unsafe { ffi::dunnart_shim_foreach_zero(list.as_ptr(), list.len()) };
    ffi::check("zeros of a list", status)
}

/// Multiplies every tensor in place by `inverse_scale` and sets `found_inf` to 1 where an element is not finite.
///
/// # Shapes
/// `found_inf` and `inverse_scale` hold one float32 value each.
///
/// # Errors
/// [`Error::Libtorch`].
pub fn foreach_unscale<T: Borrow<Tensor>>(
    tensors: &[T],
    found_inf: &Tensor,
    inverse_scale: &Tensor,
) -> Result<()> {
    if tensors.is_empty() {
        return Ok(());
    }
    let list = handles(tensors);
    // SAFETY: the handles belong to borrowed tensors.
    let status = unsafe {
        ffi::dunnart_shim_foreach_unscale(
            list.as_ptr(),
            list.len(),
            handle(found_inf),
            handle(inverse_scale),
        )
    };
    ffi::check("unscaling a list", status)
}

/// Scales gradients in place so that their common norm is at most `max_norm`, and returns the norm before:
/// `g <- g min(1, max_norm / (|g| + 1e-6))` with `|g| = (sum of |g_i|^2)^(1/2)` over the list.
///
/// # Shapes
/// The norm has no dimension and stays on the device of the gradients.
///
/// # Numerics
/// A norm that is not finite makes gradients NaN (or zero, where it is infinite and they are finite); whoever must know
/// looks at the norm returned.
///
/// # Errors
/// [`Error::Libtorch`].
///
/// # Source
/// torch's `clip_grad_norm_`.
pub fn clip_grad_norm<T: Borrow<Tensor>>(gradients: &[T], max_norm: f64) -> Result<Tensor> {
    if gradients.is_empty() {
        return Ok(Tensor::f_zeros([] as [i64; 0], (Kind::Float, Device::Cpu))?);
    }
    let list = handles(gradients);
    let mut norm = null_mut();
    // SAFETY: the handles belong to borrowed tensors; on success the norm is a new handle and ours.
    unsafe {
        let status =
            ffi::dunnart_shim_clip_grad_norm(list.as_ptr(), list.len(), max_norm, &raw mut norm);
        ffi::check("clipping the gradient norm", status)?;
        Ok(Tensor::from_ptr(norm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tensor: &Tensor) -> f64 {
        f64::try_from(tensor).unwrap()
    }

    #[test]
    fn norms_products_and_zeros_of_a_list() {
        let a = Tensor::from_slice(&[3.0_f64, 4.0]);
        let b = Tensor::from_slice(&[5.0_f64, 12.0, 0.0]);
        let norms = foreach_norm(&[&a, &b]).unwrap();
        assert_eq!(norms.iter().map(value).collect::<Vec<_>>(), [5.0, 13.0]);
        foreach_mul(&[&a, &b], &Tensor::from(2.0_f64)).unwrap();
        assert_eq!(Vec::<f64>::try_from(&b).unwrap(), [10.0, 24.0, 0.0]);
        foreach_zero(&[&a, &b]).unwrap();
        assert_eq!(Vec::<f64>::try_from(&a).unwrap(), [0.0, 0.0]);
        assert!(foreach_norm::<Tensor>(&[]).unwrap().is_empty());
        let error = foreach_mul(&[&a], &b).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{error}");
    }

    #[test]
    fn clipping_returns_the_norm_before_and_bounds_the_norm_after() {
        let a = Tensor::from_slice(&[3.0_f64, 0.0]);
        let b = Tensor::from_slice(&[0.0_f64, 4.0, 0.0]);
        assert_eq!(value(&clip_grad_norm(&[&a, &b], 100.0).unwrap()), 5.0);
        assert_eq!(
            a.double_value(&[0]),
            3.0,
            "a small norm leaves the gradients alone"
        );
        assert_eq!(value(&clip_grad_norm(&[&a, &b], 1.0).unwrap()), 5.0);
        let expected = 3.0 / (5.0 + 1e-6);
        assert!((a.double_value(&[0]) - expected).abs() < 1e-15, "{a:?}");
        let after = value(&clip_grad_norm(&[&a, &b], 1.0).unwrap());
        assert!((after - 5.0 / (5.0 + 1e-6)).abs() < 1e-15, "{after}");
        assert_eq!(value(&clip_grad_norm::<Tensor>(&[], 1.0).unwrap()), 0.0);
    }

    #[test]
    fn one_flat_buffer_is_clipped_like_its_parts() {
        let flat = Tensor::from_slice(&[3.0_f64, 0.0, 0.0, 4.0, 12.0]);
        assert_eq!(value(&clip_grad_norm(&[&flat], 6.5).unwrap()), 13.0);
        assert!((flat.double_value(&[4]) - 12.0 * 6.5 / (13.0 + 1e-6)).abs() < 1e-14);
    }

    #[test]
    fn unscaling_reports_what_is_not_finite() {
        let finite = Tensor::from_slice(&[8.0_f32, -16.0]);
        let found = Tensor::from(0.0_f32);
        let inverse = Tensor::from(0.25_f32);
        foreach_unscale(&[&finite], &found, &inverse).unwrap();
        assert_eq!(Vec::<f32>::try_from(&finite).unwrap(), [2.0, -4.0]);
        assert_eq!(value(&found), 0.0);
        let broken = Tensor::from_slice(&[1.0_f32, f32::INFINITY]);
        foreach_unscale(&[&finite, &broken], &found, &inverse).unwrap();
        assert_eq!(value(&found), 1.0);
    }
}
