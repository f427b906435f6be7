//! dingo's own files, read and written.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use crate::{DType, Model, Rounding};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn document(path: &Path) -> Document {
    let file = File::open(path).unwrap();
    let bytes = file.metadata().unwrap().len();
    Document::open(BufReader::new(file), bytes).unwrap()
}

/// An entry of a file, tuples told from lists.
fn entry(document: &Document, path: &[&str]) -> serde_json::Value {
    let mut value = document.root;
    for key in path {
        value = match key.parse::<usize>() {
            Ok(index) => document.heap.as_sequence(value).unwrap()[index],
            Err(_) => document.heap.get(value, key).unwrap(),
        };
    }
    ToJson::new(&document.heap, 1 << 20)
        .convert("x", value, Tuples::Tagged)
        .unwrap()
}

fn keys(document: &Document, path: &[&str]) -> Vec<String> {
    let mut value = document.root;
    for key in path {
        value = document.heap.get(value, key).unwrap();
    }
    let items = &document.heap.as_dict(value).unwrap().items;
    items
        .iter()
        .map(|&(key, _)| document.heap.as_text(key).unwrap_or("?").into())
        .collect()
}

#[test]
fn dingos_file_in_the_middle_of_a_stage() {
    let model = Model::read(&fixture("dingo/model_002.pt")).unwrap();
    let network = model.network::<f32>(Rounding::Refuse).unwrap();
    assert_eq!(network.layout.parameters().len(), 180);
    assert_eq!(model.optimizer.len(), 176);
    let frozen: Vec<_> = network
        .layout
        .parameters()
        .iter()
        .filter(|p| model.optimizer.get(&p.name).is_none())
        .collect();
    assert!(
        frozen.iter().all(|p| p.name.contains("layers_rb")),
        "{frozen:?}"
    );
    assert!(
        model
            .optimizer
            .iter()
            .all(|(_, m)| m.step == Some(180.0) && m.moments.len() == 2)
    );
    let metadata = &model.metadata;
    assert_eq!(
        metadata.run,
        Some(json!({
            "stage": 0, "stage_begun": true, "epoch_in_stage": 2, "epoch": 2,
            "finished_stages": [], "finished": false, "early_stopping": null, "best": null,
            "global_step": 180, "samples_seen": 0
        }))
    );
    assert_eq!(
        metadata.scheduler,
        Some(json!({
            "epoch": 2, "base_lr": 0.001, "lr": 0.0002500000000000001, "best": null,
            "bad_epochs": 0, "cooldown_left": 0
        }))
    );
    let names = metadata.parameter_names();
    assert_eq!(
        (names.len(), &*names[0], &*names[9]),
        (10, "chirp_mass", "psi")
    );
    assert!(metadata.context_parameters.is_empty());
    let scale = &metadata.standardization.as_ref().unwrap().theta;
    assert_eq!(
        (scale.mean[0], scale.std[9]),
        (37.229312896728516, 0.9068996821171089)
    );
    assert_eq!(
        metadata.float32_matmul_precision.as_deref(),
        Some("highest")
    );
    assert_eq!(
        metadata.dataset_settings.as_ref().unwrap()["num_samples"],
        6000
    );
    assert_eq!(
        metadata.settings.as_ref().unwrap()["training"]["stage_1"]["epochs"],
        2
    );
    assert_eq!(
        metadata.dingo.as_ref().unwrap().version.as_deref(),
        Some("dingo=0.10.3")
    );
}

#[test]
fn dingos_file_at_the_end_of_a_run() {
    let model = Model::read(&fixture("dingo/model_stage_1.pt")).unwrap();
    let run = model.metadata.run.as_ref().unwrap();
    assert_eq!(run["finished"], true);
    assert_eq!(
        (&run["stage"], &run["epoch"], &run["global_step"]),
        (&json!(2), &json!(5), &json!(450))
    );
    assert_eq!(
        run["finished_stages"][0],
        json!({"epochs": 3, "ending": "completed"})
    );
    assert_eq!(model.optimizer.len(), 180);
    assert_eq!(model.check().unwrap(), DType::F32);
    // The permutation is the file's own.
    let key = "flow._transform._transforms.0._transforms.0._transforms.0._permutation";
    let permutation = model.weights.get(key).unwrap().slice::<i64>().unwrap();
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..10).collect::<Vec<_>>());
    assert_ne!(sorted, permutation);
}

/// What dingo wrote and what we write of it: every entry but the tensors is the same, to the type of
/// each number and the order of the keys.
#[test]
fn a_rewritten_file_says_what_dingos_said() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dingo/model_002.pt", "dingo/model_stage_1.pt"] {
        let model = Model::read(&fixture(name)).unwrap();
        let path = folder.path().join("again.pt");
        std::fs::write(&path, model.to_pt_bytes().unwrap()).unwrap();
        let (theirs, ours) = (document(&fixture(name)), document(&path));
        let mut expected = keys(&theirs, &[]);
        expected.push("dunnart".into());
        assert_eq!(keys(&ours, &[]), expected);
        for path in [
            &["model_kwargs"][..],
            &["epoch"],
            &["iteration"],
            &["version"],
            &["metadata"],
            &["optimizer_kwargs"],
            &["scheduler_kwargs"],
            &["scheduler_state_dict"],
            &["optimizer_state_dict", "param_groups"],
        ] {
            let (theirs, ours) = (entry(&theirs, path), entry(&ours, path));
            // Objects compare without regard to order, their text does not.
            assert_eq!(ours.to_string(), theirs.to_string(), "{path:?}");
        }
        assert_eq!(
            keys(&ours, &["model_state_dict"]),
            keys(&theirs, &["model_state_dict"])
        );
        let state = |d: &Document| keys(d, &["optimizer_state_dict", "state"]).len();
        assert_eq!(state(&ours), state(&theirs));
        let read = Model::read(&path).unwrap();
        assert_eq!(read, model);
        assert_eq!(read.to_pt_bytes().unwrap(), model.to_pt_bytes().unwrap());
    }
}

#[test]
fn the_shared_dict_is_shared_and_modules_have_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.pt");
    let model = Model::read(&fixture("dingo/model_002.pt")).unwrap();
    std::fs::write(&path, model.to_pt_bytes().unwrap()).unwrap();
    let Document { heap, root, .. } = document(&path);
    let kwargs = heap.get(root, "model_kwargs").unwrap();
    let settings = heap
        .get(heap.get(root, "metadata").unwrap(), "train_settings")
        .unwrap();
    assert_eq!(heap.get(settings, "model"), Some(kwargs));
    let weights = heap
        .as_dict(heap.get(root, "model_state_dict").unwrap())
        .unwrap();
    let modules = heap.get(weights.attributes.unwrap(), "_metadata").unwrap();
    let version = |module: &str| {
        heap.get(heap.get(modules, module).unwrap(), "version")
            .unwrap()
    };
    assert_eq!(version(""), Value::Int(1));
    assert_eq!(version("embedding_net.0.layers_rb.1"), Value::Int(1));
    assert_eq!(
        version("embedding_net.1.blocks.0.batch_norm_layers.0"),
        Value::Int(2)
    );
}

#[test]
fn storages_are_aligned_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.pt");
    let model = Model::read(&fixture("dingo/model_002.pt")).unwrap();
    model.write(&path, &Default::default()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), model.to_pt_bytes().unwrap());
    let mut zip = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
    let mut storages = 0;
    for index in 0..zip.len() {
        let member = zip.by_index(index).unwrap();
        let name = member.name().unwrap().into_owned();
        assert_eq!(
            member.compression(),
            zip::CompressionMethod::Stored,
            "{name}"
        );
        if name.starts_with("archive/data/") {
            assert_eq!(member.data_start().unwrap() % 64, 0, "{name}");
            storages += 1;
        }
    }
    assert_eq!(storages, model.weights.len() + 3 * model.optimizer.len());
}
