//! Gradients of chosen outputs, and `.grad` tensors that we allocate ourselves.

#![allow(unsafe_code)] // Calls of C++.

use std::borrow::Borrow;
use std::ffi::c_int;
use std::ptr::null_mut;

use tch::Tensor;

use crate::ffi::{self, handle, handles};
use crate::{Error, Result};

/// What happens to the graph when [`gradients`] has run through it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GradientOptions {
    /// The graph stays, so that another pass can run through it.
    pub keep_graph: bool,
    /// The pass itself is recorded, for second derivatives; [custom functions](crate::CustomFunction) refuse that.
    pub create_graph: bool,
}

/// Vector-Jacobian products: for each input, `sum_o v_o^T d output_o / d input`; `None` where no output depends on it.
///
/// # Shapes
/// Each of `output_gradients` has the shape of its output; each result has the shape of its input.
///
/// # Errors
/// [`Error::ListLength`], [`Error::Shape`], [`Error::NoGradient`] for a tensor that does not require a gradient, and
/// [`Error::Libtorch`], also when a custom function fails or panics.
pub fn gradients<O, V, I>(
    outputs: &[O],
    output_gradients: &[V],
    inputs: &[I],
    options: GradientOptions,
) -> Result<Vec<Option<Tensor>>>
where
    O: Borrow<Tensor>,
    V: Borrow<Tensor>,
    I: Borrow<Tensor>,
{
    const OPERATION: &str = "vector-Jacobian product";
    check_outputs(OPERATION, outputs, output_gradients)?;
    for (index, input) in inputs.iter().enumerate() {
        requires_grad("input", index, input.borrow())?;
    }
    if inputs.is_empty() {
        return Ok(Vec::new());
    }
    let (outs, vectors, ins) = (handles(outputs), handles(output_gradients), handles(inputs));
    let mut list = null_mut();
    // SAFETY: the handles belong to borrowed tensors; on success the list is ours.
    unsafe {
        let status = ffi::dunnart_shim_gradients(
            outs.as_ptr(),
            vectors.as_ptr(),
            outs.len(),
            ins.as_ptr(),
            ins.len(),
            c_int::from(options.keep_graph || options.create_graph),
            c_int::from(options.create_graph),
            &raw mut list,
        );
        ffi::check(OPERATION, status)?;
        Ok(ffi::take_list(list))
    }
}

/// Adds the vector-Jacobian product of every leaf to its `.grad`, in place where there is one already.
///
/// # Shapes
/// Each of `output_gradients` has the shape of its output.
///
/// # Errors
/// As [`gradients`].
pub fn backward<O, V>(outputs: &[O], output_gradients: &[V], keep_graph: bool) -> Result<()>
where
    O: Borrow<Tensor>,
    V: Borrow<Tensor>,
{
    const OPERATION: &str = "backward pass";
    check_outputs(OPERATION, outputs, output_gradients)?;
    let (outs, vectors) = (handles(outputs), handles(output_gradients));
    // SAFETY: the handles belong to borrowed tensors.
    let status = unsafe {
        ffi::dunnart_shim_backward(
            outs.as_ptr(),
            vectors.as_ptr(),
            outs.len(),
            c_int::from(keep_graph),
        )
    };
    ffi::check(OPERATION, status)
}

/// Makes `gradient` the `.grad` of a leaf: backward passes then add to `gradient`'s memory in place, so that gradients can
/// be views of one flat buffer.
///
/// # Errors
/// [`Error::NoGradient`] when `tensor` is no leaf, [`Error::Shape`], [`Error::Kind`] and [`Error::Device`] when the two
/// differ.
pub fn set_grad(tensor: &Tensor, gradient: &Tensor) -> Result<()> {
    let named = || "gradient".to_owned();
    if !tensor.is_leaf() {
        return Err(Error::NoGradient {
            tensor: "tensor".into(),
            expected: "is a leaf of the graph",
        });
    }
    let (expected, actual) = (tensor.size(), gradient.size());
    if expected != actual {
        return Err(Error::Shape {
            tensor: named(),
            expected,
            actual,
        });
    }
    let (expected, actual) = (tensor.f_kind()?, gradient.f_kind()?);
    if expected != actual {
        return Err(Error::Kind {
            tensor: named(),
            expected,
            actual,
        });
    }
    let (expected, actual) = (tensor.device(), gradient.device());
    if expected != actual {
        return Err(Error::Device {
            tensor: named(),
            expected,
            actual,
        });
    }
    // SAFETY: both handles belong to borrowed tensors.
    ffi::check("setting .grad", unsafe {
        ffi::dunnart_shim_set_grad(handle(tensor), handle(gradient))
    })
}

/// Takes the `.grad` of a tensor away; the memory lives on with whoever else holds it.
///
/// # Errors
/// [`Error::Libtorch`].
pub fn clear_grad(tensor: &Tensor) -> Result<()> {
    // SAFETY: the handle belongs to a borrowed tensor; null clears.
    ffi::check("clearing .grad", unsafe {
        ffi::dunnart_shim_set_grad(handle(tensor), null_mut())
    })
}

/// The engine takes wrong arguments for granted, so they are looked at here.
fn check_outputs<O: Borrow<Tensor>, V: Borrow<Tensor>>(
    operation: &'static str,
    outputs: &[O],
    output_gradients: &[V],
) -> Result<()> {
    let (expected, actual) = (outputs.len(), output_gradients.len());
    if expected != actual {
        return Err(Error::ListLength {
            operation,
            list: "output gradients",
            expected,
            actual,
        });
    }
    for (index, (output, gradient)) in outputs.iter().zip(output_gradients).enumerate() {
        requires_grad("output", index, output.borrow())?;
        let (expected, actual) = (output.borrow().size(), gradient.borrow().size());
        if expected != actual {
            return Err(Error::Shape {
                tensor: format!("gradient of output {index}"),
                expected,
                actual,
            });
        }
    }
    Ok(())
}

fn requires_grad(what: &str, index: usize, tensor: &Tensor) -> Result<()> {
    if tensor.requires_grad() {
        return Ok(());
    }
    Err(Error::NoGradient {
        tensor: format!("{what} {index}"),
        expected: "requires a gradient",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    fn leaf(values: &[f64]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor).unwrap()
    }

    #[test]
    fn a_vector_jacobian_product_weighs_the_outputs() {
        let (x, y, unused) = (leaf(&[2.0, 3.0]), leaf(&[5.0, 7.0]), leaf(&[1.0]));
        let product = &x * &y;
        let square = &x * &x;
        let v = Tensor::from_slice(&[1.0, 10.0]);
        let w = Tensor::from_slice(&[100.0, 0.0]);
        let result = gradients(
            &[&product, &square],
            &[&v, &w],
            &[&x, &y, &unused],
            GradientOptions::default(),
        )
        .unwrap();
        assert_eq!(values(result[0].as_ref().unwrap()), [5.0 + 400.0, 70.0]);
        assert_eq!(values(result[1].as_ref().unwrap()), [2.0, 30.0]);
        assert!(result[2].is_none());
        assert!(!x.grad().defined(), "the product accumulates nothing");
    }

    #[test]
    fn second_derivatives_come_out_of_a_recorded_pass() {
        let x = leaf(&[2.0]);
        let cube = &x * &x * &x;
        let one = Tensor::from_slice(&[1.0]);
        let options = GradientOptions {
            create_graph: true,
            ..Default::default()
        };
        let first = gradients(&[&cube], &[&one], &[&x], options).unwrap()[0]
            .take()
            .unwrap();
        assert_eq!(values(&first), [12.0]);
        let second = gradients(&[&first], &[&one], &[&x], GradientOptions::default()).unwrap();
        assert_eq!(values(second[0].as_ref().unwrap()), [12.0]);
    }

    #[test]
    fn a_graph_is_gone_unless_it_is_kept() {
        let x = leaf(&[2.0]);
        let one = Tensor::from_slice(&[1.0]);
        let square = &x * &x;
        let keep = GradientOptions {
            keep_graph: true,
            ..Default::default()
        };
        for _ in 0..2 {
            gradients(&[&square], &[&one], &[&x], keep).unwrap();
        }
        gradients(&[&square], &[&one], &[&x], GradientOptions::default()).unwrap();
        let error = gradients(&[&square], &[&one], &[&x], GradientOptions::default()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("second time") && !text.contains("raised from"),
            "{text}"
        );
    }

    #[test]
    fn wrong_arguments_are_named() {
        let x = leaf(&[2.0, 3.0]);
        let constant = Tensor::from_slice(&[1.0, 1.0]);
        let square = &x * &x;
        let options = GradientOptions::default();
        let error = gradients(&[&square], &[&constant], &[&constant], options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor `input 0`: expected one that requires a gradient, got one that does not"
        );
        let error = gradients(&[&constant], &[&constant], &[&x], options).unwrap_err();
        assert!(error.to_string().contains("`output 0`"), "{error}");
        let short = Tensor::from_slice(&[1.0]);
        let error = gradients(&[&square], &[&short], &[&x], options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor `gradient of output 0`: expected shape [2], got [1]"
        );
        let error = gradients::<_, Tensor, _>(&[&square], &[], &[&x], options).unwrap_err();
        assert!(
            matches!(
                error,
                Error::ListLength {
                    expected: 1,
                    actual: 0,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn gradients_accumulate_in_place_in_a_flat_buffer() {
        let flat = Tensor::zeros([5], (Kind::Double, tch::Device::Cpu));
        let (a, b) = (leaf(&[2.0, 3.0]), leaf(&[1.0, 1.0, 4.0]));
        set_grad(&a, &flat.narrow(0, 0, 2)).unwrap();
        set_grad(&b, &flat.narrow(0, 2, 3)).unwrap();
        let address = flat.data_ptr();
        for _ in 0..2 {
            let loss = (&a * &a).sum(Kind::Double) + (&b * &b).sum(Kind::Double);
            backward(&[&loss], &[Tensor::from(1.0_f64)], false).unwrap();
        }
        assert_eq!(values(&flat), [8.0, 12.0, 4.0, 4.0, 16.0]);
        assert_eq!(
            a.grad().data_ptr(),
            address,
            "the gradient still lies in the buffer"
        );
        clear_grad(&a).unwrap();
        assert!(!a.grad().defined());
        assert_eq!(values(&flat)[0], 8.0);
    }

    #[test]
    fn a_gradient_that_does_not_fit_is_refused() {
        let a = leaf(&[2.0, 3.0]);
        let wrong_shape = Tensor::zeros([3], (Kind::Double, tch::Device::Cpu));
        let wrong_kind = Tensor::zeros([2], (Kind::Float, tch::Device::Cpu));
        assert!(matches!(
            set_grad(&a, &wrong_shape),
            Err(Error::Shape { .. })
        ));
        assert!(matches!(set_grad(&a, &wrong_kind), Err(Error::Kind { .. })));
        let inner = &a * 2.0;
        let fits = Tensor::zeros([2], (Kind::Double, tch::Device::Cpu));
        assert!(matches!(
            set_grad(&inner, &fits),
            Err(Error::NoGradient { .. })
        ));
    }
}
