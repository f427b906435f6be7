//! What is written is read back to the bit, and batches hold the rows they name.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

use std::sync::Arc;

use dunnart_data::{
    Array, ArrayFile, Error, Observations, PosteriorSamples, Prefetch, RowSource,
    SimulationOptions, SimulationSet, Values, worker_slice,
};
use proptest::prelude::*;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|column| format!("name {column}")).collect()
}

/// Any bit pattern: the smallest, the largest, infinities and one kind of NaN.
fn any_f64() -> impl Strategy<Value = f64> {
    any::<u64>()
        .prop_map(f64::from_bits)
        .prop_map(|v| if v.is_nan() { f64::NAN } else { v })
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn samples_survive_every_format(
        (observations, per, dimension) in (1usize..4, 1usize..6, 1usize..4),
        pool in proptest::collection::vec(any_f64(), 80),
    ) {
        let rows = observations * per;
        let (values, rest) = pool.split_at(rows * dimension);
        let log_prob = &rest[..rows.min(rest.len())];
        prop_assume!(log_prob.len() == rows);
        let samples = PosteriorSamples::new(
            observations, per, names(dimension),
            Values::F64(values.to_vec()), Values::F64(log_prob.to_vec()),
        ).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for ending in ["npz", "safetensors"] {
            let path = folder.path().join(format!("s.{ending}"));
            samples.write(&path).unwrap();
            let mut file = ArrayFile::open(&path).unwrap();
            let read = file.read("samples").unwrap();
            prop_assert_eq!(&read.shape, &vec![observations, per, dimension]);
            prop_assert_eq!(bits(&read.values.to_vec()), bits(values));
            let read = file.read("log_prob").unwrap();
            prop_assert_eq!(&read.shape, &vec![observations, per]);
            prop_assert_eq!(bits(&read.values.to_vec()), bits(log_prob));
            prop_assert_eq!(file.read_names("names").unwrap(), Some(names(dimension)));
        }
        let path = folder.path().join("s.csv");
        samples.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        let header = format!("observation,{},log_prob", names(dimension).join(","));
        prop_assert_eq!(lines.next().unwrap(), header);
        for (row, line) in lines.enumerate() {
            let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
            prop_assert_eq!(cells[0], (row / per) as f64);
            let expected = &values[row * dimension..(row + 1) * dimension];
            prop_assert_eq!(bits(&cells[1..=dimension]), bits(expected));
            prop_assert_eq!(bits(&cells[dimension + 1..]), bits(&log_prob[row..=row]));
        }
    }

    #[test]
    fn single_precision_stays_single(values in proptest::collection::vec(any::<f32>(), 1..40)) {
        let rows = values.len();
        let zeros = Values::F32(vec![0.0; rows]);
        let samples =
            PosteriorSamples::new(1, rows, names(1), Values::F32(values.clone()), zeros).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for ending in ["npz", "safetensors"] {
            let path = folder.path().join(format!("s.{ending}"));
            samples.write(&path).unwrap();
            let Values::F32(read) = ArrayFile::open(&path).unwrap().read("samples").unwrap().values
            else { panic!("not single") };
            prop_assert!(read.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}

#[test]
fn equal_samples_make_equal_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        let ones = |n| Values::F64(vec![1.0; n]);
        PosteriorSamples::new(1, 2, names(3), ones(6), ones(2))
            .unwrap()
            .write(&path)
            .unwrap();
        std::fs::read(path).unwrap()
    };
    for ending in ["npz", "safetensors", "csv"] {
        assert_eq!(write(&format!("a.{ending}")), write(&format!("b.{ending}")));
    }
}

#[test]
fn samples_that_do_not_fit() {
    let zeros = |n| Values::F64(vec![0.0; n]);
    let new = |s, l| PosteriorSamples::new(2, 3, names(2), zeros(s), zeros(l));
    assert!(matches!(
        new(11, 6),
        Err(Error::Length {
            expected: 12,
            actual: 11,
            ..
        })
    ));
    assert!(matches!(
        new(12, 5),
        Err(Error::Length {
            expected: 6,
            actual: 5,
            ..
        })
    ));
    let folder = tempfile::tempdir().unwrap();
    let good = new(12, 6).unwrap();
    assert!(matches!(
        good.write(folder.path().join("a.txt")),
        Err(Error::UnknownFormat { .. })
    ));
    let comma = PosteriorSamples::new(1, 1, vec!["a,b".into()], zeros(1), zeros(1)).unwrap();
    assert!(matches!(
        comma.write(folder.path().join("a.csv")),
        Err(Error::Name { .. })
    ));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn observations_from_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let values = vec![1.0, 0.1, -2.5, 3e-300, 7.0, 8.0];
    let write = |name: &str| {
        let path = folder.path().join(name);
        let zeros = Values::F64(vec![0.0; 2]);
        PosteriorSamples::new(1, 2, names(3), Values::F64(values.clone()), zeros)
            .unwrap()
            .write(&path)
            .unwrap();
        path
    };
    // Two arrays, neither with a usual name: the choice must be made by the caller.
    for name in ["o.npz", "o.safetensors"] {
        let path = write(name);
        assert!(matches!(
            Observations::read(&path, None, 3),
            Err(Error::MissingArray { .. })
        ));
        let read = Observations::read(&path, Some("log_prob"), 2).unwrap();
        assert_eq!((read.rows(), read.columns()), (1, 2));
        let error = Observations::read(&path, Some("samples"), 3).unwrap_err();
        assert!(matches!(error, Error::Shape { actual, .. } if actual == [1, 2, 3]));
    }
    let table = Observations::read(write("o.csv"), None, 5).unwrap();
    assert_eq!(table.row::<f64>(1), Some(vec![0.0, 3e-300, 7.0, 8.0, 0.0]));
}

/// Simulations whose every value carries the number of its row.
fn numbered(rows: usize) -> Arc<SimulationSet> {
    let column = |factor: f64, width: usize| {
        let values = (0..rows * width)
            .map(|k| (k / width) as f64 * factor + (k % width) as f64)
            .collect();
        Array {
            shape: vec![rows, width],
            values: Values::F64(values),
            element_type: "<f8".into(),
        }
    };
    let options = SimulationOptions::default();
    Arc::new(SimulationSet::from_arrays(column(2.0, 2), column(3.0, 3), &options).unwrap())
}

/// Case 39: eight readers of 10,000 rows, each value checked against the row it belongs to.
#[test]
fn eight_readers_get_the_rows_they_ask_for() {
    let set = numbered(10_000);
    let all: Vec<u64> = (0..10_000).collect();
    let maps = (
        set.standardize_parameters(&all).unwrap(),
        set.standardize_observations(&all).unwrap(),
    );
    let source = RowSource::new(set, maps.0, maps.1).unwrap();
    let order: Vec<u64> = all.iter().map(|k| k * 7919 % 10_000).collect();
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (source, slice) = (source.clone(), worker_slice(&order, reader, 8));
            scope.spawn(move || {
                let (mut theta, mut x) = (Vec::<f64>::new(), Vec::<f64>::new());
                for batch in slice.chunks(64) {
                    source.gather(batch, &mut theta, &mut x).unwrap();
                    source.parameters().invert(&mut theta);
                    source.observations().invert(&mut x);
                    for (&index, (theta, x)) in batch.iter().zip(theta.chunks(2).zip(x.chunks(3))) {
                        let near = |a: f64, b: f64| (a - b).abs() < 1e-8;
                        assert!(
                            near(theta[0], index as f64 * 2.0) && near(theta[1] - theta[0], 1.0)
                        );
                        assert!(near(x[0], index as f64 * 3.0) && near(x[2] - x[0], 2.0));
                    }
                }
            });
        }
    });
}

/// Case 23: single-precision batches are the rounded double-precision ones.
#[test]
fn both_precisions_see_the_same_rows() {
    let set = numbered(50);
    let all: Vec<u64> = (0..50).collect();
    let maps = (
        set.standardize_parameters(&all).unwrap(),
        set.standardize_observations(&all).unwrap(),
    );
    let source = RowSource::new(Arc::clone(&set), maps.0.clone(), maps.1.clone()).unwrap();
    let (mut theta, mut x) = (Vec::<f64>::new(), Vec::<f64>::new());
    let (mut theta_32, mut x_32) = (vec![9.0f32; 3], Vec::<f32>::new());
    source.gather(&[4, 4, 49], &mut theta, &mut x).unwrap();
    source
        .gather(&[4, 4, 49], &mut theta_32, &mut x_32)
        .unwrap();
    assert_eq!((theta.len(), x.len()), (6, 9));
    assert_eq!(theta[..2], theta[2..4]);
    assert!(theta.iter().zip(&theta_32).all(|(&a, &b)| a as f32 == b));
    assert!(x.iter().zip(&x_32).all(|(&a, &b)| a as f32 == b));
    assert!(matches!(
        source.gather(&[1, 50], &mut theta, &mut x),
        Err(Error::Index {
            index: 50,
            rows: 50
        })
    ));
    assert!(theta.is_empty() && x.is_empty());
    // Swapped maps have the wrong numbers of columns.
    assert!(RowSource::new(set, maps.1, maps.0).is_err());
}

#[test]
fn prefetched_batches_are_the_gathered_ones() {
    let set = numbered(100);
    let all: Vec<u64> = (0..100).collect();
    let maps = (
        set.standardize_parameters(&all).unwrap(),
        set.standardize_observations(&all).unwrap(),
    );
    let source = RowSource::new(set, maps.0, maps.1).unwrap();
    let batches: Vec<Vec<u64>> = all.chunks(7).map(<[u64]>::to_vec).collect();
    let (thread, lists) = (source.clone(), batches.clone());
    let mut prefetch =
        Prefetch::<(Vec<f32>, Vec<f32>)>::start(lists, 2, move |indices, buffers| {
            thread.gather(indices, &mut buffers.0, &mut buffers.1)
        });
    for indices in batches {
        let batch = prefetch.next().unwrap().unwrap();
        let mut expected = (Vec::new(), Vec::new());
        source
            .gather(&indices, &mut expected.0, &mut expected.1)
            .unwrap();
        assert_eq!(batch, expected);
        prefetch.recycle(batch);
    }
    assert!(prefetch.next().is_none());
}
