//! Arithmetic as it stands in prior strings: numbers, pi, + - * / ** and parentheses.

use std::f64::consts::PI;

/// Parentheses and signs that may be open at once.
const DEPTH: usize = 32;

/// A reader of one expression, a character at a time.
pub(super) struct Reader<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            position: 0,
            depth: 0,
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// What comes next, after white space.
    pub(super) fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    /// Takes `token` if it comes next.
    pub(super) fn take(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    /// Takes `token` or says what stands there.
    pub(super) fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            return Ok(());
        }
        Err(format!("expected `{token}` {}", self.here()))
    }

    /// Where the reader is, for messages.
    pub(super) fn here(&mut self) -> String {
        match self.peek() {
            None => "at the end".into(),
            Some(_) => format!(
                "before `{}`",
                self.rest().chars().take(20).collect::<String>()
            ),
        }
    }

    /// A name with dots, such as `np.pi`; empty if none comes next.
    pub(super) fn name(&mut self) -> &'a str {
        self.peek();
        let rest = self.rest();
        let starts = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let length = if starts {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
                .unwrap_or(rest.len())
        } else {
            0
        };
        self.position += length;
        &rest[..length]
    }

    /// A quoted text, if one comes next.
    pub(super) fn quoted(&mut self) -> Result<Option<&'a str>, String> {
        let Some(quote @ ('\'' | '"')) = self.peek() else {
            return Ok(None);
        };
        let inside = &self.rest()[1..];
        let length = inside
            .find(quote)
            .ok_or_else(|| format!("a text is not closed by {quote}"))?;
        self.position += length + 2;
        Ok(Some(&inside[..length]))
    }

    /// Goes back to where `position` was, after a look ahead.
    pub(super) fn try_with<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let position = self.position;
        let result = read(self);
        if result.is_none() {
            self.position = position;
        }
        result
    }

    /// sum = product { (+ | -) product }.
    pub(super) fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    /// product = signed { (* | /) signed }.
    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            if self.take("*") {
                value *= self.signed()?;
            } else if self.take("/") {
                value /= self.signed()?;
            } else {
                return Ok(value);
            }
        }
    }

    /// signed = [+ | -] signed | power; a sign binds less tightly than a power, as in Python.
    fn signed(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("more than {DEPTH} parentheses and signs are open"));
        }
        let value = if self.take("-") {
            -self.signed()?
        } else if self.take("+") {
            self.signed()?
        } else {
            self.power()?
        };
        self.depth -= 1;
        Ok(value)
    }

    /// power = atom [** signed].
    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        if self.take("**") {
            return Ok(base.powf(self.signed()?));
        }
        Ok(base)
    }

    /// atom = number | pi | ( sum ).
    fn atom(&mut self) -> Result<f64, String> {
        if self.take("(") {
            let value = self.sum()?;
            self.expect(")")?;
            return Ok(value);
        }
        let here = self.here();
        match self.name() {
            "" => self.number(),
            "np.pi" | "numpy.pi" | "math.pi" | "pi" => Ok(PI),
            name => Err(format!("`{name}` is no number {here}; known is np.pi")),
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let here = self.here();
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| {
            let run = bytes[from.min(bytes.len())..].iter();
            from + run.take_while(|b| b.is_ascii_digit()).count()
        };
        let mut end = digits(0);
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let after = digits(end + 1 + sign);
            if after > end + 1 + sign {
                end = after;
            }
        }
        let text = &self.rest()[..end];
        let value = text
            .parse()
            .map_err(|_| format!("expected a number {here}"))?;
        self.position += end;
        Ok(value)
    }
}

/// The value of a whole text.
pub(super) fn evaluate(text: &str) -> Result<f64, String> {
    let mut reader = Reader::new(text);
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(format!("unexpected text {}", reader.here())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arithmetic_is_pythons() {
        for (text, expected) in [
            ("1", 1.0),
            (" -2.5e-3 ", -2.5e-3),
            ("1.", 1.0),
            (".5", 0.5),
            ("2*np.pi", 2.0 * PI),
            ("-np.pi/2", -PI / 2.0),
            ("math.pi - pi + numpy.pi", PI),
            ("-2**2", -4.0),
            ("2**-1", 0.5),
            ("2**3**2", 512.0),
            ("(1 + 2) * 3 - 4 / 8", 8.5),
            ("10 - 3 - 2", 5.0),
            ("8/2/2", 2.0),
            ("1e3", 1000.0),
        ] {
            assert_eq!(evaluate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            "x",
            "np.inf",
            "1 2",
            "(1",
            "1)",
            "1 +",
            "--",
            "__import__('os')",
            "1e",
            "e5",
            ".",
            "np.sqrt(2)",
            "1_000",
            "π",
        ] {
            assert!(evaluate(text).is_err(), "{text}");
        }
        let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
        assert!(evaluate(&deep).unwrap_err().contains("32"));
        assert!(evaluate(&"-".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_gives_a_value_or_an_error(text in "[-+*/()0-9.enpi ,'\u{e9}]{0,40}") {
            let _ = evaluate(&text);
        }
    }
}
