//! A pickle machine that builds values and executes nothing.
//!
//! Protocols 2 to 5, as far as files of tensors and settings need them. Names of functions and classes
//! are looked up in [`Global`]'s closed list; what a call means is spelled out in [`super::call`].
//! Every length is compared with the bytes that are left before anything is copied, the heap counts
//! what it holds, and nothing recurses.

use std::collections::HashMap;

use super::call;
use super::globals::Global;
use super::value::{Dict, Heap, Node, Value};
use crate::{Error, Result};

/// Values that may wait on the stack at once.
const MAX_STACK: usize = 1 << 18;

/// Bytes of a memo entry, with what the table needs around it.
const MEMO_BYTES: usize = 48;

/// Largest protocol that is understood.
const MAX_PROTOCOL: u8 = 5;

/// Reads the one value of a pickle from a file of `file` bytes.
///
/// # Errors
/// [`Error::Pickle`] with the position, [`Error::Global`] for a name that is not on the list,
/// [`Error::OutOfProportion`] for a pickle that would take more memory than its file justifies.
pub(crate) fn load(bytes: &[u8], file: u64) -> Result<(Heap, Value)> {
    let mut machine = Machine {
        bytes,
        at: 0,
        opcode: 0,
        heap: Heap::new(file),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        empty: None,
    };
    let value = machine.run()?;
    Ok((machine.heap, value))
}

struct Machine<'a> {
    bytes: &'a [u8],
    /// Next byte.
    at: usize,
    /// Where the instruction under way begins.
    opcode: usize,
    heap: Heap,
    stack: Vec<Value>,
    /// Heights of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    /// The one empty tuple.
    empty: Option<Value>,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Value> {
        loop {
            self.opcode = self.at;
            let [opcode] = self.array()?;
            if opcode == b'.' {
                return self.stop();
            }
            self.step(opcode)?;
        }
    }

    fn stop(&mut self) -> Result<Value> {
        let value = self.pop()?;
        if !self.stack.is_empty() || !self.marks.is_empty() {
            return self.fault("ends with values left over");
        }
        if self.at != self.bytes.len() {
            return self.fault("ends before its last byte");
        }
        Ok(value)
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            0x80 => self.protocol(),
            // A frame is a hint about buffering.
            0x95 => self.array::<8>().map(|_| ()),
            b'(' => self.mark(),
            b'0' => self.discard(),
            b'1' => self.take_to_mark().map(|_| ()),
            b'2' => self.top().and_then(|value| self.push(value)),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.push(Value::Int(value.into()))
            }
            b'K' => {
                let [value] = self.array()?;
                self.push(Value::Int(value.into()))
            }
            b'M' => {
                let value = u16::from_le_bytes(self.array()?);
                self.push(Value::Int(value.into()))
            }
            0x8a => self.counted::<1>().and_then(|bytes| self.long(bytes)),
            0x8b => self.counted::<4>().and_then(|bytes| self.long(bytes)),
            b'G' => {
                let value = f64::from_be_bytes(self.array()?);
                self.push(Value::Float(value))
            }
            b'X' => self.counted::<4>().and_then(|bytes| self.text(bytes)),
            0x8c => self.counted::<1>().and_then(|bytes| self.text(bytes)),
            0x8d => self.counted::<8>().and_then(|bytes| self.text(bytes)),
            b'U' => self.counted::<1>().and_then(|bytes| self.text(bytes)),
            b'T' => self.counted::<4>().and_then(|bytes| self.text(bytes)),
            b'C' => self.counted::<1>().and_then(|bytes| self.raw(bytes)),
            b'B' => self.counted::<4>().and_then(|bytes| self.raw(bytes)),
            0x8e | 0x96 => self.counted::<8>().and_then(|bytes| self.raw(bytes)),
            b')' => self.empty_tuple(),
            0x85 => self.small_tuple(1),
            0x86 => self.small_tuple(2),
            0x87 => self.small_tuple(3),
            b't' => {
                let values = self.take_to_mark()?;
                self.tuple(&values)
            }
            b']' => self.node(Node::List(Vec::new())),
            b'l' => {
                let values = self.take_to_mark()?;
                self.heap.charge(size_of_val(values.as_slice()))?;
                self.node(Node::List(values))
            }
            b'a' => {
                let value = self.pop()?;
                self.append(&[value])
            }
            b'e' => {
                let values = self.take_to_mark()?;
                self.append(&values)
            }
            b'}' => self.node(Node::Dict(Box::default())),
            b'd' => {
                let values = self.take_to_mark()?;
                self.node(Node::Dict(Box::default()))?;
                self.set_items(&values)
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[key, value])
            }
            b'u' => {
                let values = self.take_to_mark()?;
                self.set_items(&values)
            }
            0x8f => self.node(Node::Set(Vec::new())),
            0x90 => {
                let values = self.take_to_mark()?;
                self.append(&values)
            }
            0x91 => {
                let values = self.take_to_mark()?;
                self.heap.charge(size_of_val(values.as_slice()))?;
                self.node(Node::Set(values))
            }
            b'c' => self.global(),
            0x93 => self.stack_global(),
            b'R' | 0x81 => self.call(),
            b'b' => self.build(),
            b'Q' => self.persistent(),
            b'q' => {
                let [index] = self.array()?;
                self.put(index.into())
            }
            b'r' => {
                let index = u32::from_le_bytes(self.array()?);
                self.put(index)
            }
            0x94 => {
                // The memo is as long as the pickle at most.
                let index = self.memo.len() as u32;
                self.put(index)
            }
            b'h' => {
                let [index] = self.array()?;
                self.fetch(index.into())
            }
            b'j' => {
                let index = u32::from_le_bytes(self.array()?);
                self.fetch(index)
            }
            other => self.fault(format!("instruction {other:#04x} is not understood")),
        }
    }

    fn fault<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(Error::Pickle {
            at: self.opcode,
            reason: reason.into(),
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let left = self.bytes.len() - self.at;
        if count > left {
            return self.fault(format!("needs {count} bytes, {left} are left"));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// Where the bytes lie that follow a length of N bytes.
    fn counted<const N: usize>(&mut self) -> Result<std::ops::Range<usize>> {
        let mut length = [0; 8];
        length[..N].copy_from_slice(&self.array::<N>()?);
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        let begin = self.at;
        self.take(length)?;
        Ok(begin..self.at)
    }

    fn push(&mut self, value: Value) -> Result<()> {
        if self.stack.len() >= MAX_STACK {
            return self.fault(format!("keeps more than {MAX_STACK} values waiting"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn node(&mut self, node: Node) -> Result<()> {
        let value = self.heap.add(node, 0)?;
        self.push(value)
    }

    /// Height below which the instructions since the last mark may not reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value> {
        match self.stack.last() {
            Some(&value) if self.stack.len() > self.floor() => Ok(value),
            _ => self.fault("wants a value that is not there"),
        }
    }

    fn pop(&mut self) -> Result<Value> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    fn mark(&mut self) -> Result<()> {
        if self.marks.len() >= MAX_STACK {
            return self.fault(format!("keeps more than {MAX_STACK} marks waiting"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// Throws the last value away, or the last mark where no value came after it.
    fn discard(&mut self) -> Result<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(|_| ())
    }

    /// The values since the last mark.
    fn take_to_mark(&mut self) -> Result<Vec<Value>> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.split_off(height)),
            None => self.fault("wants a mark that is not there"),
        }
    }

    fn protocol(&mut self) -> Result<()> {
        let [version] = self.array()?;
        if (2..=MAX_PROTOCOL).contains(&version) {
            return Ok(());
        }
        self.fault(format!(
            "is of protocol {version}, 2 to {MAX_PROTOCOL} are understood"
        ))
    }

    fn long(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        let bytes = &self.bytes[range];
        if bytes.len() > 8 {
            let node = Node::Large(bytes.into());
            let value = self.heap.add(node, bytes.len())?;
            return self.push(value);
        }
        let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(wide)))
    }

    fn text(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        let Ok(text) = std::str::from_utf8(&self.bytes[range]) else {
            return self.fault("holds text that is not UTF-8");
        };
        let value = self.heap.text(text)?;
        self.push(value)
    }

    fn raw(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        let bytes = &self.bytes[range];
        let value = self.heap.add(Node::Bytes(bytes.into()), bytes.len())?;
        self.push(value)
    }

    fn empty_tuple(&mut self) -> Result<()> {
        let value = match self.empty {
            Some(value) => value,
            None => *self.empty.insert(self.heap.tuple(&[])?),
        };
        self.push(value)
    }

    fn tuple(&mut self, values: &[Value]) -> Result<()> {
        let value = self.heap.tuple(values)?;
        self.push(value)
    }

    fn small_tuple(&mut self, count: usize) -> Result<()> {
        if self.stack.len() - self.floor() < count {
            return self.fault("wants a value that is not there");
        }
        let values = self.stack.split_off(self.stack.len() - count);
        self.tuple(&values)
    }

    fn append(&mut self, values: &[Value]) -> Result<()> {
        let target = self.top()?;
        self.heap.charge(size_of_val(values))?;
        match self.heap.node_mut(target) {
            Some(Node::List(list) | Node::Set(list)) => list.extend_from_slice(values),
            _ => return self.fault("appends to something that is no list or set"),
        }
        Ok(())
    }

    fn set_items(&mut self, values: &[Value]) -> Result<()> {
        if !values.len().is_multiple_of(2) {
            return self.fault("sets a key without a value");
        }
        let target = self.top()?;
        self.heap.charge(size_of_val(values))?;
        let pairs = values.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        match self.heap.node_mut(target) {
            Some(Node::Dict(dict)) => dict.items.extend(pairs),
            _ => return self.fault("sets a key of something that is no dict"),
        }
        Ok(())
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|&b| b == b'\n') else {
            return self.fault("holds a name without an end");
        };
        let Ok(line) = std::str::from_utf8(&rest[..end]) else {
            return self.fault("holds a name that is not UTF-8");
        };
        self.at += end + 1;
        Ok(line)
    }

    fn global(&mut self) -> Result<()> {
        let (module, name) = (self.line()?, self.line()?);
        self.push_global(module, name)
    }

    fn stack_global(&mut self) -> Result<()> {
        let (name, module) = (self.pop()?, self.pop()?);
        let text = |value| self.heap.as_text(value).map(str::to_owned);
        match (text(module), text(name)) {
            (Some(module), Some(name)) => self.push_global(&module, &name),
            _ => self.fault("names a global by something that is no text"),
        }
    }

    fn push_global(&mut self, module: &str, name: &str) -> Result<()> {
        let Some(global) = Global::find(module, name) else {
            return Err(Error::Global {
                name: format!("{module}.{name}"),
            });
        };
        self.node(Node::Global(global))
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Some(&Node::Global(global)) = self.heap.node(function) else {
            return self.fault("calls something that is no name of a function");
        };
        let result = call::call(&mut self.heap, global, arguments);
        match result? {
            Ok(value) => self.push(value),
            Err(reason) => self.fault(reason),
        }
    }

    fn build(&mut self) -> Result<()> {
        let (state, target) = (self.pop()?, self.top()?);
        let big_endian = match self.heap.as_sequence(state) {
            Some(&[_, order, ..]) => self.heap.as_text(order) == Some(">"),
            _ => false,
        };
        match self.heap.node_mut(target) {
            Some(Node::Dict(dict)) => {
                let Dict { attributes, .. } = &mut **dict;
                *attributes = Some(state);
            }
            Some(Node::NumpyType {
                big_endian: big, ..
            }) => *big = big_endian,
            _ => return self.fault("sets the state of something that has none"),
        }
        Ok(())
    }

    fn persistent(&mut self) -> Result<()> {
        let id = self.pop()?;
        match call::storage(&mut self.heap, id)? {
            Some(value) => self.push(value),
            None => self.fault(
                "refers to something that is no storage; expected (\"storage\", class, key, \
                 location, elements)",
            ),
        }
    }

    fn put(&mut self, index: u32) -> Result<()> {
        let value = self.top()?;
        self.heap.charge(MEMO_BYTES)?;
        self.memo.insert(index, value);
        Ok(())
    }

    fn fetch(&mut self, index: u32) -> Result<()> {
        match self.memo.get(&index) {
            Some(&value) => self.push(value),
            None => self.fault(format!(
                "refers to memo entry {index}, which was never made"
            )),
        }
    }
}

#[cfg(test)]
#[path = "pickle_tests.rs"]
mod tests;
