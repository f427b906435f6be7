//! How precisely float32 matrix products are computed.

use std::ffi::c_int;
use std::fmt;
use std::str::FromStr;

use crate::ffi;
use crate::{Error, Result};

/// How precisely float32 matrix products are computed, process-wide.
///
/// # Source
/// torch's `set_float32_matmul_precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatmulPrecision {
    /// Full float32.
    Highest,
    /// TensorFloat-32 (or three bfloat16 products) where the device has it.
    High,
    /// bfloat16 where the device has it.
    Medium,
}

impl MatmulPrecision {
    /// Every precision, from the most precise.
    pub const ALL: [Self; 3] = [Self::Highest, Self::High, Self::Medium];

    /// The name that settings and checkpoints carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Highest => "highest",
            Self::High => "high",
            Self::Medium => "medium",
        }
    }
}

impl fmt::Display for MatmulPrecision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for MatmulPrecision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
            .ok_or_else(|| Error::UnknownPrecision {
                name: name.to_owned(),
            })
    }
}

/// Sets the precision of float32 matrix products for the whole process.
///
/// # Errors
/// [`Error::Libtorch`] when libtorch refuses.
#[allow(unsafe_code)] // A call of C++.
pub fn set_matmul_precision(precision: MatmulPrecision) -> Result<()> {
    let name = match precision {
        MatmulPrecision::Highest => c"highest",
        MatmulPrecision::High => c"high",
        MatmulPrecision::Medium => c"medium",
    };
    // SAFETY: the name ends with a zero byte and outlives the call.
    let status = unsafe { ffi::dunnart_shim_set_matmul_precision(name.as_ptr()) };
    ffi::check("float32 matmul precision", status)
}

/// The precision of float32 matrix products now in force.
///
/// # Errors
/// [`Error::Libtorch`] when the finer switches of libtorch were set to something that has no name here.
#[allow(unsafe_code)] // A call of C++.
pub fn matmul_precision() -> Result<MatmulPrecision> {
    let mut value: c_int = 0;
    // SAFETY: the function writes one integer.
    let status = unsafe { ffi::dunnart_shim_matmul_precision(&raw mut value) };
    ffi::check("float32 matmul precision", status)?;
    usize::try_from(value)
        .ok()
        .and_then(|index| MatmulPrecision::ALL.get(index).copied())
        .ok_or(Error::Libtorch {
            operation: "float32 matmul precision",
            message: format!("expected one of the values 0 to 2, got {value}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_is_read_back_and_named() {
        let before = matmul_precision().unwrap();
        for precision in MatmulPrecision::ALL {
            set_matmul_precision(precision).unwrap();
            assert_eq!(matmul_precision().unwrap(), precision);
            assert_eq!(
                precision.name().parse::<MatmulPrecision>().unwrap(),
                precision
            );
        }
        set_matmul_precision(before).unwrap();
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        for name in ["tf32", "Highest", "", "high "] {
            let error = name.parse::<MatmulPrecision>().unwrap_err();
            assert!(
                matches!(&error, Error::UnknownPrecision { name: n } if n == name),
                "{error}"
            );
        }
    }
}
