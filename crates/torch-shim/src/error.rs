//! What can go wrong, and how texts from C++ are cleaned.

use tch::{Device, Kind, TchError};

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// libtorch refused, or a custom function's Rust code returned an error or panicked.
    #[error("{operation}: {message}")]
    Libtorch {
        /// What was asked for.
        operation: &'static str,
        /// libtorch's text without its backtrace.
        message: String,
    },
    /// Lists that belong together differ in length.
    #[error("{operation}, list `{list}`: expected {expected} tensors, got {actual}")]
    ListLength {
        /// What was asked for.
        operation: &'static str,
        /// The list.
        list: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        actual: usize,
    },
    /// A tensor has the wrong shape.
    #[error("tensor `{tensor}`: expected shape {expected:?}, got {actual:?}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The shape it must have.
        expected: Vec<i64>,
        /// The shape it has.
        actual: Vec<i64>,
    },
    /// A tensor has the wrong dtype.
    #[error("tensor `{tensor}`: expected dtype {expected:?}, got {actual:?}")]
    Kind {
        /// The tensor.
        tensor: String,
        /// The dtype it must have.
        expected: Kind,
        /// The dtype it has.
        actual: Kind,
    },
    /// A tensor lies on the wrong device.
    #[error("tensor `{tensor}`: expected device {expected:?}, got {actual:?}")]
    Device {
        /// The tensor.
        tensor: String,
        /// The device it must lie on.
        expected: Device,
        /// The device it lies on.
        actual: Device,
    },
    /// A tensor's elements do not follow one another in memory.
    #[error(
        "tensor `{tensor}`: expected contiguous memory, got shape {shape:?} with strides {strides:?}"
    )]
    NotContiguous {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<i64>,
        /// Its strides.
        strides: Vec<i64>,
    },
    /// A gradient was asked for that cannot exist.
    #[error("tensor `{tensor}`: expected one that {expected}, got one that does not")]
    NoGradient {
        /// The tensor.
        tensor: String,
        /// What it must do: "requires a gradient", "is a leaf of the graph".
        expected: &'static str,
    },
    /// No precision of matrix products has this name.
    #[error("float32 matmul precision: expected `highest`, `high` or `medium`, got `{name}`")]
    UnknownPrecision {
        /// The name given.
        name: String,
    },
    /// Autocast has no such dtype, or no such device.
    #[error("autocast: expected Half or BFloat16 on Cpu or Cuda, got {kind:?} on {device:?}")]
    Autocast {
        /// The dtype asked for.
        kind: Kind,
        /// The device asked for.
        device: Device,
    },
}

impl Error {
    pub(crate) fn libtorch(operation: &'static str, text: &str) -> Self {
        Self::Libtorch {
            operation,
            message: without_backtrace(text),
        }
    }
}

impl From<TchError> for Error {
    fn from(error: TchError) -> Self {
        let text = match error {
            TchError::Torch(text) => text,
            other => other.to_string(),
        };
        Self::libtorch("libtorch", &text)
    }
}

/// The part of a text of libtorch's that tells the reason.
fn without_backtrace(text: &str) -> String {
    let end = text.find("\nException raised from").unwrap_or(text.len());
    text[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backtrace_of_a_text_is_cut_off() {
        let text = "shapes differ\nException raised from f at g.cpp:1 (most recent call first):\nframe #0: h";
        assert_eq!(without_backtrace(text), "shapes differ");
        assert_eq!(without_backtrace("plain"), "plain");
    }

    #[test]
    fn an_error_of_tch_comes_without_backtrace() {
        let a = tch::Tensor::ones([2, 3], (Kind::Float, Device::Cpu));
        let error = a.f_matmul(&a).expect_err("the inner sizes differ");
        assert!(
            error.to_string().contains("frame #"),
            "tch's own text has one: {error}"
        );
        let cleaned = Error::from(error).to_string();
        assert!(cleaned.contains("cannot be multiplied"), "{cleaned}");
        assert!(
            !cleaned.contains("frame #") && !cleaned.contains("raised from"),
            "{cleaned}"
        );
    }
}
