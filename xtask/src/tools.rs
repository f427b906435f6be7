//! The programs that must be on the machine.

use std::env;
use std::ffi::OsString;
use std::process::{Command, Stdio};

use crate::version::Version;

/// A program of the machine, and how to get it.
pub(crate) struct Tool {
    /// What it is called in messages.
    pub(crate) name: &'static str,
    /// What is run to see its version.
    command: &'static [&'static str],
    /// A variable that names another program.
    variable: Option<&'static str>,
    /// The oldest version that will do.
    minimum: Option<&'static str>,
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// How to mend it.
    pub(crate) mend: &'static str,
}

/// The compiler of everything.
pub(crate) const RUSTC: Tool = Tool {
    name: "rustc",
    command: &["rustc", "--version"],
    variable: Some("RUSTC"),
    minimum: Some(env!("CARGO_PKG_RUST_VERSION")),
    purpose: "compiles everything",
    mend: "`rustup update stable`",
};

/// The C++ compiler of libtorch's bindings.
pub(crate) const CXX: Tool = Tool {
    name: "C++ compiler",
    command: &["c++", "--version"],
    variable: Some("CXX"),
    minimum: Some("9.0"),
    purpose: "compiles libtorch's bindings",
    mend: "Debian, Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`",
};

/// The C compiler, which also links.
pub(crate) const CC: Tool = Tool {
    name: "C compiler",
    command: &["cc", "--version"],
    variable: None,
    minimum: None,
    purpose: "links programs",
    mend: "Debian, Ubuntu: `apt install gcc`; Fedora: `dnf install gcc`",
};

/// Takes symbols out of libraries.
pub(crate) const STRIP: Tool = Tool {
    name: "strip",
    command: &["strip", "--version"],
    variable: None,
    minimum: None,
    purpose: "makes libtorch smaller",
    mend: "Debian, Ubuntu: `apt install binutils`; Fedora: `dnf install binutils`",
};

/// Unpacks wheels.
pub(crate) const PYTHON: Tool = Tool {
    name: "python3",
    command: &["python3", "--version"],
    variable: None,
    minimum: Some("3.8"),
    purpose: "unpacks wheels",
    mend: "Debian, Ubuntu: `apt install python3`; Fedora: `dnf install python3`",
};

/// Downloads wheels.
pub(crate) const PIP: Tool = Tool {
    name: "pip",
    command: &["python3", "-m", "pip", "--version"],
    variable: None,
    minimum: Some("21.0"),
    purpose: "downloads wheels",
    mend: "Debian, Ubuntu: `apt install python3-pip`; elsewhere: `python3 -m ensurepip --upgrade`",
};

impl Tool {
    /// What the program says of itself, or why it will not do.
    pub(crate) fn look(&self) -> Result<String, String> {
        self.look_for(self.variable.and_then(env::var_os))
    }

    fn look_for(&self, instead: Option<OsString>) -> Result<String, String> {
        let (program, arguments) = self.command.split_first().ok_or("it has no command")?;
        let program = instead.unwrap_or_else(|| program.into());
        let named = program.to_string_lossy().into_owned();
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|_| format!("`{named}` was not found"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            let reason = reason
                .lines()
                .last()
                .unwrap_or("it says nothing")
                .trim()
                .to_owned();
            return Err(format!(
                "`{named} {}` failed: {reason}",
                arguments.join(" ")
            ));
        }
        let line = text.lines().next().unwrap_or_default().trim().to_owned();
        let Some(minimum) = self.minimum else {
            return Ok(line);
        };
        match (Version::find(&text), Version::exact(minimum)) {
            (Some(found), Some(least)) if found < least => Err(format!(
                "expected version {minimum} or newer, found {found} (`{named}`)"
            )),
            (None, _) => Err(format!(
                "expected version {minimum} or newer, found one that cannot be read: `{line}`"
            )),
            _ => Ok(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_tells_its_version() {
        for tool in [&RUSTC, &CXX, &CC, &STRIP, &PYTHON, &PIP] {
            assert!(!tool.look().unwrap().is_empty(), "{}", tool.name);
        }
    }

    #[test]
    fn what_is_missing_old_or_broken_is_told() {
        let missing = CXX.look_for(Some("no-such-compiler".into())).unwrap_err();
        assert_eq!(missing, "`no-such-compiler` was not found");
        let old = Tool {
            minimum: Some("900.0"),
            ..PYTHON
        }
        .look_for(None)
        .unwrap_err();
        assert!(
            old.starts_with("expected version 900.0 or newer, found 3."),
            "{old}"
        );
        let failing = PIP.look_for(Some("false".into())).unwrap_err();
        assert!(failing.contains("failed"), "{failing}");
        let unreadable = Tool {
            command: &["sh", "-c", "echo nonsense"],
            ..PYTHON
        };
        let unreadable = unreadable.look_for(None).unwrap_err();
        assert!(unreadable.contains("cannot be read"), "{unreadable}");
    }
}
