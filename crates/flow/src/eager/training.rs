//! Loss and gradients in training mode.

use std::sync::Arc;

use dunnart_torch_shim::{backward, set_grad};
use tch::{Kind, Tensor};

use super::network::Shared;
use super::pass::TrainingMode;
use super::storage::check_flat;
use super::weights::Weights;
use super::{EagerBatch, EagerStorage};
use crate::reduction::BatchReduction;
use crate::structure::ParameterIndex;
use crate::{Dropout, Error, Result, TrainableSet};

/// How one step is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// The key of this epoch's dropout masks.
    pub dropout: Dropout,
    /// Factor on the loss before the backward pass, as 1 / accumulated batches; the loss that is
    /// returned is without it.
    pub weight: f64,
    /// Precision of the linear layers' products; `None` for the network's own. Spline, LU
    /// transform, base density and log-det always have the network's own.
    pub autocast: Option<Kind>,
    /// Whether gradients are added to what is there, or start from zero.
    pub accumulate: bool,
}

impl StepOptions {
    /// A plain step: weight 1, no autocast, gradients from zero.
    pub fn new(dropout: Dropout) -> Self {
        Self {
            dropout,
            weight: 1.0,
            autocast: None,
            accumulate: false,
        }
    }
}

/// A network with its numbers and a trainable set, in training mode.
pub struct Training {
    shared: Arc<Shared>,
    weights: Weights,
    trainable: TrainableSet,
    gradients: Tensor,
    reduction: Arc<dyn BatchReduction>,
    /// The tensors the leaves are views of.
    viewed: [Tensor; 2],
    log_prob: Option<Tensor>,
}

impl std::fmt::Debug for Training {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Training")
            .field("trainable", &self.trainable)
            .field("reduction", &self.reduction)
            .finish_non_exhaustive()
    }
}

impl Training {
    pub(super) fn new(
        shared: Arc<Shared>,
        storage: &EagerStorage,
        gradients: &Tensor,
        trainable: &TrainableSet,
        reduction: Arc<dyn BatchReduction>,
    ) -> Result<Self> {
        let parameters = shared.layout.parameters().len();
        if trainable.len() != parameters {
            return Err(Error::Length {
                name: "trainable set".into(),
                expected: parameters,
                found: trainable.len(),
            });
        }
        check_flat(
            "gradients",
            gradients,
            shared.layout.parameter_elements(),
            storage.kind(),
        )?;
        let weights = leaves(&shared, storage, gradients, trainable)?;
        Ok(Self {
            weights,
            trainable: trainable.clone(),
            gradients: gradients.shallow_clone(),
            reduction,
            viewed: [&storage.parameters, &storage.statistics].map(Tensor::shallow_clone),
            log_prob: None,
            shared,
        })
    }

    /// `log q` of each row of the last batch, with that batch's own statistics in its batch norms.
    ///
    /// # Shapes
    /// `[B]`; `None` before the first batch.
    pub fn log_prob(&self) -> Option<&Tensor> {
        self.log_prob.as_ref()
    }

    /// `-mean(log q)` of a batch, its gradients times `options.weight` in the flat gradient tensor,
    /// and batch norm's running statistics updated.
    ///
    /// `ready` is called for each trainable parameter, last registered first, when its gradient is
    /// complete; libtorch's backward pass runs whole, so that is after it. A parameter the loss does
    /// not depend on has gradient zero. Frozen parameters are not touched.
    ///
    /// # Shapes
    /// The loss is `[]`, on the device, so that nothing waits for it.
    ///
    /// # Errors
    /// [`Error::TooFewRows`], [`Error::Shape`] or [`Error::Length`] for a batch that does not fit,
    /// [`Error::Unsupported`] for autocast of a float64 network, [`Error::Torch`].
    pub fn loss_and_gradients(
        &mut self,
        storage: &mut EagerStorage,
        batch: &EagerBatch,
        options: &StepOptions,
        ready: &mut dyn FnMut(ParameterIndex),
    ) -> Result<Tensor> {
        self.follow(storage)?;
        let kind = self.weights.kind();
        let architecture = &self.shared.architecture;
        let rows = batch.rows(architecture, kind)?;
        self.check_batch(rows, batch, options)?;
        if !options.accumulate {
            let _ = self.gradients.f_zero_()?;
        }
        let mut pass = self.shared.pass(&self.weights);
        pass.training = Some(TrainingMode {
            dropout: options.dropout,
            samples: &batch.samples,
            reduction: &self.reduction,
            autocast: options.autocast,
        });
        let network = self.shared.layout.network();
        let context = pass.context(network, batch)?;
        let (noise, log_det) = pass.forward(network, &batch.theta, context.as_ref())?;
        let log_prob = pass.base_log_density(&noise)?.f_add(&log_det)?;
        let loss = log_prob.f_mean(None)?.f_neg()?;
        for counter in &mut storage.counters {
            *counter += 1;
        }
        if loss.requires_grad() {
            let weight = Tensor::f_full([] as [i64; 0], options.weight, (kind, loss.device()))?;
            backward(&[&loss], &[weight], false)?;
        }
        self.log_prob = Some(log_prob.f_detach()?);
        let trainable: Vec<ParameterIndex> = self.trainable.indices().collect();
        trainable.into_iter().rev().for_each(ready);
        Ok(loss.f_detach()?)
    }

    /// Makes new views where the storage's tensors were replaced by others.
    fn follow(&mut self, storage: &EagerStorage) -> Result<()> {
        let same = |a: &Tensor, b: &Tensor| {
            a.data_ptr() == b.data_ptr() && a.numel() == b.numel() && a.kind() == b.kind()
        };
        if same(&self.viewed[0], &storage.parameters) && same(&self.viewed[1], &storage.statistics)
        {
            return Ok(());
        }
        self.weights = leaves(&self.shared, storage, &self.gradients, &self.trainable)?;
        self.viewed = [&storage.parameters, &storage.statistics].map(Tensor::shallow_clone);
        Ok(())
    }

    fn check_batch(&self, rows: usize, batch: &EagerBatch, options: &StepOptions) -> Result<()> {
        let architecture = &self.shared.architecture;
        // A worker may have any number of rows; batch norm counts those of all workers itself.
        let normalised = architecture.has_batch_norm() && self.reduction.is_local();
        let needed = if normalised { 2 } else { 1 };
        if rows < needed {
            return Err(Error::TooFewRows {
                needed,
                found: rows,
            });
        }
        let drops = architecture.coupling().dropout > 0.0
            || architecture.embedding().is_some_and(|e| e.dropout > 0.0);
        if drops && batch.samples.len() != rows {
            return Err(Error::Length {
                name: "sample indices of the batch".into(),
                expected: rows,
                found: batch.samples.len(),
            });
        }
        if options.autocast.is_some() && self.weights.kind() != Kind::Float {
            return Err(Error::Unsupported {
                what: "autocast".into(),
                where_: "for a float64 network".into(),
                remedy: "train in float32".into(),
            });
        }
        Ok(())
    }
}

/// Views that require a gradient where they train, with views of `gradients` to add it to.
fn leaves(
    shared: &Shared,
    storage: &EagerStorage,
    gradients: &Tensor,
    trainable: &TrainableSet,
) -> Result<Weights> {
    let mut weights = Weights::new(&shared.layout, storage)?;
    for index in trainable.indices() {
        let spec = &shared.layout.parameters()[index];
        let leaf = weights.parameters[index].f_set_requires_grad(true)?;
        let shape: Vec<i64> = spec.shape.iter().map(|&n| n as i64).collect();
        let gradient = gradients
            .f_narrow(0, spec.offset as i64, spec.elements() as i64)?
            .f_reshape(shape)?;
        set_grad(&leaf, &gradient)?;
        weights.parameters[index] = leaf;
    }
    Ok(weights)
}
