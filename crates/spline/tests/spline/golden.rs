//! Every golden spline file: values, log-dets and all gradients, forward and inverse, in both
//! layouts.

use std::path::PathBuf;

use dunnart_spline::{RationalQuadraticSpline, SplineReal, SplineSettings};
use safetensors::SafeTensors;

use crate::common::{Direction, Evaluation, Layout, evaluate, pack};

/// Largest difference in f64, relative to the largest magnitude in each tensor. Rounding alone
/// accounts for about 1e-14; gradients lose a few more digits where the curve is steep.
const F64_BOUND: f64 = 1e-12;

/// In f32 the error against the exact value may be this many times the reference's own.
const F32_FACTOR: f64 = 2.0;

/// Quantiles at which the errors in f32 are compared.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden")
}

/// One entry of the manifest.
struct Case {
    bytes: Vec<u8>,
    settings: SplineSettings,
}

impl Case {
    /// All cases whose number type is `dtype`; fails if a file is missing.
    fn all(dtype: &str) -> Vec<(String, Self)> {
        let manifest = std::fs::read(folder().join("manifest.json")).expect("manifest.json");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        let entries = manifest["spline"]
            .as_array()
            .expect("a list of spline cases");
        let number = |entry: &serde_json::Value, key: &str| entry[key].as_f64().expect("a number");
        let mut cases = Vec::new();
        for entry in entries.iter().filter(|entry| entry["dtype"] == dtype) {
            let file = entry["file"].as_str().expect("a file name").to_owned();
            let bytes = std::fs::read(folder().join(&file)).expect(&file);
            let settings = SplineSettings {
                num_bins: entry["num_bins"].as_u64().expect("a number") as usize,
                tail_bound: number(entry, "tail_bound"),
                min_bin_width: number(entry, "min_bin_width"),
                min_bin_height: number(entry, "min_bin_height"),
                min_derivative: number(entry, "min_derivative"),
            };
            cases.push((file, Self { bytes, settings }));
        }
        assert_eq!(cases.len(), 4, "four spline files of {dtype}");
        cases
    }

    fn tensor<T: SplineReal>(&self, name: &str) -> Vec<T> {
        let file = SafeTensors::deserialize(&self.bytes).expect("safetensors");
        let view = file.tensor(name).expect(name);
        let data = view.data();
        match view.dtype() {
            safetensors::Dtype::F64 => data
                .as_chunks()
                .0
                .iter()
                .map(|bytes| T::from_f64(f64::from_le_bytes(*bytes)))
                .collect(),
            safetensors::Dtype::F32 => data
                .as_chunks()
                .0
                .iter()
                .map(|bytes| T::from_f64(f64::from(f32::from_le_bytes(*bytes))))
                .collect(),
            other => panic!("{name}: expected float32 or float64, got {other:?}"),
        }
    }

    /// The tensor names and what they are compared with.
    fn compared<T: SplineReal>(
        &self,
        direction: Direction,
        layout: Layout,
    ) -> Vec<(String, Vec<T>)> {
        let prefix = direction.name();
        let parameters = pack(
            self.settings.num_bins,
            &self.tensor::<T>("unnormalized_widths"),
            &self.tensor::<T>("unnormalized_heights"),
            &self.tensor::<T>("unnormalized_derivatives"),
        );
        let spline = RationalQuadraticSpline::new(self.settings, 1.0).expect("valid settings");
        let result: Evaluation<T> = evaluate(
            &spline,
            direction,
            layout,
            &self.tensor("x"),
            &parameters,
            &self.tensor(&format!("{prefix}.grad_out_y")),
            &self.tensor(&format!("{prefix}.grad_out_logabsdet")),
        );
        let (widths, heights, derivatives) = result.gradients_by_group(self.settings.num_bins);
        [
            ("y", result.output),
            ("logabsdet", result.log_det),
            ("grad_x", result.by_input),
            ("grad_unnormalized_widths", widths),
            ("grad_unnormalized_heights", heights),
            ("grad_unnormalized_derivatives", derivatives),
        ]
        .into_iter()
        .map(|(name, values)| (format!("{prefix}.{name}"), values))
        .collect()
    }
}

#[test]
fn f64_agrees_with_every_golden_tensor() {
    let mut checked = 0;
    for (file, case) in Case::all("float64") {
        for direction in [Direction::Forward, Direction::Inverse] {
            for layout in [Layout::BinsMajor, Layout::ElementMajor] {
                for (name, actual) in case.compared::<f64>(direction, layout) {
                    let expected = case.tensor::<f64>(&name);
                    assert_eq!(actual.len(), expected.len(), "{file} {name}");
                    let largest = expected.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
                    assert!(largest > 0.0, "{file} {name}: nothing to compare");
                    let bound = F64_BOUND * largest;
                    for (i, (a, e)) in actual.iter().zip(&expected).enumerate() {
                        let difference = (a - e).abs();
                        assert!(
                            difference <= bound,
                            "{file} {name}[{i}]: {a}, expected {e}, differ by {difference:e} > {bound:e}"
                        );
                    }
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 4 * 2 * 2 * 6);
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

fn errors(values: &[f64], exact: &[f64]) -> Vec<f64> {
    let mut errors: Vec<f64> = values
        .iter()
        .zip(exact)
        .map(|(a, e)| (a - e).abs())
        .collect();
    assert!(
        errors.iter().all(|error| error.is_finite()),
        "no value may be NaN"
    );
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn f32_is_as_exact_as_the_reference() {
    let (mut checked, mut misses) = (0, Vec::new());
    for (file, case) in Case::all("float32") {
        for direction in [Direction::Forward, Direction::Inverse] {
            for (name, actual) in case.compared::<f32>(direction, Layout::BinsMajor) {
                let actual: Vec<f64> = actual.into_iter().map(f64::from).collect();
                let exact = case.tensor::<f64>(&format!("exact.{name}"));
                let reference = errors(&case.tensor::<f64>(&name), &exact);
                let ours = errors(&actual, &exact);
                assert_eq!(ours.len(), reference.len());
                for q in QUANTILES {
                    let (error, bound) = (quantile(&ours, q), F32_FACTOR * quantile(&reference, q));
                    println!(
                        "{file} {name} {q}: {error:.2e} of {:.2e}",
                        bound / F32_FACTOR
                    );
                    if error > bound {
                        misses.push(format!("{file} {name} at {q}: {error:e} > {bound:e}"));
                    }
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 4 * 2 * 6 * 3);
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}
