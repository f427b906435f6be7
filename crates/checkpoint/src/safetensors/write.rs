//! Writing: deterministic bytes, a tensor at a time.

use std::io::Write;
use std::path::Path;

use dunnart_files::{WriteOptions, atomic_write};
use rayon::prelude::*;
use serde_json::Value;

use super::CHECKSUM_KEY;
use super::header::{Declared, format};
use crate::checksum::{Fingerprint, for_each_block, of_checkpoint, of_tensor};
use crate::json::canonical;
use crate::names::OPTIMIZER;
use crate::tensor::Tensor;
use crate::{Error, FORMAT_VERSION, Metadata, Model, Result};

/// Writes a model that was checked.
pub(crate) fn write(model: &Model, path: &Path, options: &WriteOptions) -> Result<()> {
    let steps = step_tensors(model)?;
    let (header, tensors) = prepare(model, &steps)?;
    atomic_write(path, options, |out| stream(out, &header, &tensors))?;
    Ok(())
}

/// The bytes of a model that was checked.
pub(crate) fn to_bytes(model: &Model) -> Result<Vec<u8>> {
    let steps = step_tensors(model)?;
    let (header, tensors) = prepare(model, &steps)?;
    let mut bytes = Vec::new();
    stream(&mut bytes, &header, &tensors)?;
    Ok(bytes)
}

fn stream(out: &mut dyn Write, header: &str, tensors: &[(String, &Tensor)]) -> std::io::Result<()> {
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for (_, tensor) in tensors {
        for_each_block(tensor.data(), &mut |bytes| out.write_all(bytes))?;
    }
    Ok(())
}

/// The counts of steps as the tensors that torch keeps.
fn step_tensors(model: &Model) -> Result<Vec<(String, Tensor)>> {
    let mut steps = Vec::new();
    for (parameter, moments) in model.optimizer.iter() {
        if let Some(step) = moments.step {
            let name = format!("{OPTIMIZER}{parameter}.step");
            let tensor = Tensor::new(&name, &[], vec![step])?;
            steps.push((name, tensor));
        }
    }
    Ok(steps)
}

type Ordered<'a> = Vec<(String, &'a Tensor)>;

/// The header and the tensors in the order of their bytes.
fn prepare<'a>(model: &'a Model, steps: &'a [(String, Tensor)]) -> Result<(String, Ordered<'a>)> {
    let mut tensors: Ordered<'a> = model
        .weights
        .iter()
        .map(|(name, tensor)| (name.to_string(), tensor))
        .collect();
    for (parameter, moments) in model.optimizer.iter() {
        for (slot, tensor) in &moments.moments {
            tensors.push((format!("{OPTIMIZER}{parameter}.{slot}"), tensor));
        }
    }
    tensors.extend(steps.iter().map(|(name, tensor)| (name.clone(), tensor)));
    // Wide elements first, so that each tensor is aligned to its element; then by name.
    let width = |tensor: &Tensor| std::cmp::Reverse(tensor.dtype().bytes());
    tensors.sort_by(|(a, x), (b, y)| (width(x), a).cmp(&(width(y), b)));
    let mut end = 0;
    let declared: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| {
            let begin = end;
            end += (tensor.data().len() * tensor.dtype().bytes()) as u64;
            Declared {
                name: name.clone(),
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                begin,
                end,
            }
        })
        .collect();
    let fingerprints = tensors
        .par_iter()
        .map(|(name, tensor)| Fingerprint {
            name: name.clone(),
            dtype: tensor.dtype().name(),
            shape: tensor.shape().to_vec(),
            crc: of_tensor(tensor),
        })
        .collect();
    let metadata = metadata_text(&model.metadata, fingerprints)?;
    Ok((format(&metadata, &declared), tensors))
}

/// The canonical JSON of the metadata with the checksum of everything.
fn metadata_text(metadata: &Metadata, fingerprints: Vec<Fingerprint>) -> Result<String> {
    let current = Metadata {
        format_version: FORMAT_VERSION,
        dunnart_version: env!("CARGO_PKG_VERSION").into(),
        ..metadata.clone()
    };
    let fault = |e: serde_json::Error| Error::Metadata(e.to_string());
    let mut value = serde_json::to_value(&current).map_err(fault)?;
    // A number that is not finite became null: better refused now than when the file is read.
    Metadata::from_value(value.clone())?;
    let checksum = of_checkpoint(&value, fingerprints);
    if let Value::Object(map) = &mut value {
        map.insert(CHECKSUM_KEY.into(), checksum.into());
    }
    Ok(canonical(&value))
}
