//! `setup`: libtorch and ONNX Runtime, in the clone.

use std::path::Path;

use anyhow::{Result, bail};

use crate::environment::{self, Libtorch};
use crate::flags::Device;
use crate::pins;

/// Puts everything in place that any verb needs.
pub(crate) fn run(root: &Path, device: Device) -> Result<u8> {
    if device == Device::Cuda {
        bail!(
            "device `cuda`: expected `cpu`, since this version sets up libtorch for CPUs only\n  hint: run `cargo xtask setup --device cpu`"
        );
    }
    all(root)?;
    for component in [&pins::LIBTORCH, &pins::ONNXRUNTIME] {
        eprintln!(
            "xtask: {} {} is in {}",
            component.name, component.version, component.folder
        );
    }
    Ok(0)
}

/// Puts libtorch and ONNX Runtime in place.
pub(crate) fn all(root: &Path) -> Result<()> {
    libtorch(root)?;
    pins::ONNXRUNTIME.ensure(root)
}

/// Puts libtorch in place, or sees that the one that the user chose will do, before any C++ is compiled against it.
pub(crate) fn libtorch(root: &Path) -> Result<Libtorch> {
    let libtorch = Libtorch::current(root);
    match &libtorch {
        Libtorch::Own(_) => pins::LIBTORCH.ensure(root)?,
        Libtorch::Elsewhere(folder) => {
            if let Err(why) = fits(folder) {
                bail!("{why}\n  hint: {}", mend(root));
            }
        }
    }
    Ok(libtorch)
}

/// Whether a libtorch elsewhere is the pinned version: its version, or what does not fit.
pub(crate) fn fits(folder: &Path) -> Result<String, String> {
    let (tch, expected) = (pins::TCH, pins::LIBTORCH.version);
    match environment::libtorch_version(folder) {
        Ok(version) if environment::is_pinned_libtorch(&version) => Ok(version),
        Ok(version) => Err(format!(
            "LIBTORCH is {}: expected libtorch {expected} (tch {tch} takes no other), found {version}",
            folder.display()
        )),
        Err(why) => Err(format!(
            "LIBTORCH is {}: expected libtorch {expected} (tch {tch} takes no other), found none: {why}",
            folder.display()
        )),
    }
}

/// How to mend a LIBTORCH that does not fit.
pub(crate) fn mend(root: &Path) -> String {
    format!(
        "`unset LIBTORCH` to use the one in {}",
        pins::LIBTORCH.path(root).display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn cuda_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let error = run(root.path(), Device::Cuda).unwrap_err().to_string();
        assert!(
            error.contains("`cuda`") && error.contains("hint:"),
            "{error}"
        );
        assert!(
            fs::read_dir(root.path()).unwrap().next().is_none(),
            "nothing was touched"
        );
    }

    #[test]
    fn a_libtorch_elsewhere_must_be_the_pinned_version() {
        let folder = tempfile::tempdir().unwrap();
        let none = fits(&folder.path().join("nowhere")).unwrap_err();
        assert!(
            none.contains("nowhere") && none.contains("2.11.0") && none.contains("no such folder"),
            "{none}"
        );
        for wrong in ["2.7.0", "2.11.1+cpu", "2.13.0"] {
            fs::write(folder.path().join("build-version"), wrong).unwrap();
            let text = fits(folder.path()).unwrap_err();
            assert!(
                text.contains(&format!("found {wrong}"))
                    && text.contains("expected libtorch 2.11.0"),
                "{text}"
            );
        }
        fs::write(folder.path().join("build-version"), "2.11.0+cu130").unwrap();
        assert_eq!(fits(folder.path()).unwrap(), "2.11.0+cu130");
    }
}
