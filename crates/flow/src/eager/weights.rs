//! The tensors of one network as views of its flat storage, and the index lists its layers need.

use tch::{Device, Kind, Tensor};

use super::EagerStorage;
use crate::layout::BufferKind;
use crate::structure::{BufferIndex, ParameterIndex};
use crate::{Layout, Result};

/// Index lists of one spline step.
pub(super) struct StepIndices {
    /// Columns that pass the coupling, int64.
    pub(super) identity: Tensor,
    /// Columns the spline acts on, int64.
    pub(super) transformed: Tensor,
    /// Where each column of `[identity | transformed]` came from, inverted: puts columns back.
    pub(super) merged: Tensor,
}

/// Views and index lists for one pass through the network.
pub(super) struct Weights {
    pub(super) parameters: Vec<Tensor>,
    /// Masks, running means and running variances; `None` for buffers that no operation reads.
    buffers: Vec<Option<Tensor>>,
    /// Each permutation and its inverse, int64.
    permutations: Vec<[Tensor; 2]>,
    pub(super) steps: Vec<StepIndices>,
    /// Places of L's elements in `[lower entries | 0 | 1]`, `[D D]`.
    pub(super) lower: Tensor,
    /// Places of U's elements in `[upper entries | 0 | diagonal]`, `[D D]`.
    pub(super) upper: Tensor,
}

fn indices(values: impl IntoIterator<Item = usize>, device: Device) -> Result<Tensor> {
    let values: Vec<i64> = values.into_iter().map(|v| v as i64).collect();
    Ok(Tensor::f_from_slice(&values)?.f_to(device)?)
}

fn inverted(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (to, &from) in permutation.iter().enumerate() {
        inverse[from] = to;
    }
    inverse
}

impl Weights {
    /// Views of a storage that fits the layout; no view requires a gradient.
    pub(super) fn new(layout: &Layout, storage: &EagerStorage) -> Result<Self> {
        storage.check(layout)?;
        let device = storage.device();
        let view = |flat: &Tensor, offset: usize, shape: &[usize]| -> Result<Tensor> {
            let elements: usize = shape.iter().product();
            let sizes: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
            let part = flat.f_narrow(0, offset as i64, elements as i64)?;
            Ok(part.f_reshape(sizes)?.f_detach()?)
        };
        let parameters = layout.parameters().iter();
        let parameters: Result<Vec<_>> = parameters
            .map(|spec| view(&storage.parameters, spec.offset, &spec.shape))
            .collect();
        let buffers = layout.buffers().iter().map(|spec| match &spec.kind {
            BufferKind::RunningMean(offset) | BufferKind::RunningVariance(offset) => {
                view(&storage.statistics, *offset, &spec.shape).map(Some)
            }
            BufferKind::Mask(mask) => {
                let sizes: Vec<i64> = spec.shape.iter().map(|&n| n as i64).collect();
                let mask = Tensor::f_from_slice(mask)?.f_reshape(sizes)?.f_to(device)?;
                Ok(Some(mask.f_to_dtype(storage.kind(), false, false)?))
            }
            BufferKind::Permutation(_) | BufferKind::Fixed(_) | BufferKind::BatchesTracked(_) => {
                Ok(None)
            }
        });
        let buffers: Result<Vec<_>> = buffers.collect();
        let permutations = storage.permutations.iter().map(|p| {
            Ok([
                indices(p.iter().copied(), device)?,
                indices(inverted(p), device)?,
            ])
        });
        let permutations: Result<Vec<_>> = permutations.collect();
        let steps = layout.network().steps.iter().map(|step| {
            let order: Vec<usize> = step
                .identity
                .iter()
                .chain(&step.transformed)
                .copied()
                .collect();
            Ok(StepIndices {
                identity: indices(step.identity.iter().copied(), device)?,
                transformed: indices(step.transformed.iter().copied(), device)?,
                merged: indices(inverted(&order), device)?,
            })
        });
        let steps: Result<Vec<_>> = steps.collect();
        let d = storage.permutations.first().map_or(0, Vec::len);
        let triangle = d * d.saturating_sub(1) / 2;
        let grid = || (0..d).flat_map(|row| (0..d).map(move |column| (row, column)));
        let lower = grid().map(|(row, column)| match row.cmp(&column) {
            std::cmp::Ordering::Greater => row * (row - 1) / 2 + column,
            std::cmp::Ordering::Less => triangle,
            std::cmp::Ordering::Equal => triangle + 1,
        });
        let upper = grid().map(|(row, column)| match row.cmp(&column) {
            // Entries of the rows above, then the place in this row.
            std::cmp::Ordering::Less => row * (2 * d - row - 1) / 2 + column - row - 1,
            std::cmp::Ordering::Greater => triangle,
            std::cmp::Ordering::Equal => triangle + 1 + row,
        });
        Ok(Self {
            parameters: parameters?,
            buffers: buffers?,
            permutations: permutations?,
            steps: steps?,
            lower: indices(lower, device)?,
            upper: indices(upper, device)?,
        })
    }

    pub(super) fn parameter(&self, index: ParameterIndex) -> &Tensor {
        &self.parameters[index]
    }

    /// A mask or a running statistic.
    pub(super) fn buffer(&self, index: BufferIndex) -> Option<&Tensor> {
        self.buffers[index].as_ref()
    }

    /// The n-th permutation (`inverse`: its inverse) as an index list.
    pub(super) fn permutation(&self, number: usize, inverse: bool) -> &Tensor {
        &self.permutations[number][usize::from(inverse)]
    }

    /// Precision of the network.
    pub(super) fn kind(&self) -> Kind {
        self.parameters.first().map_or(Kind::Float, Tensor::kind)
    }

    /// Device of the network.
    pub(super) fn device(&self) -> Device {
        self.parameters.first().map_or(Device::Cpu, Tensor::device)
    }
}
