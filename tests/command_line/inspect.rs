//! `inspect`: checkpoints, data files, and what is neither.

use std::path::Path;

use dunnart_tests::dunnart;
use serde_json::Value;

use crate::kinds;
use crate::model::Bench;

fn inspect(path: &Path, option: &[&str]) -> dunnart_tests::Outcome {
    let path = path.to_str().unwrap();
    dunnart(["inspect", path].iter().chain(option))
}

#[test]
fn a_checkpoint_is_described() {
    let bench = Bench::new(Some((9.0, 12.0)));
    let text = inspect(&bench.checkpoint, &[]).good();
    for expected in [
        "kind: checkpoint, format version 1, written by dunnart 0.1.0",
        "state\n  epoch_in_stage: 4\n",
        "num_flow_steps: 3",
        "hidden_dim: 12",
        "float32_matmul_precision: highest",
        "\"name\":\"mass\"",
        "epochs: 3",
        "test_loss: 2.25",
    ] {
        assert!(text.contains(expected), "`{expected}` is not in:\n{text}");
    }
    let json: Value =
        serde_json::from_str(&inspect(&bench.checkpoint, &["--json"]).good()).unwrap();
    let parts = &json["parameters"];
    let sum = ["embedding", "reduced_basis", "flow"].map(|p| parts[p].as_u64().unwrap());
    assert_eq!(sum.iter().sum::<u64>(), parts["total"].as_u64().unwrap());
    assert_eq!(json["metadata"]["parameters"][1]["name"], "distance");
    assert_eq!(json["history_summary"]["best"]["epoch"], 2);
    let bytes = std::fs::metadata(&bench.checkpoint).unwrap().len();
    assert_eq!(json["bytes"].as_u64(), Some(bytes));
}

/// Point 30: the reference's count by part never ran.
#[test]
fn point_30_parameters_are_counted_by_part() {
    let bench = kinds::embedded();
    let json: Value =
        serde_json::from_str(&inspect(&bench.checkpoint, &["--json"]).good()).unwrap();
    let parts = &json["parameters"];
    // Two detectors: 3 x 5 strain values to 2 x 3 coefficients each, with biases.
    assert_eq!(parts["reduced_basis"], 2 * (15 * 6 + 6));
    // 12 to 6, two layers and two batch norms of width 6, 6 to 4.
    assert_eq!(
        parts["embedding"],
        (12 * 6 + 6) + (2 * (6 * 6 + 6) + 2 * 2 * 6) + (6 * 4 + 4)
    );
    let sum = ["embedding", "reduced_basis", "flow"].map(|p| parts[p].as_u64().unwrap());
    assert_eq!(sum.iter().sum::<u64>(), parts["total"].as_u64().unwrap());
    let text = inspect(&bench.checkpoint, &[]).good();
    assert!(text.contains("embedding: "), "{text}");
}

#[test]
fn a_check_finds_damage_and_exits_with_1() {
    let bench = Bench::new(None);
    assert!(
        inspect(&bench.checkpoint, &["--check"])
            .good()
            .contains("check: whole")
    );
    let mut bytes = std::fs::read(&bench.checkpoint).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&bench.checkpoint, &bytes).unwrap();
    inspect(&bench.checkpoint, &[]).good();
    let outcome = inspect(&bench.checkpoint, &["--check"]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    assert!(outcome.out.contains("is damaged"), "{}", outcome.out);
    for cut in [0, 8, 100, last] {
        std::fs::write(&bench.checkpoint, &bytes[..cut]).unwrap();
        inspect(&bench.checkpoint, &[]).refused(&["a model.safetensors", "truncated"]);
    }
}

#[test]
fn data_files_are_listed() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/slcp/simulations.npz");
    let text = inspect(&fixture, &[]).good();
    assert!(
        text.contains("kind: data") && text.contains("theta: "),
        "{text}"
    );
    let golden = "../fixtures/golden/spline_b1_k8_f64.safetensors";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    let json: Value = serde_json::from_str(&inspect(&golden, &["--json"]).good()).unwrap();
    assert_eq!(json["kind"], "data");
    assert!(!json["arrays"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_neither_is_refused() {
    let bench = Bench::new(None);
    inspect(&bench.path("absent.safetensors"), &[])
        .refused(&["absent.safetensors", "cannot read"])
        .once("cannot read")
        .once("No such file");
    inspect(Path::new("/"), &[]).refused(&["not a regular file"]);
    let text = bench.path("notes.txt");
    std::fs::write(
        &text,
        "nothing to see here, but longer than a header's length",
    )
    .unwrap();
    inspect(&text, &[]).refused(&["notes.txt", "header"]);
    let torch = bench.path("model.pt");
    std::fs::write(&torch, b"PK\x03\x04 and so on").unwrap();
    inspect(&torch, &[]).refused(&["model.pt", "archive: its directory cannot be read"]);
    let archive = bench.path("set.npz");
    std::fs::write(&archive, b"PK\x03\x04 and so on").unwrap();
    inspect(&archive, &[]).refused(&["set.npz"]);
}
