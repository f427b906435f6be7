//! Files made by NumPy and by ourselves, read back to the bit; kinds that are refused, refused by
//! name.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

use dunnart_data::{ArrayFile, Error, SimulationOptions, SimulationSet, Split, Values};

const KINDS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/arrays/numpy_kinds.npz"
);

fn eighths() -> Vec<f64> {
    (0..24).map(|k| f64::from(k) / 8.0).collect()
}

#[test]
fn numpys_numbers_in_every_layout() {
    let mut file = ArrayFile::open(KINDS).unwrap();
    for name in ["f64", "big_endian_f64", "version_2"] {
        let array = file.read(name).unwrap();
        assert_eq!(array.shape, [4, 6], "{name}");
        assert_eq!(array.values, Values::F64(eighths()), "{name}");
    }
    let rounded: Vec<f32> = eighths().iter().map(|&value| value as f32).collect();
    for name in ["f32", "big_endian_f32", "fortran_f32"] {
        let array = file.read(name).unwrap();
        assert_eq!(
            (array.shape, array.values),
            (vec![4, 6], Values::F32(rounded.clone())),
            "{name}"
        );
    }
    let cube = file.read("fortran_3d").unwrap();
    assert_eq!(cube.shape, [2, 3, 4]);
    assert_eq!(cube.values, Values::F64((0..24).map(f64::from).collect()));
    for name in ["i8", "i16", "i32", "i64"] {
        let expected = Values::F64((-3..3).map(f64::from).collect());
        assert_eq!(file.read(name).unwrap().values, expected, "{name}");
    }
    for name in ["u8", "u16", "u32", "u64"] {
        let expected = Values::F64((0..6).map(f64::from).collect());
        assert_eq!(file.read(name).unwrap().values, expected, "{name}");
    }
    let big = file.read("big_endian_i16").unwrap();
    assert_eq!(big.values, Values::F64((-2..4).map(f64::from).collect()));
    let scalar = file.read("scalar").unwrap();
    assert_eq!(
        (scalar.shape, scalar.values),
        (vec![], Values::F64(vec![2.5]))
    );
    assert_eq!(file.read("empty").unwrap().shape, [0, 3]);
    assert_eq!(
        file.read_names("names").unwrap().unwrap(),
        ["mass", "spin", "\u{b5}"]
    );
    assert_eq!(file.read_names("nothing").unwrap(), None);
}

#[test]
fn other_element_types_are_refused_by_name() {
    let mut file = ArrayFile::open(KINDS).unwrap();
    for (name, kind) in [
        ("objects", "|O (pickled objects)"),
        ("records", "a structured record"),
        ("complex", "<c16"),
        ("half", "<f2"),
        ("boolean", "|b1"),
        ("names", "<U4"),
    ] {
        let error = file.read(name).unwrap_err();
        let text = format!("array `{name}`: element type {kind} is not supported");
        assert!(error.to_string().starts_with(&text), "{error}");
    }
    let error = file.read("missing").unwrap_err().to_string();
    assert!(
        error.contains("no array `missing`, the file has big_endian_f32, "),
        "{error}"
    );
    assert!(matches!(
        file.read_names("f32"),
        Err(Error::ElementType { .. })
    ));
}

#[test]
fn the_listing_reads_no_elements() {
    let arrays = ArrayFile::open(KINDS).unwrap().arrays().unwrap();
    let info = |name: &str| arrays.iter().find(|info| info.name == name).unwrap();
    assert_eq!(arrays.len(), 24);
    assert_eq!(info("objects").element_type, "|O");
    assert_eq!(
        (
            info("fortran_3d").element_type.as_str(),
            &info("fortran_3d").shape[..]
        ),
        ("<f8", &[2, 3, 4][..])
    );
}

#[test]
fn wrong_files() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let problem = |path: std::path::PathBuf| ArrayFile::open(path).err().unwrap().to_string();
    assert!(problem(folder.path().join("none.npz")).contains("none.npz"));
    assert!(problem(folder.path().join("none.pt")).contains("expected one of .npz, .safetensors"));
    assert!(problem(put("a.npz", b"")).contains("not a readable zip archive"));
    assert!(
        problem(put("b.npz", b"PK\x03\x04 and no more")).contains("not a readable zip archive")
    );
    assert!(problem(put("c.safetensors", b"")).contains("not a readable safetensors file"));
    // A header of 2^60 bytes.
    let mut bytes = (1u64 << 60).to_le_bytes().to_vec();
    bytes.extend(b"{}");
    assert!(problem(put("d.safetensors", &bytes)).contains("not a readable safetensors file"));
    // A tensor whose data are not there.
    let header = br#"{"x":{"dtype":"F64","shape":[9],"data_offsets":[0,72]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend([0; 64]);
    assert!(problem(put("e.safetensors", &bytes)).contains("not a readable safetensors file"));
    // A folder that has the name of a file.
    std::fs::create_dir(folder.path().join("f.npz")).unwrap();
    assert!(problem(folder.path().join("f.npz")).contains("f.npz"));
}

#[test]
fn the_shipped_tasks() {
    for (task, rows, dimension, columns) in [("two_moons", 10_000, 2, 2), ("slcp", 100_000, 5, 8)] {
        let folder = format!("{}/../../fixtures/{task}", env!("CARGO_MANIFEST_DIR"));
        let options = SimulationOptions {
            bounds: match task {
                "slcp" => Some((vec![-3.0; 5], vec![3.0; 5])),
                _ => Some((vec![-1.0; 2], vec![1.0; 2])),
            },
            ..Default::default()
        };
        let set = SimulationSet::open(format!("{folder}/simulations.npz"), &options).unwrap();
        assert_eq!(set.rows(), rows);
        assert_eq!(
            (set.parameter_names().len(), set.observation_names().len()),
            (dimension, columns)
        );
        assert_eq!(
            (
                set.report().dropped_rows,
                set.report().parameter_type.as_str()
            ),
            (0, "<f4")
        );
        let parameters: Vec<f64> = set.parameters().to_vec();
        assert_eq!(
            set.bounds()
                .unwrap()
                .mass_outside(&parameters, rows)
                .unwrap(),
            [0.0]
        );
        let train = Split::new(rows, 0.9).unwrap().train;
        let map = set.standardize_parameters(&train).unwrap();
        // A uniform prior of half-width w has deviation w / sqrt(3); five standard errors.
        let width: f64 = if task == "slcp" { 3.0 } else { 1.0 };
        for (mean, std) in map.mean().iter().zip(map.std()) {
            let error = 5.0 * width / 3f64.sqrt() / (train.len() as f64).sqrt();
            assert!(mean.abs() < error && (std - width / 3f64.sqrt()).abs() < error);
        }
        let mut reference = ArrayFile::open(format!("{folder}/reference.npz")).unwrap();
        let shapes: Vec<_> = reference
            .arrays()
            .unwrap()
            .into_iter()
            .map(|a| (a.name, a.shape))
            .collect();
        assert_eq!(
            shapes,
            [
                ("observation".to_owned(), vec![10, columns]),
                ("reference_posterior".to_owned(), vec![10, 2500, dimension]),
                ("true_parameters".to_owned(), vec![10, dimension]),
            ]
        );
        let samples: Vec<f64> = reference
            .read("reference_posterior")
            .unwrap()
            .values
            .to_vec();
        assert_eq!(
            set.bounds().unwrap().mass_outside(&samples, 2500).unwrap(),
            [0.0; 10]
        );
    }
}

/// A simulation set in each format with names and bounds of its own.
#[test]
fn names_and_bounds_in_the_file() {
    use safetensors::{Dtype, tensor::TensorView};
    let folder = tempfile::tempdir().unwrap();
    let bytes = |values: &[f64]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let (theta, x) = (bytes(&[0.5, 1.5, 0.25, 1.0]), bytes(&[7.0, 8.0]));
    let (low, high) = (bytes(&[0.0, 1.0]), bytes(&[1.0, 2.0]));
    let write = |name: &str, parts: &[(&str, &Vec<u8>, Vec<usize>)], names: &str| {
        let views: Vec<_> = parts
            .iter()
            .map(|(name, bytes, shape)| {
                (
                    *name,
                    TensorView::new(Dtype::F64, shape.clone(), bytes).unwrap(),
                )
            })
            .collect();
        let metadata = [("names".to_owned(), names.to_owned())].into();
        let path = folder.path().join(name);
        std::fs::write(
            &path,
            safetensors::serialize(views, Some(metadata)).unwrap(),
        )
        .unwrap();
        path
    };
    let all = [
        ("theta", &theta, vec![2, 2]),
        ("x", &x, vec![2]),
        ("low", &low, vec![2]),
        ("high", &high, vec![2]),
    ];
    let options = SimulationOptions::default();
    let path = write("a.safetensors", &all, r#"["mass","spin"]"#);
    let set = SimulationSet::open(&path, &options).unwrap();
    assert_eq!(set.parameter_names(), ["mass", "spin"]);
    assert_eq!(
        (set.rows(), set.observation_names()),
        (2, &["x_0".to_owned()][..])
    );
    let bounds = set.bounds().unwrap();
    assert_eq!(
        (bounds.low(), bounds.high()),
        (&[0.0, 1.0][..], &[1.0, 2.0][..])
    );
    assert_eq!(bounds.names(), ["mass", "spin"]);
    // What the settings say goes before what the file says.
    let other = SimulationOptions {
        names: Some(vec!["a".into(), "b".into()]),
        bounds: Some((vec![-9.0; 2], vec![9.0; 2])),
        ..Default::default()
    };
    let set = SimulationSet::open(&path, &other).unwrap();
    assert_eq!(
        (set.parameter_names(), set.bounds().unwrap().low()),
        (&["a".to_owned(), "b".into()][..], &[-9.0; 2][..])
    );
    let half = write("b.safetensors", &all[..3], r#"["mass","spin"]"#);
    assert!(
        matches!(SimulationSet::open(half, &options), Err(Error::MissingArray { array, .. }) if array == "high")
    );
    let text = write("c.safetensors", &all, "mass, spin");
    let error = SimulationSet::open(text, &options).unwrap_err().to_string();
    assert!(
        error.contains("metadata `names` is no JSON list of text"),
        "{error}"
    );
    // NumPy's text list has three names and the array two columns.
    let wrong = SimulationOptions {
        parameters: "fortran_f32".into(),
        observations: "f64".into(),
        ..Default::default()
    };
    let error = SimulationSet::open(KINDS, &wrong).unwrap_err().to_string();
    assert_eq!(error, "parameter names: expected 6 entries, got 3");
}
