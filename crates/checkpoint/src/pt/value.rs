//! What a pickle holds: small values by copy, everything else in a heap that counts its bytes.
//!
//! Containers refer to each other by index, as the memo of a pickle does, so a shared or cyclic
//! structure costs what it says and is never copied while it is read.

use super::globals::{Global, StorageKind};
use crate::{Error, Result};

/// Bytes that a pickle may take in the heap, besides one byte for each byte of the file.
const BASE_BUDGET: u64 = 16 << 20;

/// A value of the machine's stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Index into the heap.
    Node(u32),
}

/// What a heap holds.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Box<str>),
    Bytes(Box<[u8]>),
    /// An integer beyond 64 bits: little-endian, two's complement.
    Large(Box<[u8]>),
    Tuple(Box<[Value]>),
    List(Vec<Value>),
    Set(Vec<Value>),
    Dict(Box<Dict>),
    Global(Global),
    Storage(Box<Storage>),
    Tensor(Box<TensorRef>),
    /// The element type of a numpy scalar, as numpy spells it: `f8`.
    NumpyType {
        name: Box<str>,
        big_endian: bool,
    },
}

/// A dict with its insertion order, and what `BUILD` put on it.
#[derive(Debug, Default)]
pub(crate) struct Dict {
    pub(crate) items: Vec<(Value, Value)>,
    pub(crate) attributes: Option<Value>,
}

/// A storage by its persistent identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) kind: StorageKind,
    /// Name of the member below `data/`.
    pub(crate) key: Box<str>,
    /// Elements it is said to have.
    pub(crate) elements: i64,
}

/// A tensor that was described and not read: a view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct TensorRef {
    pub(crate) storage: Storage,
    pub(crate) offset: i64,
    pub(crate) shape: Box<[i64]>,
    pub(crate) strides: Box<[i64]>,
}

/// All nodes of a pickle.
#[derive(Debug)]
pub(crate) struct Heap {
    nodes: Vec<Node>,
    spent: u64,
    budget: u64,
}

impl Heap {
    /// A heap for the pickle of a file of that size.
    pub(crate) fn new(file: u64) -> Self {
        Self {
            nodes: Vec::new(),
            spent: 0,
            budget: BASE_BUDGET.saturating_add(file),
        }
    }

    /// Counts bytes that are about to be allocated.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.spent = self.spent.saturating_add(bytes as u64);
        if self.spent > self.budget {
            return Err(Error::OutOfProportion {
                what: "the pickle",
                limit: self.budget,
            });
        }
        Ok(())
    }

    /// Adds a node; `bytes` is what it owns besides itself.
    pub(crate) fn add(&mut self, node: Node, bytes: usize) -> Result<Value> {
        self.charge(size_of::<Node>() + bytes)?;
        let index = u32::try_from(self.nodes.len()).map_err(|_| Error::OutOfProportion {
            what: "the pickle",
            limit: self.budget,
        })?;
        self.nodes.push(node);
        Ok(Value::Node(index))
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: &str) -> Result<Value> {
        self.add(Node::Text(text.into()), text.len())
    }

    /// Adds a tuple.
    pub(crate) fn tuple(&mut self, values: &[Value]) -> Result<Value> {
        self.add(Node::Tuple(values.into()), size_of_val(values))
    }

    /// The node of a value, if it is one.
    pub(crate) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(index) => self.nodes.get(index as usize),
            _ => None,
        }
    }

    /// The node of a value, to be changed.
    pub(crate) fn node_mut(&mut self, value: Value) -> Option<&mut Node> {
        match value {
            Value::Node(index) => self.nodes.get_mut(index as usize),
            _ => None,
        }
    }

    /// Text, if the value is text.
    pub(crate) fn as_text(&self, value: Value) -> Option<&str> {
        match self.node(value) {
            Some(Node::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A dict, if the value is one.
    pub(crate) fn as_dict(&self, value: Value) -> Option<&Dict> {
        match self.node(value) {
            Some(Node::Dict(dict)) => Some(dict),
            _ => None,
        }
    }

    /// Items of a tuple or list.
    pub(crate) fn as_sequence(&self, value: Value) -> Option<&[Value]> {
        match self.node(value) {
            Some(Node::Tuple(values)) => Some(values),
            Some(Node::List(values)) => Some(values),
            _ => None,
        }
    }

    /// A tensor, if the value is one.
    pub(crate) fn as_tensor(&self, value: Value) -> Option<&TensorRef> {
        match self.node(value) {
            Some(Node::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// The entry of a dict; of equal keys the last counts, as in Python.
    pub(crate) fn get(&self, dict: Value, key: &str) -> Option<Value> {
        let items = &self.as_dict(dict)?.items;
        let found = items
            .iter()
            .rev()
            .find(|(k, _)| self.as_text(*k) == Some(key));
        found.map(|&(_, value)| value)
    }

    /// What a value is, in Python's words.
    pub(crate) fn type_name(&self, value: Value) -> &'static str {
        match value {
            Value::None => "None",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Node(_) => match self.node(value) {
                Some(Node::Text(_)) => "str",
                Some(Node::Bytes(_)) => "bytes",
                Some(Node::Large(_)) => "int",
                Some(Node::Tuple(_)) => "tuple",
                Some(Node::List(_)) => "list",
                Some(Node::Set(_)) => "set",
                Some(Node::Dict(_)) => "dict",
                Some(Node::Global(_)) => "a global",
                Some(Node::Storage(_)) => "a storage",
                Some(Node::Tensor(_)) => "a tensor",
                Some(Node::NumpyType { .. }) => "a numpy type",
                None => "nothing",
            },
        }
    }
}
