//! Damaged and contrived files: every one is read or refused with an error, without a panic, in bounded
//! time, and with no more memory than eight times its size and 64 MiB.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and reports what it counted"
)]

mod contrived;
mod seal;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dunnart_hdf5::{Dataset, Element, Error, Hdf5File};
use dunnart_random::{Key, Purpose, Stream};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The peak is the process's, so one test at a time may read it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Mutants of each file in the ordinary run.
const MUTANTS: u64 = 120;
/// Mutants of each file in the slow run; there are seven files.
const MANY_MUTANTS: u64 = 6_000;
/// No file of a few hundred kilobytes may keep the reader busy for longer.
const PATIENCE: Duration = Duration::from_secs(5);

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Reads everything there is in every way there is.
fn read_all(path: &Path) -> Result<(), Error> {
    fn whole<T: Element>(dataset: &Dataset) -> Result<(), Error> {
        let values = dataset.read::<T>()?;
        let expected = dataset.rows()? as usize * dataset.row_length()?;
        assert_eq!(values.len(), expected, "{}", dataset.name());
        let rows = dataset.rows()?;
        if rows > 0 {
            dataset.visit_list::<T>(&[rows - 1, 0, rows / 2], |_, _| ())?;
        }
        Ok(())
    }
    let file = Hdf5File::open(path)?;
    let mut first = Ok(());
    let mut keep = |result: Result<(), Error>| {
        if first.is_ok() {
            first = result;
        }
    };
    for group in file.groups() {
        keep(file.attributes(group).map(|_| ()));
    }
    for dataset in file.datasets() {
        keep(dataset.attributes().map(|_| ()));
        keep(dataset.columns().map(|_| ()).or_else(|error| match error {
            Error::Type { .. } => {
                let ways = [
                    whole::<f64>,
                    whole::<f32>,
                    whole::<[f32; 2]>,
                    whole::<[f64; 2]>,
                    whole::<i16>,
                    whole::<i32>,
                    whole::<i64>,
                    whole::<bool>,
                    |dataset: &Dataset| dataset.texts().map(|_| ()),
                ];
                let mut result = Ok(());
                for way in ways {
                    result = way(&dataset);
                    if !matches!(result, Err(Error::Type { .. })) {
                        break;
                    }
                }
                result
            }
            other => Err(other),
        }));
    }
    first
}

/// Reads a file that may be anything, and checks time and memory; the error it ended in, if it did.
fn probe(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Instant::now();
    let result = read_all(path);
    let (took, peak) = (start.elapsed(), ALLOCATOR.peak_usage() - before);
    let bound = 8 * bytes.len() + (64 << 20);
    let length = bytes.len();
    if peak > bound || took > PATIENCE {
        // Kept so that the failure can be looked into.
        let kept = std::env::temp_dir().join("dunnart_hostile.hdf5");
        std::fs::copy(path, &kept).unwrap();
        panic!(
            "{peak} bytes and {took:?} for {length} bytes, kept as {}",
            kept.display()
        );
    }
    result
}

/// Flips, overwrites, cuts, repeats or extends; sizes and addresses get values that lead astray.
fn mutate(bytes: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut mutant = bytes.to_vec();
    for _ in 0..=stream.below(3) {
        let length = mutant.len();
        if length < 16 {
            return mutant;
        }
        let at = stream.below(length as u64 - 8) as usize;
        match stream.below(8) {
            0 => mutant[at] ^= 1 << stream.below(8),
            1 => mutant[at] = stream.next_u64() as u8,
            2 => mutant.truncate(at),
            3 => {
                let width = [1, 2, 4, 8][stream.below(4) as usize];
                let word = if stream.below(2) == 0 {
                    u64::MAX
                } else {
                    1 << stream.below(64)
                };
                mutant[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
            }
            4 => {
                let end = (at + 1 + stream.below(32) as usize).min(length);
                let piece = mutant[at..end].to_vec();
                mutant.splice(at..at, piece);
            }
            // An address that points somewhere else in the file.
            5 | 6 => {
                let target = stream.below(length as u64) & !7;
                let at = at & !7;
                mutant[at..at + 8].copy_from_slice(&target.to_le_bytes());
            }
            _ => {
                let from = stream.below(length as u64 - 8) as usize;
                let piece: [u8; 8] = mutant[from..from + 8].try_into().unwrap();
                mutant[at..at + 8].copy_from_slice(&piece);
            }
        }
    }
    mutant
}

fn campaign(mutants: u64) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mutant.hdf5");
    let names = "small small_gzip hard v110 latest many ours";
    for (file, name) in (0..).zip(names.split(' ')) {
        let good = if name == "ours" {
            contrived::ours(folder.path())
        } else {
            std::fs::read(fixtures().join(format!("hdf5/{name}.hdf5"))).unwrap()
        };
        // Some of these files hold what is not read, and are refused in part even when they are whole.
        let whole = probe(&path, &good).is_ok();
        let mut refused = 0;
        for index in 0..mutants {
            let mut stream = Key::new(1, Purpose::Benchmark).stream(file << 32 | index);
            let mut mutant = mutate(&good, &mut stream);
            // Half of them get valid checksums again, so that the damage reaches the parsers.
            if index % 2 == 0 {
                seal::again(&mut mutant);
            }
            refused += u64::from(probe(&path, &mutant).is_err());
        }
        println!("{name}: {refused} of {mutants} mutants refused");
        let most = if whole { mutants * 19 / 20 } else { mutants };
        assert!(
            (mutants / 20..=most).contains(&refused),
            "{name}: {refused} of {mutants} refused"
        );
    }
}

#[test]
fn damaged_files() {
    campaign(MUTANTS);
}

#[test]
#[ignore = "slow: the long campaign"]
fn many_damaged_files() {
    campaign(MANY_MUTANTS);
}

#[test]
fn every_truncation_of_a_data_set_is_refused() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.hdf5");
    let good = std::fs::read(fixtures().join("hdf5/small.hdf5")).unwrap();
    assert!(probe(&path, &good).is_ok());
    for length in (0..good.len()).step_by(7) {
        assert!(
            probe(&path, &good[..length]).is_err(),
            "cut to {length} bytes"
        );
    }
}

#[test]
fn contrived_files_are_refused_without_exhausting_anything() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("contrived.hdf5");
    for (name, bytes) in contrived::all(folder.path()) {
        let error = probe(&path, &bytes).expect_err(name).to_string();
        println!("{name}: {error}");
    }
}
