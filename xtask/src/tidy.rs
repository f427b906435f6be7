//! House rules that no compiler knows, over every file that git tracks or would.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::command;

/// Where unsafe code may stand: the shim, and the dispatch of kernels.
const UNSAFE: [&str; 3] = [
    "crates/torch-shim/",
    "crates/elementwise/src/",
    "crates/spline/src/",
];
/// What a library must be given instead of looking for it itself.
const SURROUNDINGS: [&str; 4] = ["SystemTime::now", "Instant::now", "env::var", "env::args"];
/// Longer files are better split.
const LINES: usize = 400;

/// Texts that have no business in the project: paths of one machine, and addresses that pip and cargo know themselves.
/// They are put together here so that this file does not break its own rule.
const FORBIDDEN: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("../sha", "red"),
    concat!("/ro", "ot/"),
    concat!("py", "pi.org"),
    concat!("pythonho", "sted"),
    concat!("index.cra", "tes.io"),
];

/// What a rule says of a file.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// The check fails.
    Wrong(String),
    /// The check only tells.
    Remark(String),
}

/// Looks at every file; whether all rules hold.
pub(crate) fn run(root: &Path) -> Result<bool> {
    eprintln!("xtask: house rules");
    let list = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let directory = ["-C".as_ref(), root.as_os_str()];
    let files = command::output(
        "git",
        directory
            .into_iter()
            .chain(list.iter().map(|word| word.as_ref())),
    )?;
    let mut good = true;
    for name in files.split('\0').filter(|name| !name.is_empty()) {
        // Data files are none of these rules' business, nor are files that are gone but still in the index.
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        for finding in look(name, &text) {
            match finding {
                Finding::Wrong(what) => {
                    good = false;
                    println!("error: {what}");
                }
                Finding::Remark(what) => println!("remark: {what}"),
            }
        }
    }
    Ok(good)
}

fn look(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wrong = |what: String| findings.push(Finding::Wrong(what));
    if name != "Cargo.lock" && !name.starts_with("fixtures/") {
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(found) = FORBIDDEN.iter().find(|forbidden| line.contains(*forbidden)) {
                wrong(format!(
                    "{name}:{number}: `{found}` must not stand in the project"
                ));
            }
        }
    }
    if name == "xtask/Cargo.toml" && text.contains("dunnart-") {
        wrong(format!(
            "{name}: xtask must not depend on a crate of the workspace"
        ));
    }
    if !name.ends_with(".rs") {
        return findings;
    }
    let test = name.ends_with("tests.rs");
    if !test && !text.starts_with("//!") {
        wrong(format!(
            "{name}:1: a file starts with `//!` and says what is here"
        ));
    }
    if !UNSAFE.iter().any(|folder| name.starts_with(folder)) {
        for (number, line) in (1..).zip(text.lines()) {
            if code(line)
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe")
            {
                wrong(format!(
                    "{name}:{number}: unsafe code may stand in {} only",
                    UNSAFE.join(", ")
                ));
            }
        }
    }
    let library = name.starts_with("crates/") && !name.starts_with("crates/cli/");
    if library && name.contains("/src/") && !test {
        let before_tests = text
            .lines()
            .take_while(|line| !line.starts_with("#[cfg(test)]"));
        for (number, line) in (1..).zip(before_tests) {
            if let Some(found) = SURROUNDINGS.iter().find(|word| code(line).contains(*word)) {
                wrong(format!(
                    "{name}:{number}: a library must not read clock or environment: `{found}`"
                ));
            }
        }
    }
    let lines = text.lines().count();
    if lines > LINES {
        findings.push(Finding::Remark(format!(
            "{name}: {lines} lines, better split above {LINES}"
        )));
    }
    findings
}

/// A line without its comment and without what stands in quotes, well enough for a keyword.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, text: &str) -> bool {
        look(name, text)
            .iter()
            .any(|finding| matches!(finding, Finding::Wrong(_)))
    }

    #[test]
    fn unsafe_code_is_found_outside_its_places_only() {
        let text = concat!("//! Doc.\nfn f() { uns", "afe { g() } }\n");
        assert!(wrong("crates/train/src/step.rs", text));
        assert!(!wrong("crates/torch-shim/src/ffi.rs", text));
        let harmless = concat!(
            "//! Doc.\n// uns",
            "afe\nconst A: &str = \"uns",
            "afe\";\n#![deny(uns",
            "afe_code)]\n"
        );
        assert!(!wrong("crates/train/src/step.rs", harmless));
    }

    #[test]
    fn machine_paths_are_found_in_every_text() {
        let path = FORBIDDEN[0];
        assert!(wrong("README.md", &format!("see {path}thing")));
        assert!(!wrong("Cargo.lock", &format!("see {path}thing")));
        assert!(!wrong(
            "README.md",
            "see the folder of your work/ and shared memory"
        ));
    }

    #[test]
    fn files_say_what_is_here_and_stay_short() {
        assert!(wrong("xtask/src/a.rs", "fn main() {}\n"));
        assert_eq!(look("xtask/src/a.rs", "//! Doc.\n"), []);
        let long = format!("//! Doc.\n{}", "// line\n".repeat(LINES));
        assert!(matches!(
            look("xtask/src/a.rs", &long)[..],
            [Finding::Remark(_)]
        ));
    }

    #[test]
    fn libraries_are_given_their_surroundings() {
        let text = "//! Doc.\nfn f() { std::time::Instant::now(); }\n";
        assert!(wrong("crates/train/src/step.rs", text));
        assert!(!wrong("crates/cli/src/main.rs", text));
        assert!(!wrong("xtask/src/main.rs", text));
        let in_tests = "//! Doc.\n#[cfg(test)]\nmod tests {\n    use std::time::Instant::now;\n}\n";
        assert!(!wrong("crates/train/src/step.rs", in_tests));
        assert!(!wrong(
            "crates/train/src/step_tests.rs",
            "use std::env::var;\n"
        ));
    }

    #[test]
    fn xtask_links_nothing_of_ours() {
        assert!(wrong(
            "xtask/Cargo.toml",
            "[dependencies]\ndunnart-data.workspace = true\n"
        ));
        assert!(!wrong(
            "crates/train/Cargo.toml",
            "[dependencies]\ndunnart-data.workspace = true\n"
        ));
    }
}
