//! The native format: what goes in comes out, byte by byte.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use dunnart_checkpoint::{Data, Error, Model, Rounding, Tensor, read_header};
use dunnart_files::WriteOptions;
use dunnart_flow::NetworkState;
use proptest::prelude::*;
use safetensors::SafeTensors;
use support::{autoregressive, model, settings, single, state};

fn write(model: &Model, path: &std::path::Path) {
    model.write(path, &WriteOptions::default()).unwrap();
}

#[test]
fn case_27_a_model_survives_a_file_in_a_folder_with_spaces() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("my runs, März");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("model latest.safetensors");
    for settings in [settings(), autoregressive(), single()] {
        for model in [model::<f32>(&settings, 1), model::<f64>(&settings, 2)] {
            write(&model, &path);
            let read = Model::read(&path).unwrap();
            assert_eq!(read, model);
            let header = read_header(&path).unwrap();
            assert_eq!(header.metadata, model.metadata);
            assert_eq!(header.bytes, std::fs::metadata(&path).unwrap().len());
            assert_eq!(std::fs::read(&path).unwrap(), read.to_bytes().unwrap());
        }
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn case_33_a_checkpoint_alone_rebuilds_the_network_with_its_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    for settings in [settings(), autoregressive(), single()] {
        let (architecture, layout, before) = state::<f32>(&settings, 3);
        write(&model::<f32>(&settings, 3), &path);
        let after = Model::read(&path)
            .unwrap()
            .network::<f32>(Rounding::Refuse)
            .unwrap();
        assert_eq!(after.architecture, architecture);
        assert_eq!(after.layout, layout);
        assert_eq!(after.state, before);
        assert!(before.counters.iter().all(|&c| c > 0));
    }
}

#[test]
fn the_reference_implementation_reads_the_file() {
    let model = model::<f32>(&settings(), 4);
    let bytes = model.to_bytes().unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = header.metadata().as_ref().unwrap();
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["dunnart"]);
    let moments: usize = model
        .optimizer
        .iter()
        .map(|(_, m)| m.moments.len() + 1)
        .sum();
    assert_eq!(file.len(), model.weights.len() + moments);
    for (name, tensor) in model.weights.iter() {
        let view = file.tensor(name).unwrap();
        assert_eq!(view.shape(), tensor.shape());
        if let Data::F32(values) = tensor.data() {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(view.data(), bytes);
        }
        // Every tensor is aligned to its elements, so that it can be mapped.
        let offset = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(offset % tensor.dtype().bytes(), 0, "{name}");
        assert!(!name.starts_with("module.") && !name.starts_with("_orig_mod."));
    }
}

#[test]
fn case_30_equal_models_give_equal_bytes_and_the_text_is_canonical() {
    let model = model::<f32>(&settings(), 5);
    let bytes = model.to_bytes().unwrap();
    assert_eq!(bytes, model.clone().to_bytes().unwrap());
    let (header, _) = support::split(&bytes);
    let header: serde_json::Value = serde_json::from_str(&header).unwrap();
    let text = header["__metadata__"]["dunnart"].as_str().unwrap();
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    let keys: Vec<_> = value.as_object().unwrap().keys().collect();
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(keys, sorted);
    assert_eq!(value["generator"]["seed"], u64::MAX);
    assert_eq!(value["float32_matmul_precision"], "high");
}

#[test]
fn case_30_precision_changes_only_where_nothing_is_lost_or_when_asked_for() {
    let single = model::<f32>(&settings(), 6);
    let double = model::<f64>(&settings(), 6);
    let wide = single.network::<f64>(Rounding::Refuse).unwrap().state;
    let narrow = single.network::<f32>(Rounding::Refuse).unwrap().state;
    let same = wide.parameters.iter().zip(&narrow.parameters);
    assert!(same.into_iter().all(|(&w, &n)| w == f64::from(n)));
    let error = double.network::<f32>(Rounding::Refuse).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("weights are F64, the network is wanted in F32"),
        "{error}"
    );
    let rounded: NetworkState<f32> = double.network(Rounding::Nearest).unwrap().state;
    let exact: NetworkState<f64> = double.network(Rounding::Nearest).unwrap().state;
    assert_eq!(rounded.parameters[7], exact.parameters[7] as f32);
}

#[test]
fn rounding_beyond_the_range_is_refused() {
    let (architecture, layout, mut state) = state::<f64>(&settings(), 7);
    state.parameters[2] = 1e300;
    let metadata = dunnart_checkpoint::Metadata::new(&architecture);
    let model = Model::new(metadata, &layout, &state).unwrap();
    let error = model
        .network::<f32>(Rounding::Nearest)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&layout.parameters()[0].name) && error.contains("element 2"),
        "{error}"
    );
}

#[test]
fn case_33_foreign_integers_and_masks_are_taken_over_exactly() {
    let mut foreign = model::<f32>(&autoregressive(), 8);
    let expected = foreign.network::<f32>(Rounding::Refuse).unwrap().state;
    let names: Vec<String> = foreign.weights.iter().map(|(n, _)| n.to_string()).collect();
    for name in names {
        let tensor = foreign.weights.get_mut(&name).unwrap();
        let data = match tensor.data() {
            Data::I64(v) if name.ends_with("_permutation") => {
                Data::I32(v.iter().map(|&v| v as i32).collect())
            }
            Data::F32(v) if name.ends_with("mask") => {
                Data::U8(v.iter().map(|&v| v as u8).collect())
            }
            _ => continue,
        };
        *tensor = Tensor::from_data(&name, tensor.shape(), data).unwrap();
    }
    assert_eq!(
        foreign.network::<f32>(Rounding::Refuse).unwrap().state,
        expected
    );
}

#[test]
fn case_30_key_sets_must_match_and_the_counts_are_told() {
    let whole = model::<f32>(&settings(), 9);
    let mut broken = whole.clone();
    broken.optimizer = Default::default();
    let mut weights = dunnart_checkpoint::StateDict::new();
    for (i, (name, tensor)) in whole.weights.clone().into_iter().enumerate() {
        let name = if i < 7 {
            format!("encoder.{name}")
        } else {
            name
        };
        weights.insert(name, tensor).unwrap();
    }
    broken.weights = weights;
    let error = broken.network::<f32>(Rounding::Refuse).unwrap_err();
    let text = error.to_string();
    let Error::KeySet(mismatch) = error else {
        panic!("{text}")
    };
    assert_eq!((mismatch.missing.len(), mismatch.unexpected.len()), (7, 7));
    assert_eq!(mismatch.loaded, whole.weights.len() - 7);
    assert!(text.contains("7 missing, 7 unexpected"), "{text}");
    assert!(
        text.contains("`encoder.embedding_net") && text.contains("and 2 more"),
        "{text}"
    );
}

#[test]
fn what_could_not_be_read_back_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let good = model::<f32>(&settings(), 10);
    write(&good, &path);
    let refused = |change: &dyn Fn(&mut Model)| {
        let mut bad = good.clone();
        change(&mut bad);
        let error = bad
            .write(&path, &WriteOptions::default())
            .unwrap_err()
            .to_string();
        assert_eq!(Model::read(&path).unwrap(), good);
        error
    };
    let name = good.weights.iter().next().unwrap().0.to_string();
    let set = |model: &mut Model, name: &str, value: f32| {
        let tensor = model.weights.get_mut(name).unwrap();
        let mut values = tensor.slice::<f32>().unwrap().to_vec();
        values[1] = value;
        *tensor = Tensor::new(name, tensor.shape(), values).unwrap();
    };
    let error = refused(&|m| set(m, &name, f32::NAN));
    assert!(
        error.contains(&format!("tensor `{name}`: element 1 is NaN")),
        "{error}"
    );
    let variance = "flow._transform._transforms.0._transforms.1.transform_net.blocks.0.\
                    batch_norm_layers.0.running_var";
    assert!(refused(&|m| set(m, variance, -1.0)).contains("a variance cannot be negative"));
    assert!(refused(&|m| set(m, variance, f32::INFINITY)).contains("element 1 is inf"));
    let error = refused(&|m| {
        let (_, last) = m.optimizer.iter().last().unwrap();
        let (mut last, mut all) = (last.clone(), m.optimizer.clone());
        let moment = last.moments.get_mut("exp_avg").unwrap();
        let mut values = moment.slice::<f32>().unwrap().to_vec();
        values[0] = f32::NEG_INFINITY;
        *moment = Tensor::new("x", moment.shape(), values).unwrap();
        let name = all.iter().last().unwrap().0.to_string();
        *all.get_mut(&name).unwrap() = last;
        m.optimizer = all;
    });
    assert!(
        error.contains("optim.") && error.contains("element 0 is -inf"),
        "{error}"
    );
    let error = refused(&|m| {
        m.optimizer
            .insert("flow.nobody", Default::default())
            .unwrap();
    });
    assert!(
        error.contains("`flow.nobody`: the network has no parameter"),
        "{error}"
    );
    let error = refused(&|m| m.metadata.standardization.as_mut().unwrap().theta.std[1] = 0.0);
    assert!(
        error.contains("standardization.theta.std[1] is 0"),
        "{error}"
    );
    let error = refused(&|m| m.metadata.standardization.as_mut().unwrap().theta.mean[1] = f64::NAN);
    assert!(error.contains("metadata"), "{error}");
    let error = refused(&|m| m.metadata.parameters[1].name = "θ 0".into());
    assert!(error.contains("`θ 0` occurs twice"), "{error}");
    let error = refused(&|m| m.metadata.parameters.truncate(2));
    assert!(
        error.contains("parameters: expected 3 entries, got 2"),
        "{error}"
    );
}

#[test]
fn case_31_unknown_metadata_of_later_minor_versions_is_kept() {
    let mut model = model::<f32>(&settings(), 11);
    model
        .metadata
        .other
        .insert("surrogate".into(), serde_json::json!({"kept": [1, 2]}));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    write(&model, &path);
    assert_eq!(Model::read(&path).unwrap(), model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any finite bits of weights and any floats of the metadata survive.
    #[test]
    fn round_trips_are_exact(
        bits in proptest::collection::vec(any::<u64>(), 16),
        rate in any::<f64>().prop_filter("finite", |v| v.is_finite()),
        seed in any::<u64>(),
        double in any::<bool>(),
        text in "\\PC{0,20}",
    ) {
        fn scatter<T: Copy>(values: &mut [T], bits: &[u64], make: impl Fn(u64) -> Option<T>) {
            for (value, &bits) in values.iter_mut().zip(bits) {
                if let Some(new) = make(bits) {
                    *value = new;
                }
            }
        }
        let mut model = if double {
            let (architecture, layout, mut state) = state::<f64>(&settings(), seed);
            scatter(&mut state.parameters, &bits, |b| Some(f64::from_bits(b)).filter(|v| v.is_finite()));
            Model::new(dunnart_checkpoint::Metadata::new(&architecture), &layout, &state).unwrap()
        } else {
            let (architecture, layout, mut state) = state::<f32>(&settings(), seed);
            let make = |b: u64| Some(f32::from_bits(b as u32)).filter(|v| v.is_finite());
            scatter(&mut state.parameters, &bits, make);
            Model::new(dunnart_checkpoint::Metadata::new(&architecture), &layout, &state).unwrap()
        };
        model.metadata.run = Some(serde_json::json!({"rate": rate, "seed": seed, "text": text}));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        model.write(&path, &WriteOptions::default()).unwrap();
        let read = Model::read(&path).unwrap();
        prop_assert_eq!(read.to_bytes().unwrap(), std::fs::read(&path).unwrap());
        let back = read.metadata.run.as_ref().unwrap()["rate"].as_f64().unwrap();
        prop_assert_eq!(back.to_bits(), rate.to_bits());
        prop_assert_eq!(read, model);
    }
}
