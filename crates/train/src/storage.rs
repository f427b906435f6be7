//! The numbers that a run moves: parameters, gradients and running statistics, one flat tensor each.
//!
//! Every tensor of the network is a view into them, in registration order (embedding first). The
//! optimiser's moments lie in [`crate::optimizer`], with the same offsets.

use dunnart_flow::eager::{EagerStorage, TensorReal};
use dunnart_flow::{Layout, NetworkState, ParameterSpec};
use dunnart_torch_shim::{Element, as_slice};
use tch::{Device, Kind, Tensor};

use crate::Result;

/// Parameters, statistics and gradients of one network on one device.
pub struct Storage {
    /// What the network computes with.
    pub network: EagerStorage,
    /// Gradients, laid out like the parameters; zero where nothing trains.
    pub gradients: Tensor,
}

impl Storage {
    /// Copies a network's state to the device, in the state's precision.
    ///
    /// # Errors
    /// [`crate::Error::Network`] when the state does not fit the layout or the device refuses.
    pub fn from_state<T: TensorReal>(
        layout: &Layout,
        state: &NetworkState<T>,
        device: Device,
    ) -> Result<Self> {
        let network = EagerStorage::from_state(layout, state, device)?;
        let gradients = network.zeros()?;
        Ok(Self { network, gradients })
    }

    /// Copies the network's state back to host memory.
    ///
    /// # Errors
    /// [`crate::Error::Network`] when `T` is not the storage's precision.
    pub fn to_state<T: TensorReal>(&self) -> Result<NetworkState<T>> {
        Ok(self.network.to_state()?)
    }

    /// Precision and device of every tensor.
    pub fn options(&self) -> (Kind, Device) {
        (self.network.kind(), self.network.device())
    }

    /// One parameter as a view.
    ///
    /// # Errors
    /// [`crate::Error::Torch`] when the layout is another network's.
    pub fn parameter(&self, spec: &ParameterSpec) -> Result<Tensor> {
        view(&self.network.parameters, spec)
    }

    /// One parameter's gradient as a view.
    ///
    /// # Errors
    /// [`crate::Error::Torch`] when the layout is another network's.
    pub fn gradient(&self, spec: &ParameterSpec) -> Result<Tensor> {
        view(&self.gradients, spec)
    }
}

fn view(flat: &Tensor, spec: &ParameterSpec) -> Result<Tensor> {
    let shape: Vec<i64> = spec.shape.iter().map(|&n| n as i64).collect();
    let narrow = flat.f_narrow(0, spec.offset as i64, spec.elements() as i64)?;
    Ok(narrow.f_view(shape.as_slice())?)
}

/// A copy of a tensor's elements in host memory.
pub(crate) fn host_elements<T: Element>(tensor: &Tensor) -> Result<Vec<T>> {
    let host = tensor.f_to_device(Device::Cpu)?.f_contiguous()?;
    Ok(as_slice::<T>(&host)?.to_vec())
}
