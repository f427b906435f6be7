//! Python literals: the settings that dingo writes into a data set as `str(dict)`.
//!
//! Here: dictionaries with text keys, lists, tuples, texts, numbers, `True`, `False`, `None`, and NumPy's
//! scalars as they print themselves (`np.float64(1.0)`). Deliberately not here: anything that computes.
//!
//! JSON knows neither tuples nor numbers that are not finite: a tuple becomes an array, and `inf`, `-inf`
//! and `nan` become the texts of these names.

use serde_json::{Map, Number, Value};

use crate::{Error, Result};

/// The longest literal that is read, in bytes; dingo's settings have a few thousand.
const MAX_LENGTH: usize = 2 << 20;
/// The deepest nesting that is read; dingo's settings nest six.
const MAX_DEPTH: usize = 64;
/// The most values in one literal.
const MAX_VALUES: usize = 400_000;

/// Reads a Python literal.
///
/// # Errors
///
/// [`Error::Literal`] with the position, counted in bytes from 0, and what stands there.
pub fn parse_literal(text: &str) -> Result<Value> {
    let mut parser = Parser {
        text,
        at: 0,
        values: 0,
    };
    if text.len() > MAX_LENGTH {
        return parser.fail(format!(
            "{} bytes are more than the {MAX_LENGTH} that settings may have",
            text.len()
        ));
    }
    let value = parser.value(0)?;
    parser.space();
    if parser.at < text.len() {
        return parser.fail("the literal should end here");
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

impl Parser<'_> {
    fn fail<T>(&self, reason: impl Into<String>) -> Result<T> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        Err(Error::Literal {
            position: self.at,
            reason: reason.into(),
            found: match rest.chars().take(20).collect::<String>() {
                start if start.is_empty() => "the end".into(),
                start => format!("{start:?}"),
            },
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.space();
        self.values += 1;
        if depth > MAX_DEPTH {
            return self.fail(format!("values are nested deeper than {MAX_DEPTH}"));
        }
        if self.values > MAX_VALUES {
            return self.fail(format!("there are more than {MAX_VALUES} values"));
        }
        match self.peek() {
            Some(b'{') => self.dictionary(depth),
            Some(b'[') => {
                self.at += 1;
                let (values, _) = self.sequence(b']', depth)?;
                Ok(Value::Array(values))
            }
            Some(b'(') => {
                self.at += 1;
                let (mut values, comma) = self.sequence(b')', depth)?;
                // Without a comma these are brackets around one value.
                match values.len() {
                    1 if !comma => Ok(values.remove(0)),
                    _ => Ok(Value::Array(values)),
                }
            }
            Some(b'\'' | b'"') => Ok(Value::String(self.texts()?)),
            Some(b'0'..=b'9' | b'.' | b'+' | b'-') => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => self.word(depth),
            _ => self.fail("expected a value"),
        }
    }

    /// Values up to `end`, and whether a comma followed the last.
    fn sequence(&mut self, end: u8, depth: usize) -> Result<(Vec<Value>, bool)> {
        let mut values = Vec::new();
        let mut comma = false;
        loop {
            self.space();
            if self.take(end) {
                return Ok((values, comma));
            }
            if !values.is_empty() && !comma {
                return self.fail(format!("expected `,` or `{}`", char::from(end)));
            }
            values.push(self.value(depth + 1)?);
            self.space();
            comma = self.take(b',');
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Value> {
        self.at += 1;
        let mut map = Map::new();
        let mut comma = true;
        loop {
            self.space();
            if self.take(b'}') {
                return Ok(Value::Object(map));
            }
            if !comma {
                return self.fail("expected `,` or `}`");
            }
            if !matches!(self.peek(), Some(b'\'' | b'"')) {
                return self.fail("expected a text as key");
            }
            let key = self.texts()?;
            self.space();
            if !self.take(b':') {
                return self.fail("expected `:`");
            }
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.space();
            comma = self.take(b',');
        }
    }

    /// One text, or several that stand side by side and are one to Python.
    fn texts(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            self.quoted(&mut text)?;
            self.space();
            if !matches!(self.peek(), Some(b'\'' | b'"')) {
                return Ok(text);
            }
        }
    }

    fn quoted(&mut self, text: &mut String) -> Result<()> {
        let Some(quote) = self.peek() else {
            return self.fail("expected a text");
        };
        let three = [quote; 3];
        if self.text.as_bytes()[self.at..].starts_with(&three) {
            return self.fail("texts in three quotes are not read");
        }
        let start = self.at;
        self.at += 1;
        loop {
            let Some(next) = self.text[self.at..].chars().next() else {
                self.at = start;
                return self.fail("the text does not end");
            };
            match next {
                '\n' => return self.fail("the text does not end in its line"),
                '\\' => {
                    self.at += 1;
                    self.escape(text)?;
                }
                _ => {
                    self.at += next.len_utf8();
                    if next == char::from(quote) {
                        return Ok(());
                    }
                    text.push(next);
                }
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, text: &mut String) -> Result<()> {
        let Some(next) = self.text[self.at..].chars().next() else {
            return self.fail("the text does not end");
        };
        let digits = match next {
            '\n' => None,
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'v' => Some('\x0b'),
            '\\' | '\'' | '"' => Some(next),
            'x' => return self.code(2, text),
            'u' => return self.code(4, text),
            'U' => return self.code(8, text),
            '0'..='7' | 'N' => return self.fail("this escape is not read"),
            _ => {
                // Python keeps the backslash of an escape that it does not know.
                text.push('\\');
                Some(next)
            }
        };
        text.extend(digits);
        self.at += next.len_utf8();
        Ok(())
    }

    /// A character by its number in `digits` hexadecimal digits.
    fn code(&mut self, digits: usize, text: &mut String) -> Result<()> {
        let hex = self.text.get(self.at + 1..self.at + 1 + digits);
        let hex = hex.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let character = hex
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32);
        let Some(character) = character else {
            return self.fail("this escape is no character");
        };
        text.push(character);
        self.at += 1 + digits;
        Ok(())
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        let signed = matches!(self.peek(), Some(b'+' | b'-'));
        self.at += usize::from(signed);
        let body = self.at;
        while let Some(byte) = self.peek() {
            let exponent =
                self.at > body && matches!(self.text.as_bytes()[self.at - 1], b'e' | b'E');
            let sign = matches!(byte, b'+' | b'-') && exponent;
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || sign) {
                break;
            }
            self.at += 1;
        }
        let written = &self.text[start..self.at];
        let negative = written.starts_with('-');
        match &self.text[body..self.at] {
            "inf" | "Infinity" => return Ok(Value::from(if negative { "-inf" } else { "inf" })),
            "nan" => return Ok(Value::from("nan")),
            _ => {}
        }
        let digits = &self.text.as_bytes()[body..self.at];
        // Underscores may only stand between digits.
        let underscores = digits.iter().enumerate().all(|(k, &byte)| {
            let digit = |k: usize| digits.get(k).is_some_and(u8::is_ascii_digit);
            byte != b'_' || (k > 0 && digit(k - 1) && digit(k + 1))
        });
        let plain = written.replace('_', "");
        let plain = plain.strip_prefix('+').unwrap_or(&plain);
        let integer = !digits.is_empty() && digits.iter().all(|b| b.is_ascii_digit() || *b == b'_');
        let number = if !underscores {
            None
        } else if integer {
            plain
                .parse::<i64>()
                .map(Number::from)
                .or_else(|_| plain.parse::<u64>().map(Number::from))
                .ok()
        } else if digits.iter().any(u8::is_ascii_digit)
            && digits
                .iter()
                .all(|b| b.is_ascii_digit() || b".eE+-_".contains(b))
        {
            plain.parse().ok().and_then(Number::from_f64)
        } else {
            None
        };
        match number {
            Some(number) => Ok(Value::Number(number)),
            None => {
                self.at = start;
                self.fail("expected a number that fits 64 bits")
            }
        }
    }

    /// A name: a constant, or one of NumPy's types around a value.
    fn word(&mut self, depth: usize) -> Result<Value> {
        let start = self.at;
        while matches!(self.peek(), Some(byte) if byte.is_ascii_alphanumeric() || b"_.".contains(&byte))
        {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        match word {
            "True" | "np.True_" | "numpy.True_" => return Ok(Value::Bool(true)),
            "False" | "np.False_" | "numpy.False_" => return Ok(Value::Bool(false)),
            "None" => return Ok(Value::Null),
            "inf" | "nan" => return Ok(Value::from(word)),
            "u" if matches!(self.peek(), Some(b'\'' | b'"')) => {
                return Ok(Value::String(self.texts()?));
            }
            _ => {}
        }
        let kind = word
            .strip_prefix("np.")
            .or_else(|| word.strip_prefix("numpy."));
        let scalar = kind.is_some_and(|kind| {
            let number = kind
                .trim_start_matches('u')
                .trim_end_matches(|c: char| c.is_ascii_digit());
            matches!(number, "float" | "int" | "bool" | "bool_" | "str_")
        });
        if scalar && self.take(b'(') {
            let value = self.value(depth + 1)?;
            self.space();
            if value.is_array() || value.is_object() || !self.take(b')') {
                return self.fail("expected one number or text and `)`");
            }
            return Ok(value);
        }
        self.at = start;
        self.fail("expected a value; names and calls are not read")
    }
}

/// Writes a value as Python's `repr` would.
pub fn literal(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(true) => text.push_str("True"),
        Value::Bool(false) => text.push_str("False"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => text.push_str(&float_text(float)),
            _ => text.push_str(&number.to_string()),
        },
        Value::String(string) => quote(string, text),
        Value::Array(values) => {
            text.push('[');
            for (k, value) in values.iter().enumerate() {
                text.push_str(if k == 0 { "" } else { ", " });
                write(value, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (k, (key, value)) in map.iter().enumerate() {
                text.push_str(if k == 0 { "" } else { ", " });
                quote(key, text);
                text.push_str(": ");
                write(value, text);
            }
            text.push('}');
        }
    }
}

/// The shortest text that reads back as the same number, in Python's choice of notation.
fn float_text(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn quote(string: &str, text: &mut String) {
    let mark = if string.contains('\'') && !string.contains('"') {
        '"'
    } else {
        '\''
    };
    text.push(mark);
    for character in string.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == mark => text.extend(['\\', c]),
            c if (c as u32) < 0x20 || (0x7f..=0xa0).contains(&(c as u32)) || c as u32 == 0xad => {
                text.push_str(&format!("\\x{:02x}", c as u32));
            }
            c => text.push(c),
        }
    }
    text.push(mark);
}

#[cfg(test)]
#[path = "literal_tests.rs"]
mod tests;
