//! Versions as programs print them.

use std::fmt;

/// Up to three numbers, compared from the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version([u32; 3]);

impl Version {
    /// The first thing in a text that looks like a version: `major.minor` or `major.minor.patch`.
    ///
    /// What a distribution adds, as in `12.2.0-14+deb12u1` or `2.11.0+cu130`, is left out.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '+' | '-'))
            .find_map(Self::exact)
    }

    /// A text that is nothing but a version.
    pub(crate) fn exact(text: &str) -> Option<Self> {
        let mut numbers = [0; 3];
        let mut count = 0;
        for part in text.split('.') {
            *numbers.get_mut(count)? = part.parse().ok()?;
            count += 1;
        }
        (count >= 2).then_some(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, expected) in [
            ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"),
            ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright", "12.2.0"),
            ("Python 3.11.7", "3.11.7"),
            (
                "pip 24.0 from /usr/lib/python3/dist-packages/pip (python 3.11)",
                "24.0.0",
            ),
            ("2.11.0+cu130\n", "2.11.0"),
            ("c++ (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0", "9.4.0"),
        ] {
            assert_eq!(
                Version::find(text)
                    .map(|version| version.to_string())
                    .as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in ["", "no version", "12", "1.2.3.4", "v1.x"] {
            assert_eq!(Version::find(text), None, "{text}");
        }
    }

    #[test]
    fn versions_compare_by_numbers() {
        let version = |text| Version::exact(text).unwrap();
        assert!(version("1.100.0") > version("1.95.0"));
        assert!(version("1.95") == version("1.95.0"));
        assert!(version("9.4.0") < version("12.2.0"));
    }
}
