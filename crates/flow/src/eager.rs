//! The network in libtorch operations, f32 and f64: the reference for every other form of it.
//!
//! Here: tensors for state and batches ([`EagerStorage`], [`EagerBatch`]); density, noise and
//! samples in evaluation mode ([`Evaluation`]); loss and gradients in training mode ([`Training`]);
//! the spline as a kernel or in tensor operations ([`EagerSpline`], [`SplinePath`]). Parameters,
//! gradients and running statistics are views of flat tensors, laid out by [`Layout`].
//!
//! Deliberately not here: optimisers, the loop over batches, any choice of device, and any drawing
//! of random numbers but dropout's masks, whose key is handed in. Nothing here waits for a device:
//! losses come back as tensors.

mod batch_norm;
mod conditioner;
mod embedding;
mod evaluation;
mod flow;
mod linear;
mod masked;
mod network;
mod pass;
mod spline;
mod spline_kernel;
mod spline_tensor;
mod storage;
mod training;
mod weights;

pub use evaluation::Evaluation;
pub use network::EagerNetwork;
pub use spline::{EagerSpline, SplinePath};
pub use storage::{EagerBatch, EagerStorage, TensorReal};
pub use training::{StepOptions, Training};

#[allow(unused_imports)] // Named in the documentation above.
use crate::Layout;
