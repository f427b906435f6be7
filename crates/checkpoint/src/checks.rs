//! What must hold before a state dict is a network: everything is checked before anything is taken.

use dunnart_flow::{Architecture, BufferKind, Entry, Layout, TransformKind};
use rayon::prelude::*;

use crate::error::KeySetMismatch;
use crate::model::{Model, OptimizerState, StateDict};
use crate::names::OPTIMIZER;
use crate::tensor::{DType, Tensor};
use crate::{Error, Result};

/// Refuses an architecture that cannot be the one of so many tensors and bytes.
///
/// Laying a network out allocates for every tensor, so a file could otherwise ask for more memory than
/// it has bytes. The bounds are far below what each architecture really needs.
pub(crate) fn plausible(architecture: &Architecture, tensors: usize, bytes: u64) -> Result<()> {
    let wide = |n: usize| n as u128;
    let product = |factors: &[usize]| {
        factors
            .iter()
            .fold(1u128, |product, &n| product.saturating_mul(wide(n)))
    };
    let coupling = architecture.coupling();
    let (d, c, h) = (
        architecture.parameters(),
        architecture.context(),
        coupling.hidden,
    );
    let (blocks, steps) = (coupling.blocks, architecture.steps());
    let mut names = product(&[5, steps]).saturating_add(product(&[4, blocks, steps]));
    let mut elements = product(&[d, d - 1, steps])
        .saturating_add(product(&[2, h, h, blocks, steps]))
        .saturating_add(product(&[c, h, blocks, steps]));
    if coupling.kind == TransformKind::Autoregressive {
        elements = elements.saturating_add(product(&[d, h, steps]));
    }
    if let Some(embedding) = architecture.embedding() {
        names = names
            .saturating_add(product(&[2, embedding.detectors]))
            .saturating_add(product(&[4, embedding.hidden.len()]));
        let basis = [
            2,
            embedding.detectors,
            embedding.basis_size,
            embedding.channels,
            embedding.bins,
        ];
        elements = elements.saturating_add(product(&basis));
        for &width in &embedding.hidden {
            elements = elements.saturating_add(product(&[2, width, width]));
        }
    }
    let refuse = |what, needed, found| {
        Err(Error::Implausible {
            what,
            needed,
            found,
        })
    };
    if names > wide(tensors) {
        return refuse("tensors", names, wide(tensors));
    }
    let needed = elements.saturating_mul(4);
    if needed > u128::from(bytes) {
        return refuse("bytes", needed, u128::from(bytes));
    }
    Ok(())
}

/// Name and shape of an entry of the state dict.
pub(crate) fn entry_spec(layout: &Layout, entry: Entry) -> (&str, &[usize]) {
    match entry {
        Entry::Parameter(i) => (&layout.parameters()[i].name, &layout.parameters()[i].shape),
        Entry::Buffer(i) => (&layout.buffers()[i].name, &layout.buffers()[i].shape),
    }
}

/// Demands exactly the network's keys.
pub(crate) fn key_set(layout: &Layout, weights: &StateDict) -> Result<()> {
    let names = layout
        .entries()
        .iter()
        .map(|&entry| entry_spec(layout, entry).0);
    let missing: Vec<String> = names
        .filter(|name| weights.get(name).is_none())
        .map(String::from)
        .collect();
    let unexpected: Vec<String> = weights
        .iter()
        .filter(|(name, _)| layout.find(name).is_none())
        .map(|(name, _)| name.into())
        .collect();
    if missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    let loaded = weights.len() - unexpected.len();
    Err(Error::KeySet(Box::new(KeySetMismatch {
        loaded,
        missing,
        unexpected,
    })))
}

/// Precision of the weights; every parameter and running statistic has it.
pub(crate) fn precision(layout: &Layout, weights: &StateDict) -> Result<DType> {
    let first = layout
        .parameters()
        .first()
        .and_then(|spec| weights.get(&spec.name));
    match first.map(Tensor::dtype) {
        Some(dtype) if dtype.is_float() => Ok(dtype),
        Some(found) => Err(Error::ElementType {
            name: layout.parameters()[0].name.clone(),
            expected: "F32 or F64".into(),
            found: found.to_string(),
        }),
        None => Err(Error::Metadata("the architecture has no parameters".into())),
    }
}

/// What can be asked of a model whose network is not built: names that files tell apart.
///
/// Its values are kept as they are: nobody here knows which of them may be infinite.
pub(crate) fn not_built(model: &Model) -> Result<DType> {
    for (name, _) in model.weights.iter() {
        if name.is_empty() || name.starts_with(OPTIMIZER) {
            return Err(Error::Metadata(format!("`{name}` is no name of a weight")));
        }
    }
    for (parameter, moments) in model.optimizer.iter() {
        for slot in moments.moments.keys() {
            moment_name(parameter, slot)?;
        }
    }
    let floats = model.weights.iter().map(|(_, tensor)| tensor.dtype());
    Ok(floats
        .into_iter()
        .find(|dtype| dtype.is_float())
        .unwrap_or(DType::F32))
}

fn moment_name(parameter: &str, slot: &str) -> Result<()> {
    if slot.is_empty() || slot.contains('.') || slot == "step" {
        return Err(Error::Optimizer {
            name: format!("{OPTIMIZER}{parameter}.{slot}"),
            reason: "no name of a moment".into(),
        });
    }
    Ok(())
}

/// Demands the network's keys, shapes and element types, and finite values.
pub(crate) fn state_dict(layout: &Layout, weights: &StateDict) -> Result<DType> {
    key_set(layout, weights)?;
    let precision = precision(layout, weights)?;
    for &entry in layout.entries() {
        let (name, expected) = entry_spec(layout, entry);
        let Some(tensor) = weights.get(name) else {
            continue;
        };
        same_shape(name, expected, tensor)?;
        let accepted: &[DType] = match entry {
            Entry::Parameter(_) => &[precision],
            Entry::Buffer(i) => match layout.buffers()[i].kind {
                BufferKind::RunningMean(_) | BufferKind::RunningVariance(_) => &[precision],
                BufferKind::Mask(_) => &[precision, DType::U8],
                _ => &[DType::I64, DType::I32],
            },
        };
        element_type(name, accepted, tensor)?;
    }
    let tensors: Vec<_> = weights.iter().collect();
    first_error(&tensors, |&(name, tensor)| finite(name, tensor))?;
    for buffer in layout.buffers() {
        if let (BufferKind::RunningVariance(_), Some(tensor)) =
            (&buffer.kind, weights.get(&buffer.name))
        {
            not_negative(&buffer.name, tensor)?;
        }
    }
    Ok(precision)
}

/// Demands that every moment belongs to a parameter and has its shape and precision.
pub(crate) fn optimizer(layout: &Layout, state: &OptimizerState, precision: DType) -> Result<()> {
    for (parameter, moments) in state.iter() {
        let Some(Entry::Parameter(index)) = layout.find(parameter) else {
            return Err(Error::Optimizer {
                name: parameter.into(),
                reason: "the network has no parameter of that name".into(),
            });
        };
        if let Some(step) = moments.step
            && !(step.is_finite() && step >= 0.0)
        {
            let reason = format!("expected a count of steps, got {step}");
            return Err(Error::Optimizer {
                name: format!("{parameter}.step"),
                reason,
            });
        }
        for (slot, tensor) in &moments.moments {
            moment_name(parameter, slot)?;
            let name = format!("{OPTIMIZER}{parameter}.{slot}");
            same_shape(&name, &layout.parameters()[index].shape, tensor)?;
            element_type(&name, &[precision], tensor)?;
        }
    }
    let moments: Vec<_> = state
        .iter()
        .flat_map(|(parameter, m)| m.moments.iter().map(move |(slot, t)| (parameter, slot, t)))
        .collect();
    first_error(&moments, |&(parameter, slot, tensor)| {
        match tensor.first_non_finite() {
            Some(_) => finite(&format!("optim.{parameter}.{slot}"), tensor),
            None => Ok(()),
        }
    })
}

/// The first error in order, looked for in parallel.
fn first_error<I: Sync>(items: &[I], check: impl Fn(&I) -> Result<()> + Sync + Send) -> Result<()> {
    items
        .par_iter()
        .map(check)
        .find_first(Result::is_err)
        .unwrap_or(Ok(()))
}

fn same_shape(name: &str, expected: &[usize], tensor: &Tensor) -> Result<()> {
    if tensor.shape() == expected {
        return Ok(());
    }
    Err(Error::Shape {
        name: name.into(),
        expected: expected.into(),
        found: tensor.shape().into(),
    })
}

fn element_type(name: &str, accepted: &[DType], tensor: &Tensor) -> Result<()> {
    if accepted.contains(&tensor.dtype()) {
        return Ok(());
    }
    let expected: Vec<_> = accepted.iter().map(DType::to_string).collect();
    Err(Error::ElementType {
        name: name.into(),
        expected: expected.join(" or "),
        found: tensor.dtype().to_string(),
    })
}

fn finite(name: &str, tensor: &Tensor) -> Result<()> {
    match tensor.first_non_finite() {
        None => Ok(()),
        Some((index, value)) => Err(Error::NonFinite {
            name: name.into(),
            index,
            value,
        }),
    }
}

fn not_negative(name: &str, tensor: &Tensor) -> Result<()> {
    let negative = match (tensor.slice::<f32>(), tensor.slice::<f64>()) {
        (Some(v), _) => v
            .iter()
            .position(|&v| v < 0.0)
            .map(|i| (i, f64::from(v[i]))),
        (_, Some(v)) => v.iter().position(|&v| v < 0.0).map(|i| (i, v[i])),
        _ => None,
    };
    match negative {
        None => Ok(()),
        Some((index, value)) => Err(Error::NegativeVariance {
            name: name.into(),
            index,
            value,
        }),
    }
}
