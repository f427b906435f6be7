//! The reference's transforms, stage by stage, from the inputs that it recorded at every stage.
//!
//! `fixtures/dingo/training_batch*.safetensors` hold samples of a real dingo run: two detectors at a step of
//! 0.25 Hz, and three at 0.125 Hz with time proxies.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a failed test")]

use std::collections::BTreeMap;
use std::path::Path;

use dunnart_gw::Prior;
use dunnart_gw::pipeline::{
    CHANNELS, DetectorNetwork, Extrinsic, ExtrinsicPriors, Grid, Spectrum, TimeShifts, add_noise,
    apply_time_shift, project, repackage, standardize, whiten,
};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// A recorded batch.
struct Batch {
    tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
    notes: BTreeMap<String, Value>,
    detectors: &'static [&'static str],
    reference_time: f64,
}

const PLAIN: (&str, &[&str], f64) = (
    "training_batch.safetensors",
    &["H1", "L1"],
    1_126_259_462.391,
);
const PROXIES: (&str, &[&str], f64) = (
    "training_batch_gnpe.safetensors",
    &["H1", "L1", "V1"],
    1_187_008_882.42,
);

impl Batch {
    fn read((name, detectors, reference_time): (&str, &'static [&'static str], f64)) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/dingo")
            .join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let notes = header.metadata().as_ref().unwrap();
        let parse = |(k, v): (&String, &String)| (k.clone(), serde_json::from_str(v).unwrap());
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(key, view)| {
            let data = view.data();
            let values = match view.dtype() {
                Dtype::F32 => {
                    let numbers = data.as_chunks::<4>().0.iter();
                    numbers.map(|b| f64::from(f32::from_le_bytes(*b))).collect()
                }
                Dtype::F64 => {
                    let numbers = data.as_chunks::<8>().0.iter();
                    numbers.map(|b| f64::from_le_bytes(*b)).collect()
                }
                other => panic!("{key}: {other:?}"),
            };
            (key, (view.shape().to_vec(), values))
        });
        Self {
            tensors: tensors.collect(),
            notes: notes.iter().map(parse).collect(),
            detectors,
            reference_time,
        }
    }

    fn rows(&self) -> usize {
        self.tensor("extrinsic.ra").0[0]
    }

    fn tensor(&self, key: &str) -> &(Vec<usize>, Vec<f64>) {
        self.tensors
            .get(key)
            .unwrap_or_else(|| panic!("no tensor `{key}`"))
    }

    fn row(&self, key: &str, row: usize) -> &[f64] {
        let (shape, values) = self.tensor(key);
        let width: usize = shape[1..].iter().product();
        &values[row * width..(row + 1) * width]
    }

    fn number(&self, key: &str, row: usize) -> f64 {
        self.row(key, row)[0]
    }

    fn spectrum(&self, prefix: &str, row: usize) -> Spectrum {
        Spectrum {
            re: self.row(&format!("{prefix}.real"), row).to_vec(),
            im: self.row(&format!("{prefix}.imag"), row).to_vec(),
        }
    }

    fn extrinsic(&self, row: usize) -> Extrinsic {
        Extrinsic::from_values(
            Extrinsic::NAMES.map(|name| self.number(&format!("extrinsic.{name}"), row)),
        )
    }

    fn grid(&self) -> Grid {
        let domain = &self.notes["domain"];
        let grid = Grid::uniform(
            domain["delta_f"].as_f64().unwrap(),
            domain["max_idx"].as_u64().unwrap() as usize + 1,
            domain["min_idx"].as_u64().unwrap() as usize,
        );
        grid.unwrap()
    }

    fn shifts(&self) -> Option<TimeShifts> {
        let settings = &self.notes.get("settings")?["gnpe_time_shifts"];
        let exact = settings["exact_equiv"].as_bool().unwrap();
        Some(TimeShifts::new(settings["kernel"].as_str().unwrap(), exact).unwrap())
    }

    /// The time a detector's strain is shifted to, as recorded.
    fn time(&self, detector: &str, row: usize) -> f64 {
        let stage = if self.shifts().is_some() {
            "gnpe"
        } else {
            "detector_times"
        };
        self.number(&format!("{stage}.{detector}_time"), row)
    }
}

/// The largest difference over the largest expected magnitude.
fn relative(computed: impl IntoIterator<Item = f64>, expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let mut count = 0;
    let differences = computed.into_iter().zip(expected).map(|(a, b)| {
        count += 1;
        // NaN must not pass as smaller than any bound.
        let difference = (a - b).abs();
        if difference.is_nan() {
            f64::INFINITY
        } else {
            difference
        }
    });
    let worst = differences.fold(0.0, f64::max) / largest;
    assert_eq!(count, expected.len());
    worst
}

fn both() -> [Batch; 2] {
    [Batch::read(PLAIN), Batch::read(PROXIES)]
}

/// The reference stores times in single precision, of up to 0.13 s: half a unit there is 7.5e-9.
#[test]
fn detector_times() {
    for batch in both() {
        let network = DetectorNetwork::new(batch.detectors, batch.reference_time).unwrap();
        for row in 0..batch.rows() {
            let sky = network.see(&batch.extrinsic(row));
            for (time, name) in sky.times.iter().zip(batch.detectors) {
                let recorded = batch.number(&format!("detector_times.{name}_time"), row);
                assert!(
                    (time - recorded).abs() < 7.5e-9,
                    "{name} {row}: {time} {recorded}"
                );
            }
        }
    }
}

/// From recorded times and proxies: the blur is their difference.
#[test]
fn time_proxies() {
    let batch = Batch::read(PROXIES);
    let shifts = batch.shifts().unwrap();
    assert_eq!(
        shifts.kernel,
        Prior::Uniform {
            minimum: -1e-3,
            maximum: 1e-3
        }
    );
    for row in 0..batch.rows() {
        let recorded = |key: String| batch.number(&key, row);
        let times: Vec<f64> = batch
            .detectors
            .iter()
            .map(|name| recorded(format!("detector_times.{name}_time")))
            .collect();
        let proxies = batch
            .detectors
            .iter()
            .map(|name| recorded(format!("gnpe.{name}_time_proxy")));
        let blurs: Vec<f64> = proxies.clone().zip(&times).map(|(p, t)| p - t).collect();
        assert!(blurs.iter().all(|blur| blur.abs() < 1e-3 + 1e-8));
        let shifted = shifts.apply(&times, recorded("extrinsic.geocent_time".into()), &blurs);
        // Single precision again: the recorded differences are rounded like the times.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 7.5e-9, "{a} {b}");
        for (i, name) in batch.detectors.iter().enumerate() {
            close(shifted.times[i], recorded(format!("gnpe.{name}_time")));
        }
        close(shifted.geocent_time, recorded("gnpe.geocent_time".into()));
        let names = shifts.names(batch.detectors);
        assert_eq!(names, ["L1_time_proxy_relative", "V1_time_proxy_relative"]);
        for (value, name) in shifted.context.iter().zip(&names) {
            close(*value, recorded(format!("gnpe.{name}")));
        }
    }
}

/// The reference rounds strains to single precision on the way: 3e-6 of the largest value.
#[test]
fn projected_strain() {
    for batch in both() {
        let network = DetectorNetwork::new(batch.detectors, batch.reference_time).unwrap();
        let frequencies = batch.grid().frequencies();
        for row in 0..batch.rows() {
            let source = batch.extrinsic(row);
            let ratio =
                batch.number("in.parameters.luminosity_distance", row) / source.luminosity_distance;
            let (plus, cross) = (
                batch.spectrum("in.h_plus", row),
                batch.spectrum("in.h_cross", row),
            );
            let sky = network.see(&source);
            for (name, antenna) in batch.detectors.iter().zip(sky.antennas) {
                let mut strain = project(&plus, &cross, antenna, ratio);
                apply_time_shift(&mut strain, &frequencies, batch.time(name, row));
                let expected = batch.spectrum(&format!("projected.{name}"), row);
                let error =
                    relative(strain.re, &expected.re).max(relative(strain.im, &expected.im));
                assert!(error < 3e-6, "{name} {row}: {error:e}");
            }
        }
    }
}

#[test]
fn whitened_strain() {
    for batch in both() {
        let grid = batch.grid();
        assert_eq!(
            grid.noise_std()[0],
            batch.notes["domain"]["noise_std"].as_f64().unwrap()
        );
        for row in 0..batch.rows() {
            for name in batch.detectors {
                let mut strain = batch.spectrum(&format!("projected.{name}"), row);
                whiten(
                    &mut strain,
                    batch.row(&format!("asd.{name}"), row),
                    grid.noise_std(),
                );
                let expected = batch.spectrum(&format!("whitened.{name}"), row);
                let error =
                    relative(strain.re, &expected.re).max(relative(strain.im, &expected.im));
                assert!(error < 1e-12, "{name} {row}: {error:e}");
            }
        }
    }
}

/// Noise added as recorded, then the rows of the network's input, in single precision.
#[test]
fn network_input() {
    for batch in both() {
        let grid = batch.grid();
        let size = CHANNELS * grid.kept();
        for row in 0..batch.rows() {
            let expected = batch.row("out.strain", row);
            assert_eq!(expected.len(), batch.detectors.len() * size);
            for (name, expected) in batch.detectors.iter().zip(expected.chunks(size)) {
                let mut strain = batch.spectrum(&format!("whitened.{name}"), row);
                add_noise(&mut strain, &batch.spectrum(&format!("noise.{name}"), row));
                let mut output = vec![f32::NAN; size];
                let asd = batch.row(&format!("asd.{name}"), row);
                repackage(&strain, asd, grid.first(), &mut output);
                for channel in 0..CHANNELS {
                    let range = channel * grid.kept()..(channel + 1) * grid.kept();
                    let values = output[range.clone()].iter().map(|&x| f64::from(x));
                    let error = relative(values, &expected[range]);
                    assert!(error < 1e-6, "{name} {row} {channel}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn standardized_parameters() {
    for batch in both() {
        let moment = |which: &str, name: &str| {
            batch.notes["standardization"][which][name]
                .as_f64()
                .unwrap()
        };
        let value = |name: &str, row: usize| {
            ["gnpe", "extrinsic", "in.parameters"]
                .iter()
                .find_map(|stage| {
                    let key = format!("{stage}.{name}");
                    batch
                        .tensors
                        .contains_key(&key)
                        .then(|| batch.number(&key, row))
                })
                .unwrap()
        };
        for (key, output) in [
            ("inference_parameters", "out.inference_parameters"),
            ("context_parameters", "out.context_parameters"),
        ] {
            let Some(names) = batch.notes.get(key) else {
                continue;
            };
            for row in 0..batch.rows() {
                let names = names
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|name| name.as_str().unwrap());
                let values = names.map(|name| {
                    let standardized =
                        standardize(value(name, row), moment("mean", name), moment("std", name));
                    f64::from(standardized)
                });
                let error = relative(values, batch.row(output, row));
                assert!(error < 1e-6, "{key} {row}: {error:e}");
            }
        }
    }
}

/// Analytic moments of the extrinsic priors are the ones that dingo stored, bit for bit or to the last digit.
#[test]
fn stored_moments_of_the_extrinsic_priors() {
    let batch = Batch::read(PROXIES);
    let settings = batch.notes["settings"]["extrinsic_prior"]
        .as_object()
        .unwrap();
    let priors = ExtrinsicPriors::from_settings(settings).unwrap();
    for name in Extrinsic::NAMES {
        let stored = |which: &str| {
            batch.notes["standardization"][which][name]
                .as_f64()
                .unwrap()
        };
        let moments = priors.prior(name).unwrap().moments();
        // dingo estimates the power law's from 50,000 draws, and so do we: five standard errors of each.
        let (mean, std) = if name == "luminosity_distance" {
            (6.0, 6.0)
        } else {
            (1e-15, 1e-15)
        };
        assert!((moments.mean - stored("mean")).abs() <= mean, "{name}");
        assert!((moments.std - stored("std")).abs() <= std, "{name}");
    }
}
