//! The network as a function; its numbers come from an [`EagerStorage`].

use std::sync::Arc;

use tch::{Device, Tensor};

use super::pass::Pass;
use super::spline::{EagerSpline, SplinePath};
use super::weights::Weights;
use super::{EagerStorage, Evaluation, Training};
use crate::reduction::{BatchReduction, LocalReduction};
use crate::{Architecture, Error, Layout, Result, TrainableSet};

/// What all passes of one network share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) architecture: Architecture,
    pub(super) layout: Layout,
    pub(super) path: SplinePath,
    spline: EagerSpline,
    unconditional: EagerSpline,
}

impl Shared {
    /// A pass in evaluation mode.
    pub(super) fn pass<'a>(&'a self, weights: &'a Weights) -> Pass<'a> {
        Pass {
            architecture: &self.architecture,
            spline: &self.spline,
            unconditional: &self.unconditional,
            weights,
            training: None,
        }
    }

    /// Refuses a device the spline cannot run on.
    pub(super) fn check_device(&self, device: Device) -> Result<()> {
        if self.path == SplinePath::Tensor || device == Device::Cpu {
            return Ok(());
        }
        Err(Error::Unsupported {
            what: "the spline's kernel".into(),
            where_: format!("on {device:?}"),
            remedy: "use the tensor formulation of the spline".into(),
        })
    }
}

/// A network in libtorch operations.
#[derive(Clone, Debug)]
pub struct EagerNetwork {
    shared: Arc<Shared>,
}

impl EagerNetwork {
    /// The network of an architecture, laid out by `layout`.
    ///
    /// # Errors
    /// [`Error::Spline`] when the spline cannot be built.
    pub fn new(architecture: &Architecture, layout: &Layout, path: SplinePath) -> Result<Self> {
        let settings = *architecture.spline();
        Ok(Self {
            shared: Arc::new(Shared {
                architecture: architecture.clone(),
                layout: layout.clone(),
                path,
                spline: EagerSpline::new(settings, architecture.logit_scale(), path)?,
                unconditional: EagerSpline::new(settings, 1.0, path)?,
            }),
        })
    }

    /// Densities, noise and samples with the numbers of `storage`, in evaluation mode.
    ///
    /// Later changes of the storage's tensors in place are seen.
    ///
    /// # Errors
    /// [`Error::Length`] or [`Error::Shape`] when the storage does not fit, [`Error::Unsupported`]
    /// when the spline cannot run on its device.
    pub fn evaluation(&self, storage: &EagerStorage) -> Result<Evaluation> {
        self.shared.check_device(storage.device())?;
        let weights = Weights::new(&self.shared.layout, storage)?;
        Ok(Evaluation::new(Arc::clone(&self.shared), weights))
    }

    /// Loss and gradients of the parameters in `trainable`, with one worker holding all rows.
    ///
    /// `gradients` is the flat tensor that gradients are added to; frozen parameters' elements in it
    /// stay what they are.
    ///
    /// # Errors
    /// As [`EagerNetwork::evaluation`], for `gradients` too.
    pub fn training(
        &self,
        storage: &EagerStorage,
        gradients: &Tensor,
        trainable: &TrainableSet,
    ) -> Result<Training> {
        self.training_with(storage, gradients, trainable, Arc::new(LocalReduction))
    }

    /// [`EagerNetwork::training`] with batch norm's sums joined by `reduction`.
    ///
    /// # Errors
    /// As [`EagerNetwork::training`].
    pub fn training_with(
        &self,
        storage: &EagerStorage,
        gradients: &Tensor,
        trainable: &TrainableSet,
        reduction: Arc<dyn BatchReduction>,
    ) -> Result<Training> {
        self.shared.check_device(storage.device())?;
        Training::new(
            Arc::clone(&self.shared),
            storage,
            gradients,
            trainable,
            reduction,
        )
    }
}
