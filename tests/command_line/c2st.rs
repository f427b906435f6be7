//! `c2st`: a verdict by exit code.

use std::path::Path;

use dunnart_data::{PosteriorSamples, Values};
use dunnart_random::{Key, Purpose};
use dunnart_tests::{Outcome, dunnart};

fn write(path: &Path, stream: u64, shift: f64) {
    let mut values = vec![0.0; 2 * 300 * 2];
    Key::new(1, Purpose::Benchmark)
        .stream(stream)
        .fill_normal(&mut values);
    values.iter_mut().for_each(|v| *v += shift);
    let names = vec!["a".into(), "b".into()];
    let log_prob = Values::F64(vec![0.0; 600]);
    let samples = PosteriorSamples::new(2, 300, names, Values::F64(values), log_prob).unwrap();
    samples.write(path).unwrap();
}

fn c2st(samples: &Path, reference: &Path, options: &[&str]) -> Outcome {
    let (samples, reference) = (samples.to_str().unwrap(), reference.to_str().unwrap());
    let arguments = ["c2st", "--samples", samples, "--reference", reference];
    dunnart(arguments.iter().chain(options))
}

#[test]
fn equal_and_shifted_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("a.npz"), 0, 0.0);
    write(&path("b.safetensors"), 1, 0.0);
    write(&path("c.npz"), 2, 4.0);
    let equal = c2st(
        &path("a.npz"),
        &path("b.safetensors"),
        &["--json", "--at-most", "0.62"],
    );
    let json: serde_json::Value = serde_json::from_str(&equal.good()).unwrap();
    assert_eq!(json["c2st"].as_array().unwrap().len(), 2);
    assert_eq!(json["rows"], 300);
    let shifted = c2st(&path("c.npz"), &path("a.npz"), &["--at-most", "0.62"]);
    assert_eq!(shifted.code, 1, "{}", shifted.err);
    assert!(shifted.out.contains("mean C2ST: 0.99") || shifted.out.contains("mean C2ST: 1.0"));
    let wrong = ["--samples-array", "nothing"];
    c2st(&path("a.npz"), &path("c.npz"), &wrong).refused(&["nothing", "log_prob, "]);
    c2st(&path("absent.npz"), &path("a.npz"), &[]).refused(&["absent.npz"]);
}
