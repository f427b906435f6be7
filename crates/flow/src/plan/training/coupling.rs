//! Coupling step: permutation and LU transform, conditioner on the identity features, splines on the
//! others.
//!
//! Forward replaces `scratch.current` (the features) and adds to the log-det. Backward replaces
//! `scratch.gradient`, the gradient by the features after the step, by that before it; logits become
//! their gradients in place.

use std::ops::Range;

use dunnart_spline::{ParametersMut, RationalQuadraticSpline, Upstream};

use super::block::Pass;
use super::lu::{LuBuffers, LuLayer};
use super::sums::sum;
use super::trunk::{TrunkBuffers, TrunkLayer};
use crate::plan::passes::add;
use crate::plan::spline::Splines;
use crate::plan::{Scalar, rows};
use crate::settings::Activation;
use crate::structure::{Conditioner, ParameterIndex, Step};
use crate::{Error, Layout, Result};

/// A coupling step and its place in the flat parameters.
#[derive(Clone, Debug)]
pub(crate) struct CouplingLayer<T> {
    /// Permutation and LU transform.
    pub(crate) lu: LuLayer<T>,
    /// Features that condition.
    pub(crate) identity: Vec<usize>,
    /// Features the conditioned spline acts on.
    pub(crate) transformed: Vec<usize>,
    /// The conditioner.
    pub(crate) trunk: TrunkLayer,
    /// Widths, heights, derivatives of the identity features' spline: index and elements.
    pub(crate) unconditional: Option<[(ParameterIndex, Range<usize>); 3]>,
}

/// Activations of one step for one chunk.
#[derive(Debug)]
pub(crate) struct CouplingBuffers<T> {
    /// Those of the LU transform.
    pub(crate) lu: LuBuffers<T>,
    /// Features before the splines, `[D][T]`.
    x: Vec<T>,
    /// Identity features, `[D_id][T]`.
    pub(crate) condition: Vec<T>,
    /// Spline logits, `[D_tr (3 K - 1)][T]`; backward their gradients.
    pub(crate) logits: Vec<T>,
    /// Logits of the identity features' spline for each row, `[D_id (3 K - 1)][T]`, or empty.
    spread: Vec<T>,
    /// Sums over the rows of their gradients, `[D_id][3 K - 1]`.
    pub(crate) spread_sums: Vec<f64>,
    /// Those of the conditioner.
    pub(crate) trunk: TrunkBuffers<T>,
}

/// Buffers of one chunk that every step uses in turn.
#[derive(Debug)]
pub(crate) struct Scratch<T> {
    /// The features, `[D][T]`.
    pub(crate) current: Vec<T>,
    /// Gradient by the features, `[D][T]`.
    pub(crate) gradient: Vec<T>,
    /// Gradient between spline and LU transform, `[D][T]`.
    between: Vec<T>,
    /// Before the permutation is undone, `[D][T]`.
    pub(crate) permuted: Vec<T>,
    /// Gradient by the conditioner's input, `[D][T]`.
    pub(crate) condition: Vec<T>,
    /// Gradient along the residual stream, `[H][T]`.
    pub(crate) dh: Vec<T>,
    /// Gradient beside it, `[H][T]`.
    pub(crate) upstream: Vec<T>,
    /// Sum of the splines' log-dets, `[T]`.
    pub(crate) log_det: Vec<T>,
    /// One feature's log-det, `[T]`.
    row: Vec<T>,
    /// Gradient by each row's log-det, `[T]`.
    pub(crate) log_det_gradient: Vec<T>,
}

impl<T: Scalar> Scratch<T> {
    /// Buffers for `rows` rows of D features and widths up to H.
    pub(crate) fn new(features: usize, width: usize, rows: usize) -> Self {
        let zero = |width: usize| vec![T::ZERO; width * rows];
        Self {
            current: zero(features),
            gradient: zero(features),
            between: zero(features),
            permuted: zero(features),
            condition: zero(features),
            dh: zero(width),
            upstream: zero(width),
            log_det: zero(1),
            row: zero(1),
            log_det_gradient: zero(1),
        }
    }
}

/// y = spline(x) for one feature; logits become their softmax.
fn forward_feature<T: Scalar>(
    spline: &RationalQuadraticSpline,
    (x, logits): (&[T], &mut [T]),
    y: &mut [T],
    (log_det, row): (&mut [T], &mut [T]),
) -> Result<()> {
    let logits = ParametersMut::from_rows(spline.settings(), logits);
    spline.forward_in_place(x, logits, y, row)?;
    add(log_det, row);
    Ok(())
}

/// The gradient by y to that by x; logits become their gradients.
fn backward_feature<T: Scalar>(
    spline: &RationalQuadraticSpline,
    (x, logits): (&[T], &mut [T]),
    upstream: Upstream<'_, T>,
    dx: &mut [T],
) -> Result<()> {
    let logits = ParametersMut::from_rows(spline.settings(), logits);
    spline.forward_gradients_in_place(x, logits, upstream, dx)?;
    Ok(())
}

impl<T: Scalar> CouplingLayer<T> {
    /// Finds the step in the layout.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for autoregressive steps.
    pub(crate) fn new(
        layout: &Layout,
        step: &Step,
        permutation: &[usize],
        kind: (Activation, f64),
        states: &mut usize,
    ) -> Result<Self> {
        let inputs = step.identity.len();
        let trunk = match &step.conditioner {
            Conditioner::Residual(network) => {
                Some(TrunkLayer::residual(layout, network, inputs, kind, states))
            }
            Conditioner::Dense(network) => TrunkLayer::dense(layout, network, kind, states),
            Conditioner::Masked(_) => None,
        };
        let place = |index: usize| (index, layout.parameters()[index].range());
        Ok(Self {
            lu: LuLayer::new(layout, &step.linear, permutation),
            identity: step.identity.clone(),
            transformed: step.transformed.clone(),
            trunk: trunk.ok_or_else(|| Error::Unsupported {
                what: "the conditioner of `base_transform_type: rq-autoregressive`".into(),
                where_: "in a compiled step".into(),
                remedy: "train it eagerly (`compile: false`), or use rq-coupling".into(),
            })?,
            unconditional: step
                .unconditional
                .as_ref()
                .map(|u| [u.widths, u.heights, u.derivatives].map(place)),
        })
    }

    /// Buffers for `rows` rows.
    pub(crate) fn buffers(&self, splines: &Splines, rows: usize) -> CouplingBuffers<T> {
        let zero = |width: usize| vec![T::ZERO; width * rows];
        let logits = splines.conditioned.settings().parameters_per_element();
        let spread = if self.unconditional.is_some() {
            self.identity.len() * logits
        } else {
            0
        };
        CouplingBuffers {
            lu: LuBuffers::new(self.lu.features(), rows),
            x: zero(self.lu.features()),
            condition: zero(self.identity.len()),
            logits: zero(self.trunk.output.outputs),
            spread: zero(spread),
            spread_sums: vec![0.0; spread],
            trunk: self.trunk.buffers(rows),
        }
    }

    /// Permutation, LU transform, and the conditioner's first layer.
    pub(crate) fn forward_begin(
        &self,
        pass: Pass<'_, T>,
        context: &[T],
        buffers: &mut CouplingBuffers<T>,
        scratch: &mut Scratch<T>,
        count: usize,
    ) {
        let length = self.lu.features() * count;
        let x = &mut buffers.x[..length];
        let current = &scratch.current[..length];
        self.lu
            .forward(pass.parameters, current, x, &mut buffers.lu, count);
        let condition = &mut buffers.condition[..self.identity.len() * count];
        rows::gather(x, &self.identity, count, condition);
        self.trunk
            .forward_initial(pass, (condition, context), &mut buffers.trunk, count);
    }

    /// The conditioner's last layer and the splines.
    ///
    /// # Errors
    /// [`Error::Spline`].
    pub(crate) fn forward_end(
        &self,
        pass: Pass<'_, T>,
        splines: &Splines,
        buffers: &mut CouplingBuffers<T>,
        scratch: &mut Scratch<T>,
        count: usize,
    ) -> Result<()> {
        let logits = &mut buffers.logits[..self.trunk.output.outputs * count];
        self.trunk
            .forward_output(pass, &buffers.trunk, logits, count);
        let (log_det, row) = (&mut scratch.log_det[..count], &mut scratch.row[..count]);
        let per_feature = splines.conditioned.settings().parameters_per_element() * count;
        let place = |feature: usize| feature * count..(feature + 1) * count;
        for (i, &feature) in self.identity.iter().enumerate() {
            let (x, y) = (
                &buffers.x[place(feature)],
                &mut scratch.current[place(feature)],
            );
            let Some(parts) = &self.unconditional else {
                y.copy_from_slice(x);
                continue;
            };
            let spread = &mut buffers.spread[i * per_feature..(i + 1) * per_feature];
            let mut rest = &mut *spread;
            for (_, range) in parts {
                let columns = range.len() / self.identity.len();
                let values = &pass.parameters[range.start + i * columns..][..columns];
                let (part, next) = rest.split_at_mut(columns * count);
                rows::fill_rows(values, part);
                rest = next;
            }
            forward_feature(&splines.unconditional, (x, spread), y, (log_det, row))?;
        }
        for (logits, &feature) in logits.chunks_exact_mut(per_feature).zip(&self.transformed) {
            let (x, y) = (
                &buffers.x[place(feature)],
                &mut scratch.current[place(feature)],
            );
            forward_feature(&splines.conditioned, (x, logits), y, (log_det, row))?;
        }
        Ok(())
    }

    /// Through the splines and the conditioner's last layer.
    ///
    /// # Errors
    /// [`Error::Spline`].
    pub(crate) fn backward_begin(
        &self,
        pass: Pass<'_, T>,
        splines: &Splines,
        buffers: &mut CouplingBuffers<T>,
        scratch: &mut Scratch<T>,
        count: usize,
    ) -> Result<()> {
        let logits = &mut buffers.logits[..self.trunk.output.outputs * count];
        let per_feature = splines.conditioned.settings().parameters_per_element() * count;
        let Scratch {
            gradient,
            between,
            dh,
            log_det_gradient,
            ..
        } = scratch;
        let log_det = &log_det_gradient[..count];
        let place = |feature: usize| feature * count..(feature + 1) * count;
        for (i, &feature) in self.identity.iter().enumerate() {
            let (output, dx) = (&gradient[place(feature)], &mut between[place(feature)]);
            if self.unconditional.is_none() {
                dx.copy_from_slice(output);
                continue;
            }
            let x = &buffers.x[place(feature)];
            let spread = &mut buffers.spread[i * per_feature..(i + 1) * per_feature];
            let upstream = Upstream { output, log_det };
            backward_feature(&splines.unconditional, (x, &mut *spread), upstream, dx)?;
            let sums = &mut buffers.spread_sums[i * per_feature / count..];
            for (sum_of_row, row) in sums.iter_mut().zip(spread.chunks_exact(count)) {
                *sum_of_row = sum(row, |v| v);
            }
        }
        for (logits, &feature) in logits.chunks_exact_mut(per_feature).zip(&self.transformed) {
            let (output, dx) = (&gradient[place(feature)], &mut between[place(feature)]);
            let x = &buffers.x[place(feature)];
            let upstream = Upstream { output, log_det };
            backward_feature(&splines.conditioned, (x, logits), upstream, dx)?;
        }
        self.trunk.backward_output(pass, logits, dh, count);
        Ok(())
    }

    /// Through the LU transform and the permutation, after the conditioner's first layer.
    pub(crate) fn backward_end(
        &self,
        buffers: &mut CouplingBuffers<T>,
        scratch: &mut Scratch<T>,
        count: usize,
    ) {
        let length = self.lu.features() * count;
        let Scratch {
            gradient,
            between,
            permuted,
            condition,
            ..
        } = scratch;
        for (more, &feature) in condition.chunks_exact(count).zip(&self.identity) {
            add(&mut between[feature * count..(feature + 1) * count], more);
        }
        let (dy, dx) = (&between[..length], &mut gradient[..length]);
        self.lu
            .backward(dy, dx, &mut buffers.lu, &mut permuted[..length], count);
    }

    /// Gradient of one of the context-free spline's parameters, written or added.
    pub(crate) fn unconditional_gradient<'a>(
        &self,
        which: usize,
        splines: &Splines,
        chunks: impl Iterator<Item = &'a CouplingBuffers<T>> + Clone,
        (gradient, accumulate): (&mut [T], bool),
    ) where
        T: 'a,
    {
        let bins = splines.unconditional.settings().num_bins;
        let per_feature = 3 * bins - 1;
        let columns = gradient.len() / self.identity.len().max(1);
        for (index, gradient) in gradient.iter_mut().enumerate() {
            let (feature, column) = (index / columns, index % columns);
            let place = feature * per_feature + which * bins + column;
            let total: f64 = chunks.clone().map(|c| c.spread_sums[place]).sum();
            let old = if accumulate { gradient.to_f64() } else { 0.0 };
            *gradient = T::from_f64(old + total);
        }
    }
}
