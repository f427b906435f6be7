//! Files made by h5py and dingo; the expected values were computed with h5py 3.16.0 and NumPy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use dunnart_hdf5::{Attribute, Dataset, Element, ElementType, Error, Hdf5File};

fn fixture(name: &str) -> Hdf5File {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    Hdf5File::open(root.join(name)).unwrap()
}

/// Sums differ by the order of summation only: rounding of 6,000 to 400,000 terms.
fn close(actual: f64, expected: f64, scale: f64) {
    let bound = 1e-12 * scale.abs();
    assert!(
        (actual - expected).abs() <= bound,
        "{actual} is not {expected} within {bound}"
    );
}

fn complex_sum(dataset: &Dataset) -> [f64; 2] {
    let values = dataset.read::<[f64; 2]>().unwrap();
    values.iter().fold([0.0; 2], |sum, value| {
        [sum[0] + value[0], sum[1] + value[1]]
    })
}

#[test]
fn dingos_waveform_data_set() {
    let file = fixture("gw/waveform_dataset.hdf5");
    assert_eq!(file.root_text("dataset_type").unwrap(), "waveform_dataset");
    assert_eq!(file.root_text("settings").unwrap().len(), 970);
    assert_eq!(
        file.dataset("version").unwrap().text().unwrap(),
        "dingo=0.10.3"
    );
    let columns = file.dataset("parameters").unwrap().columns().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let expected =
        "chirp_mass mass_ratio phase chi_1 chi_2 theta_jn luminosity_distance geocent_time";
    assert_eq!(names.join(" "), expected);
    let mass = columns[0].values.to_f64();
    assert_eq!((mass.len(), mass[4321]), (6000, 28.278849333365795));
    close(mass.iter().sum(), 223375.86376391439, 223375.9);
    close(columns[6].values.to_f64().iter().sum(), 600000.0, 600000.0);
    let plus = file.dataset("polarizations/h_plus").unwrap();
    assert_eq!(plus.shape().unwrap(), [6000, 64]);
    let row = plus.read_rows::<[f64; 2]>(1234..1235).unwrap();
    assert_eq!(row[17], [4.205507704389574e-23, -2.844450796983628e-23]);
    let sum = complex_sum(&plus);
    // Terms of about 1e-22 cancel: the rounding follows the sum of their magnitudes.
    close(sum[0], 3.00403548462896e-20, 1e-18);
    close(sum[1], -4.2631214397732924e-20, 1e-18);
    let v = file.dataset("svd/V").unwrap();
    assert_eq!(v.shape().unwrap(), [2049, 64]);
    let sum = complex_sum(&v);
    close(sum[0], 0.7052000869027282, 100.0);
    close(sum[1], -59.18867733119589, 100.0);
    close(
        file.dataset("svd/s")
            .unwrap()
            .read::<f64>()
            .unwrap()
            .iter()
            .sum(),
        6.083239404993091e-19,
        6e-19,
    );
    let mismatches = file.dataset("svd/mismatches").unwrap().columns().unwrap();
    assert_eq!(mismatches[9].name, "mismatch n=64");
    close(
        mismatches[9].values.to_f64().iter().sum(),
        3.987931178950355e-6,
        4e-6,
    );
}

#[test]
fn dingos_asd_data_set() {
    let file = fixture("gw/asds.hdf5");
    assert_eq!(file.datasets_in("asds"), ["H1", "L1"]);
    close(
        file.dataset("asds/H1")
            .unwrap()
            .read::<f64>()
            .unwrap()
            .iter()
            .sum(),
        4.41088129380536e-18,
        4.4e-18,
    );
    let row = file
        .dataset("asds/L1")
        .unwrap()
        .read_rows::<f64>(3..4)
        .unwrap();
    assert_eq!(row[1000], 7.257973741607389e-24);
    let times = file.dataset("gps_times/H1").unwrap().read::<f64>().unwrap();
    assert_eq!(times.iter().sum::<f64>(), 27030229296.0);
}

/// `numpy.arange(60).reshape(20, 3) * 0.5 - 7`.
fn plain() -> Vec<f64> {
    (0..60).map(|k| f64::from(k) * 0.5 - 7.0).collect()
}

/// `arange(500)[:, None] // 10 + arange(8)`.
fn table() -> Vec<f64> {
    (0..4000).map(|k| f64::from(k / 80 + k % 8)).collect()
}

fn read<T: Element>(file: &Hdf5File, name: &str) -> Vec<T> {
    file.dataset(name).unwrap().read::<T>().unwrap()
}

#[test]
fn every_kind_that_h5py_writes() {
    for name in ["hdf5/hard.hdf5", "hdf5/v110.hdf5", "hdf5/latest.hdf5"] {
        let file = fixture(name);
        assert_eq!(read::<f64>(&file, "plain"), plain());
        assert_eq!(read::<f64>(&file, "big_endian"), plain());
        assert_eq!(
            read::<f32>(&file, "float32"),
            plain().iter().map(|&x| x as f32).collect::<Vec<_>>()
        );
        let complex = read::<[f32; 2]>(&file, "big_endian_complex");
        assert_eq!(complex[3], [-5.5, 11.0]);
        assert_eq!(read::<[f32; 2]>(&file, "complex64")[1], [-6.5, 22.0]);
        assert_eq!(read::<[f64; 2]>(&file, "complex128")[1], [-6.5, 22.0]);
        assert_eq!(
            read::<i16>(&file, "int16"),
            [-5, -4, -3, -2, -1, 0, 1, 2, 3, 4]
        );
        assert_eq!(read::<bool>(&file, "bool"), [true, false, true]);
        assert_eq!(read::<f64>(&file, "scalar"), [2.5]);
        assert_eq!(read::<f64>(&file, "empty"), [0.0; 0]);
        assert_eq!(read::<i64>(&file, "group/inner/deep"), [0, 1, 2, 3]);
        let texts = |name| file.dataset(name).unwrap().texts().unwrap();
        assert_eq!(texts("texts"), ["alpha", "βeta", ""]);
        assert_eq!(texts("fixed_texts"), ["H1", "L1", "Virgo"]);
        let columns = file.dataset("record").unwrap().columns().unwrap();
        let column = |k: usize| (columns[k].name.as_str(), columns[k].values.to_f64());
        assert_eq!(column(0), ("mass", vec![0.0, 1.25, 2.5, 3.75, 5.0, 6.25]));
        assert_eq!(column(1), ("n", vec![0.0, -3.0, -6.0, -9.0, -12.0, -15.0]));
        assert_eq!(column(2), ("w", vec![0.0, 0.125, 0.25, 0.375, 0.5, 0.625]));
        assert_eq!(column(3), ("ok", vec![0.0, 1.0, 0.0, 1.0, 0.0, 1.0]));
        let attributes = file.attributes("").unwrap();
        assert_eq!(attributes["text"], Attribute::Text("ünïcode".into()));
        assert_eq!(attributes["bytes"], Attribute::Text("bytes".into()));
        assert_eq!(attributes["int"], Attribute::Integer(3));
        assert_eq!(attributes["bool"], Attribute::Integer(1));
        assert_eq!(attributes["float"], Attribute::Float(0.25));
        assert_eq!(attributes["ints"], Attribute::Integers(vec![0, 1, 2]));
        assert_eq!(
            attributes["floats"],
            Attribute::Floats(vec![0.0, 0.25, 0.5])
        );
        assert_eq!(
            attributes["texts"],
            Attribute::Texts(vec!["a".into(), "b".into()])
        );
        assert_eq!(
            attributes["complex"].kind(),
            "complex128 that cannot be read"
        );
    }
}

#[test]
fn compressed_and_chunked_datasets() {
    for name in ["hdf5/hard.hdf5", "hdf5/v110.hdf5"] {
        let file = fixture(name);
        for name in ["chunked", "gzip", "lzf", "fletcher32", "unlimited"] {
            let dataset = file.dataset(name).unwrap();
            assert_eq!(dataset.read::<f64>().unwrap(), table(), "{name}");
            assert_eq!(
                dataset.read_rows::<f64>(63..131).unwrap(),
                table()[63 * 8..131 * 8],
                "{name}"
            );
            let list = [499, 0, 77, 78, 77, 250];
            let mut seen = vec![vec![]; list.len()];
            let each = |at: usize, row: &[f64]| seen[at] = row.to_vec();
            dataset.visit_list(&list, each).unwrap();
            for (row, seen) in list.iter().zip(seen) {
                assert_eq!(seen, table()[*row as usize * 8..][..8], "{name}, row {row}");
            }
        }
        assert_eq!(read::<[f64; 2]>(&file, "gzip_complex")[9], [1.0, 50.0]);
        let columns = file.dataset("gzip_record").unwrap().columns().unwrap();
        assert_eq!(
            (columns[0].values.len(), columns[0].values.to_f64()[299]),
            (300, 6.25)
        );
    }
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let file = fixture("hdf5/hard.hdf5");
    let error = |name: &str| {
        file.dataset(name)
            .unwrap()
            .read::<f64>()
            .unwrap_err()
            .to_string()
    };
    assert!(error("never_written").contains("its data were never written"));
    assert!(error("null").contains("its data were never written"));
    assert!(
        error("sparse")
            .contains("dataset `sparse`: the file is damaged: 1 of its 10 chunks were written")
    );
    assert!(error("half").contains("expected float64, got a floating-point number of 16 bits"));
    assert!(error("gzip_record").contains("expected float64, got a record of 4 fields"));
    let packed = file
        .dataset("scaleoffset")
        .unwrap()
        .read::<i32>()
        .unwrap_err();
    assert!(
        packed.to_string().contains("compression with scaleoffset"),
        "{packed}"
    );
    assert!(packed.to_string().contains("hint: "), "{packed}");
    let arrays = file.dataset("arrays").unwrap();
    let error = arrays.columns().unwrap_err().to_string();
    assert!(
        error.contains("column `x`: expected a number, got an array in each element"),
        "{error}"
    );
    assert!(matches!(arrays.element().unwrap(), ElementType::Record(fields) if fields.len() == 1));
    // Links to names that do not exist and into other files are no datasets of this one.
    for name in ["gone", "outside"] {
        assert!(matches!(file.dataset(name), Err(Error::Missing { .. })));
    }
    let latest = fixture("hdf5/latest.hdf5");
    for name in ["gzip", "lzf", "fletcher32", "unlimited"] {
        let error = latest.dataset(name).unwrap().read::<f64>().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported { .. }), "{text}");
        assert!(
            text.contains("storage layout version 5, which HDF5 2 writes with libver='latest'")
        );
    }
}

#[test]
fn many_attributes_and_many_members() {
    let file = fixture("hdf5/many.hdf5");
    let attributes = file.attributes("").unwrap();
    assert_eq!(attributes.len(), 45);
    assert_eq!(attributes["attribute_43"], Attribute::Integer(43));
    assert_eq!(attributes["long"], Attribute::Text("x".repeat(50_000)));
    assert_eq!(file.datasets_in("weights").len(), 60);
    let bias = read::<f32>(&file, "weights/flow._transform._transforms.59.bias");
    assert_eq!(bias, [59.0; 3]);
}

#[test]
fn eight_threads_read_the_rows_they_ask_for() {
    // One handle, shared: every row read must be the row asked for.
    let file = fixture("gw/waveform_dataset.hdf5");
    let plus = file.dataset("polarizations/h_plus").unwrap();
    let all = plus.read::<[f64; 2]>().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (plus, all) = (plus.clone(), &all);
            scope.spawn(move || {
                let rows: Vec<u64> = (0..10_000)
                    .map(|k| (k * 7919 + thread * 104_729) % 6000)
                    .collect();
                for batch in rows.chunks(500) {
                    plus.visit_list::<[f64; 2]>(batch, |at, row| {
                        let start = batch[at] as usize * 64;
                        assert_eq!(row, &all[start..start + 64]);
                    })
                    .unwrap();
                }
            });
        }
    });
}
