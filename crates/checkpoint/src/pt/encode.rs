//! The pickle that is written: protocol 2, in the instructions and names that `torch.load` takes with
//! `weights_only=True`.
//!
//! Texts and names are spelled once and fetched from the memo after that, as is every value that
//! dingo shares. Equal models give equal bytes.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::TAG;
use super::globals::StorageKind;
use crate::tensor::{DType, Tensor};

/// Pairs that go into a dict at once: as many as Python's own pickler takes.
const BATCH: usize = 1000;

/// A value that was put into the memo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memo(u32);

/// Writes one pickle.
#[derive(Default)]
pub(super) struct Encoder<'a> {
    pub(super) bytes: Vec<u8>,
    /// Tensors in the order of their storages.
    pub(super) storages: Vec<&'a Tensor>,
    texts: HashMap<String, u32>,
    globals: HashMap<&'static str, u32>,
    next: u32,
}

impl<'a> Encoder<'a> {
    /// An encoder that has said its protocol.
    pub(super) fn new() -> Self {
        Self {
            bytes: b"\x80\x02".to_vec(),
            ..Self::default()
        }
    }

    /// Ends the pickle.
    pub(super) fn stop(&mut self) {
        self.bytes.push(b'.');
    }

    fn put(&mut self) -> u32 {
        let index = self.next;
        self.next += 1;
        match u8::try_from(index) {
            Ok(short) => self.bytes.extend([b'q', short]),
            Err(_) => {
                self.bytes.push(b'r');
                self.bytes.extend(index.to_le_bytes());
            }
        }
        index
    }

    fn fetch(&mut self, index: u32) {
        match u8::try_from(index) {
            Ok(short) => self.bytes.extend([b'h', short]),
            Err(_) => {
                self.bytes.push(b'j');
                self.bytes.extend(index.to_le_bytes());
            }
        }
    }

    /// Remembers the value that was written last.
    pub(super) fn remember(&mut self) -> Memo {
        Memo(self.put())
    }

    /// The same object again.
    pub(super) fn again(&mut self, memo: Memo) {
        self.fetch(memo.0);
    }

    pub(super) fn none(&mut self) {
        self.bytes.push(b'N');
    }

    pub(super) fn integer(&mut self, value: i64) {
        if let Ok(byte) = u8::try_from(value) {
            self.bytes.extend([b'K', byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.bytes.push(b'M');
            self.bytes.extend(short.to_le_bytes());
        } else if let Ok(word) = i32::try_from(value) {
            self.bytes.push(b'J');
            self.bytes.extend(word.to_le_bytes());
        } else {
            self.long(&value.to_le_bytes());
        }
    }

    /// An integer by its bytes: little-endian, two's complement.
    fn long(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(length) => self.bytes.extend([0x8a, length]),
            Err(_) => {
                self.bytes.push(0x8b);
                self.bytes.extend((bytes.len() as u32).to_le_bytes());
            }
        }
        self.bytes.extend(bytes);
    }

    pub(super) fn float(&mut self, value: f64) {
        self.bytes.push(b'G');
        self.bytes.extend(value.to_be_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        if let Some(&index) = self.texts.get(text) {
            return self.fetch(index);
        }
        self.bytes.push(b'X');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
        let index = self.put();
        self.texts.insert(text.into(), index);
    }

    /// A name, as `module\nname\n`.
    fn global(&mut self, lines: &'static str) {
        if let Some(&index) = self.globals.get(lines) {
            return self.fetch(index);
        }
        self.bytes.push(b'c');
        self.bytes.extend(lines.as_bytes());
        let index = self.put();
        self.globals.insert(lines, index);
    }

    /// A dict of as many pairs as `pair` writes; it gets the number of each.
    pub(super) fn dict(&mut self, pairs: usize, pair: impl FnMut(&mut Self, usize)) {
        self.bytes.push(b'}');
        self.items(pairs, pair);
    }

    /// Sets pairs of the dict that was written last.
    fn items(&mut self, pairs: usize, mut pair: impl FnMut(&mut Self, usize)) {
        for begin in (0..pairs).step_by(BATCH) {
            self.bytes.push(b'(');
            for index in begin..pairs.min(begin + BATCH) {
                pair(self, index);
            }
            self.bytes.push(b'u');
        }
    }

    /// An `OrderedDict`.
    pub(super) fn ordered_dict(&mut self, pairs: usize, pair: impl FnMut(&mut Self, usize)) {
        self.global("collections\nOrderedDict\n");
        self.bytes.extend(b")R");
        self.items(pairs, pair);
    }

    /// Sets attributes of the `OrderedDict` that was written last to what `state` writes.
    pub(super) fn build(&mut self, state: impl FnOnce(&mut Self)) {
        state(self);
        self.bytes.push(b'b');
    }

    /// A list of as many values as `value` writes.
    pub(super) fn list(&mut self, values: usize, mut value: impl FnMut(&mut Self, usize)) {
        self.bytes.push(b']');
        for begin in (0..values).step_by(BATCH) {
            self.bytes.push(b'(');
            for index in begin..values.min(begin + BATCH) {
                value(self, index);
            }
            self.bytes.push(b'e');
        }
    }

    /// A tuple of as many values as `value` writes.
    pub(super) fn tuple(&mut self, values: usize, mut value: impl FnMut(&mut Self, usize)) {
        if values == 0 {
            return self.bytes.push(b')');
        }
        self.bytes.push(b'(');
        for index in 0..values {
            value(self, index);
        }
        self.bytes.push(b't');
    }

    /// A contiguous tensor in a storage of its own.
    pub(super) fn tensor(&mut self, tensor: &'a Tensor) {
        let kind = match tensor.dtype() {
            DType::U8 => StorageKind::Byte,
            DType::I32 => StorageKind::Int,
            DType::I64 => StorageKind::Long,
            DType::F32 => StorageKind::Float,
            DType::F64 => StorageKind::Double,
        };
        let class = match kind {
            StorageKind::Byte => "torch\nByteStorage\n",
            StorageKind::Int => "torch\nIntStorage\n",
            StorageKind::Long => "torch\nLongStorage\n",
            StorageKind::Double => "torch\nDoubleStorage\n",
            _ => "torch\nFloatStorage\n",
        };
        let key = self.storages.len().to_string();
        self.storages.push(tensor);
        let shape = tensor.shape();
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            // torch counts a dimension without elements as one.
            strides[i - 1] = strides[i] * shape[i].max(1);
        }
        self.global("torch._utils\n_rebuild_tensor_v2\n");
        self.bytes.extend(b"((");
        self.text("storage");
        self.global(class);
        // Keys are never repeated, so they stay out of the memo.
        self.bytes.push(b'X');
        self.bytes.extend((key.len() as u32).to_le_bytes());
        self.bytes.extend(key.as_bytes());
        self.text("cpu");
        self.integer(tensor.data().len() as i64);
        self.bytes.extend(b"tQK\x00");
        self.tuple(shape.len(), |e, i| e.integer(shape[i] as i64));
        self.tuple(shape.len(), |e, i| e.integer(strides[i] as i64));
        self.bytes.push(0x89);
        self.global("collections\nOrderedDict\n");
        self.bytes.extend(b")RtR");
    }

    /// A JSON value, in Python's words.
    pub(super) fn json(&mut self, value: &Json) {
        match value {
            Json::Null => self.none(),
            Json::Bool(flag) => self.bytes.push(if *flag { 0x88 } else { 0x89 }),
            Json::Number(number) => {
                if let Some(integer) = number.as_i64() {
                    self.integer(integer);
                } else if let Some(integer) = number.as_u64() {
                    self.long(&[&integer.to_le_bytes()[..], &[0]].concat());
                } else {
                    self.float(number.as_f64().unwrap_or(f64::NAN));
                }
            }
            Json::String(text) => self.text(text),
            Json::Array(values) => self.list(values.len(), |e, i| e.json(&values[i])),
            Json::Object(map) => {
                if !self.tagged(map) {
                    self.map(map, |_, _| false);
                }
            }
        }
    }

    /// A dict with text keys; `other` may write the value of a key itself.
    pub(super) fn map(
        &mut self,
        map: &Map<String, Json>,
        mut other: impl FnMut(&mut Self, &str) -> bool,
    ) {
        let pairs: Vec<_> = map.iter().collect();
        self.dict(pairs.len(), |e, i| {
            let (key, value) = pairs[i];
            e.text(key);
            if !other(e, key) {
                e.json(value);
            }
        });
    }

    /// Writes what JSON has no word for; `false` if the object is not such a thing.
    fn tagged(&mut self, map: &Map<String, Json>) -> bool {
        let (Some(Json::String(kind)), Some(value), 2) =
            (map.get(TAG), map.get("value"), map.len())
        else {
            return false;
        };
        match (kind.as_str(), value) {
            ("float", Json::String(text)) => match text.parse() {
                Ok(value) => self.float(value),
                Err(_) => return false,
            },
            ("tuple", Json::Array(values)) => self.tuple(values.len(), |e, i| e.json(&values[i])),
            ("set", Json::Array(values)) => {
                self.global("__builtin__\nset\n");
                self.list(values.len(), |e, i| e.json(&values[i]));
                self.bytes.extend(b"\x85R");
            }
            ("bytes", Json::String(text)) => match from_hexadecimal(text) {
                Some(bytes) => {
                    let text: String = bytes.iter().map(|&b| char::from(b)).collect();
                    self.global("_codecs\nencode\n");
                    self.text(&text);
                    self.text("latin1");
                    self.bytes.extend(b"\x86R");
                }
                None => return false,
            },
            ("int", Json::String(text)) => match from_hexadecimal(text) {
                Some(bytes) => self.long(&bytes),
                None => return false,
            },
            ("torch", Json::String(name)) => match name.as_str() {
                "float32" => self.global("torch\nfloat32\n"),
                "float64" => self.global("torch\nfloat64\n"),
                "int64" => self.global("torch\nint64\n"),
                _ => self.text(name),
            },
            ("dict", Json::Array(pairs)) => self.dict(pairs.len(), |e, i| {
                e.json(&pairs[i][0]);
                e.json(&pairs[i][1]);
            }),
            _ => return false,
        }
        true
    }
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}
