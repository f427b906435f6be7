use serde_json::json;

use super::*;

/// dingo's example for strains, shortened, with the spellings its users write.
const WAVEFORMS: &str = "
data:
  waveform_dataset_path: waveform_dataset.hdf5
  train_fraction: 0.95
  domain_update: {f_min: 20.0, f_max: 512.0}
  svd_size_update: 48
  detectors: [H1, L1]
  extrinsic_prior:
    dec: default
    luminosity_distance: bilby.core.prior.Uniform(minimum=100.0, maximum=1000.0, name='luminosity_distance')
    ra: 1.5
  ref_time: 1126259462.391
  gnpe_time_shifts: {kernel: 'Uniform(minimum=-0.001, maximum=0.001)', exact_equiv: True}
  inference_parameters: [chirp_mass, mass_ratio]
model:
  posterior_model_type: Normalizing_Flow
  posterior_kwargs:
    num_flow_steps: 5
    base_transform_kwargs:
      hidden_dim: 64
      activation: ELU
      batch_norm: True
      base_transform_type: rq-coupling
  embedding_kwargs:
    output_dim: 32
    hidden_dims: [128, 64, 32]
    batch_norm: 'true'
    svd: {num_training_samples: 1000, num_validation_samples: 100, size: 20}
training:
  stage_0:
    epochs: 40
    asd_dataset_path: asds_fiducial.hdf5
    freeze_rb_layer: True
    optimizer: {type: Adam, lr: 1e-4}
    scheduler: {type: cosine, T_max: 40}
    batch_size: 64
  stage_1:
    epochs: 20
    asd_dataset_path: asds.hdf5
    freeze_rb_layer: no
    optimizer: {type: AdamW, lr: 1.0e-5, betas: [0.8, 0.99], weight_decay: 0.005, fused: yes}
    scheduler: {type: reduce_on_plateau, factor: 0.5, patience: 10}
    batch_size: 8_192
    gradient_updates_per_optimizer_step: 2
    automatic_mixed_precision: True
    early_stopping: {patience: 30}
local:
  device: cuda
  num_workers: 32
  runtime_limits: {max_time_per_run: 3_600_000, max_epochs_per_run: 500}
  checkpoint_epochs: 50
";

const SIMULATIONS: &str = "
data: {simulations: two_moons.npz}
model: {posterior_kwargs: {num_flow_steps: 3}}
training: {stage_0: {epochs: 2, batch_size: 16, optimizer: {type: adam}}}
";

fn simulations() -> Value {
    yaml::parse(SIMULATIONS).unwrap()
}

/// The simulation settings with one value put at a path.
fn with(path: &str, value: Value) -> Value {
    let mut tree = simulations();
    let mut at = &mut tree;
    for key in path.split('.') {
        if at.is_null() {
            *at = json!({});
        }
        at = at
            .as_object_mut()
            .unwrap()
            .entry(key)
            .or_insert(Value::Null);
    }
    *at = value;
    tree
}

fn read_with(path: &str, value: Value) -> Result<(Settings, Vec<Warning>)> {
    Settings::from_value(&with(path, value))
}

fn message(path: &str, value: Value) -> String {
    read_with(path, value).unwrap_err().to_string()
}

#[test]
fn reads_a_file_of_dingo() {
    let (settings, warnings) = Settings::from_yaml(WAVEFORMS).unwrap();
    assert_eq!(warnings, []);
    let DataSettings::Waveforms(data) = &settings.data else {
        panic!("expected waveforms");
    };
    assert_eq!(data.detectors, ["H1", "L1"]);
    assert_eq!(data.extrinsic_prior["ra"], json!(1.5));
    assert!(data.gnpe_time_shifts.as_ref().unwrap().exact_equiv);
    let [first, second] = settings.training.stages.as_slice() else {
        panic!("expected two stages");
    };
    assert_eq!(first.freeze_rb_layer, Some(true));
    assert_eq!(first.optimizer.lr(), 1e-4);
    assert_eq!(
        first.scheduler,
        SchedulerSettings::Cosine {
            t_max: 40,
            eta_min: 0.0
        }
    );
    assert_eq!(second.freeze_rb_layer, Some(false));
    assert_eq!(second.batch_size, 8192);
    assert_eq!(second.early_stopping.unwrap().patience, 30);
    assert_eq!(
        second.optimizer,
        OptimizerSettings::AdamW(AdamSettings {
            lr: 1e-5,
            betas: [0.8, 0.99],
            eps: 1e-8,
            weight_decay: 0.005,
            fused: true
        })
    );
    let embedding = settings.model.embedding_kwargs.as_ref().unwrap();
    assert_eq!(embedding.norm, Some(dunnart_flow::Norm::BatchNorm));
    assert_eq!(settings.local.device, Device::Cuda(0));
    assert_eq!(settings.local.runtime_limits.max_time_per_run, Some(3.6e6));
}

#[test]
fn what_is_written_reads_back_as_it_was() {
    for text in [WAVEFORMS, SIMULATIONS] {
        let (settings, _) = Settings::from_yaml(text).unwrap();
        let tree = settings.to_value().unwrap();
        assert_eq!(
            Settings::from_value(&tree).unwrap(),
            (settings.clone(), Vec::new())
        );
        let text = to_yaml(&tree);
        assert_eq!(
            Settings::from_yaml(&text).unwrap(),
            (settings, Vec::new()),
            "{text}"
        );
    }
}

#[test]
fn every_default_is_the_documented_one() {
    let (settings, warnings) = Settings::from_value(&simulations()).unwrap();
    assert_eq!(warnings, []);
    let expected = json!({
        "data": {
            "simulations": "two_moons.npz", "parameters": "theta", "observations": "x",
            "train_fraction": 0.95, "drop_nonfinite": false, "max_dropped_fraction": 0.1,
        },
        "model": {
            "posterior_model_type": "normalizing_flow",
            "posterior_kwargs": {
                "num_flow_steps": 3,
                "base_transform_kwargs": {
                    "hidden_dim": 512, "num_transform_blocks": 2, "activation": "relu",
                    "dropout_probability": 0.0, "norm": null, "num_bins": 8, "tail_bound": 1.0,
                    "apply_unconditional_transform": false, "base_transform_type": "rq-coupling",
                },
            },
        },
        "training": {"stage_0": {
            "epochs": 2,
            "optimizer": {
                "type": "adam", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8,
                "weight_decay": 0.0, "fused": false,
            },
            "scheduler": {"type": "none"},
            "batch_size": 16, "gradient_updates_per_optimizer_step": 1,
            "automatic_mixed_precision": false,
        }},
        "local": {
            "device": "cpu", "num_gpus": 1, "num_workers": 0, "seed": 0, "torch_compile": true,
            "float32_matmul_precision": "highest", "runtime_limits": {},
            "leave_waveforms_on_disk": true, "ddp_port": 12355, "test_only": false,
        },
    });
    assert_eq!(settings.to_value().unwrap(), expected);
}

#[test]
fn defaults_of_every_optimizer_are_torchs() {
    let tree = |kind: &str| {
        let value = with("training.stage_0.optimizer", json!({"type": kind}));
        let (settings, _) = Settings::from_value(&value).unwrap();
        serde_json::to_value(settings.training.stages[0].optimizer).unwrap()
    };
    assert_eq!(
        tree("ADAMW"),
        json!({"type": "adamw", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8,
               "weight_decay": 0.01, "fused": false})
    );
    assert_eq!(
        tree("SGD"),
        json!({"type": "sgd", "lr": 0.001, "momentum": 0.0, "dampening": 0.0,
               "weight_decay": 0.0, "nesterov": false, "fused": false})
    );
    assert_eq!(
        tree("Adagrad"),
        json!({"type": "adagrad", "lr": 0.01, "lr_decay": 0.0, "weight_decay": 0.0,
               "initial_accumulator_value": 0.0, "eps": 1e-10, "fused": false})
    );
}

#[test]
fn defaults_of_every_scheduler_are_torchs() {
    let tree = |value: Value| {
        let value = with("training.stage_0.scheduler", value);
        let (settings, _) = Settings::from_value(&value).unwrap();
        serde_json::to_value(settings.training.stages[0].scheduler).unwrap()
    };
    for none in [
        json!(null),
        json!("None"),
        json!("none"),
        json!({"type": "none"}),
    ] {
        assert_eq!(tree(none), json!({"type": "none"}));
    }
    assert_eq!(
        tree(json!({"type": "step", "step_size": 3})),
        json!({"type": "step", "step_size": 3, "gamma": 0.1})
    );
    assert_eq!(
        tree(json!({"type": "Cosine", "T_max": 3})),
        json!({"type": "cosine", "T_max": 3, "eta_min": 0.0})
    );
    assert_eq!(
        tree(json!({"type": "reduce_on_plateau", "mode": "min"})),
        json!({"type": "reduce_on_plateau", "factor": 0.1, "patience": 10, "threshold": 1e-4,
               "threshold_mode": "rel", "cooldown": 0, "min_lr": 0.0, "eps": 1e-8})
    );
}

#[test]
fn unknown_arguments_are_errors_with_the_nearest_known_one() {
    assert_eq!(
        message("training.stage_0.optimizer.lrr", json!(0.1)),
        "setting `training.stage_0.optimizer.lrr` is unknown: did you mean `lr`?"
    );
    assert_eq!(
        message(
            "training.stage_0.scheduler",
            json!({"type": "cosine", "Tmax": 3})
        ),
        "setting `training.stage_0.scheduler.T_max` is missing: expected a number of epochs"
    );
    assert_eq!(
        message("training.stage_0.early_stopping.patence", json!(3)),
        "setting `training.stage_0.early_stopping.patence` is unknown: did you mean `patience`?"
    );
    assert_eq!(
        message(
            "model.posterior_kwargs.base_transform_kwargs.tailbound",
            json!(3)
        ),
        "setting `model.posterior_kwargs.base_transform_kwargs.tailbound` is unknown: \
         did you mean `tail_bound`?"
    );
    assert_eq!(
        message("data.drop_nonfinte", json!(true)),
        "setting `data.drop_nonfinte` is unknown: did you mean `drop_nonfinite`?"
    );
}

#[test]
fn other_unknown_keys_are_warnings() {
    let told = |path: &str| {
        let (_, warnings) = read_with(path, json!(1)).unwrap();
        warnings.iter().map(Warning::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told("training.stage_0.clip_grad_nrom"),
        [
            "setting `training.stage_0.clip_grad_nrom`: unknown, ignored; did you mean \
          `clip_grad_norm`?"
        ]
    );
    assert_eq!(
        told("locals"),
        ["setting `locals`: unknown, ignored; did you mean `local`?"]
    );
    assert_eq!(
        told("training.evaluate"),
        ["setting `training.evaluate`: unknown, ignored; expected stage_0, stage_1, ..."]
    );
    assert!(told("local.use_wandb")[0].starts_with("setting `local.use_wandb`: unknown, ignored;"));
}

#[test]
fn stages_after_a_gap_are_reported_as_unused() {
    let stage = json!({"epochs": 1, "batch_size": 2, "optimizer": {"type": "sgd"}});
    let (settings, warnings) = read_with("training.stage_2", stage.clone()).unwrap();
    assert_eq!(settings.training.stages.len(), 1);
    assert_eq!(warnings[0].name, "training.stage_2");
    assert!(
        warnings[0].message.contains("there is no stage_1"),
        "{}",
        warnings[0]
    );
    let error = message("training", json!({"stage_1": stage}));
    assert_eq!(
        error,
        "setting `training.stage_0` is missing: expected a stage; `training` has [stage_1]"
    );
}

#[test]
fn wrong_values_name_setting_expected_and_found() {
    let stage = "training.stage_0";
    for (path, value, expected) in [
        (
            format!("{stage}.epochs"),
            json!(0),
            "expected a whole number of at least 1, got 0",
        ),
        (
            format!("{stage}.batch_size"),
            json!("8"),
            "expected a whole number of at least 1, got the text `8`",
        ),
        (
            format!("{stage}.batch_size"),
            json!(1.5),
            "expected a whole number of at least 1, got 1.5",
        ),
        (
            format!("{stage}.optimizer.lr"),
            json!(-1),
            "expected a number of at least 0, got -1",
        ),
        (
            format!("{stage}.optimizer.betas"),
            json!([0.9, 1.0]),
            "betas[1]`: expected a number of at least 0 and below 1, got 1.0",
        ),
        (
            format!("{stage}.optimizer.type"),
            json!("adm"),
            "expected one of adam, adamw, sgd, adagrad (did you mean `adam`?), got the text `adm`",
        ),
        (
            format!("{stage}.optimizer.type"),
            json!("RMSprop"),
            "is not supported: use adam, adamw, sgd or adagrad",
        ),
        (
            format!("{stage}.optimizer.type"),
            json!("lbfgs"),
            "is not supported: use adam, adamw, sgd or adagrad",
        ),
        (
            format!("{stage}.optimizer.amsgrad"),
            json!(true),
            "is not supported",
        ),
        (
            format!("{stage}.optimizer.maximize"),
            json!(true),
            "is not supported",
        ),
        (
            format!("{stage}.scheduler"),
            json!({"type": "step", "step_size": 0}),
            "step_size`: expected a whole number of at least 1, got 0",
        ),
        (
            format!("{stage}.scheduler"),
            json!({"type": "reduce_on_plateau", "factor": 1}),
            "expected a number above 0 and below 1, got 1",
        ),
        (
            format!("{stage}.scheduler"),
            json!({"type": "reduce_on_plateau", "mode": "max"}),
            "use min",
        ),
        (
            format!("{stage}.scheduler"),
            json!("cosine"),
            "scheduler`: expected a mapping of settings, got the text `cosine`",
        ),
        (
            format!("{stage}.clip_grad_norm"),
            json!(0),
            "expected a number above 0, got 0",
        ),
        (
            format!("{stage}.early_stopping.metric"),
            json!("loss"),
            "expected one of validation, training, got the text `loss`",
        ),
        (
            format!("{stage}.freeze_rb_layer"),
            json!("maybe"),
            "expected true or false",
        ),
        (
            "data.train_fraction".into(),
            json!(1.0),
            "expected a number above 0 and below 1, got 1.0",
        ),
        (
            "data.bounds".into(),
            json!({"low": [0, 1], "high": [1, 1]}),
            "`data.bounds.high[1]`: expected more than the lower end 1, got 1",
        ),
        (
            "data.bounds".into(),
            json!({"low": [0, 1], "high": [1]}),
            "`data.bounds.high`: expected 2 numbers, one per parameter, got 1 numbers",
        ),
        (
            "data.bounds".into(),
            json!({"low": 0}),
            "`data.bounds.high` is missing",
        ),
        (
            "data.parameter_names".into(),
            json!(["a", "a"]),
            "expected different names, got `a` twice",
        ),
        (
            "data.waveform_dataset_path".into(),
            json!("x.hdf5"),
            "exclude each other",
        ),
        (
            "model.posterior_model_type".into(),
            json!("flow_matching"),
            "only normalizing_flow is trained",
        ),
        (
            "model.embedding_type".into(),
            json!("transformer"),
            "only resnet embeddings are trained",
        ),
        (
            "local.device".into(),
            json!("tpu"),
            "expected cpu, cuda or cuda:N, got the text `tpu`",
        ),
        (
            "local.float32_matmul_precision".into(),
            json!("low"),
            "expected one of highest, high, medium",
        ),
        (
            "local.torch_compile".into(),
            json!("maybe"),
            "expected true, false or require",
        ),
        (
            "local.compile".into(),
            json!(3),
            "expected true, false or require",
        ),
        (
            "local.seed".into(),
            json!(-1),
            "expected a whole number from 0 to 2^64 - 1, got -1",
        ),
        (
            "local.checkpoint_epochs".into(),
            json!(0),
            "expected a whole number of at least 1",
        ),
        (
            "local.runtime_limits.max_time_per_run".into(),
            json!(".inf"),
            "expected a number above 0, got the text `.inf`",
        ),
        (
            "local".into(),
            json!([1]),
            "`local`: expected a mapping of settings, got a list of 1",
        ),
        (
            "training".into(),
            json!("x"),
            "`training`: expected a mapping of stages",
        ),
    ] {
        let found = message(&path, value);
        assert!(found.contains(expected), "{path}: {found}");
        assert!(
            found.contains(&format!("`{path}")) || found.contains("exclude"),
            "{path}: {found}"
        );
    }
}

#[test]
fn conflicting_settings_are_refused() {
    let nesterov = json!({"type": "sgd", "nesterov": true});
    assert!(message("training.stage_0.optimizer", nesterov).contains("momentum above 0"));
    let mut tree = with("local.compile", json!(true));
    tree["local"]["torch_compile"] = json!(false);
    let error = Settings::from_value(&tree).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[test]
fn what_changes_no_number_is_ignored_with_a_warning() {
    for (path, value) in [
        ("local.wandb", json!({"project": "dingo"})),
        ("local.condor", json!({"bid": 100})),
        ("training.stage_0.optimizer.foreach", json!(true)),
    ] {
        let (_, warnings) = read_with(path, value).unwrap();
        assert_eq!(warnings.len(), 1, "{path}");
        assert_eq!(warnings[0].name, path);
        assert!(warnings[0].message.contains("ignored"));
    }
    let (settings, _) = read_with("local.condor.num_gpus", json!(4)).unwrap();
    assert_eq!(settings.local.num_gpus, 4);
}

#[test]
fn what_a_run_cannot_do_is_refused_by_name() {
    let (settings, _) = Settings::from_yaml(WAVEFORMS).unwrap();
    let error = settings.check_supported().unwrap_err().to_string();
    assert!(error.contains("`data.waveform_dataset_path`"), "{error}");
    for (path, value) in [
        ("data.observations", json!(null)),
        ("local.device", json!("cuda:1")),
        ("local.num_gpus", json!(2)),
        ("training.stage_0.automatic_mixed_precision", json!(true)),
    ] {
        let (settings, _) = read_with(path, value).unwrap();
        let error = settings.check_supported().unwrap_err().to_string();
        assert!(error.contains(&format!("`{path}`")), "{error}");
    }
    let (settings, _) = Settings::from_value(&simulations()).unwrap();
    assert_eq!(settings.check_supported().unwrap(), []);
}

#[test]
fn missing_blocks_are_named() {
    for key in ["data", "model", "training"] {
        let mut tree = simulations();
        tree.as_object_mut().unwrap().shift_remove(key);
        let error = Settings::from_value(&tree).unwrap_err().to_string();
        assert!(
            error.contains(&format!("setting `{key}` is missing")),
            "{error}"
        );
    }
    let error = Settings::from_yaml("").unwrap_err().to_string();
    assert!(error.contains("setting `data` is missing"), "{error}");
    let error = Settings::from_yaml("- 1").unwrap_err().to_string();
    assert!(error.contains("expected a mapping of settings"), "{error}");
    let error = message("data", json!({"simulation": "x.npz"}));
    assert!(error.contains("did you mean `simulations`?"), "{error}");
}

#[test]
fn waveform_data_need_noise_in_every_stage() {
    let text = WAVEFORMS.replace("    asd_dataset_path: asds.hdf5\n", "");
    let error = Settings::from_yaml(&text).unwrap_err().to_string();
    assert!(
        error.contains("`training.stage_1.asd_dataset_path` is missing"),
        "{error}"
    );
}

#[test]
fn an_unconditional_flow_has_no_observations() {
    let (settings, _) = read_with("data.observations", Value::Null).unwrap();
    let DataSettings::Simulations(data) = &settings.data else {
        panic!("expected simulations");
    };
    assert_eq!(data.observations, None);
    let tree = settings.to_value().unwrap();
    assert_eq!(Settings::from_value(&tree).unwrap().0, settings);
}

#[test]
fn files_that_are_no_text_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    std::fs::write(&path, b"data:\n  a: \xff\xfe\n").unwrap();
    let error = Settings::from_file(&path).unwrap_err().to_string();
    assert_eq!(
        error,
        "settings, line 2, column 6: expected UTF-8 text, got a byte that is none"
    );
    std::fs::write(&path, vec![b' '; 10_000_000]).unwrap();
    let error = Settings::from_file(&path).unwrap_err();
    assert!(!matches!(error, Error::MissingSetting { .. }), "{error}");
    let error = Settings::from_file(&folder.path().join("none.yaml"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot read") && error.contains("none.yaml"),
        "{error}"
    );
}

fn repository() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn shipped_settings_are_read_without_a_warning_and_find_their_files() {
    for task in ["two_moons", "slcp"] {
        let path = repository()
            .join("fixtures")
            .join(task)
            .join("train_settings.yaml");
        let (settings, warnings) = Settings::from_file(&path).unwrap();
        assert_eq!(warnings, [], "{task}");
        assert_eq!(settings.check_supported().unwrap(), [], "{task}");
        settings
            .found(&PathSearch::beside(&path, Path::new("/")))
            .unwrap();
        let DataSettings::Simulations(data) = &settings.data else {
            panic!("expected simulations");
        };
        assert!(data.reference.is_some());
    }
}

#[test]
fn the_documented_example_is_read_without_a_warning() {
    let page = std::fs::read_to_string(repository().join("docs/settings.md")).unwrap();
    let blocks: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 1);
    let (settings, warnings) = Settings::from_yaml(blocks[0]).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(settings.check_supported().unwrap(), []);
    // Every key of the resolved settings is on the page.
    fn keys(value: &Value, found: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            found.push(key.clone());
            keys(value, found);
        }
    }
    let mut found = Vec::new();
    for text in [blocks[0], WAVEFORMS] {
        let (settings, _) = Settings::from_yaml(text).unwrap();
        keys(&settings.to_value().unwrap(), &mut found);
    }
    for key in found {
        // Names of parameters are no keys of the schema.
        if ["dec", "ra", "luminosity_distance"].contains(&key.as_str()) {
            continue;
        }
        assert!(page.contains(&key), "`{key}` is not on the page");
    }
}

#[test]
fn the_data_crate_is_told_what_the_settings_say() {
    let (settings, _) = read_with(
        "data",
        json!({"simulations": "s.npz", "bounds": {"low": -1, "high": [1, 2]}, "drop_nonfinite": true,
               "max_dropped_fraction": 0.25, "parameters": "p", "observations": "o"}),
    )
    .unwrap();
    let DataSettings::Simulations(data) = &settings.data else {
        panic!("expected simulations");
    };
    let options = data.options(2).unwrap();
    assert_eq!(options.bounds, Some((vec![-1.0, -1.0], vec![1.0, 2.0])));
    assert_eq!(
        options.non_finite,
        dunnart_data::NonFiniteRows::Drop { at_most: 0.25 }
    );
    assert_eq!(
        (options.parameters.as_str(), options.observations.as_str()),
        ("p", "o")
    );
    let error = data.options(3).unwrap_err().to_string();
    assert!(
        error.contains("`data.bounds.high`: expected 3 numbers"),
        "{error}"
    );
}

/// Point 28: the reference cannot reach one name and stops at capital letters.
#[test]
fn point_28_optimizers_are_known_in_any_case_and_others_refused_by_name() {
    let with = |name: &str| {
        let optimizer = json!({"type": name, "lr": 0.25});
        read_with("training.stage_0.optimizer", optimizer)
            .map(|(settings, _)| settings.training.stages[0].optimizer)
    };
    for spellings in [
        ["adam", "Adam", "ADAM"],
        ["adamw", "AdamW", "ADAMW"],
        ["sgd", "Sgd", "SGD"],
        ["adagrad", "Adagrad", "AdaGrad"],
    ] {
        let found = spellings.map(|name| with(name).unwrap());
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        assert_eq!(found[0].lr(), 0.25);
    }
    assert_ne!(with("adam").unwrap(), with("adamw").unwrap());
    for name in ["RMSprop", "rmsprop", "LBFGS"] {
        let error = with(name).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("use adam, adamw, sgd or adagrad"),
            "{error}"
        );
    }
}
