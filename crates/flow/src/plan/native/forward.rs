//! One tile through a residual network, and through the whole flow in either direction.

use std::ops::Range;

use super::constants::{BlockConstants, Constants};
use super::tile::{FlowBuffers, TrunkBuffers};
use super::weights::{Block, ContextUse, LAYER_NORM_EPSILON, Norm, Trunk};
use crate::Result;
use crate::plan::gemm::{Matrix, apply};
use crate::plan::linear_transform::DenseTransform;
use crate::plan::passes::{
    add_activated, add_gated, affine_activate, combine_rows, layer_norm_activate, layer_statistics,
    shift_activate, shift_activate_in_place, with_activation,
};
use crate::plan::spline::{Direction, Splines, broadcast, transform};
use crate::plan::{Scalar, rows};
use crate::settings::Activation;

/// One step of the flow as evaluation uses it.
#[derive(Clone, Debug)]
pub(crate) struct StepWeights<T> {
    /// Permutation and LU transform.
    pub(crate) linear: DenseTransform<T>,
    /// Features that pass.
    pub(crate) identity: Vec<usize>,
    /// Features the spline acts on.
    pub(crate) transformed: Vec<usize>,
    /// The conditioner.
    pub(crate) conditioner: Trunk<T>,
    /// Logits of the identity features' spline, `[D_id][3 K - 1]`.
    pub(crate) unconditional: Option<Vec<T>>,
}

/// The whole flow as evaluation uses it.
#[derive(Clone, Debug)]
pub(crate) struct FlowWeights<T> {
    /// Number D of parameters.
    pub(crate) features: usize,
    /// Number C of context features.
    pub(crate) context: usize,
    /// The splines.
    pub(crate) splines: Splines,
    /// The steps in the density direction.
    pub(crate) steps: Vec<StepWeights<T>>,
    /// Permutation and LU transform after them.
    pub(crate) last: DenseTransform<T>,
}

impl<T: Scalar> FlowWeights<T> {
    /// ln |det| of all LU transforms in the density direction.
    pub(crate) fn linear_log_det(&self) -> f64 {
        self.steps.iter().map(|s| s.linear.log_det).sum::<f64>() + self.last.log_det
    }

    /// Buffers for tiles of at most `rows` rows.
    pub(crate) fn buffers(&self, rows: usize) -> FlowBuffers<T> {
        let features = || vec![T::ZERO; self.features * rows];
        let outputs = self
            .steps
            .iter()
            .map(|s| s.conditioner.output.outputs)
            .max()
            .unwrap_or(0);
        // A context-free spline's logits are spread over the rows in the same buffer.
        let logits = outputs.max(self.splines.conditioned.settings().parameters_per_element());
        FlowBuffers {
            trunk: TrunkBuffers::new(self.steps.iter().map(|s| &s.conditioner), rows),
            x: features(),
            y: features(),
            condition: features(),
            context: vec![T::ZERO; self.context * rows],
            logits: vec![T::ZERO; logits * rows],
            log_det: vec![T::ZERO; rows],
            scratch: vec![T::ZERO; rows],
        }
    }

    /// Parameters in `buffers.x` to noise in `buffers.x`; the splines' log-det is summed up.
    pub(crate) fn density(
        &self,
        constants: &[Constants<T>],
        per_row: bool,
        buffers: &mut FlowBuffers<T>,
        count: usize,
    ) -> Result<()> {
        buffers.log_det[..count].fill(T::ZERO);
        let length = self.features * count;
        for (step, constants) in self.steps.iter().zip(constants) {
            let linear = &step.linear;
            let (x, y) = (&buffers.x[..length], &mut buffers.y[..length]);
            combine_rows(&linear.forward, &linear.forward_bias, x, y);
            std::mem::swap(&mut buffers.x, &mut buffers.y);
            self.spline_step(step, constants, per_row, Direction::Density, buffers, count)?;
            std::mem::swap(&mut buffers.x, &mut buffers.y);
        }
        let (x, y) = (&buffers.x[..length], &mut buffers.y[..length]);
        combine_rows(&self.last.forward, &self.last.forward_bias, x, y);
        std::mem::swap(&mut buffers.x, &mut buffers.y);
        Ok(())
    }

    /// Noise in `buffers.x` to parameters in `buffers.x`; the splines' log-det is summed up.
    pub(crate) fn sampling(
        &self,
        constants: &[Constants<T>],
        per_row: bool,
        buffers: &mut FlowBuffers<T>,
        count: usize,
    ) -> Result<()> {
        buffers.log_det[..count].fill(T::ZERO);
        let length = self.features * count;
        let (x, y) = (&buffers.x[..length], &mut buffers.y[..length]);
        combine_rows(&self.last.inverse, &self.last.inverse_bias, x, y);
        std::mem::swap(&mut buffers.x, &mut buffers.y);
        for (step, constants) in self.steps.iter().zip(constants).rev() {
            self.spline_step(
                step,
                constants,
                per_row,
                Direction::Sampling,
                buffers,
                count,
            )?;
            let linear = &step.linear;
            let (x, y) = (&mut buffers.x[..length], &buffers.y[..length]);
            combine_rows(&linear.inverse, &linear.inverse_bias, y, x);
        }
        Ok(())
    }

    /// Splines of one step, `buffers.x` to `buffers.y`.
    fn spline_step(
        &self,
        step: &StepWeights<T>,
        constants: &Constants<T>,
        per_row: bool,
        direction: Direction,
        buffers: &mut FlowBuffers<T>,
        count: usize,
    ) -> Result<()> {
        let FlowBuffers {
            trunk,
            x,
            y,
            condition,
            context,
            logits,
            log_det,
            scratch,
        } = buffers;
        let context = per_row.then(|| &context[..self.context * count]);
        let (log_det, scratch) = (&mut log_det[..count], &mut scratch[..count]);
        let per_feature = self.splines.conditioned.settings().parameters_per_element();
        let row = |feature: usize| feature * count..(feature + 1) * count;
        let spread = per_feature * count;
        if step.conditioner.context_use == ContextUse::Added {
            return self.masked_step(
                (step, constants, context),
                direction,
                (trunk, x, y, condition, logits),
                (log_det, scratch),
            );
        }
        for (place, &feature) in step.identity.iter().enumerate() {
            if let Some(all) = &step.unconditional {
                let logits = &mut logits[..spread];
                broadcast(&all[place * per_feature..(place + 1) * per_feature], logits);
                let spline = &self.splines.unconditional;
                let (x, y) = (&x[row(feature)], &mut y[row(feature)]);
                transform(spline, direction, x, logits, y, log_det, scratch)?;
            } else {
                y[row(feature)].copy_from_slice(&x[row(feature)]);
            }
        }
        // The conditioner sees the identity features as they are on the side of theta.
        let seen: &[T] = if direction == Direction::Density {
            x
        } else {
            y
        };
        let condition = &mut condition[..step.identity.len() * count];
        rows::gather(seen, &step.identity, count, condition);
        let outputs = step.conditioner.output.outputs;
        let logits = &mut logits[..outputs * count];
        run(
            &step.conditioner,
            constants,
            context,
            condition,
            trunk,
            count,
            (0..outputs, logits),
        );
        for (place, &feature) in step.transformed.iter().enumerate() {
            let logits = &logits[place * spread..(place + 1) * spread];
            let (x, y) = (&x[row(feature)], &mut y[row(feature)]);
            transform(
                &self.splines.conditioned,
                direction,
                x,
                logits,
                y,
                log_det,
                scratch,
            )?;
        }
        Ok(())
    }

    /// Splines of one autoregressive step; sampling needs one pass for each feature.
    fn masked_step(
        &self,
        (step, constants, context): (&StepWeights<T>, &Constants<T>, Option<&[T]>),
        direction: Direction,
        (trunk, x, y, condition, logits): Activations<'_, T>,
        (log_det, scratch): (&mut [T], &mut [T]),
    ) -> Result<()> {
        let count = log_det.len();
        let per_feature = self.splines.conditioned.settings().parameters_per_element();
        let spline = &self.splines.conditioned;
        let condition = &mut condition[..self.features * count];
        match direction {
            Direction::Density => condition.copy_from_slice(&x[..condition.len()]),
            Direction::Sampling => condition.fill(T::ZERO),
        }
        let pass = if direction == Direction::Density {
            self.features
        } else {
            1
        };
        let logits = &mut logits[..pass * per_feature * count];
        for first in (0..self.features).step_by(pass) {
            let outputs = first * per_feature..(first + pass) * per_feature;
            run(
                &step.conditioner,
                constants,
                context,
                condition,
                trunk,
                count,
                (outputs, logits),
            );
            for (logits, feature) in logits.chunks_exact(per_feature * count).zip(first..) {
                let row = feature * count..(feature + 1) * count;
                let (x, y) = (&x[row.clone()], &mut y[row.clone()]);
                transform(spline, direction, x, logits, y, log_det, scratch)?;
                if direction == Direction::Sampling {
                    condition[row].copy_from_slice(y);
                }
            }
        }
        Ok(())
    }
}

/// Buffers that an autoregressive step works on.
type Activations<'a, T> = (
    &'a mut TrunkBuffers<T>,
    &'a [T],
    &'a mut [T],
    &'a mut [T],
    &'a mut [T],
);

/// A residual network on `count` rows.
///
/// With `context` (`[C][T]`) the context differs between rows; without, it is in the constants.
///
/// # Shapes
/// input `[inputs][T]`; output: the listed rows of the output layer, `[listed][T]`.
pub(crate) fn run<T: Scalar>(
    trunk: &Trunk<T>,
    constants: &Constants<T>,
    context: Option<&[T]>,
    input: &[T],
    buffers: &mut TrunkBuffers<T>,
    count: usize,
    (listed, output): (Range<usize>, &mut [T]),
) {
    let width = trunk.initial.outputs;
    let initial = Matrix::new(&trunk.initial.weight, width, trunk.initial.inputs);
    apply(
        initial,
        input,
        &mut buffers.stream[..width * count],
        false,
        count,
    );
    if let (Some(context), Some(layer)) = (context, &trunk.initial_context) {
        let weight = Matrix::new(&layer.weight, width, layer.inputs);
        let stream = &mut buffers.stream[..width * count];
        match trunk.context_use {
            ContextUse::Gates => apply(weight, context, stream, true, count),
            ContextUse::Added => {
                let added = &mut buffers.linear[..width * count];
                apply(weight, context, added, false, count);
                let bias = &constants.initial_context_bias;
                with_activation!(trunk.activation, a => add_activated(stream, added, bias, a));
            }
        }
    }
    for (block, constants) in trunk.blocks.iter().zip(&constants.blocks) {
        run_block(
            block,
            constants,
            (trunk.activation, trunk.context_use),
            context,
            buffers,
            count,
        );
        if let Some(resize) = &block.resize {
            let weight = Matrix::new(&resize.weight, resize.outputs, resize.inputs);
            let stream = &buffers.stream[..resize.inputs * count];
            apply(
                weight,
                stream,
                &mut buffers.active[..resize.outputs * count],
                false,
                count,
            );
            std::mem::swap(&mut buffers.stream, &mut buffers.active);
        }
    }
    let inputs = trunk.output.inputs;
    let weight = &trunk.output.weight[listed.start * inputs..listed.end * inputs];
    rows::fill_rows(&constants.output_bias[listed.clone()], output);
    let weight = Matrix::new(weight, listed.len(), inputs);
    apply(
        weight,
        &buffers.stream[..inputs * count],
        output,
        true,
        count,
    );
}

/// One residual block on the stream.
fn run_block<T: Scalar>(
    block: &Block<T>,
    constants: &BlockConstants<T>,
    (activation, context_use): (Activation, ContextUse),
    context: Option<&[T]>,
    buffers: &mut TrunkBuffers<T>,
    count: usize,
) {
    let width = block.width;
    let length = width * count;
    let stream = &mut buffers.stream[..length];
    let active = &mut buffers.active[..length];
    let linear = &mut buffers.linear[..length];
    let gate = &mut buffers.gate[..length];
    let (mean, inverse) = (&mut buffers.mean[..count], &mut buffers.inverse[..count]);
    let epsilon = T::from_f64(LAYER_NORM_EPSILON);
    match &block.norm0 {
        Norm::None => with_activation!(activation, a => {
            shift_activate(stream, &constants.shift0, active, a)
        }),
        Norm::Affine { .. } => with_activation!(activation, a => {
            affine_activate(stream, &constants.scale0, &constants.shift0, active, a)
        }),
        Norm::Layer { weight, bias } => {
            layer_statistics(stream, &constants.shift0, epsilon, mean, inverse);
            with_activation!(activation, a => layer_norm_activate(
                stream, &constants.shift0, (weight, bias), (mean, inverse), active, a
            ));
        }
    }
    let square = |weight| Matrix::new(weight, width, width);
    apply(square(&block.first.weight), active, linear, false, count);
    let rows_differ = context.zip(block.context.as_ref());
    if let (Some((context, layer)), ContextUse::Added) = (rows_differ, context_use) {
        apply(
            Matrix::new(&layer.weight, width, layer.inputs),
            context,
            linear,
            true,
            count,
        );
    }
    let second_input: &[T] = match &block.norm1 {
        Norm::Layer { weight, bias } => {
            layer_statistics(linear, &constants.bias0, epsilon, mean, inverse);
            with_activation!(activation, a => layer_norm_activate(
                linear, &constants.bias0, (weight, bias), (mean, inverse), active, a
            ));
            active
        }
        _ => {
            with_activation!(activation, a => {
                shift_activate_in_place(linear, &constants.bias0, a)
            });
            linear
        }
    };
    let weight = square(constants.weight1.as_deref().unwrap_or(&block.second.weight));
    if let (Some((context, layer)), ContextUse::Gates) = (rows_differ, context_use) {
        apply(
            Matrix::new(&layer.weight, width, layer.inputs),
            context,
            gate,
            false,
            count,
        );
        // The buffer that the second layer does not read takes its output.
        let (second_input, second_output) = match &block.norm1 {
            Norm::Layer { .. } => (&*active, linear),
            _ => (&*linear, active),
        };
        apply(weight, second_input, second_output, false, count);
        add_gated(
            stream,
            second_output,
            &constants.bias1,
            gate,
            &constants.gate_bias,
        );
    } else {
        apply(weight, second_input, stream, true, count);
    }
}
