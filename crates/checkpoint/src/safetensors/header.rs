//! The header of a safetensors file: JSON that says where each tensor lies.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::tensor::DType;
use crate::{Error, Result};

use super::METADATA_KEY;

/// One tensor as the header declares it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// A parsed and validated header.
#[derive(Debug)]
pub(super) struct Parsed {
    /// Text of our metadata entry.
    pub(super) metadata: Option<String>,
    /// Tensors in the order of their bytes, without gaps.
    pub(super) tensors: Vec<Declared>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Pairs of a JSON object in order, duplicates included.
struct Pairs<V>(Vec<(String, V)>);

struct RawHeader {
    metadata: Vec<Pairs<String>>,
    tensors: Vec<(String, RawTensor)>,
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Collect<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Collect<V> {
            type Value = Pairs<V>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        d.deserialize_map(Collect(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = RawHeader;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<RawHeader, A::Error> {
                let mut raw = RawHeader {
                    metadata: Vec::new(),
                    tensors: Vec::new(),
                };
                while let Some(key) = map.next_key::<String>()? {
                    if key == "__metadata__" {
                        raw.metadata.push(map.next_value()?);
                    } else {
                        let tensor = map.next_value().map_err(|e| {
                            serde::de::Error::custom(format!("tensor `{key}`: {e}"))
                        })?;
                        raw.tensors.push((key, tensor));
                    }
                }
                Ok(raw)
            }
        }
        d.deserialize_map(Collect)
    }
}

/// Parses a header and checks that its tensors fill `size` bytes of data, each byte once.
pub(super) fn parse(bytes: &[u8], size: u64) -> Result<Parsed> {
    let text = std::str::from_utf8(bytes).map_err(|e| Error::Header(e.to_string()))?;
    if !text.starts_with('{') {
        return Err(Error::Header("does not begin with `{`".into()));
    }
    let raw: RawHeader = serde_json::from_str(text).map_err(|e| Error::Header(e.to_string()))?;
    if raw.metadata.len() > 1 {
        return Err(Error::DuplicateKey {
            name: "__metadata__".into(),
        });
    }
    let mut metadata = None;
    for (key, value) in raw.metadata.into_iter().flat_map(|pairs| pairs.0) {
        if key == METADATA_KEY && metadata.replace(value).is_some() {
            return Err(Error::DuplicateKey { name: key });
        }
    }
    let mut seen = HashSet::new();
    if let Some((name, _)) = raw
        .tensors
        .iter()
        .find(|(name, _)| !seen.insert(name.as_str()))
    {
        return Err(Error::DuplicateKey { name: name.clone() });
    }
    let tensors = raw
        .tensors
        .into_iter()
        .map(|(name, raw)| declared(name, raw))
        .collect();
    Ok(Parsed {
        metadata,
        tensors: without_gaps(tensors, size)?,
    })
}

/// A tensor whose shape and element type fill its bytes.
fn declared(name: String, raw: RawTensor) -> Result<Declared> {
    let Some(dtype) = DType::from_name(&raw.dtype) else {
        let known: Vec<_> = DType::ALL.iter().map(DType::to_string).collect();
        return Err(Error::ElementType {
            name,
            expected: known.join(", "),
            found: raw.dtype,
        });
    };
    let (begin, end) = raw.data_offsets;
    let bytes = end.checked_sub(begin);
    let product = |n: u64, &m: &u64| n.checked_mul(m);
    let needed = raw.shape.iter().try_fold(dtype.bytes() as u64, product);
    let shape: Option<Vec<_>> = raw.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    match shape {
        Some(shape) if needed.is_some() && needed == bytes => Ok(Declared {
            name,
            dtype,
            shape,
            begin,
            end,
        }),
        _ => Err(Error::Bytes {
            name,
            shape: raw.shape,
            dtype: raw.dtype,
            bytes: bytes.unwrap_or(0),
        }),
    }
}

/// Orders tensors by their bytes and demands that they follow each other and fill the data.
fn without_gaps(tensors: Result<Vec<Declared>>, size: u64) -> Result<Vec<Declared>> {
    let mut tensors = tensors?;
    tensors.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
    let mut end = 0;
    let mut before: Option<&Declared> = None;
    for tensor in &tensors {
        if let Some(first) = before.filter(|_| tensor.begin < end) {
            let (first, second) = (first.name.clone(), tensor.name.clone());
            return Err(Error::Overlap { first, second });
        }
        if tensor.begin > end {
            let name = tensor.name.clone();
            if tensor.end > size {
                let (begin, end) = (tensor.begin, tensor.end);
                return Err(Error::OutOfRange {
                    name,
                    begin,
                    end,
                    size,
                });
            }
            return Err(Error::Gap {
                name,
                bytes: tensor.begin - end,
            });
        }
        end = tensor.end;
        before = Some(tensor);
    }
    match size.cmp(&end) {
        std::cmp::Ordering::Less => Err(Error::Truncated {
            what: "the data",
            expected: end,
            found: size,
        }),
        std::cmp::Ordering::Greater => Err(Error::TrailingBytes { extra: size - end }),
        std::cmp::Ordering::Equal => Ok(tensors),
    }
}

/// The text of a header, padded with spaces so that the data begins at a multiple of 8.
pub(super) fn format(metadata: &str, tensors: &[Declared]) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut text = format!(
        "{{\"__metadata__\":{{{}:{}}}",
        quoted(METADATA_KEY),
        quoted(metadata)
    );
    for t in tensors {
        let shape: Vec<_> = t.shape.iter().map(usize::to_string).collect();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            ",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
            quoted(&t.name),
            t.dtype,
            shape.join(","),
            t.begin,
            t.end
        );
    }
    text.push('}');
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    text
}
