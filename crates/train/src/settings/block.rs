//! One mapping of a settings file, read key by key with the path in every message.
//!
//! A [`Block`] remembers which keys were asked for; whatever else the mapping holds is unknown.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::Warning;
use super::nearest::{hint, nearest};
use crate::{Error, Result};

/// What an unknown key is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Ignored and reported, as in blocks of which dingo reads only what it knows.
    Warn,
    /// An error, as in blocks that dingo hands on as arguments.
    Refuse,
}

/// A mapping on its way into a struct.
pub(crate) struct Block<'a> {
    path: String,
    entries: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

/// `outer.inner`, or `inner` at the top.
pub(crate) fn join(outer: &str, inner: &str) -> String {
    if outer.is_empty() {
        inner.into()
    } else {
        format!("{outer}.{inner}")
    }
}

/// A value as an error message shows it.
pub(crate) fn show(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".into(),
        Value::Bool(value) => format!("the truth value {value}"),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text `{text}`"),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(entries) => format!("a mapping of {}", entries.len()),
    };
    if text.chars().count() <= 120 {
        return text;
    }
    let cut: String = text.chars().take(120).collect();
    format!("{cut}...`")
}

/// An error about one value.
pub(crate) fn wrong<T>(name: &str, expected: impl Into<String>, found: &Value) -> Result<T> {
    Err(Error::Setting {
        name: name.into(),
        expected: expected.into(),
        found: show(found),
    })
}

/// Whether a value stands for "not given": YAML's null, or dingo's unquoted `None`.
fn absent(value: &Value) -> bool {
    matches!(value, Value::Null) || value.as_str() == Some("None")
}

impl<'a> Block<'a> {
    /// Opens the mapping at `path`; nothing at all reads as an empty mapping.
    pub(crate) fn new(path: impl Into<String>, value: &'a Value) -> Result<Self> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        let path = path.into();
        let entries = match value {
            Value::Object(entries) => entries,
            Value::Null => &EMPTY,
            _ => return wrong(&path, "a mapping of settings", value),
        };
        Ok(Self {
            path,
            entries,
            known: Vec::new(),
        })
    }

    /// The path of a key of this block.
    pub(crate) fn name(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Whether the key is given at all, be it as null.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Marks a key as known and returns its value; null and `None` read as absent.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.entries.get(key).filter(|value| !absent(value))
    }

    /// The value of an optional key.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str, &'a Value) -> Result<T>,
    ) -> Result<Option<T>> {
        let name = self.name(key);
        self.value(key).map(|value| read(&name, value)).transpose()
    }

    /// The value of a key with a default.
    pub(crate) fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&str, &'a Value) -> Result<T>,
    ) -> Result<T> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }

    /// The value of a key that must be given; `what` describes it.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl FnOnce(&str, &'a Value) -> Result<T>,
    ) -> Result<T> {
        self.optional(key, read)?
            .ok_or_else(|| Error::MissingSetting {
                name: self.name(key),
                expected: what.into(),
            })
    }

    /// A mapping inside this one.
    pub(crate) fn block(&mut self, key: &'static str) -> Result<Option<Block<'a>>> {
        self.optional(key, |name, value| Block::new(name, value))
    }

    /// Accepts `key` without using it, and says so if it is there and not `false`.
    pub(crate) fn ignored(&mut self, key: &'static str, reason: &str, warnings: &mut Vec<Warning>) {
        let name = self.name(key);
        if self
            .value(key)
            .is_some_and(|value| value != &Value::Bool(false))
        {
            warnings.push(Warning {
                name,
                message: reason.into(),
            });
        }
    }

    /// Refuses `key` unless it is absent or `false`.
    pub(crate) fn refused(&mut self, key: &'static str, remedy: &str) -> Result<()> {
        let name = self.name(key);
        match self.value(key) {
            None | Some(Value::Bool(false)) => Ok(()),
            Some(value) => Err(Error::Unsupported {
                name,
                value: show(value),
                remedy: remedy.into(),
            }),
        }
    }

    /// Reports every key that was never asked for.
    pub(crate) fn finish(self, unknown: Unknown, warnings: &mut Vec<Warning>) -> Result<()> {
        for key in self.entries.keys() {
            if self.known.contains(&key.as_str()) {
                continue;
            }
            let name = self.name(key);
            let nearest = nearest(key, self.known.iter().copied()).map(String::from);
            let known: Vec<String> = self.known.iter().map(|k| (*k).into()).collect();
            match unknown {
                Unknown::Refuse => {
                    return Err(Error::UnknownSetting {
                        name,
                        nearest,
                        known,
                    });
                }
                Unknown::Warn => warnings.push(Warning {
                    name,
                    message: format!("unknown, ignored; {}", hint(nearest.as_deref(), &known)),
                }),
            }
        }
        Ok(())
    }
}

/// A finite number.
pub(crate) fn number(name: &str, value: &Value) -> Result<f64> {
    match value.as_f64() {
        Some(number) if number.is_finite() => Ok(number),
        _ => wrong(name, "a finite number", value),
    }
}

/// A number of at least 0.
pub(crate) fn non_negative(name: &str, value: &Value) -> Result<f64> {
    match value.as_f64() {
        Some(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => wrong(name, "a number of at least 0", value),
    }
}

/// A number above 0.
pub(crate) fn positive(name: &str, value: &Value) -> Result<f64> {
    match value.as_f64() {
        Some(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => wrong(name, "a number above 0", value),
    }
}

/// A whole number of at least 0; `1e3` counts as one.
pub(crate) fn count(name: &str, value: &Value) -> Result<usize> {
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        // Whole numbers up to 2^53 are exact in both forms.
        ((0.0..=9.007_199_254_740_992e15).contains(&number) && number.fract() == 0.0)
            .then_some(number as u64)
    });
    match whole.and_then(|whole| usize::try_from(whole).ok()) {
        Some(whole) => Ok(whole),
        None => wrong(name, "a whole number of at least 0", value),
    }
}

/// A whole number of at least 1.
pub(crate) fn at_least_one(name: &str, value: &Value) -> Result<usize> {
    match count(name, value) {
        Ok(whole) if whole > 0 => Ok(whole),
        _ => wrong(name, "a whole number of at least 1", value),
    }
}

/// A truth value.
pub(crate) fn flag(name: &str, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(value) => Ok(*value),
        _ => wrong(name, "true or false", value),
    }
}

/// A text that is not empty.
pub(crate) fn text(name: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        _ => wrong(name, "a text", value),
    }
}

/// A path.
pub(crate) fn path(name: &str, value: &Value) -> Result<PathBuf> {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains('\0') => Ok(text.into()),
        _ => wrong(name, "a path", value),
    }
}

/// A list, each item read by `read`.
pub(crate) fn list<T>(
    read: impl Fn(&str, &Value) -> Result<T>,
) -> impl Fn(&str, &Value) -> Result<Vec<T>> {
    move |name, value| match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| read(&format!("{name}[{i}]"), item))
            .collect(),
        _ => wrong(name, "a list", value),
    }
}

/// A list of different, non-empty names.
pub(crate) fn names(name: &str, value: &Value) -> Result<Vec<String>> {
    let names = list(text)(name, value)?;
    if names.is_empty() {
        return wrong(name, "at least one name", value);
    }
    for (i, item) in names.iter().enumerate() {
        if names[..i].contains(item) {
            return Err(Error::Setting {
                name: format!("{name}[{i}]"),
                expected: "different names".into(),
                found: format!("`{item}` twice"),
            });
        }
    }
    Ok(names)
}

/// One of a closed set of names, matched without regard to case.
pub(crate) fn one_of<T: Copy>(
    choices: &'static [(&'static str, T)],
) -> impl Fn(&str, &Value) -> Result<T> {
    move |name, value| {
        let found = value.as_str().and_then(|text| {
            choices
                .iter()
                .find(|(choice, _)| choice.eq_ignore_ascii_case(text))
        });
        match found {
            Some((_, choice)) => Ok(*choice),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                wrong(name, format!("one of {}", names.join(", ")), value)
            }
        }
    }
}
