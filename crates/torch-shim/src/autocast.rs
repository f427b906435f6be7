//! Autocast: matrix products in half precision for the time of a scope.

#![allow(unsafe_code)] // Calls of C++.

use std::ffi::c_int;
use std::marker::PhantomData;

use tch::{Device, Kind};

use crate::ffi;
use crate::{Error, Result};

/// While it lives, this thread's matrix products on one device type run in half precision.
///
/// Guards nest; each restores what it found, so they are to be dropped in the reverse order of their making, as scopes do.
#[derive(Debug)]
#[must_use = "autocast ends when the guard is dropped"]
pub struct Autocast {
    device: c_int,
    enabled: c_int,
    kind: c_int,
    /// The state belongs to the thread, so the guard must not leave it.
    not_send: PhantomData<*const ()>,
}

impl Autocast {
    /// Switches autocast on for the device's type, with products in `kind`.
    ///
    /// # Domain
    /// `kind` is [`Kind::Half`] or [`Kind::BFloat16`], the device CPU or CUDA.
    ///
    /// # Errors
    /// [`Error::Autocast`] outside the domain, [`Error::Libtorch`] when libtorch refuses.
    pub fn new(device: Device, kind: Kind) -> Result<Self> {
        let code = match kind {
            Kind::Half => Some(5),
            Kind::BFloat16 => Some(15),
            _ => None,
        };
        let (Some(code), Some(device)) = (code, device_code(device)) else {
            return Err(Error::Autocast { kind, device });
        };
        Self::set(device, true, Some(code))
    }

    /// Switches autocast off for the device's type, for a region inside another guard's.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn off(device: Device) -> Result<Self> {
        let Some(code) = device_code(device) else {
            return Err(Error::Autocast {
                kind: Kind::Float,
                device,
            });
        };
        Self::set(code, false, None)
    }

    fn set(device: c_int, on: bool, kind: Option<c_int>) -> Result<Self> {
        const OPERATION: &str = "autocast";
        let (mut enabled, mut before) = (0, 0);
        // SAFETY: the first call writes two integers, the others take integers.
        unsafe {
            ffi::check(
                OPERATION,
                ffi::dunnart_shim_autocast_state(device, &raw mut enabled, &raw mut before),
            )?;
            let kind = kind.unwrap_or(before);
            ffi::check(
                OPERATION,
                ffi::dunnart_shim_autocast_set(device, c_int::from(on), kind),
            )?;
            ffi::check(OPERATION, ffi::dunnart_shim_autocast_enter())?;
        }
        Ok(Self {
            device,
            enabled,
            kind: before,
            not_send: PhantomData,
        })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: the calls take integers. They restore what libtorch reported itself and so have no reason to fail.
        unsafe {
            ffi::dunnart_shim_autocast_set(self.device, self.enabled, self.kind);
            ffi::dunnart_shim_autocast_exit();
        }
    }
}

/// libtorch's number of the device's type.
fn device_code(device: Device) -> Option<c_int> {
    match device {
        Device::Cpu => Some(0),
        Device::Cuda(_) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Tensor;

    fn product_kind() -> Kind {
        let a = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        a.matmul(&a).kind()
    }

    #[test]
    fn products_take_the_dtype_of_the_innermost_guard() {
        assert_eq!(product_kind(), Kind::Float);
        {
            let _outer = Autocast::new(Device::Cpu, Kind::BFloat16).unwrap();
            assert_eq!(product_kind(), Kind::BFloat16);
            {
                let _inner = Autocast::new(Device::Cpu, Kind::Half).unwrap();
                assert_eq!(product_kind(), Kind::Half);
            }
            {
                let _off = Autocast::off(Device::Cpu).unwrap();
                assert_eq!(product_kind(), Kind::Float);
            }
            assert_eq!(product_kind(), Kind::BFloat16);
        }
        assert_eq!(product_kind(), Kind::Float);
    }

    #[test]
    fn a_panic_ends_autocast() {
        let result = std::panic::catch_unwind(|| {
            let _guard = Autocast::new(Device::Cpu, Kind::BFloat16).unwrap();
            panic!("inside");
        });
        assert!(result.is_err());
        assert_eq!(product_kind(), Kind::Float);
    }

    #[test]
    fn what_autocast_lacks_is_an_error() {
        let error = Autocast::new(Device::Cpu, Kind::Double).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Autocast {
                    kind: Kind::Double,
                    ..
                }
            ),
            "{error}"
        );
        let error = Autocast::new(Device::Mps, Kind::Half).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Autocast {
                    device: Device::Mps,
                    ..
                }
            ),
            "{error}"
        );
    }
}
