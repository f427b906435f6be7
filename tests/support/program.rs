//! Running the built program as a user would.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a run of the program left.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Outcome {
    /// Asserts success and returns the standard output.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self.out
    }

    /// Asserts that a text stands on stderr once.
    #[track_caller]
    pub fn once(self, text: &str) -> Self {
        let count = self.err.matches(text).count();
        assert_eq!(count, 1, "`{text}` in: {}", self.err);
        self
    }

    /// Asserts that the program could not run (exit code 2) and said each of the texts on stderr, without a panic.
    #[track_caller]
    pub fn refused(self, texts: &[&str]) -> Self {
        assert_eq!(self.code, 2, "stdout: {}\nstderr: {}", self.out, self.err);
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

/// Runs the program (the build without libtorch) to its end.
///
/// `cargo xtask test` builds it and says where it is; otherwise it is looked for beside the test program.
///
/// # Panics
/// When the program is not there or was killed.
pub fn dunnart<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    let program = std::env::var_os("DUNNART_PROGRAM_SMALL").map_or_else(beside, PathBuf::from);
    assert!(
        program.is_file(),
        "{} is missing: build it with `cargo build --release -p dunnart-cli`, or run `cargo xtask test`",
        program.display()
    );
    let output = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `dunnart` in the folder above the test program's.
fn beside() -> PathBuf {
    let mut path = std::env::current_exe().unwrap_or_default();
    path.pop();
    path.pop();
    path.join("dunnart")
}
