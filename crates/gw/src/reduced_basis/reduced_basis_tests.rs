use super::*;
use crate::memory_waveforms::{memory, settings, source};
use dunnart_files::WriteOptions;
use dunnart_hdf5::Hdf5File;
use faer::{Mat, c64};

const SETTINGS: ReducedBasisSettings = ReducedBasisSettings {
    size: 60,
    training_samples: 110,
    validation_samples: 40,
    seed: 4,
};

fn draw() -> Draw {
    Draw {
        seed: 4,
        stage: u32::MAX,
        epoch: 1,
    }
}

/// All strain of a detector as a matrix.
fn matrix(source: &WaveformSource, rows: std::ops::Range<u64>, detector: usize) -> Mat<c64> {
    let [detectors, _, bins] = source.observation_shape();
    let samples: Vec<u64> = rows.collect();
    let mut strain = vec![0.0; samples.len() * detectors * 2 * bins];
    source.noise_free(&samples, draw(), &mut strain).unwrap();
    Mat::from_fn(samples.len(), bins, |row, bin| {
        let at = (row * detectors + detector) * 2 * bins + bin;
        c64::new(f64::from(strain[at]), f64::from(strain[at + bins]))
    })
}

/// Against the dense decomposition of the whole matrix.
#[test]
fn bases_are_the_leading_singular_vectors() {
    let source = source(&memory(Some(12)), &settings(&["H1", "L1"]), 2).unwrap();
    let bases = reduced_bases(&source, &SETTINGS).unwrap();
    let names: Vec<&str> = bases.iter().map(ReducedBasis::detector).collect();
    assert_eq!(names, ["H1", "L1"]);
    let bins = source.observation_shape()[2];
    for (detector, basis) in bases.iter().enumerate() {
        let training = matrix(&source, 0..110, detector);
        let exact = training.thin_svd().unwrap();
        let values = exact.S().column_vector();
        // The data have no gap behind the basis: the hardest case. What matters is what is captured.
        let captured: f64 = basis.singular_values().iter().map(|s| s * s).sum();
        let best: f64 = (0..60).map(|k| values[k].re.powi(2)).sum();
        assert!((captured / best - 1.0).abs() < 2e-3, "{captured} {best}");
        let first = basis.singular_values()[0] / values[0].re;
        assert!((first - 1.0).abs() < 1e-6, "{first}");
        assert!(basis.singular_values().is_sorted_by(|a, b| a >= b));
        let v = Mat::from_fn(bins, 60, |i, j| {
            let [re, im] = basis.v()[i * 60 + j];
            c64::new(re, im)
        });
        let gram = v.adjoint() * &v;
        let identity = Mat::<c64>::identity(60, 60);
        assert!((&gram - &identity).norm_max() < 1e-12);
        // The first vector is the dense one's, up to a phase.
        let overlap = v.col(0).adjoint() * exact.V().col(0);
        assert!((overlap.norm() - 1.0).abs() < 1e-6, "{}", overlap.norm());
        // Mismatches by their definition.
        assert_eq!(basis.sizes(), [50, 60]);
        let validation = matrix(&source, 110..150, detector);
        for (place, &size) in basis.sizes().iter().enumerate() {
            let part = v.get(.., ..size);
            let back = &validation * part * part.adjoint();
            assert_eq!(basis.mismatches(place).len(), 40);
            for (row, mismatch) in basis.mismatches(place).iter().enumerate() {
                let (d, b) = (validation.row(row), back.row(row));
                let inner = (d * b.adjoint()).re;
                let expected = 1.0 - inner / (d.norm_l2() * b.norm_l2());
                assert!((mismatch - expected).abs() < 1e-12);
            }
        }
    }
}

/// Six coefficients and no time shifts: a data set of six dimensions is captured whole.
#[test]
fn data_of_few_dimensions_are_captured_whole() {
    let mut fixed = settings(&["L1"]);
    let prior = serde_json::json!({"geocent_time": 0.0, "ra": 1.0, "dec": 0.5});
    fixed.extrinsic_prior = prior.as_object().unwrap().clone();
    fixed.inference_parameters = vec!["chirp_mass".into()];
    let source = source(&memory(Some(6)), &fixed, 1).unwrap();
    let mut flat = crate::NoiseSpectra::new(&memory(Some(6)).grid);
    flat.push("L1", &[1e-23; 400], &memory(Some(6)).grid)
        .unwrap();
    let mut source = source;
    source.set_spectra(flat).unwrap();
    let settings = ReducedBasisSettings {
        size: 6,
        ..SETTINGS
    };
    let bases = reduced_bases(&source, &settings).unwrap();
    assert_eq!(bases[0].sizes(), [6]);
    // What is left is the strain's single precision, squared.
    let worst = bases[0]
        .mismatches(0)
        .iter()
        .fold(0.0f64, |m, x| m.max(x.abs()));
    assert!(worst < 1e-12, "{worst:e}");
    let five = ReducedBasisSettings {
        size: 5,
        ..settings
    };
    let bases = reduced_bases(&source, &five).unwrap();
    assert!(bases[0].mismatches(0).iter().any(|x| *x > 1e-4));
}

#[test]
fn threads_do_not_matter() {
    let settings = settings(&["H1", "L1"]);
    let one = source(&memory(Some(12)), &settings, 1).unwrap();
    let two = source(&memory(Some(12)), &settings, 2).unwrap();
    let bases = reduced_bases(&one, &SETTINGS).unwrap();
    assert_eq!(bases, reduced_bases(&two, &SETTINGS).unwrap());
    let other = ReducedBasisSettings {
        seed: 5,
        ..SETTINGS
    };
    assert_ne!(bases, reduced_bases(&one, &other).unwrap());
}

#[test]
fn what_is_too_large_is_refused() {
    let source = source(&memory(Some(12)), &settings(&["H1", "L1"]), 1).unwrap();
    for (settings, part) in [
        (
            ReducedBasisSettings {
                validation_samples: 41,
                ..SETTINGS
            },
            "at most the 150 waveforms",
        ),
        (
            ReducedBasisSettings {
                training_samples: usize::MAX,
                ..SETTINGS
            },
            "at most the 150",
        ),
        (
            ReducedBasisSettings {
                size: 111,
                ..SETTINGS
            },
            "1 to 110",
        ),
        (
            ReducedBasisSettings {
                size: 0,
                ..SETTINGS
            },
            "1 to 110",
        ),
    ] {
        let message = reduced_bases(&source, &settings).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn the_file_has_dingos_layout() {
    let source = source(&memory(Some(12)), &settings(&["H1"]), 1).unwrap();
    let basis = &reduced_bases(&source, &SETTINGS).unwrap()[0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("svd_H1.hdf5");
    let masses: Vec<f64> = (0..40).map(f64::from).collect();
    let parameters = [("chirp_mass".to_owned(), masses.clone())];
    basis
        .write(&path, &parameters, &WriteOptions::default())
        .unwrap();
    let file = Hdf5File::open(&path).unwrap();
    assert_eq!(file.root_text("dataset_type").unwrap(), "svd_basis");
    let v = file.dataset("V").unwrap();
    assert_eq!(v.shape().unwrap(), [400, 60]);
    let numbers: Vec<[f64; 2]> = v.read().unwrap();
    assert!(numbers[..80 * 60].iter().all(|pair| *pair == [0.0; 2]));
    assert_eq!(&numbers[80 * 60..], basis.v());
    assert_eq!(
        file.dataset("s").unwrap().read::<f64>().unwrap(),
        basis.singular_values()
    );
    let columns = file.dataset("mismatches").unwrap().columns().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["chirp_mass", "mismatch n=50", "mismatch n=60"]);
    assert_eq!(columns[0].values.to_f64(), masses);
    assert_eq!(columns[2].values.to_f64(), basis.mismatches(1));
    let short = [("chirp_mass".to_owned(), vec![1.0])];
    assert!(
        basis
            .write(&path, &short, &WriteOptions::default())
            .is_err()
    );
}
