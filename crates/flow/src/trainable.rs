//! Which parameters train: a value that is handed to whatever computes a step.

use crate::Layout;
use crate::names::REDUCED_BASIS_LAYERS;

/// The set of trainable parameters of one network.
///
/// Two sets are equal when they train the same parameters; compiled plans are keyed by it. Nothing
/// else decides what trains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrainableSet {
    trains: Vec<bool>,
}

impl TrainableSet {
    /// Every parameter trains.
    pub fn all(layout: &Layout) -> Self {
        Self {
            trains: vec![true; layout.parameters().len()],
        }
    }

    /// Every parameter trains except those whose name satisfies `frozen`.
    pub fn except(layout: &Layout, frozen: impl Fn(&str) -> bool) -> Self {
        Self {
            trains: layout
                .parameters()
                .iter()
                .map(|p| !frozen(&p.name))
                .collect(),
        }
    }

    /// Every parameter trains except, where `frozen`, the reduced-basis layers.
    pub fn with_reduced_basis(layout: &Layout, frozen: bool) -> Self {
        Self::except(layout, |name| frozen && name.contains(REDUCED_BASIS_LAYERS))
    }

    /// Whether parameter `index` trains.
    pub fn contains(&self, index: usize) -> bool {
        self.trains[index]
    }

    /// Number of parameters (tensors) in the network.
    pub fn len(&self) -> usize {
        self.trains.len()
    }

    /// Whether the network has no parameters at all.
    pub fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    /// Indices of the trainable parameters, in registration order.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.trains
            .iter()
            .enumerate()
            .filter_map(|(i, &t)| t.then_some(i))
    }

    /// Number of trainable elements.
    pub fn elements(&self, layout: &Layout) -> usize {
        self.indices()
            .map(|i| layout.parameters()[i].elements())
            .sum()
    }
}
