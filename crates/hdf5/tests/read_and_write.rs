//! Files written by this crate and read back, and the refusals on the way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dunnart_files::WriteOptions;
use dunnart_hdf5::{Attribute, Column, Content, Data, Error, Hdf5File, Values};

fn written(folder: &tempfile::TempDir) -> Hdf5File {
    let mut content = Content::new();
    content
        .attribute(
            "",
            "settings",
            Attribute::Text("{'a': 1, 'ü': None}".into()),
        )
        .unwrap();
    content
        .attribute("", "epoch", Attribute::Integer(7))
        .unwrap();
    content
        .dataset("x", &[2, 3], Data::F32(vec![0.0, 1.0, 2.0, 3.0, 4.0, -5.5]))
        .unwrap();
    content
        .dataset("a/b/y", &[4], Data::F64(vec![1.0, f64::NAN, 3.0, 1e300]))
        .unwrap();
    content
        .dataset("a/n", &[], Data::I64(vec![i64::MIN]))
        .unwrap();
    content
        .attribute("a/n", "python_type", Attribute::Text("list".into()))
        .unwrap();
    content
        .dataset(
            "z",
            &[2, 1],
            Data::Complex128(vec![[1.0, 2.0], [3.0, -4.0]]),
        )
        .unwrap();
    content
        .dataset("c", &[2], Data::Complex64(vec![[1.0, 2.0], [3.0, -4.0]]))
        .unwrap();
    let columns = vec![
        Column::f64("mass", vec![1.5, 2.5, 3.5]),
        Column::f32("weight", vec![0.5, 0.25, 0.125]),
        Column {
            name: "id".into(),
            values: Values::I64(vec![3, -2, 1]),
        },
    ];
    content
        .dataset("records", &[3], Data::Columns(columns))
        .unwrap();
    content
        .dataset("version", &[], Data::Text("dunnart".into()))
        .unwrap();
    content
        .dataset("nothing", &[0, 5], Data::F64(vec![]))
        .unwrap();
    content.group("empty").unwrap();
    let path = folder.path().join("all.hdf5");
    content.write(&path, &WriteOptions::default()).unwrap();
    if let Some(copy) = std::env::var_os("DUNNART_KEEP_HDF5") {
        std::fs::copy(&path, copy).unwrap();
    }
    Hdf5File::open(path).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder);
    assert_eq!(file.root_text("settings").unwrap(), "{'a': 1, 'ü': None}");
    assert_eq!(file.attributes("").unwrap()["epoch"], Attribute::Integer(7));
    assert_eq!(
        file.dataset("x").unwrap().read::<f32>().unwrap(),
        [0.0, 1.0, 2.0, 3.0, 4.0, -5.5]
    );
    assert_eq!(file.dataset("x").unwrap().shape().unwrap(), [2, 3]);
    assert_eq!(
        file.dataset("x").unwrap().read_rows::<f32>(1..2).unwrap(),
        [3.0, 4.0, -5.5]
    );
    let y = file.dataset("a/b/y").unwrap().read::<f64>().unwrap();
    assert!(y[1].is_nan() && y[3] == 1e300);
    let scalar = file.dataset("a/n").unwrap();
    assert_eq!(
        (scalar.read::<i64>().unwrap(), scalar.shape().unwrap().len()),
        (vec![i64::MIN], 0)
    );
    assert_eq!(
        scalar.attributes().unwrap()["python_type"],
        Attribute::Text("list".into())
    );
    assert_eq!(
        file.dataset("z").unwrap().read::<[f64; 2]>().unwrap(),
        [[1.0, 2.0], [3.0, -4.0]]
    );
    assert_eq!(
        file.dataset("c").unwrap().read::<[f32; 2]>().unwrap(),
        [[1.0, 2.0], [3.0, -4.0]]
    );
    let columns = file.dataset("records").unwrap().columns().unwrap();
    assert_eq!(columns[0], Column::f64("mass", vec![1.5, 2.5, 3.5]));
    assert_eq!(columns[1].values.to_f64(), [0.5, 0.25, 0.125]);
    assert_eq!(columns[2].values, Values::I64(vec![3, -2, 1]));
    assert_eq!(file.dataset("version").unwrap().text().unwrap(), "dunnart");
    assert_eq!(
        file.dataset("nothing").unwrap().read::<f64>().unwrap(),
        [0.0; 0]
    );
    assert_eq!(file.datasets_in("a"), ["n"]);
    assert_eq!(file.groups().collect::<Vec<_>>(), ["", "a", "a/b", "empty"]);
    let mut seen = vec![];
    let rows = [1, 0, 1];
    file.dataset("x")
        .unwrap()
        .visit_list::<f32>(&rows, |at, row| seen.push((at, row[0])))
        .unwrap();
    seen.sort_unstable_by_key(|&(at, _)| at);
    assert_eq!(seen, [(0, 3.0), (1, 0.0), (2, 3.0)]);
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder);
    let message = |error: Error| error.to_string();
    let x = file.dataset("x").unwrap();
    let error = message(x.read::<f64>().unwrap_err());
    assert!(
        error.ends_with("dataset `x`: expected float64, got float32"),
        "{error}"
    );
    let error = message(x.read::<[f32; 2]>().unwrap_err());
    assert!(
        error.ends_with("expected complex64, got float32"),
        "{error}"
    );
    let error = message(file.dataset("z").unwrap().read::<[f32; 2]>().unwrap_err());
    assert!(
        error.ends_with("expected complex64, got complex128"),
        "{error}"
    );
    let error = message(file.dataset("svd/V").unwrap_err());
    assert!(
        error.contains("has no dataset `svd/V`; found `a/b/y`, `a/n`"),
        "{error}"
    );
    let error = message(file.dataset("a/m").unwrap_err());
    assert!(
        error.ends_with("has no dataset `a/m`; found `n`"),
        "{error}"
    );
    let error = message(file.root_text("epoch").unwrap_err());
    assert!(
        error.ends_with("attribute `epoch`: expected text, got an integer"),
        "{error}"
    );
    let error = message(file.root_text("type").unwrap_err());
    assert!(
        error.ends_with("has no attribute `type`; found `epoch`, `settings`"),
        "{error}"
    );
    let error = message(x.read_rows::<f32>(1..3).unwrap_err());
    assert!(
        error.ends_with("there is no row 2, it has 2 rows"),
        "{error}"
    );
    let error = message(x.visit_list::<f32>(&[0, 2], |_, _| ()).unwrap_err());
    assert!(
        error.ends_with("there is no row 2, it has 2 rows"),
        "{error}"
    );
    let error = message(x.columns().unwrap_err());
    assert!(
        error.ends_with("expected a record of named columns, got float32"),
        "{error}"
    );
    let error = message(x.texts().unwrap_err());
    assert!(error.ends_with("expected text, got float32"), "{error}");
    let error = message(Hdf5File::open(folder.path()).unwrap_err());
    assert!(
        error.contains("cannot open: it is not a regular file"),
        "{error}"
    );
    let path = folder.path().join("text");
    std::fs::write(
        &path,
        "not HDF5 at all, but long enough to hold a superblock",
    )
    .unwrap();
    assert!(matches!(Hdf5File::open(&path), Err(Error::NotHdf5 { .. })));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Hdf5File::open(&path), Err(Error::NotHdf5 { .. })));
}

#[test]
fn content_that_does_not_fit_is_refused() {
    let mut content = Content::new();
    let error = content
        .dataset("x", &[3], Data::F64(vec![1.0]))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "cannot write `x`: shape [3] does not fit 1 values");
    let uneven = vec![Column::f64("a", vec![1.0]), Column::f64("b", vec![])];
    assert!(content.dataset("x", &[1], Data::Columns(uneven)).is_err());
    assert!(content.dataset("x", &[0], Data::Columns(vec![])).is_err());
    assert!(content.dataset("a//x", &[1], Data::F64(vec![1.0])).is_err());
    assert!(content.dataset("", &[1], Data::F64(vec![1.0])).is_err());
    assert!(
        content
            .dataset("t", &[], Data::Text("a\0b".into()))
            .is_err()
    );
    assert!(content.attribute("no", "a", Attribute::Integer(1)).is_err());
    content.dataset("x", &[1], Data::F64(vec![1.0])).unwrap();
    assert!(content.dataset("x", &[1], Data::F64(vec![1.0])).is_err());
    assert!(content.dataset("x/y", &[1], Data::F64(vec![1.0])).is_err());
}
