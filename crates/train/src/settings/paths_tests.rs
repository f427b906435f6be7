use super::*;

#[test]
fn beside_the_file_comes_before_the_working_folder() {
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().join("settings");
    let working = folder.path().join("work");
    for folder in [&beside, &working] {
        std::fs::create_dir(folder).unwrap();
    }
    let search = PathSearch::beside(Path::new("../settings/train.yaml"), &working);
    let find = |name: &str| search.find("data.simulations", Path::new(name));

    std::fs::write(working.join("a.npz"), "").unwrap();
    let same = |path: PathBuf, expected: PathBuf| {
        assert_eq!(
            path.canonicalize().unwrap(),
            expected.canonicalize().unwrap()
        );
    };
    same(find("a.npz").unwrap(), working.join("a.npz"));
    std::fs::write(beside.join("a.npz"), "").unwrap();
    same(find("a.npz").unwrap(), beside.join("a.npz"));
    let absolute = working.join("a.npz");
    assert_eq!(search.find("x", &absolute).unwrap(), absolute);

    let Err(Error::MissingFile { name, tried, .. }) = find("b.npz") else {
        panic!("expected an error");
    };
    assert_eq!(name, "data.simulations");
    assert_eq!(
        tried,
        [search.settings_folder.join("b.npz"), working.join("b.npz")]
    );
    let message = find("b.npz").unwrap_err().to_string();
    assert!(
        message.contains("no file b.npz; looked for") && message.contains(" and "),
        "{message}"
    );
}

#[test]
fn every_input_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.npz"), "").unwrap();
    let text = "
data: {simulations: s.npz, reference: r.npz}
model: {posterior_kwargs: {num_flow_steps: 3}}
training: {stage_0: {epochs: 2, batch_size: 16, optimizer: {type: adam}, asd_dataset_path: a.hdf5}}
";
    let (settings, _) = Settings::from_yaml(text).unwrap();
    let search = PathSearch::beside(&folder.path().join("train.yaml"), Path::new("/"));
    for missing in ["data.reference", "training.stage_0.asd_dataset_path"] {
        let error = settings.found(&search).unwrap_err().to_string();
        assert!(error.contains(&format!("`{missing}`")), "{error}");
        let file = if missing == "data.reference" {
            "r.npz"
        } else {
            "a.hdf5"
        };
        std::fs::write(folder.path().join(file), "").unwrap();
    }
    let mut found = settings.found(&search).unwrap();
    for (name, path) in found.input_files() {
        assert!(path.is_absolute() && path.exists(), "{name}");
    }
}
