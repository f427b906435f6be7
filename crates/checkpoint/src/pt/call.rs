//! What the calls in a pickle mean: the few constructors that files of tensors use.

use super::globals::Global;
use super::value::{Dict, Heap, Node, Storage, TensorRef, Value};
use crate::Result;

/// A call's value, or why it makes no sense.
type Outcome = std::result::Result<Value, String>;

/// Dimensions beyond which no tensor is believed.
const MAX_DIMENSIONS: usize = 64;

/// Calls a global; memory that runs out is the outer error, wrong arguments the inner one.
pub(crate) fn call(heap: &mut Heap, global: Global, arguments: Value) -> Result<Outcome> {
    let Some(arguments) = heap.as_sequence(arguments).map(<[Value]>::to_vec) else {
        return Ok(Err(
            "calls a function with something that is no tuple".into()
        ));
    };
    match (global, arguments.as_slice()) {
        (Global::OrderedDict, []) => heap.add(Node::Dict(Box::default()), 0).map(Ok),
        (Global::OrderedDict, &[pairs]) => ordered_dict(heap, pairs),
        (Global::Set, &[values]) => match heap.as_sequence(values).map(<[Value]>::to_vec) {
            Some(values) => {
                let bytes = size_of_val(values.as_slice());
                heap.add(Node::Set(values), bytes).map(Ok)
            }
            None => Ok(Err("makes a set of something that is no list".into())),
        },
        (Global::RebuildTensor, &[storage, offset, shape, strides, ..]) => {
            tensor(heap, [storage, offset, shape, strides])
        }
        (Global::RebuildParameter, &[data, ..]) => match heap.as_tensor(data) {
            Some(_) => Ok(Ok(data)),
            None => Ok(Err(
                "makes a parameter of something that is no tensor".into()
            )),
        },
        (Global::Size, &[shape]) => match heap.as_sequence(shape).map(<[Value]>::to_vec) {
            Some(shape) => heap.tuple(&shape).map(Ok),
            None => Ok(Err("makes a size of something that is no tuple".into())),
        },
        (Global::GetLayout, &[name]) => Ok(Ok(name)),
        (Global::Device, &[kind]) => Ok(Ok(kind)),
        (Global::Device, &[kind, Value::Int(index)]) => {
            let text = format!("{}:{index}", heap.as_text(kind).unwrap_or("?"));
            heap.text(&text).map(Ok)
        }
        (Global::NumpyType, &[name, ..]) => match heap.as_text(name).map(str::to_owned) {
            Some(name) => {
                let bytes = name.len();
                let node = Node::NumpyType {
                    name: name.into(),
                    big_endian: false,
                };
                heap.add(node, bytes).map(Ok)
            }
            None => Ok(Err("names a numpy type by something that is no text".into())),
        },
        (Global::NumpyScalar, &[kind, bytes]) => numpy_scalar(heap, kind, bytes),
        (Global::Encode, &[text, _]) => encode(heap, text),
        (global, arguments) => Ok(Err(format!(
            "calls {global:?} with {} arguments",
            arguments.len()
        ))),
    }
}

/// A dict of pairs.
fn ordered_dict(heap: &mut Heap, pairs: Value) -> Result<Outcome> {
    let pairs = heap.as_sequence(pairs).map(<[Value]>::to_vec);
    let items: Option<Vec<_>> = pairs.and_then(|pairs| {
        let pair = |&pair: &Value| match heap.as_sequence(pair) {
            Some(&[key, value]) => Some((key, value)),
            _ => None,
        };
        pairs.iter().map(pair).collect()
    });
    match items {
        Some(items) => {
            let bytes = size_of_val(items.as_slice());
            let dict = Dict {
                items,
                attributes: None,
            };
            heap.add(Node::Dict(Box::new(dict)), bytes).map(Ok)
        }
        None => Ok(Err(
            "makes a dict of something that is no list of pairs".into()
        )),
    }
}

/// A view of a storage; whether it lies inside is checked where its name is known.
fn tensor(heap: &mut Heap, [storage, offset, shape, strides]: [Value; 4]) -> Result<Outcome> {
    let Some(Node::Storage(storage)) = heap.node(storage) else {
        return Ok(Err("makes a tensor of something that is no storage".into()));
    };
    let storage = Storage::clone(storage);
    let integers = |value| -> Option<Box<[i64]>> {
        let values = heap.as_sequence(value)?;
        if values.len() > MAX_DIMENSIONS {
            return None;
        }
        let integer = |value: &Value| match value {
            Value::Int(integer) => Some(*integer),
            _ => None,
        };
        values.iter().map(integer).collect()
    };
    let (Value::Int(offset), Some(shape), Some(strides)) =
        (offset, integers(shape), integers(strides))
    else {
        return Ok(Err(
            "describes a tensor by something that is no integer".into()
        ));
    };
    if shape.len() != strides.len() {
        return Ok(Err(format!(
            "describes a tensor of {} dimensions by {} strides",
            shape.len(),
            strides.len()
        )));
    }
    let bytes = size_of::<TensorRef>() + 16 * shape.len() + storage.key.len();
    let tensor = TensorRef {
        storage,
        offset,
        shape,
        strides,
    };
    heap.add(Node::Tensor(Box::new(tensor)), bytes).map(Ok)
}

/// The storage of a persistent identifier; `None` if it is not one.
pub(crate) fn storage(heap: &mut Heap, id: Value) -> Result<Option<Value>> {
    let Some(&[tag, class, key, location, Value::Int(elements)]) = heap.as_sequence(id) else {
        return Ok(None);
    };
    // Where the tensor lay, on the CPU or on some GPU, means nothing here.
    let located = heap.as_text(location).is_some() || location == Value::None;
    let (Some("storage"), Some(&Node::Global(Global::Storage(kind))), Some(key), true) = (
        heap.as_text(tag),
        heap.node(class),
        heap.as_text(key),
        located,
    ) else {
        return Ok(None);
    };
    let storage = Storage {
        kind,
        key: key.into(),
        elements,
    };
    let bytes = size_of::<Storage>() + storage.key.len();
    heap.add(Node::Storage(Box::new(storage)), bytes).map(Some)
}

/// A number that numpy made.
fn numpy_scalar(heap: &mut Heap, kind: Value, bytes: Value) -> Result<Outcome> {
    let (Some(Node::NumpyType { name, big_endian }), Some(Node::Bytes(bytes))) =
        (heap.node(kind), heap.node(bytes))
    else {
        return Ok(Err("makes a numpy number of something else".into()));
    };
    let mut wide = bytes.to_vec();
    if *big_endian {
        wide.reverse();
    }
    let float = |value: f64| Value::Float(value);
    let fixed = |wide: &[u8]| -> Option<[u8; 8]> {
        let mut fixed = [0; 8];
        fixed.get_mut(..wide.len())?.copy_from_slice(wide);
        Some(fixed)
    };
    let kind = name.trim_start_matches(['<', '>', '=', '|']);
    let value = match (kind, wide.as_slice()) {
        ("f8", &[a, b, c, d, e, f, g, h]) => float(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        ("f4", &[a, b, c, d]) => float(f32::from_le_bytes([a, b, c, d]).into()),
        ("f2", &[a, b]) => float(super::half::from_half(u16::from_le_bytes([a, b])).into()),
        ("b1", &[b]) => Value::Bool(b != 0),
        ("i1" | "i2" | "i4" | "i8" | "u1" | "u2" | "u4" | "u8", wide)
            if kind.ends_with(&wide.len().to_string()) =>
        {
            let Some(fixed) = fixed(wide) else {
                return Ok(Err(format!(
                    "makes a numpy `{kind}` of {} bytes",
                    wide.len()
                )));
            };
            let shift = 64 - 8 * wide.len() as u32;
            let unsigned = u64::from_le_bytes(fixed);
            if kind.starts_with('i') {
                Value::Int((unsigned << shift) as i64 >> shift)
            } else if let Ok(value) = i64::try_from(unsigned) {
                Value::Int(value)
            } else {
                let mut large = fixed.to_vec();
                large.push(0);
                return heap.add(Node::Large(large.into()), 9).map(Ok);
            }
        }
        _ => {
            return Ok(Err(format!(
                "holds a numpy `{kind}` of {} bytes, which is not understood",
                wide.len()
            )));
        }
    };
    Ok(Ok(value))
}

/// Bytes spelled as the text of their code points.
fn encode(heap: &mut Heap, text: Value) -> Result<Outcome> {
    let Some(text) = heap.as_text(text) else {
        return Ok(Err("encodes something that is no text".into()));
    };
    let bytes: Option<Box<[u8]>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
    match bytes {
        Some(bytes) => {
            let length = bytes.len();
            heap.add(Node::Bytes(bytes), length).map(Ok)
        }
        None => Ok(Err("encodes text beyond latin-1".into())),
    }
}
