//! `doctor`: what is found, what does not fit, how to mend it. Works before anything is built and changes nothing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::component::State;
use crate::environment::{self, Libtorch};
use crate::pins::{self, Component};
use crate::setup;
use crate::tools;

/// One line of the report.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// As it should be.
    Good(String),
    /// Not there yet; a verb that needs it puts it there.
    Later(String),
    /// Does not fit, and how to mend it.
    Wrong(String, String),
}

/// Prints the report; 1 when something does not fit.
pub(crate) fn run(root: &Path) -> u8 {
    let mut findings = vec![platform()];
    let all = [
        tools::RUSTC,
        tools::CXX,
        tools::CC,
        tools::STRIP,
        tools::PYTHON,
        tools::PIP,
    ];
    findings.extend(all.iter().map(|tool| match tool.look() {
        Ok(found) => Finding::Good(format!("{}: {found}", tool.name)),
        Err(why) => Finding::Wrong(
            format!("{} ({}): {why}", tool.name, tool.purpose),
            tool.mend.into(),
        ),
    }));
    findings.push(processor());
    findings.push(disk(root, environment::free_megabytes(root)));
    findings.push(lock_file(
        &fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default(),
    ));
    findings.push(libtorch(root, &Libtorch::current(root)));
    findings.push(component(root, &pins::ONNXRUNTIME));
    findings.push(target(
        root,
        env::var_os("CARGO_TARGET_DIR").map(PathBuf::from),
    ));
    findings.extend(interfering(|name| env::var(name).ok()));
    report(&findings)
}

fn report(findings: &[Finding]) -> u8 {
    let mut wrong = 0;
    for finding in findings {
        match finding {
            Finding::Good(what) => println!("good   {what}"),
            Finding::Later(what) => println!("later  {what}"),
            Finding::Wrong(what, mend) => {
                wrong += 1;
                println!("WRONG  {what}\n       hint: {mend}");
            }
        }
    }
    match wrong {
        0 => println!("doctor: all fits"),
        1 => println!("doctor: 1 thing does not fit"),
        _ => println!("doctor: {wrong} things do not fit"),
    }
    u8::from(wrong != 0)
}

fn platform() -> Finding {
    let (system, processor) = (env::consts::OS, env::consts::ARCH);
    if (system, processor) == ("linux", "x86_64") {
        return Finding::Good("platform: Linux on x86-64".into());
    }
    let what = format!("platform: expected Linux on x86-64, found {system} on {processor}");
    Finding::Wrong(
        what,
        "the small build (sample, inspect, c2st) may work; set-up has no libtorch for it".into(),
    )
}

fn processor() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| memory_gigabytes(&text));
    let memory = memory.map_or_else(String::new, |gigabytes| {
        format!(", {gigabytes:.0} GB of memory")
    });
    Finding::Good(format!(
        "processor: {cores} cores, {}{memory}",
        instructions()
    ))
}

#[cfg(target_arch = "x86_64")]
fn instructions() -> &'static str {
    if is_x86_feature_detected!("avx512f") {
        "AVX-512"
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        "AVX2"
    } else {
        "no AVX2: kernels will take their plain, slower form"
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn instructions() -> &'static str {
    "kernels will take their plain form"
}

fn memory_gigabytes(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024.0 / 1024.0)
}

/// What a build with tests takes beside libtorch, in MB.
const BUILD_MEGABYTES: u64 = 4_000;

fn disk(root: &Path, free: Option<u64>) -> Finding {
    let missing = if root.join("target/release").is_dir() {
        0
    } else {
        BUILD_MEGABYTES
    };
    let missing = missing
        + [&pins::LIBTORCH, &pins::ONNXRUNTIME]
            .iter()
            .filter(|component| component.state(root) != State::Ready)
            .map(|component| component.megabytes)
            .sum::<u64>();
    match free {
        None => Finding::Good("disk: free space is unknown".into()),
        Some(free) if free < missing => {
            let what =
                format!("disk: expected {missing} MB free for set-up and build, found {free} MB");
            Finding::Wrong(what, format!("make room on the disk of {}", root.display()))
        }
        Some(free) => Finding::Good(format!("disk: {free} MB free, {missing} MB still needed")),
    }
}

/// The pair of tch and libtorch that belongs together, against what cargo will build.
fn lock_file(text: &str) -> Finding {
    let found = text
        .split("[[package]]")
        .find(|package| package.lines().any(|line| line == r#"name = "tch""#))
        .and_then(|package| {
            package
                .lines()
                .find_map(|line| line.strip_prefix("version = "))
        })
        .map(|version| version.trim_matches('"'));
    match found {
        Some(version) if version == pins::TCH => Finding::Good(format!(
            "Cargo.lock: tch {version}, which takes libtorch {}",
            pins::LIBTORCH.version
        )),
        other => Finding::Wrong(
            format!(
                "Cargo.lock: expected tch {}, found {}",
                pins::TCH,
                other.unwrap_or("none")
            ),
            "`git checkout Cargo.lock`, or move both pins on together (xtask/src/pins.rs)".into(),
        ),
    }
}

fn libtorch(root: &Path, libtorch: &Libtorch) -> Finding {
    match libtorch {
        Libtorch::Own(_) => component(root, &pins::LIBTORCH),
        Libtorch::Elsewhere(folder) => match setup::fits(folder) {
            Ok(version) => Finding::Good(format!(
                "libtorch: {version} in {}, as LIBTORCH says",
                folder.display()
            )),
            Err(why) => Finding::Wrong(format!("libtorch: {why}"), setup::mend(root)),
        },
    }
}

fn component(root: &Path, component: &Component) -> Finding {
    let Component {
        name,
        version,
        folder,
        ..
    } = component;
    match component.state(root) {
        State::Ready => Finding::Good(format!("{name}: {version} in {folder}")),
        State::Absent => Finding::Later(format!(
            "{name}: {version} is not set up yet; `cargo xtask setup` does it, and so does every verb that needs it"
        )),
        State::Broken(why) => {
            let what =
                format!("{name}: expected {version} in {folder}, found it incomplete: {why}");
            Finding::Wrong(what, "`cargo xtask setup` makes it anew".into())
        }
        State::Other(found) => {
            let what = format!("{name}: expected {version} in {folder}, found {found}");
            Finding::Wrong(what, "`cargo xtask setup` replaces it".into())
        }
    }
}

/// Where cargo builds, and which programs are there already.
fn target(root: &Path, variable: Option<PathBuf>) -> Finding {
    let own = root.join("target");
    let folder = variable.unwrap_or_else(|| own.clone());
    let builds = ["small", "torch"];
    let built: Vec<_> = builds
        .into_iter()
        .filter(|build| folder.join("programs").join(build).exists())
        .collect();
    let built = if built.is_empty() {
        "no program built yet".into()
    } else {
        format!("built: {}", built.join(", "))
    };
    let reach = if folder == own {
        ""
    } else {
        "; what is built there finds libtorch only when `cargo xtask` starts it"
    };
    Finding::Good(format!(
        "target folder: {}, {built}{reach}",
        folder.display()
    ))
}

/// Variables that change what is built or loaded behind the project's back.
fn interfering(variable: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let all = [
        (
            "LIBTORCH_USE_PYTORCH",
            "the bindings would take the Python package's libtorch instead",
        ),
        (
            "LIBTORCH_BYPASS_VERSION_CHECK",
            "the bindings would take any libtorch and fail with unreadable errors",
        ),
        (
            "LIBTORCH_INCLUDE",
            "the bindings would take headers from elsewhere",
        ),
        (
            "LIBTORCH_LIB",
            "the bindings would take libraries from elsewhere",
        ),
        (
            "LIBTORCH_STATIC",
            "the bindings would look for static libraries",
        ),
        (
            "LIBTORCH_CXX11_ABI",
            "the bindings may be compiled with an ABI that libtorch does not have",
        ),
        (
            "RUSTFLAGS",
            "binaries lose the run path to libtorch, and everything is built anew",
        ),
        (
            "CARGO_ENCODED_RUSTFLAGS",
            "binaries lose the run path to libtorch, and everything is built anew",
        ),
    ];
    let set = all
        .into_iter()
        .filter_map(|(name, effect)| Some((name, variable(name)?, effect)));
    set.map(|(name, value, effect)| {
        Finding::Wrong(
            format!("variable {name} is set to `{value}`: {effect}"),
            format!("`unset {name}`"),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wrong(finding: &Finding, parts: &[&str]) -> bool {
        matches!(finding, Finding::Wrong(what, mend) if !mend.is_empty() && parts.iter().all(|part| what.contains(part)))
    }

    #[test]
    fn a_bare_clone_has_nothing_wrong_but_all_to_come() {
        let root = tempfile::tempdir().unwrap();
        let own = Libtorch::of(root.path(), None);
        assert!(
            matches!(libtorch(root.path(), &own), Finding::Later(what) if what.contains("setup"))
        );
        assert!(matches!(
            component(root.path(), &pins::ONNXRUNTIME),
            Finding::Later(_)
        ));
    }

    #[test]
    fn an_interrupted_or_foreign_libtorch_is_wrong() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".libtorch")).unwrap();
        let own = Libtorch::of(root.path(), None);
        assert!(is_wrong(
            &libtorch(root.path(), &own),
            &["2.11.0", ".libtorch", "incomplete"]
        ));
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("build-version"), "2.7.0").unwrap();
        let elsewhere = Libtorch::of(root.path(), Some(other.into()));
        assert!(is_wrong(
            &libtorch(root.path(), &elsewhere),
            &["expected libtorch 2.11.0", "found 2.7.0", "other"]
        ));
    }

    #[test]
    fn the_lock_file_must_have_the_pinned_bindings() {
        let lock = |version: &str| {
            format!(
                "[[package]]\nname = \"a\"\nversion = \"1.0\"\n\n[[package]]\nname = \"tch\"\nversion = \"{version}\"\n"
            )
        };
        assert!(matches!(lock_file(&lock("0.24.0")), Finding::Good(_)));
        assert!(is_wrong(
            &lock_file(&lock("0.26.0")),
            &["expected tch 0.24.0", "found 0.26.0"]
        ));
        assert!(is_wrong(&lock_file(""), &["found none"]));
        let real = fs::read_to_string(environment::root().join("Cargo.lock")).unwrap();
        assert!(
            matches!(lock_file(&real), Finding::Good(_)),
            "the pins and the lock file of this project"
        );
    }

    #[test]
    fn a_target_folder_elsewhere_is_told() {
        let root = tempfile::tempdir().unwrap();
        let line = |variable| match target(root.path(), variable) {
            Finding::Good(line) => line,
            other => panic!("{other:?}"),
        };
        assert!(line(None).ends_with("no program built yet"));
        fs::create_dir_all(root.path().join("target/programs/torch")).unwrap();
        assert!(line(None).ends_with("built: torch"));
        assert!(line(Some("/elsewhere".into())).contains("only when `cargo xtask` starts it"));
    }

    #[test]
    fn interfering_variables_are_named() {
        assert_eq!(interfering(|_| None), []);
        let found =
            interfering(|name| (name == "LIBTORCH_BYPASS_VERSION_CHECK").then(|| "1".into()));
        assert!(found.len() == 1 && is_wrong(&found[0], &["LIBTORCH_BYPASS_VERSION_CHECK", "`1`"]));
    }

    #[test]
    fn a_full_disk_is_wrong_and_the_exit_code_says_so() {
        let root = tempfile::tempdir().unwrap();
        let full = disk(root.path(), Some(100));
        assert!(
            is_wrong(&full, &["found 100 MB", "expected 5800 MB"]),
            "{full:?}"
        );
        assert!(matches!(disk(root.path(), Some(100_000)), Finding::Good(_)));
        assert_eq!(report(&[full]), 1);
        assert_eq!(
            report(&[Finding::Good("a".into()), Finding::Later("b".into())]),
            0
        );
    }

    #[test]
    fn memory_is_read_from_the_kernels_report() {
        assert_eq!(
            memory_gigabytes("MemFree: 1 kB\nMemTotal:    25165824 kB\n").map(f64::round),
            Some(24.0)
        );
        assert_eq!(memory_gigabytes("nothing"), None);
    }
}
