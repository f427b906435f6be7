//! `sample` for networks that are no plain conditional flow: an embedding with context parameters, no context at all.

use std::path::{Path, PathBuf};

use dunnart_checkpoint::{Metadata, Model, ParameterMetadata, Rounding, Scale, Standardization};
use dunnart_data::ArrayFile;
use dunnart_files::WriteOptions;
use dunnart_flow::Architecture;
use dunnart_flow::plan::Sampler;
use dunnart_tests::{Outcome, dunnart};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use crate::model::far_from_its_start;

/// A folder with a checkpoint.
pub(crate) struct Kind {
    folder: tempfile::TempDir,
    /// The checkpoint.
    pub(crate) checkpoint: PathBuf,
}

/// Values of an observation of [`embedded`].
const STRAIN: usize = 2 * 3 * 5;

fn scale(mean: f64, std: f64, count: usize) -> Scale {
    Scale {
        mean: vec![mean; count],
        std: vec![std; count],
    }
}

fn theta_scale() -> Scale {
    Scale {
        mean: vec![10.0, -3.0],
        std: vec![2.0, 0.25],
    }
}

/// Two detectors, a reduced basis of three and two context parameters.
pub(crate) fn embedded() -> Kind {
    let settings = json!({
        "posterior_kwargs": {
            "input_dim": 2, "context_dim": 6, "num_flow_steps": 2,
            "base_transform_kwargs": {
                "hidden_dim": 8, "num_transform_blocks": 1, "activation": "elu", "num_bins": 4,
                "tail_bound": 3.0, "norm": "BatchNorm", "base_transform_type": "rq-coupling",
            }
        },
        "embedding_kwargs": {
            "input_dims": [2, 3, 5], "output_dim": 4, "hidden_dims": [6], "svd": {"size": 3},
            "activation": "elu", "norm": "BatchNorm", "added_context": true,
        }
    });
    Kind::new(
        &settings,
        Standardization {
            theta: theta_scale(),
            observation: Some(scale(0.5, 2.0, STRAIN)),
            context_parameters: Some(scale(-1.0, 0.5, 2)),
        },
    )
}

/// A flow without context.
fn unconditional() -> Kind {
    let settings = json!({"posterior_kwargs": {
        "input_dim": 2, "num_flow_steps": 2,
        "base_transform_kwargs": {
            "hidden_dim": 8, "num_transform_blocks": 1, "activation": "elu", "num_bins": 4,
            "tail_bound": 3.0, "base_transform_type": "rq-coupling",
        }
    }});
    Kind::new(
        &settings,
        Standardization {
            theta: theta_scale(),
            observation: None,
            context_parameters: None,
        },
    )
}

impl Kind {
    fn new(settings: &Value, standardization: Standardization) -> Self {
        let architecture = Architecture::from_json(settings).unwrap();
        let (layout, state) = far_from_its_start(&architecture);
        let mut metadata = Metadata::new(&architecture);
        metadata.parameters = ["mass", "distance"]
            .map(|name| ParameterMetadata {
                name: name.into(),
                lower: None,
                upper: None,
            })
            .into();
        metadata.standardization = Some(standardization);
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path().join("model.safetensors");
        let model = Model::new(metadata, &layout, &state).unwrap();
        model.write(&checkpoint, &WriteOptions::default()).unwrap();
        Self { folder, checkpoint }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes arrays of rows, `(name, columns, values)`.
    fn arrays(&self, name: &str, arrays: &[(&str, usize, &[f64])]) -> PathBuf {
        let bytes: Vec<Vec<u8>> = arrays
            .iter()
            .map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect())
            .collect();
        let views = arrays
            .iter()
            .zip(&bytes)
            .map(|((name, columns, values), bytes)| {
                let shape = vec![values.len() / columns, *columns];
                (*name, TensorView::new(Dtype::F64, shape, bytes).unwrap())
            });
        let path = self.path(name);
        std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        path
    }

    fn sample(&self, out: &Path, options: &[&str]) -> Outcome {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut arguments = vec![
            "sample".into(),
            "--checkpoint".into(),
            text(&self.checkpoint),
            "--out".into(),
            text(out),
        ];
        arguments.extend(options.iter().map(|o| o.to_string()));
        dunnart(arguments)
    }

    /// Log-density in physical units, in float64.
    fn log_prob(&self, observation: &[f64], context_parameters: &[f64], theta: &[f64]) -> Vec<f64> {
        let model = Model::read(&self.checkpoint).unwrap();
        let network = model.network::<f64>(Rounding::Refuse).unwrap();
        let sampler = Sampler::new(&network.architecture, &network.layout, &network.state).unwrap();
        let observation: Vec<f64> = observation.iter().map(|v| (v - 0.5) / 2.0).collect();
        let more: Vec<f64> = context_parameters.iter().map(|v| (v + 1.0) / 0.5).collect();
        let context = sampler.embed(&observation, &more).unwrap();
        let prepared = sampler.prepare(&context).unwrap();
        let Scale { mean, std } = theta_scale();
        let standard: Vec<f64> = theta
            .iter()
            .enumerate()
            .map(|(i, v)| (v - mean[i % 2]) / std[i % 2])
            .collect();
        let mut log_prob = vec![0.0; theta.len() / 2];
        prepared.log_prob(&standard, &mut log_prob, None).unwrap();
        let log_det: f64 = std.iter().map(|s| s.ln()).sum();
        log_prob.iter().map(|v| v - log_det).collect()
    }
}

fn read(path: &Path, name: &str) -> Vec<f64> {
    let mut file = ArrayFile::open(path).unwrap();
    file.read(name).unwrap().values.to_vec()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
}

#[test]
fn context_parameters_are_standardised_and_appended() {
    let kind = embedded();
    let strain: Vec<f64> = (0..2 * STRAIN).map(|i| (i as f64 * 0.7).sin()).collect();
    let context = [-0.5, -1.5, 0.25, -2.0];
    let file = |name: &str, context: &[f64]| {
        let arrays: [(&str, usize, &[f64]); 2] = [
            ("observation", STRAIN, &strain),
            ("context_parameters", 2, context),
        ];
        kind.arrays(name, &arrays)
    };
    let draw = |name: &str, observations: &Path| {
        let out = kind.path(name);
        let observations = observations.to_str().unwrap();
        let options = [
            "--observations",
            observations,
            "--num-samples",
            "200",
            "--float64",
        ];
        kind.sample(&out, &options).good();
        (read(&out, "samples"), read(&out, "log_prob"))
    };
    let (samples, log_prob) = draw("s.npz", &file("o.safetensors", &context));
    for row in 0..2 {
        let observation = &strain[row * STRAIN..][..STRAIN];
        let context = &context[2 * row..][..2];
        let expected = kind.log_prob(observation, context, &samples[400 * row..][..400]);
        assert_close(&log_prob[200 * row..][..200], &expected);
    }
    // The same strain under other context parameters has another posterior.
    let mut changed = context;
    changed[3] = 1.0;
    let (other, _) = draw("t.npz", &file("p.safetensors", &changed));
    assert_eq!(other[..400], samples[..400]);
    assert_ne!(other[400..], samples[400..]);
}

#[test]
fn context_parameters_that_do_not_fit_are_named() {
    let kind = embedded();
    let out = kind.path("s.npz");
    let strain = [0.5; 2 * STRAIN];
    let refused = |name: &str, arrays: &[(&str, usize, &[f64])], texts: &[&str]| {
        let path = kind.arrays(name, arrays);
        let options = [
            "--observations",
            path.to_str().unwrap(),
            "--num-samples",
            "2",
        ];
        kind.sample(&out, &options)
            .refused(&[&[name][..], texts].concat());
        assert!(!out.exists());
    };
    let observation: (&str, usize, &[f64]) = ("observation", STRAIN, &strain);
    refused(
        "none.safetensors",
        &[observation],
        &["no array `context_parameters`"],
    );
    refused(
        "few.safetensors",
        &[observation, ("context_parameters", 2, &[1.0, 2.0])],
        &["2 observations, but context parameters for 1"],
    );
    refused(
        "wide.safetensors",
        &[observation, ("context_parameters", 3, &[1.0; 6])],
        &["`context_parameters`: expected shape [observations, 2]"],
    );
    refused(
        "nan.safetensors",
        &[
            observation,
            ("context_parameters", 2, &[1.0, 2.0, f64::NAN, 1.0]),
        ],
        &["context_parameters", "not finite"],
    );
}

#[test]
fn a_network_without_context_is_sampled_without_observations() {
    let kind = unconditional();
    let out = kind.path("s.safetensors");
    kind.sample(&out, &["--num-samples", "300", "--float64"])
        .good();
    let (samples, log_prob) = (read(&out, "samples"), read(&out, "log_prob"));
    assert_eq!((samples.len(), log_prob.len()), (600, 300));
    assert_close(&log_prob, &kind.log_prob(&[], &[], &samples));
    let again = kind.path("t.safetensors");
    let options = ["--num-samples", "300", "--float64", "--seed", "1"];
    kind.sample(&again, &options).good();
    assert_ne!(read(&again, "samples"), samples);
    // An observation would be ignored, so that it is refused.
    let path = kind.path("o.csv");
    std::fs::write(&path, "1,2\n").unwrap();
    let options = [
        "--num-samples",
        "3",
        "--observations",
        path.to_str().unwrap(),
    ];
    kind.sample(&again, &options)
        .refused(&["--observations", "the network has no context"]);
    embedded()
        .sample(&out, &["--num-samples", "3"])
        .refused(&["--observations is missing", "expects 30 values"]);
}
