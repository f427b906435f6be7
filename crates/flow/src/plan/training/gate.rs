//! End of a residual block: out = h + (l + b) sigmoid(gate), or out = h + l + b without context.

use dunnart_elementwise::{kernel, sigmoid};

kernel! {
    /// gate = sigmoid(gate + gate_bias), out = h + (l + l_bias) gate.
    ///
    /// # Shapes
    /// h, l, gate, out `[H][T]`; biases `[H]`.
    pub(crate) fn gate_forward<T, const FMA>(
        h: &[T],
        l: &[T],
        l_bias: &[T],
        gate: &mut [T],
        gate_bias: &[T],
        out: &mut [T],
    ) {
        let count = (h.len() / l_bias.len()).max(1);
        let inputs = h.chunks_exact(count).zip(l.chunks_exact(count));
        let outputs = gate.chunks_exact_mut(count).zip(out.chunks_exact_mut(count));
        let biases = l_bias.iter().zip(gate_bias);
        for (((h, l), (gate, out)), (l_bias, gate_bias)) in inputs.zip(outputs).zip(biases) {
            let (l_bias, gate_bias) = (*l_bias, *gate_bias);
            for ((h, l), (gate, out)) in h.iter().zip(l).zip(gate.iter_mut().zip(out)) {
                *gate = sigmoid::<T, FMA>(*gate + gate_bias);
                *out = (*l + l_bias).fused::<FMA>(*gate, *h);
            }
        }
    }
}

kernel! {
    /// l = dout gate (gradient by l), gate = dout (l + l_bias) gate (1 - gate) (gradient by its
    /// input).
    ///
    /// # Shapes
    /// As [`gate_forward`]; `dout` is the gradient by `out`, and that by h is `dout` itself.
    pub(crate) fn gate_backward<T, const FMA>(
        dout: &[T],
        l: &mut [T],
        l_bias: &[T],
        gate: &mut [T],
    ) {
        let count = (dout.len() / l_bias.len()).max(1);
        let buffers = l.chunks_exact_mut(count).zip(gate.chunks_exact_mut(count));
        for ((dout, (l, gate)), l_bias) in dout.chunks_exact(count).zip(buffers).zip(l_bias) {
            let l_bias = *l_bias;
            for (dout, (l, gate)) in dout.iter().zip(l.iter_mut().zip(gate)) {
                let through = *dout * *gate;
                *gate = through * (*l + l_bias) * (T::ONE - *gate);
                *l = through;
            }
        }
    }
}

kernel! {
    /// out = h + l + l_bias; its gradient by h and l is that by `out`.
    ///
    /// # Shapes
    /// h, l, out `[H][T]`; l_bias `[H]`.
    pub(crate) fn skip_forward<T, const FMA>(h: &[T], l: &[T], l_bias: &[T], out: &mut [T]) {
        let count = (h.len() / l_bias.len()).max(1);
        let rows = h.chunks_exact(count).zip(l.chunks_exact(count));
        for (((h, l), out), l_bias) in rows.zip(out.chunks_exact_mut(count)).zip(l_bias) {
            let l_bias = *l_bias;
            for ((h, l), out) in h.iter().zip(l).zip(out) {
                *out = *h + (*l + l_bias);
            }
        }
    }
}
