//! From Python's values to JSON, with a budget: a memo makes copies cheap in a pickle, not here.
//!
//! What JSON has no word for is an object with the one key [`TAG`]: non-finite and very large numbers,
//! bytes, sets, dicts whose keys are no text, and tuples where they must be told from lists.

use serde_json::{Map, Number, Value as Json, json};

use super::globals::Global;
use super::value::{Dict, Heap, Node, Value};
use crate::{Error, Result};

/// Key of an object that stands for something JSON has no word for.
pub(crate) const TAG: &str = "$python";

/// Bytes of JSON that small files may hold.
const BASE_BUDGET: u64 = 12 << 20;

/// Bytes that a JSON value takes, with its place in a table.
const NODE_BYTES: u64 = 128;

/// Nesting beyond which nothing is settings.
const MAX_DEPTH: usize = 64;

/// Whether tuples are told from lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tuples {
    /// They are arrays: for settings, which come from YAML.
    AsArrays,
    /// They are tagged: for what is kept and written back.
    Tagged,
}

/// Converts values of one heap.
pub(crate) struct ToJson<'a> {
    heap: &'a Heap,
    left: u64,
    limit: u64,
}

impl<'a> ToJson<'a> {
    /// A converter for the values of a file of that size.
    pub(crate) fn new(heap: &'a Heap, file: u64) -> Self {
        let limit = BASE_BUDGET.saturating_add(file);
        Self {
            heap,
            left: limit,
            limit,
        }
    }

    /// The JSON of a value; `name` is how messages call it.
    ///
    /// # Errors
    /// [`Error::Entry`] for tensors and for nesting without end, [`Error::OutOfProportion`].
    pub(crate) fn convert(&mut self, name: &str, value: Value, tuples: Tuples) -> Result<Json> {
        self.value(name, value, tuples, 0)
    }

    fn spend(&mut self, bytes: usize) -> Result<()> {
        let needed = NODE_BYTES.saturating_add(bytes as u64);
        self.left = self
            .left
            .checked_sub(needed)
            .ok_or(Error::OutOfProportion {
                what: "the settings",
                limit: self.limit,
            })?;
        Ok(())
    }

    fn value(&mut self, name: &str, value: Value, tuples: Tuples, depth: usize) -> Result<Json> {
        if depth > MAX_DEPTH {
            return Err(Error::Entry {
                name: name.into(),
                expected: format!("at most {MAX_DEPTH} levels"),
                found: "more, or a structure that contains itself".into(),
            });
        }
        self.spend(0)?;
        let tagged = |kind: &str, content: Json| json!({TAG: kind, "value": content});
        Ok(match value {
            Value::None => Json::Null,
            Value::Bool(flag) => flag.into(),
            Value::Int(integer) => integer.into(),
            Value::Float(float) => match Number::from_f64(float) {
                Some(number) => number.into(),
                None => tagged("float", float.to_string().into()),
            },
            Value::Node(_) => match self.heap.node(value) {
                Some(Node::Text(text)) => {
                    self.spend(text.len())?;
                    Json::from(&**text)
                }
                Some(Node::Bytes(bytes)) => {
                    self.spend(2 * bytes.len())?;
                    tagged("bytes", hexadecimal(bytes).into())
                }
                Some(Node::Large(bytes)) => match unsigned(bytes) {
                    Some(value) => value.into(),
                    None => {
                        self.spend(2 * bytes.len())?;
                        tagged("int", hexadecimal(bytes).into())
                    }
                },
                Some(Node::List(values)) => self.array(name, values, tuples, depth)?,
                Some(Node::Tuple(values)) => {
                    let array = self.array(name, values, tuples, depth)?;
                    match tuples {
                        Tuples::AsArrays => array,
                        Tuples::Tagged => tagged("tuple", array),
                    }
                }
                Some(Node::Set(values)) => tagged("set", self.array(name, values, tuples, depth)?),
                Some(Node::Dict(dict)) => self.dict(name, dict, tuples, depth)?,
                Some(Node::Global(Global::Named(kind))) => tagged("torch", (*kind).into()),
                _ => {
                    return Err(Error::Entry {
                        name: name.into(),
                        expected: "numbers, text, lists and dicts".into(),
                        found: self.heap.type_name(value).into(),
                    });
                }
            },
        })
    }

    fn array(
        &mut self,
        name: &str,
        values: &[Value],
        tuples: Tuples,
        depth: usize,
    ) -> Result<Json> {
        let mut array = Vec::new();
        for (index, &value) in values.iter().enumerate() {
            array.push(self.value(&format!("{name}[{index}]"), value, tuples, depth + 1)?);
        }
        Ok(Json::Array(array))
    }

    fn dict(&mut self, name: &str, dict: &Dict, tuples: Tuples, depth: usize) -> Result<Json> {
        let key = |&(key, _): &(Value, Value)| self.heap.as_text(key);
        let texts: Option<Vec<&str>> = dict.items.iter().map(key).collect();
        let Some(keys) = texts.filter(|keys| !keys.contains(&TAG)) else {
            let mut pairs = Vec::new();
            for (index, &(key, value)) in dict.items.iter().enumerate() {
                let name = format!("{name}[{index}]");
                let key = self.value(&name, key, tuples, depth + 1)?;
                pairs.push(json!([key, self.value(&name, value, tuples, depth + 1)?]));
            }
            return Ok(json!({TAG: "dict", "value": pairs}));
        };
        let mut map = Map::new();
        for (key, &(_, value)) in keys.into_iter().zip(&dict.items) {
            self.spend(key.len())?;
            let value = self.value(&format!("{name}.{key}"), value, tuples, depth + 1)?;
            map.insert(key.into(), value);
        }
        Ok(Json::Object(map))
    }
}

/// An integer of 64 bits without a sign.
fn unsigned(bytes: &[u8]) -> Option<u64> {
    match bytes {
        [low @ .., 0] if low.len() == 8 => {
            let mut fixed = [0; 8];
            fixed.copy_from_slice(low);
            Some(u64::from_le_bytes(fixed))
        }
        _ => None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
