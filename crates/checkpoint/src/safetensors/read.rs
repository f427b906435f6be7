//! Reading: header first, then every tensor once, nothing larger than the file.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use dunnart_flow::{Architecture, Layout};
use serde_json::Value;

use super::header::{Declared, Parsed, parse};
use super::{CHECKSUM_KEY, LENGTH_BYTES, MAX_HEADER, METADATA_KEY};
use crate::checksum::{Fingerprint, of_checkpoint};
use crate::model::{OptimizerState, ParameterMoments, StateDict};
use crate::names::{OPTIMIZER, plain_keys};
use crate::tensor::{DType, Data, Tensor};
use crate::{Error, Metadata, Model, Named, Result, checks};

/// Bytes that are decoded at a time.
const BLOCK: usize = 1 << 18;

/// What a file says without its data.
#[derive(Clone, Debug)]
pub struct Header {
    /// The metadata.
    pub metadata: Metadata,
    /// Every tensor, in the order of the data, by its key in the file.
    pub tensors: Vec<TensorInfo>,
    /// Size of the file in bytes.
    pub bytes: u64,
}

impl Header {
    /// The validated architecture and its layout, if they can be the ones of this file.
    ///
    /// # Errors
    /// [`Error::Flow`], [`Error::Implausible`].
    pub fn layout(&self) -> Result<(Architecture, Layout)> {
        layout(&self.metadata, self.tensors.len(), self.bytes)
    }
}

/// A tensor without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Key in the file.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<usize>,
}

/// Reads what a checkpoint says without reading its data; the checksum is not looked at.
pub(crate) fn read_header(path: &Path) -> Result<Header> {
    let opened = open(path)?;
    let (metadata, _) = split_checksum(opened.parsed.metadata.as_deref())?;
    let tensors = opened.parsed.tensors.into_iter().map(|t| TensorInfo {
        name: t.name,
        dtype: t.dtype,
        shape: t.shape,
    });
    Ok(Header {
        metadata: Metadata::from_value(metadata)?,
        tensors: tensors.collect(),
        bytes: opened.bytes,
    })
}

/// The network of given metadata, if it can be the one of so many tensors and bytes.
pub(crate) fn layout(
    metadata: &Metadata,
    tensors: usize,
    bytes: u64,
) -> Result<(Architecture, Layout)> {
    let architecture = Architecture::new(metadata.architecture.settings()?.clone())?;
    checks::plausible(&architecture, tensors, bytes)?;
    let layout = Layout::new(&architecture)?;
    Ok((architecture, layout))
}

/// Reads and checks a whole checkpoint.
pub(crate) fn read(path: &Path) -> Result<Model> {
    let Opened {
        mut file,
        parsed,
        bytes,
    } = open(path)?;
    let (value, expected) = split_checksum(parsed.metadata.as_deref())?;
    let metadata = Metadata::from_value(value.clone())?;
    let network = match metadata.architecture.settings() {
        Ok(_) => Some(layout(&metadata, parsed.tensors.len(), bytes)?),
        Err(_) => None,
    };
    // Where nobody knows the network's keys, those that are not the optimiser's are the network's.
    let known = |name: &str| match &network {
        Some((_, layout)) => layout.find(name).is_some(),
        None => !name.starts_with(OPTIMIZER),
    };
    let declared = parsed.tensors.into_iter().map(|t| (t.name.clone(), t));
    let declared = plain_keys(declared, known)?;
    let mut tensors = Named::new();
    let mut fingerprints = Vec::with_capacity(declared.len());
    for (name, declared) in declared {
        let (tensor, crc) = read_tensor(&mut file, &declared)?;
        fingerprints.push(Fingerprint {
            name: name.clone(),
            dtype: declared.dtype.name(),
            shape: declared.shape,
            crc,
        });
        tensors.insert(name, tensor)?;
    }
    let found = of_checkpoint(&value, fingerprints);
    if found != expected {
        return Err(Error::Checksum { expected, found });
    }
    let (weights, optimizer) = split_optimizer(tensors, known)?;
    let mut model = Model {
        metadata,
        weights,
        optimizer,
    };
    if let Some((architecture, layout)) = &network {
        model.sort(layout);
        model.check_with(architecture, layout)?;
    }
    Ok(model)
}

struct Opened {
    file: BufReader<File>,
    parsed: Parsed,
    bytes: u64,
}

fn open(path: &Path) -> Result<Opened> {
    let file = File::open(path)?;
    let information = file.metadata()?;
    if !information.is_file() {
        return Err(Error::NotAFile);
    }
    let bytes = information.len();
    let mut file = BufReader::with_capacity(BLOCK, file);
    let mut length = [0; LENGTH_BYTES as usize];
    fill(
        &mut file,
        &mut length[..bytes.min(LENGTH_BYTES) as usize],
        "the header's length",
        bytes,
    )?;
    if let Some(found) = other_format(&length) {
        return Err(Error::OtherFormat { found });
    }
    let truncated = |what, expected| Error::Truncated {
        what,
        expected,
        found: bytes,
    };
    if bytes < LENGTH_BYTES {
        return Err(truncated("the header's length", LENGTH_BYTES));
    }
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(Error::HeaderTooLarge {
            limit: MAX_HEADER,
            found: length,
        });
    }
    let data = LENGTH_BYTES + length;
    if data > bytes {
        return Err(truncated("the header", data));
    }
    let mut header = vec![0; length as usize];
    fill(&mut file, &mut header, "the header", data)?;
    let parsed = parse(&header, bytes - data)?;
    Ok(Opened {
        file,
        parsed,
        bytes,
    })
}

/// What else a file is, by its first bytes.
fn other_format(start: &[u8]) -> Option<&'static str> {
    let formats: [(&[u8], &str); 4] = [
        (b"PK\x03\x04", "a zip archive (.pt or .npz)"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x93NUMPY", "a numpy array"),
        (b"\x1f\x8b", "a gzip archive"),
    ];
    formats
        .into_iter()
        .find(|(magic, _)| start.starts_with(magic))
        .map(|(_, name)| name)
}

/// Reads exactly, and says what was cut off where the file ends early.
fn fill(file: &mut impl Read, bytes: &mut [u8], what: &'static str, expected: u64) -> Result<()> {
    file.read_exact(bytes).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => Error::Truncated {
            what,
            expected,
            found: 0,
        },
        _ => Error::Io(e),
    })
}

/// The metadata without its checksum, and the checksum.
fn split_checksum(text: Option<&str>) -> Result<(Value, String)> {
    let text = text.ok_or(Error::NotACheckpoint { key: METADATA_KEY })?;
    let mut value: Value =
        serde_json::from_str(text).map_err(|e| Error::Metadata(e.to_string()))?;
    let map = value
        .as_object_mut()
        .ok_or_else(|| Error::Metadata("is no object".into()))?;
    match map.remove(CHECKSUM_KEY) {
        Some(Value::String(checksum)) => Ok((value, checksum)),
        _ => Err(Error::Metadata(format!(
            "`{CHECKSUM_KEY}` is missing or no text"
        ))),
    }
}

fn read_tensor(file: &mut impl Read, declared: &Declared) -> Result<(Tensor, u32)> {
    let mut hasher = crc32fast::Hasher::new();
    let elements = ((declared.end - declared.begin) / declared.dtype.bytes() as u64) as usize;
    let data = match declared.dtype {
        DType::U8 => Data::U8(decode(file, elements, &mut hasher, |[b]: [u8; 1]| b)?),
        DType::I32 => Data::I32(decode(file, elements, &mut hasher, i32::from_le_bytes)?),
        DType::I64 => Data::I64(decode(file, elements, &mut hasher, i64::from_le_bytes)?),
        DType::F32 => Data::F32(decode(file, elements, &mut hasher, f32::from_le_bytes)?),
        DType::F64 => Data::F64(decode(file, elements, &mut hasher, f64::from_le_bytes)?),
    };
    Ok((
        Tensor::from_data(&declared.name, &declared.shape, data)?,
        hasher.finalize(),
    ))
}

/// Reads elements; their number was compared with the file's size before.
fn decode<T, const N: usize>(
    file: &mut impl Read,
    elements: usize,
    hasher: &mut crc32fast::Hasher,
    from: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let mut values = Vec::with_capacity(elements);
    let mut block = vec![0; BLOCK.min(elements * N)];
    while values.len() < elements {
        let part = (elements - values.len()).min(BLOCK / N) * N;
        let block = &mut block[..part];
        fill(file, block, "the data", (elements * N) as u64)?;
        hasher.update(block);
        values.extend(block.chunks_exact(N).map(|bytes| {
            let mut element = [0; N];
            element.copy_from_slice(bytes);
            from(element)
        }));
    }
    Ok(values)
}

/// Parts the optimiser's tensors from the network's.
fn split_optimizer(
    tensors: Named<Tensor>,
    known: impl Fn(&str) -> bool,
) -> Result<(StateDict, OptimizerState)> {
    let mut weights = StateDict::new();
    let mut optimizer = OptimizerState::new();
    for (name, tensor) in tensors {
        let moment = name.strip_prefix(OPTIMIZER).filter(|_| !known(&name));
        let Some((parameter, slot)) = moment.and_then(|m| m.rsplit_once('.')) else {
            weights.insert(name, tensor)?;
            continue;
        };
        if optimizer.get(parameter).is_none() {
            optimizer.insert(parameter, ParameterMoments::default())?;
        }
        // It was inserted just now if it was not there.
        let Some(moments) = optimizer.get_mut(parameter) else {
            continue;
        };
        if slot != "step" {
            moments.moments.insert(slot.into(), tensor);
            continue;
        }
        match (tensor.shape(), tensor.slice::<f32>()) {
            ([], Some(&[step])) => moments.step = Some(step),
            _ => {
                let reason = format!(
                    "expected one F32 element of shape [], got {} of shape {:?}",
                    tensor.dtype(),
                    tensor.shape()
                );
                return Err(Error::Optimizer { name, reason });
            }
        }
    }
    Ok((weights, optimizer))
}
