//! Passes over slices: one function of each element, in place or into another slice.
//!
//! Each pass chooses its instruction set at run time. Elements beyond the shorter of two slices
//! are left alone, so callers pass equal lengths.

use crate::{Activation, kernel};

/// Largest error of [`crate::softplus`], relative, in epsilons.
pub const SOFTPLUS_MAX_ERROR: f64 = 2.0;
/// Largest error of [`crate::sigmoid`], relative, in epsilons.
pub const SIGMOID_MAX_ERROR: f64 = 2.5;
/// Largest error of [`crate::gaussian_cdf_and_pdf`] for x >= -3, relative, in epsilons.
pub const GAUSSIAN_MAX_ERROR: f64 = 6.0;

kernel! {
    /// values = exp(values); domain and error as [`crate::Real::exponential`].
    pub fn exponential<T, const FMA>(values: &mut [T]) {
        for value in values {
            *value = value.exponential::<FMA>();
        }
    }
}

kernel! {
    /// values = ln(values); domain and error as [`crate::Real::logarithm`].
    pub fn logarithm<T, const FMA>(values: &mut [T]) {
        for value in values {
            *value = value.logarithm::<FMA>();
        }
    }
}

kernel! {
    /// values = ln(1 + exp(values)); see [`crate::softplus`].
    pub fn softplus<T, const FMA>(values: &mut [T]) {
        for value in values {
            *value = crate::softplus::<T, FMA>(*value);
        }
    }
}

kernel! {
    /// values = 1 / (1 + exp(-values)); see [`crate::sigmoid`].
    pub fn sigmoid<T, const FMA>(values: &mut [T]) {
        for value in values {
            *value = crate::sigmoid::<T, FMA>(*value);
        }
    }
}

kernel! {
    /// outputs = f(inputs) for an [`Activation`] f.
    pub fn activate<T, const FMA, A: Activation>(inputs: &[T], outputs: &mut [T], _activation: A) {
        for (output, input) in outputs.iter_mut().zip(inputs) {
            *output = A::value::<T, FMA>(*input);
        }
    }
}

kernel! {
    /// values = f(values) for an [`Activation`] f.
    pub fn activate_in_place<T, const FMA, A: Activation>(values: &mut [T], _activation: A) {
        for value in values {
            *value = A::value::<T, FMA>(*value);
        }
    }
}

kernel! {
    /// gradients = gradients x f'(inputs), given inputs and outputs = f(inputs).
    ///
    /// Where [`Activation::DERIVATIVE_NEEDS_INPUT`] is false, `inputs` may be the outputs again.
    pub fn activation_gradient<T, const FMA, A: Activation>(
        inputs: &[T],
        outputs: &[T],
        gradients: &mut [T],
        _activation: A,
    ) {
        for ((gradient, output), input) in gradients.iter_mut().zip(outputs).zip(inputs) {
            *gradient *= A::derivative::<T, FMA>(*input, *output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::largest_relative_error;
    use crate::{Elu, Gelu, LeakyRelu, Real, Relu};
    use proptest::prelude::*;

    fn exact_softplus(x: f64) -> f64 {
        if x > 0.0 {
            x + (-x).exp().ln_1p()
        } else {
            x.exp().ln_1p()
        }
    }

    fn exact_sigmoid(x: f64) -> f64 {
        if x < 0.0 {
            x.exp() / (1.0 + x.exp())
        } else {
            1.0 / (1.0 + (-x).exp())
        }
    }

    fn bounds_hold<T: Real>(span: f64) {
        let points = (0..1_000_000).map(|i| span * ((i as f64) / 5e5 - 1.0));
        let error = largest_relative_error::<T>(
            points.clone(),
            crate::softplus::<T, false>,
            exact_softplus,
        );
        assert!(error <= SOFTPLUS_MAX_ERROR, "softplus {error}");
        let error = largest_relative_error::<T>(points, crate::sigmoid::<T, false>, exact_sigmoid);
        assert!(error <= SIGMOID_MAX_ERROR, "sigmoid {error}");
    }

    #[test]
    fn softplus_and_sigmoid_keep_their_bounds() {
        bounds_hold::<f32>(85.0);
        bounds_hold::<f64>(700.0);
    }

    #[test]
    fn a_pass_equals_its_function_at_every_length() {
        for length in 0..70 {
            let inputs: Vec<f64> = (0..length).map(|i| f64::from(i) * 0.37 - 9.0).collect();
            let check = |actual: &[f64], function: fn(f64) -> f64| {
                for (value, input) in actual.iter().zip(&inputs) {
                    let expected = function(*input);
                    let bound = 8.0 * f64::EPSILON * (1.0 + expected.abs());
                    assert!(
                        (value - expected).abs() <= bound,
                        "{value}, expected {expected}"
                    );
                }
            };
            let mut values = inputs.clone();
            exponential(&mut values);
            check(&values, |x| x.exponential::<false>());
            let mut values = inputs.clone();
            logarithm(&mut values);
            for (value, input) in values.iter().zip(&inputs) {
                let expected = input.max(f64::MIN_POSITIVE).ln();
                assert!((value - expected).abs() <= 4.0 * f64::EPSILON * expected.abs());
            }
            let mut values = inputs.clone();
            softplus(&mut values);
            check(&values, crate::softplus::<f64, false>);
            let mut values = inputs.clone();
            sigmoid(&mut values);
            check(&values, crate::sigmoid::<f64, false>);
            let mut values = inputs.clone();
            activate_in_place(&mut values, Gelu);
            check(&values, Gelu::value::<f64, false>);
            activate(&inputs, &mut values, Elu);
            check(&values, Elu::value::<f64, false>);
            activate(&inputs, &mut values, Relu);
            check(&values, Relu::value::<f64, false>);
            activate(&inputs, &mut values, LeakyRelu);
            check(&values, LeakyRelu::value::<f64, false>);
            let mut gradients = vec![1.0; inputs.len()];
            activation_gradient(&inputs, &values, &mut gradients, Gelu);
            check(&gradients, |x| Gelu::derivative::<f64, false>(x, 0.0));
        }
    }

    proptest! {
        #[test]
        fn an_element_does_not_depend_on_its_position(x in -80.0_f32..80.0, length in 1_usize..70) {
            let mut alone = [x];
            let mut many = vec![x; length];
            softplus(&mut alone);
            softplus(&mut many);
            for value in many {
                prop_assert_eq!(value.to_bits(), alone[0].to_bits());
            }
        }
    }
}
