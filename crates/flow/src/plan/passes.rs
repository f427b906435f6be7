//! Fused elementwise passes over `[features][T]` buffers.
//!
//! Each pass reads every buffer once. What a linear layer leaves out, its bias, is added by the
//! pass that follows; constants of a feature come as slices of length `features`.

use dunnart_elementwise::{Activation, Real, kernel, sigmoid};

use crate::settings::Activation as ActivationKind;

/// Runs an expression with the activation's type under the given name.
macro_rules! with_activation {
    ($kind:expr, $name:ident => $body:expr) => {
        match $kind {
            $crate::settings::Activation::Elu => {
                let $name = dunnart_elementwise::Elu;
                $body
            }
            $crate::settings::Activation::Relu => {
                let $name = dunnart_elementwise::Relu;
                $body
            }
            $crate::settings::Activation::LeakyRelu => {
                let $name = dunnart_elementwise::LeakyRelu;
                $body
            }
            $crate::settings::Activation::Gelu => {
                let $name = dunnart_elementwise::Gelu;
                $body
            }
        }
    };
}
pub(crate) use with_activation;

/// f(x) in double precision, for constants that are computed once.
pub(crate) fn activation_value(kind: ActivationKind, x: f64) -> f64 {
    fn value<A: Activation>(x: f64, _: A) -> f64 {
        A::value::<f64, false>(x)
    }
    with_activation!(kind, activation => value(x, activation))
}

kernel! {
    /// out = f(x + shift), `[features][T]`.
    pub(crate) fn shift_activate<T, const FMA, A: Activation>(
        x: &[T],
        shift: &[T],
        out: &mut [T],
        _activation: A,
    ) {
        let count = (x.len() / shift.len().max(1)).max(1);
        for ((out, x), shift) in
            out.chunks_exact_mut(count).zip(x.chunks_exact(count)).zip(shift)
        {
            let shift = *shift;
            for (out, x) in out.iter_mut().zip(x) {
                *out = A::value::<T, FMA>(*x + shift);
            }
        }
    }
}

kernel! {
    /// x = f(x + shift) in place, `[features][T]`.
    pub(crate) fn shift_activate_in_place<T, const FMA, A: Activation>(
        x: &mut [T],
        shift: &[T],
        _activation: A,
    ) {
        let count = (x.len() / shift.len().max(1)).max(1);
        for (x, shift) in x.chunks_exact_mut(count).zip(shift) {
            let shift = *shift;
            for x in x {
                *x = A::value::<T, FMA>(*x + shift);
            }
        }
    }
}

kernel! {
    /// out = f(scale x + shift), `[features][T]`.
    pub(crate) fn affine_activate<T, const FMA, A: Activation>(
        x: &[T],
        scale: &[T],
        shift: &[T],
        out: &mut [T],
        _activation: A,
    ) {
        let count = (x.len() / shift.len().max(1)).max(1);
        let rows = out.chunks_exact_mut(count).zip(x.chunks_exact(count));
        for ((out, x), (scale, shift)) in rows.zip(scale.iter().zip(shift)) {
            let (scale, shift) = (*scale, *shift);
            for (out, x) in out.iter_mut().zip(x) {
                *out = A::value::<T, FMA>(x.fused::<FMA>(scale, shift));
            }
        }
    }
}

kernel! {
    /// h += sigmoid(gate + gate_bias) (l + l_bias), `[features][T]`: gated linear unit and skip.
    pub(crate) fn add_gated<T, const FMA>(
        h: &mut [T],
        l: &[T],
        l_bias: &[T],
        gate: &[T],
        gate_bias: &[T],
    ) {
        let count = (h.len() / l_bias.len().max(1)).max(1);
        let rows = h.chunks_exact_mut(count).zip(l.chunks_exact(count).zip(gate.chunks_exact(count)));
        for ((h, (l, gate)), (l_bias, gate_bias)) in rows.zip(l_bias.iter().zip(gate_bias)) {
            let (l_bias, gate_bias) = (*l_bias, *gate_bias);
            for (h, (l, gate)) in h.iter_mut().zip(l.iter().zip(gate)) {
                let open = sigmoid::<T, FMA>(*gate + gate_bias);
                *h = open.fused::<FMA>(*l + l_bias, *h);
            }
        }
    }
}

kernel! {
    /// h += f(x + shift), `[features][T]`.
    pub(crate) fn add_activated<T, const FMA, A: Activation>(
        h: &mut [T],
        x: &[T],
        shift: &[T],
        _activation: A,
    ) {
        let count = (x.len() / shift.len().max(1)).max(1);
        for ((h, x), shift) in h.chunks_exact_mut(count).zip(x.chunks_exact(count)).zip(shift) {
            let shift = *shift;
            for (h, x) in h.iter_mut().zip(x) {
                *h += A::value::<T, FMA>(*x + shift);
            }
        }
    }
}

kernel! {
    /// Mean and 1/sqrt(variance + epsilon) over the features of x + offset, for each row of the batch.
    ///
    /// The variance is that of the differences to the mean, so nothing cancels.
    ///
    /// # Shapes
    /// x `[features][T]`, offset `[features]`, mean and inverse `[T]`.
    pub(crate) fn layer_statistics<T, const FMA>(
        x: &[T],
        offset: &[T],
        epsilon: T,
        mean: &mut [T],
        inverse: &mut [T],
    ) {
        let count = mean.len();
        let width = T::from_f64(offset.len() as f64);
        mean.fill(T::ZERO);
        for (x, offset) in x.chunks_exact(count).zip(offset) {
            for (mean, x) in mean.iter_mut().zip(x) {
                *mean += *x + *offset;
            }
        }
        for mean in mean.iter_mut() {
            *mean = *mean / width;
        }
        inverse.fill(T::ZERO);
        for (x, offset) in x.chunks_exact(count).zip(offset) {
            for ((sum, mean), x) in inverse.iter_mut().zip(mean.iter()).zip(x) {
                let difference = *x + *offset - *mean;
                *sum = difference.fused::<FMA>(difference, *sum);
            }
        }
        for inverse in inverse.iter_mut() {
            *inverse = T::ONE / (*inverse / width + epsilon).square_root();
        }
    }
}

kernel! {
    /// out = f((x + offset - mean) inverse weight + bias): layer normalisation and activation.
    ///
    /// # Shapes
    /// x and out `[features][T]`; offset, weight, bias `[features]`; mean and inverse `[T]`.
    pub(crate) fn layer_norm_activate<T, const FMA, A: Activation>(
        x: &[T],
        offset: &[T],
        weight_and_bias: (&[T], &[T]),
        mean_and_inverse: (&[T], &[T]),
        out: &mut [T],
        _activation: A,
    ) {
        let (mean, inverse) = mean_and_inverse;
        let count = mean.len();
        let constants = offset.iter().zip(weight_and_bias.0.iter().zip(weight_and_bias.1));
        let rows = out.chunks_exact_mut(count).zip(x.chunks_exact(count));
        for ((out, x), (offset, (weight, bias))) in rows.zip(constants) {
            let (offset, weight, bias) = (*offset, *weight, *bias);
            for ((out, x), (mean, inverse)) in
                out.iter_mut().zip(x).zip(mean.iter().zip(inverse))
            {
                let normal = (*x + offset - *mean) * *inverse;
                *out = A::value::<T, FMA>(normal.fused::<FMA>(weight, bias));
            }
        }
    }
}

kernel! {
    /// out = matrix x + bias for few features, `[features][T]`; matrix `[features][features]`.
    pub(crate) fn combine_rows<T, const FMA>(
        matrix: &[T],
        bias: &[T],
        x: &[T],
        out: &mut [T],
    ) {
        let features = bias.len();
        let count = (x.len() / features.max(1)).max(1);
        let coefficients = matrix.chunks_exact(features.max(1));
        for ((out, coefficients), bias) in out.chunks_exact_mut(count).zip(coefficients).zip(bias) {
            out.fill(*bias);
            for (x, coefficient) in x.chunks_exact(count).zip(coefficients) {
                if *coefficient == T::ZERO {
                    continue;
                }
                let coefficient = *coefficient;
                for (out, x) in out.iter_mut().zip(x) {
                    *out = x.fused::<FMA>(coefficient, *out);
                }
            }
        }
    }
}

kernel! {
    /// log_prob = constant - |noise|^2 / 2, for each row of the batch.
    ///
    /// # Shapes
    /// noise `[D][T]`, log_prob `[T]`.
    pub(crate) fn standard_normal<T, const FMA>(noise: &[T], constant: T, log_prob: &mut [T]) {
        let count = log_prob.len();
        log_prob.fill(T::ZERO);
        for noise in noise.chunks_exact(count.max(1)) {
            for (sum, value) in log_prob.iter_mut().zip(noise) {
                *sum = value.fused::<FMA>(*value, *sum);
            }
        }
        let half = T::from_f64(-0.5);
        for log_prob in log_prob {
            *log_prob = half.fused::<FMA>(*log_prob, constant);
        }
    }
}

/// to += from.
pub(crate) fn add<T: Real>(to: &mut [T], from: &[T]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
    }
}

/// to += factor from.
pub(crate) fn add_scaled<T: Real>(to: &mut [T], from: &[T], factor: T) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from * factor;
    }
}
