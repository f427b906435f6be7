//! The test against the numbers the benchmark's own classifier gives for eight pairs of sample
//! sets.
//!
//! The benchmark ran three seeds a pair and so do we where its classifier scatters: with noise of a
//! tenth of a deviation the three published runs already differ by 0.13. Elsewhere one run agrees
//! within 0.02.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

use dunnart_data::ArrayFile;
use dunnart_diagnostics::{Pair, c2st};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/c2st");

fn published(pair: &str) -> f64 {
    let text = std::fs::read_to_string(format!("{FOLDER}/pairs.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["pairs"][pair]["c2st_mean"].as_f64().unwrap()
}

fn compare(pair: &str, seeds: u64, bound: f64) {
    let mut file = ArrayFile::open(format!("{FOLDER}/pairs.npz")).unwrap();
    let mut read = |side: &str| file.read(&format!("{pair}.{side}")).unwrap();
    let (reference, samples) = (read("reference"), read("samples"));
    let dimension = reference.shape[1];
    let (reference, samples) = (reference.values.to_vec::<f32>(), samples.values.to_vec());
    let runs: Vec<f64> = (0..seeds)
        .map(|seed| {
            let pair = Pair {
                reference: &reference,
                samples: &samples,
                dimension,
            };
            c2st(pair, seed).unwrap().accuracy
        })
        .collect();
    let mean = runs.iter().sum::<f64>() / seeds as f64;
    let expected = published(pair);
    println!("{pair}: {mean:.4} {runs:.4?}, published {expected}, bound {bound}");
    assert!(
        (mean - expected).abs() <= bound,
        "{pair}: {runs:?}, published {expected} +- {bound}"
    );
}

const CLEAR: f64 = 0.02;
const SCATTERED: f64 = 0.08;

#[test]
fn two_moons_same_distribution() {
    compare("two_moons.same_distribution", 1, CLEAR);
}

#[test]
fn two_moons_gaussian_fit() {
    compare("two_moons.gaussian_fit", 1, CLEAR);
}

#[test]
fn two_moons_a_tenth_of_a_deviation() {
    compare("two_moons.noise_0.1_sd", 3, SCATTERED);
}

#[test]
fn two_moons_a_third_of_a_deviation() {
    compare("two_moons.noise_0.3_sd", 1, CLEAR);
}

#[test]
fn slcp_same_distribution() {
    compare("slcp.same_distribution", 1, CLEAR);
}

#[test]
fn slcp_gaussian_fit() {
    compare("slcp.gaussian_fit", 1, CLEAR);
}

#[test]
fn slcp_a_third_of_a_deviation() {
    compare("slcp.noise_0.3_sd", 1, CLEAR);
}

#[test]
#[ignore = "slow: three runs of the pair that takes longest"]
fn slcp_a_tenth_of_a_deviation() {
    compare("slcp.noise_0.1_sd", 3, SCATTERED);
}

#[test]
#[ignore = "slow: three runs of every pair"]
fn every_pair_with_three_seeds() {
    for task in ["two_moons", "slcp"] {
        for kind in ["same_distribution", "gaussian_fit", "noise_0.3_sd"] {
            compare(&format!("{task}.{kind}"), 3, CLEAR);
        }
    }
}
