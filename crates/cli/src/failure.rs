//! Errors as the program prints them.

use std::path::Path;

/// The lines of an error: what failed, then each cause that says something new.
///
/// Errors of the libraries hold their cause in their own text, so that a log shows it, and hand it on as
/// their source as well. Printed one under the other, they would say the same again and again.
pub(crate) fn lines(error: &anyhow::Error) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !lines.iter().any(|line| line.contains(&text)) {
            lines.push(text);
        }
    }
    lines
}

/// Adds the file that an error is about, unless the error names it already.
pub(crate) trait InFile<T> {
    /// The result, with the file's path before its error.
    fn in_file(self, path: &Path) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> InFile<T> for Result<T, E> {
    fn in_file(self, path: &Path) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let path = path.display().to_string();
            if names(&format!("{error:#}"), &path) {
                error
            } else {
                error.context(path)
            }
        })
    }
}

/// Whether a text names a path: as words of its own, not as a part of others.
fn names(text: &str, path: &str) -> bool {
    let edge = |c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';' | '`' | '(' | ')');
    text.match_indices(path).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        before.is_none_or(edge) && after.is_none_or(edge)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}: {source}", source = self.1)]
    struct Outer(&'static str, #[source] std::io::Error);

    fn io() -> std::io::Error {
        std::io::Error::other("no room left")
    }

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let error = anyhow::Error::from(Outer("a.npz", io()));
        assert_eq!(lines(&error), ["a.npz: no room left"]);
        let error = error.context("observation 3");
        assert_eq!(lines(&error), ["observation 3", "a.npz: no room left"]);
        let error = anyhow::Error::from(io()).context("writing");
        assert_eq!(lines(&error), ["writing", "no room left"]);
    }

    #[test]
    fn a_file_is_named_once() {
        let of = |path: &str| {
            let failed: Result<(), _> = Err(Outer("runs/a.npz", io()));
            lines(&failed.in_file(Path::new(path)).unwrap_err())
        };
        assert_eq!(of("runs/a.npz"), ["runs/a.npz: no room left"]);
        assert_eq!(of("a"), ["a", "runs/a.npz: no room left"]);
    }
}
