//! Folders that lack something, and values that are wrong.

use std::path::Path;

use dunnart_cli::verify::{Error, Report, Result, all_paths, run};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cases::{failures, shipped};

const SPLINE: &str = "spline_b5_k4_f64.safetensors";
const POSTERIOR: &str = "posterior_rb_f64.safetensors";

fn manifest() -> Value {
    let text = std::fs::read_to_string(shipped().join("manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Kind and description of one shipped case.
fn entry(file: &str) -> (String, Value) {
    let manifest = manifest();
    for (kind, list) in manifest.as_object().unwrap() {
        let found = list
            .as_array()
            .into_iter()
            .flatten()
            .find(|e| e["file"] == file);
        if let Some(found) = found {
            return (kind.clone(), found.clone());
        }
    }
    panic!("{file} is not shipped");
}

/// A folder with one shipped case.
fn folder(file: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (kind, description) = entry(file);
    describe(folder.path(), &json!({kind: [description]}));
    std::fs::copy(shipped().join(file), folder.path().join(file)).unwrap();
    folder
}

fn describe(folder: &Path, manifest: &Value) {
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}

/// Changes one tensor's shape and bytes.
fn change(path: &Path, key: &str, edit: impl Fn(&mut Vec<usize>, &mut Vec<u8>)) {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let parts: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            let (mut shape, mut data) = (view.shape().to_vec(), view.data().to_vec());
            if name == key {
                edit(&mut shape, &mut data);
            }
            (name, view.dtype(), shape, data)
        })
        .filter(|(_, _, shape, _)| *shape != [usize::MAX])
        .collect();
    let views = parts.iter().map(|(name, dtype, shape, data)| {
        (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn verify(folder: &TempDir) -> Result<Report> {
    run(folder.path(), &all_paths(), &mut |_| {})
}

#[test]
fn a_case_alone_agrees() {
    for file in [SPLINE, POSTERIOR] {
        let report = verify(&folder(file)).unwrap();
        assert_eq!(failures(&report), Vec::<String>::new());
        assert!(!report.verdicts.is_empty());
    }
}

#[test]
fn a_changed_value_is_found_where_it_is() {
    let folder = folder(SPLINE);
    change(&folder.path().join(SPLINE), "forward.y", |_, data| {
        let at = 17 * 8..18 * 8;
        let value = f64::from_le_bytes(data[at.clone()].try_into().unwrap());
        data[at].copy_from_slice(&(value + 1e-9).to_le_bytes());
    });
    let report = verify(&folder).unwrap();
    let (_, check) = report.failed().next().unwrap();
    assert_eq!(check.quantity, "forward.y");
    assert_eq!(check.comparison.unwrap().worst, 17);
    let first = &report.verdicts[0];
    assert!(!first.passed());
    assert_eq!(first.checks.iter().filter(|c| !c.passed).count(), 1);
    assert!(
        report.summary().starts_with("verify: 0 of "),
        "{}",
        report.summary()
    );
}

#[test]
fn a_nan_that_is_not_expected_fails() {
    let folder = folder(SPLINE);
    change(
        &folder.path().join(SPLINE),
        "inverse.logabsdet",
        |_, data| {
            data[..8].copy_from_slice(&f64::NAN.to_le_bytes());
        },
    );
    let report = verify(&folder).unwrap();
    let (_, check) = report.failed().next().unwrap();
    assert_eq!(check.quantity, "inverse.logabsdet");
    assert_eq!(check.difference, f64::INFINITY);
}

#[test]
fn a_basis_that_is_not_exactly_the_weights_fails() {
    let folder = folder(POSTERIOR);
    change(
        &folder.path().join(POSTERIOR),
        "init.V_rb.1.imag",
        |_, data| {
            let value = f64::from_le_bytes(data[..8].try_into().unwrap());
            data[..8].copy_from_slice(&(value * (1.0 + 1e-6)).to_le_bytes());
        },
    );
    let report = verify(&folder).unwrap();
    let failed: Vec<_> = report.failed().map(|(v, c)| (v.path.clone(), c)).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].0, "initialisation");
    assert!(failed[0].1.quantity.contains("layers_rb.1.weight"));
}

#[test]
fn a_missing_file_or_manifest_is_no_verdict() {
    let folder = folder(SPLINE);
    std::fs::remove_file(folder.path().join(SPLINE)).unwrap();
    let error = verify(&folder).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(error.to_string().contains(SPLINE), "{error}");
    std::fs::remove_file(folder.path().join("manifest.json")).unwrap();
    let error = verify(&folder).unwrap_err();
    assert!(error.to_string().contains("manifest.json"), "{error}");
}

#[test]
fn a_truncated_file_is_no_verdict() {
    let folder = folder(SPLINE);
    let path = folder.path().join(SPLINE);
    let bytes = std::fs::read(&path).unwrap();
    for length in [0, 4, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = verify(&folder).unwrap_err();
        assert!(matches!(error, Error::Read { .. }), "{length}: {error}");
    }
}

#[test]
fn an_unknown_kind_is_no_verdict() {
    let folder = folder(SPLINE);
    let (_, description) = entry(SPLINE);
    describe(folder.path(), &json!({"splines": [description]}));
    let error = verify(&folder).unwrap_err().to_string();
    assert!(error.contains("unknown kind `splines`"), "{error}");
    describe(folder.path(), &json!({"seed": 1, "spline": []}));
    let error = verify(&folder).unwrap_err().to_string();
    assert!(error.contains("no case"), "{error}");
}

#[test]
fn batches_of_the_data_pipeline_are_counted_not_run() {
    let folder = folder(SPLINE);
    let (kind, description) = entry(SPLINE);
    let data = json!([{"file": "training_batch.safetensors"}]);
    describe(folder.path(), &json!({kind: [description], "data": data}));
    let report = verify(&folder).unwrap();
    assert_eq!(report.uncovered, 1);
    assert!(report.failed().next().is_none());
}

#[test]
fn fewer_rows_or_a_missing_tensor_are_no_verdict() {
    let folder = folder(SPLINE);
    let path = folder.path().join(SPLINE);
    change(&path, "forward.y", |shape, data| {
        shape[0] -= 1;
        let row = data.len() / (shape[0] + 1);
        data.truncate(row * shape[0]);
    });
    let error = verify(&folder).unwrap_err();
    assert!(
        matches!(&error, Error::Shape { key, .. } if key == "forward.y"),
        "{error}"
    );
    let folder = self::folder(POSTERIOR);
    let path = folder.path().join(POSTERIOR);
    change(&path, "eval.log_prob", |shape, _| *shape = vec![usize::MAX]);
    let error = verify(&folder).unwrap_err();
    assert!(
        matches!(&error, Error::Missing { key, .. } if key == "eval.log_prob"),
        "{error}"
    );
}
