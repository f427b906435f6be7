//! Damaged files: every one is read whole or refused with an error, never a panic and never a huge
//! allocation.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

use dunnart_data::{
    Array, ArrayFile, Observations, PosteriorSamples, SimulationOptions, SimulationSet, Values,
};
use dunnart_random::{Key, Purpose, Stream};

/// Mutants of each file in the ordinary run.
const MUTANTS: u64 = 1500;
/// Mutants of each file in the slow run.
const MANY_MUTANTS: u64 = 60_000;

fn good_file(folder: &std::path::Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    let values = |n: usize| Values::F64((0..n).map(|k| k as f64 * 0.37).collect());
    let names = vec!["a".to_owned(), "b".into()];
    PosteriorSamples::new(2, 5, names, values(20), values(10))
        .unwrap()
        .write(&path)
        .unwrap();
    std::fs::read(path).unwrap()
}

/// Flips, overwrites, cuts, repeats or extends.
fn mutate(bytes: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut mutant = bytes.to_vec();
    for _ in 0..=stream.below(3) {
        let at = stream.below(mutant.len().max(1) as u64) as usize;
        let length = mutant.len();
        match stream.below(6) {
            0 if length > 0 => mutant[at] ^= 1 << stream.below(8),
            1 if length > 0 => mutant[at] = stream.next_u64() as u8,
            2 => mutant.truncate(at),
            3 if length > 8 => {
                // A size field: all ones, or a power of two.
                let start = at.min(length - 8);
                let word = if stream.below(2) == 0 {
                    u64::MAX
                } else {
                    1 << stream.below(64)
                };
                mutant[start..start + 8].copy_from_slice(&word.to_le_bytes());
            }
            4 => {
                let end = (at + 1 + stream.below(32) as usize).min(length);
                let piece = mutant[at.min(end)..end].to_vec();
                mutant.splice(at..at, piece);
            }
            _ => mutant.push(stream.next_u64() as u8),
        }
    }
    mutant
}

/// Reads everything there is to read; the result does not matter, that there is one does.
fn read_all(path: &std::path::Path) -> bool {
    let Ok(mut file) = ArrayFile::open(path) else {
        return false;
    };
    let mut whole = file.arrays().is_ok();
    for name in file.names() {
        whole &= match file.read(&name) {
            Ok(Array { shape, values, .. }) => {
                assert_eq!(shape.iter().product::<usize>(), values.len());
                true
            }
            Err(_) => file.read_names(&name).is_ok(),
        };
    }
    let _ = file.read_names("names");
    let options = SimulationOptions {
        parameters: "samples".into(),
        observations: "log_prob".into(),
        ..Default::default()
    };
    let _ = SimulationSet::open(path, &options);
    let _ = Observations::read(path, Some("log_prob"), 5);
    whole
}

fn campaign(name: &str, mutants: u64) {
    let folder = tempfile::tempdir().unwrap();
    let good = good_file(folder.path(), name);
    let path = folder.path().join(format!("mutant_{name}"));
    std::fs::write(&path, &good).unwrap();
    assert!(read_all(&path));
    let mut refused = 0;
    for index in 0..mutants {
        let mutant = mutate(&good, &mut Key::new(1, Purpose::Benchmark).stream(index));
        std::fs::write(&path, &mutant).unwrap();
        refused += u64::from(!read_all(&path));
    }
    // Most damage is found; the rest hits values, time stamps and padding.
    assert!(refused > mutants / 3, "{refused} of {mutants} refused");
}

#[test]
fn damaged_archives() {
    campaign("a.npz", MUTANTS);
}

#[test]
fn damaged_safetensors() {
    campaign("a.safetensors", MUTANTS);
}

#[test]
#[ignore = "slow: the long campaign"]
fn many_damaged_files() {
    campaign("a.npz", MANY_MUTANTS);
    campaign("a.safetensors", MANY_MUTANTS);
}

#[test]
fn every_truncation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.npz", "a.safetensors"] {
        let good = good_file(folder.path(), name);
        let path = folder.path().join(format!("cut_{name}"));
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(!read_all(&path), "{name} cut to {length} bytes");
        }
    }
}

/// A stored archive with one entry, made by hand so that its sizes can lie.
fn stored_archive(entry: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file("x.npy", options).unwrap();
    std::io::Write::write_all(&mut archive, entry).unwrap();
    archive.finish().unwrap().into_inner()
}

#[test]
fn declared_shapes_larger_than_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    for shape in [
        "(1000000000000,)",
        "(4, 1000000)",
        "(18446744073709551615, 2)",
        "(3, 2)",
    ] {
        let text = format!("{{'descr': '<f8', 'fortran_order': True, 'shape': {shape}, }}\n");
        let mut entry = b"\x93NUMPY\x01\x00".to_vec();
        entry.extend((text.len() as u16).to_le_bytes());
        entry.extend(text.as_bytes());
        entry.extend([0; 40]);
        std::fs::write(&path, stored_archive(&entry)).unwrap();
        let error = ArrayFile::open(&path)
            .unwrap()
            .read("x")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("array `x`: ") && error.contains("shape ["),
            "{error}"
        );
    }
    let long = [
        b"\x93NUMPY\x02\x00".as_slice(),
        &u32::MAX.to_le_bytes(),
        b"{",
    ]
    .concat();
    std::fs::write(&path, stored_archive(&long)).unwrap();
    let error = ArrayFile::open(&path)
        .unwrap()
        .read("x")
        .unwrap_err()
        .to_string();
    assert!(error.contains("header of 4294967295 bytes"), "{error}");
    std::fs::write(&path, stored_archive(b"not an array at all")).unwrap();
    let error = ArrayFile::open(&path)
        .unwrap()
        .read("x")
        .unwrap_err()
        .to_string();
    assert!(error.contains("wrong magic string"), "{error}");
}

#[test]
fn a_changed_value_fails_the_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    let text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n";
    let entry = [
        b"\x93NUMPY\x01\x00".as_slice(),
        &(text.len() as u16).to_le_bytes(),
        text,
        &[7; 16],
    ]
    .concat();
    let mut archive = stored_archive(&entry);
    std::fs::write(&path, &archive).unwrap();
    assert!(ArrayFile::open(&path).unwrap().read("x").is_ok());
    let value = archive
        .windows(16)
        .position(|window| window == [7; 16])
        .unwrap();
    archive[value] = 8;
    std::fs::write(&path, &archive).unwrap();
    let error = ArrayFile::open(&path)
        .unwrap()
        .read("x")
        .unwrap_err()
        .to_string();
    assert!(error.to_lowercase().contains("checksum"), "{error}");
}
