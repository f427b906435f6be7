//! What the program says: results on stdout, progress on stderr.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Prints a result. A reader that went away is no fault.
pub(crate) fn say(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.as_ref());
}

/// Prints a remark that is no result.
pub(crate) fn remark(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_ref());
}

/// How far a long computation is: a bar on a terminal, a line every tenth elsewhere.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: u64,
    done: u64,
    told: u64,
}

impl Progress {
    /// Progress over `total` units.
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            let style = ProgressStyle::with_template(
                "{msg} {wide_bar} {human_pos}/{human_len} {per_sec}, {eta} left",
            );
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.with_message(what)
        });
        Self {
            bar,
            what,
            total,
            done: 0,
            told: 0,
        }
    }

    /// Adds finished units.
    pub(crate) fn add(&mut self, units: u64) {
        self.done = (self.done + units).min(self.total);
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
            return;
        }
        let tenth = (self.done * 10).checked_div(self.total).unwrap_or(10);
        if tenth > self.told {
            self.told = tenth;
            remark(format!("{}: {} of {}", self.what, self.done, self.total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A number with commas between thousands.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn commas_between_thousands() {
        let texts = [0, 999, 1000, 131_448_775].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "131,448,775"]);
    }
}
