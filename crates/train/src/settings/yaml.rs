//! YAML text to a tree of values, with the spellings that users of YAML 1.1 and 1.2 expect.
//!
//! Plain `yes`, `no`, `on`, `off` are truth values and `1_000` and `1e-4` are numbers. Deliberately
//! not here: several documents in one file, tags other than those of plain data, octal and
//! sexagesimal numbers, dates. Whatever is none of these stays text, so that the setting that
//! wanted a number can say so by name.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use crate::{Error, Result};

/// Largest settings text, bytes.
pub const LARGEST_TEXT: usize = 1 << 20;
/// Most values of one settings text, aliases counted each time they stand for their values.
pub const MOST_NODES: usize = 100_000;
/// Deepest nesting of one settings text.
pub const DEEPEST: usize = 64;

/// Reads one YAML document.
///
/// # Errors
/// [`Error::Yaml`] with the position for anything that is no YAML, for duplicate keys, for tags and
/// for nesting deeper than [`DEEPEST`]; [`Error::SettingsTooLarge`] beyond [`LARGEST_TEXT`] and
/// [`MOST_NODES`].
pub fn parse(text: &str) -> Result<Value> {
    if text.len() > LARGEST_TEXT {
        return Err(Error::SettingsTooLarge {
            what: "bytes",
            limit: LARGEST_TEXT,
            found: text.len(),
        });
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Error::Yaml {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            reason: error.info().to_string(),
        })?;
        builder.take(event, span)?;
    }
    Ok(builder.root.unwrap_or(Value::Null))
}

/// A sequence or mapping that is not yet closed.
enum Open {
    Sequence(Vec<Value>),
    Mapping {
        entries: Map<String, Value>,
        /// The line at which every key stood first.
        lines: HashMap<String, usize>,
        key: Option<String>,
        /// Mappings taken over by `<<`, whose entries yield to those written here.
        merged: Vec<Map<String, Value>>,
    },
}

#[derive(Default)]
struct Builder {
    /// What is open, with the anchor it defines.
    open: Vec<(Open, usize)>,
    anchors: HashMap<usize, Value>,
    root: Option<Value>,
    nodes: usize,
}

/// How many values a value consists of.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(entries) => 1 + entries.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn fault(span: Span, reason: impl Into<String>) -> Error {
    Error::Yaml {
        line: span.start.line(),
        column: span.start.col() + 1,
        reason: reason.into(),
    }
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<()> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(fault(span, "expected one document, got a second one"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let as_text = match tag {
                    None => !matches!(style, ScalarStyle::Plain),
                    Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => true,
                    Some(tag) => {
                        return Err(fault(span, format!("the tag `{tag}` is not allowed")));
                    }
                };
                let value = if as_text {
                    Value::String(text.into_owned())
                } else {
                    plain(&text)
                };
                self.remember(anchor, &value);
                self.add(value, Some(as_text), 1, span)
            }
            Event::Alias(anchor) => {
                // The sizes are checked before anything is copied: a few lines of aliases of aliases
                // would otherwise stand for more values than any memory holds.
                let value = self
                    .anchors
                    .get(&anchor)
                    .ok_or_else(|| fault(span, "an alias cannot stand inside its own anchor"))?;
                let nodes = count(value);
                if self.open.len() + depth(value) > DEEPEST {
                    return Err(fault(span, format!("nested deeper than {DEEPEST} levels")));
                }
                self.allow(nodes)?;
                let value = self.anchors[&anchor].clone();
                self.add(value, None, nodes, span)
            }
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag)
                if tag.is_some() =>
            {
                let _ = anchor;
                Err(fault(
                    span,
                    "tags on sequences and mappings are not allowed",
                ))
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::Sequence(Vec::new()), anchor, span),
            Event::MappingStart(anchor, _) => {
                let mapping = Open::Mapping {
                    entries: Map::new(),
                    lines: HashMap::new(),
                    key: None,
                    merged: Vec::new(),
                };
                self.begin(mapping, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open, anchor: usize, span: Span) -> Result<()> {
        if self.open.len() >= DEEPEST {
            return Err(fault(span, format!("nested deeper than {DEEPEST} levels")));
        }
        if let Some((Open::Mapping { key: None, .. }, _)) = self.open.last() {
            return Err(fault(span, "expected a key, got a sequence or mapping"));
        }
        self.open.push((open, anchor));
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<()> {
        let Some((open, anchor)) = self.open.pop() else {
            return Err(fault(span, "the end of something that never began"));
        };
        let value = match open {
            Open::Sequence(items) => Value::Array(items),
            Open::Mapping {
                mut entries,
                merged,
                ..
            } => {
                for (key, value) in merged.into_iter().flatten() {
                    entries.entry(key).or_insert(value);
                }
                Value::Object(entries)
            }
        };
        self.remember(anchor, &value);
        self.add(value, None, 1, span)
    }

    /// Anchors are numbered from 1; 0 stands for none.
    fn remember(&mut self, anchor: usize, value: &Value) {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
    }

    fn allow(&self, nodes: usize) -> Result<()> {
        let found = self.nodes.saturating_add(nodes);
        if found > MOST_NODES {
            return Err(Error::SettingsTooLarge {
                what: "values",
                limit: MOST_NODES,
                found,
            });
        }
        Ok(())
    }

    /// Puts a finished value where it belongs; `text` tells a quoted scalar from a plain one.
    fn add(&mut self, value: Value, text: Option<bool>, nodes: usize, span: Span) -> Result<()> {
        self.allow(nodes)?;
        self.nodes += nodes;
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some((Open::Sequence(items), _)) => items.push(value),
            Some((
                Open::Mapping {
                    entries,
                    lines,
                    key,
                    merged,
                },
                _,
            )) => match key.take() {
                Some(name) if name == "<<" => match value {
                    Value::Object(other) => merged.push(other),
                    Value::Array(others) => {
                        for other in others {
                            let Value::Object(other) = other else {
                                return Err(fault(span, "`<<` takes mappings"));
                            };
                            merged.push(other);
                        }
                    }
                    _ => return Err(fault(span, "`<<` takes a mapping")),
                },
                Some(name) => {
                    entries.insert(name, value);
                }
                None => {
                    let name = match value {
                        Value::String(name) => name,
                        Value::Bool(_) | Value::Number(_) if text == Some(false) => {
                            value.to_string()
                        }
                        _ => return Err(fault(span, "expected a key, got something else")),
                    };
                    if let Some(first) = lines.insert(name.clone(), span.start.line()) {
                        let reason = format!("the key `{name}` stands already in line {first}");
                        return Err(fault(span, reason));
                    }
                    *key = Some(name);
                }
            },
        }
        Ok(())
    }
}

/// The value of an unquoted scalar.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.into()), Value::Number)
}

/// A decimal or hexadecimal number; `None` for anything else, infinities and leading zeros among it.
fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    if let Some(digits) = unsigned.strip_prefix("0x") {
        let value = i64::from_str_radix(digits, 16).ok().filter(|v| *v >= 0)?;
        return Some(Number::from(if negative { -value } else { value }));
    }
    let first = unsigned.chars().next()?;
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-' | '_');
    if !(first.is_ascii_digit() || first == '.') || !unsigned.chars().all(numeric) {
        return None;
    }
    if !unsigned.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // 017 is 15 in YAML 1.1 and 17 in YAML 1.2: nobody should have to guess.
    if unsigned.len() > 1 && first == '0' && unsigned.as_bytes()[1].is_ascii_digit() {
        return None;
    }
    let digits = text.replace('_', "");
    let digits = digits.strip_prefix('+').unwrap_or(&digits);
    if let Ok(value) = digits.parse::<u64>() {
        return Some(Number::from(value));
    }
    if let Ok(value) = digits.parse::<i64>() {
        return Some(Number::from(value));
    }
    Number::from_f64(digits.parse().ok()?)
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
