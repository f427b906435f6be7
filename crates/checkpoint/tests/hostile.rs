//! Files that somebody damaged or built on purpose: each kind of fault is an error of its own.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::path::{Path, PathBuf};

use dunnart_checkpoint::{Error, Model, read_header};
use dunnart_files::WriteOptions;
use dunnart_random::{Key, Purpose, Stream};
use support::{join, model, settings, split};

struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
    good: Vec<u8>,
    header: String,
    data: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let good = model::<f32>(&settings(), 1).to_bytes().unwrap();
        let (header, data) = split(&good);
        Self {
            _folder: folder,
            path,
            good,
            header,
            data,
        }
    }

    /// What reading these bytes says is wrong.
    fn fault(&self, bytes: &[u8]) -> Error {
        std::fs::write(&self.path, bytes).unwrap();
        match Model::read(&self.path).unwrap_err() {
            Error::File {
                path,
                fault,
                previous: None,
            } if path == self.path => *fault,
            other => panic!("{other}"),
        }
    }

    /// The file with one text of the header replaced.
    fn edited(&self, from: &str, to: &str) -> Vec<u8> {
        assert!(self.header.contains(from), "{from}");
        join(&self.header.replacen(from, to, 1), &self.data)
    }
}

#[test]
fn case_27_truncated_files_are_refused() {
    let bench = Bench::new();
    let whole = bench.good.len() as u64;
    for cut in [
        0,
        1,
        7,
        8,
        9,
        100,
        bench.good.len() - 100,
        bench.good.len() - 1,
    ] {
        match bench.fault(&bench.good[..cut]) {
            Error::Truncated {
                expected, found, ..
            } => {
                assert!(
                    expected > found && expected <= whole,
                    "{cut}: {expected} {found}"
                );
            }
            other => panic!("cut at {cut}: {other}"),
        }
    }
    let longer = [&bench.good[..], b"x"].concat();
    assert!(matches!(
        bench.fault(&longer),
        Error::TrailingBytes { extra: 1 }
    ));
}

#[test]
fn case_27_every_flipped_byte_is_found() {
    let bench = Bench::new();
    // The padding after the header means nothing.
    let padding = 8 + bench.header.len()..bench.good.len() - bench.data.len();
    for at in (0..bench.good.len())
        .step_by(23)
        .filter(|at| !padding.contains(at))
    {
        let mut bytes = bench.good.clone();
        bytes[at] ^= 1 << (at % 8);
        let fault = bench.fault(&bytes);
        if at >= padding.end {
            assert!(
                matches!(fault, Error::Checksum { .. }),
                "byte {at}: {fault}"
            );
        }
    }
}

#[test]
fn headers_that_lie() {
    let bench = Bench::new();
    let oversized = [&u64::MAX.to_le_bytes()[..], &bench.good[8..]].concat();
    assert!(matches!(
        bench.fault(&oversized),
        Error::HeaderTooLarge {
            found: u64::MAX,
            ..
        }
    ));
    let claimed = [&99_000_000u64.to_le_bytes()[..], &bench.good[8..]].concat();
    assert!(matches!(
        bench.fault(&claimed),
        Error::Truncated {
            expected: 99_000_008,
            ..
        }
    ));
    assert!(matches!(
        bench.fault(&join("[1, 2]", b"")),
        Error::Header(_)
    ));
    assert!(matches!(
        bench.fault(&join("{\"a\": ", b"")),
        Error::Header(_)
    ));
    assert!(matches!(
        bench.fault(&join("{}", b"")),
        Error::NotACheckpoint { .. }
    ));
    let invalid = [&3u64.to_le_bytes()[..], b"{\xff}"].concat();
    assert!(matches!(bench.fault(&invalid), Error::Header(_)));
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(matches!(bench.fault(&join(&deep, b"")), Error::Header(_)));
    assert!(matches!(
        bench.fault(&bench.edited("\"shape\"", "\"shale\"")),
        Error::Header(_)
    ));
}

#[test]
fn offsets_that_lie() {
    let bench = Bench::new();
    let tensors = |list: &str, data: usize| join(&format!("{{{list}}}"), &vec![0; data]);
    let tensor = |name: &str, shape: &str, begin: u64, end: u64| {
        format!(
            "\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{begin},{end}]}}"
        )
    };
    let two = |a: String, b: String, data| bench.fault(&tensors(&format!("{a},{b}"), data));
    let overlap = two(tensor("a", "[2]", 0, 8), tensor("b", "[2]", 4, 12), 12);
    assert!(matches!(&overlap, Error::Overlap { first, second } if first == "a" && second == "b"));
    let same = two(tensor("a", "[2]", 0, 8), tensor("b", "[2]", 0, 8), 8);
    assert!(matches!(same, Error::Overlap { .. }));
    let outside = two(tensor("a", "[2]", 0, 8), tensor("b", "[2]", 80, 88), 16);
    assert!(
        matches!(&outside, Error::OutOfRange { name, size: 16, .. } if name == "b"),
        "{outside}"
    );
    let gap = two(tensor("a", "[2]", 0, 8), tensor("b", "[2]", 12, 20), 20);
    assert!(matches!(gap, Error::Gap { bytes: 4, .. }));
    let twice = two(tensor("a", "[2]", 0, 8), tensor("a", "[2]", 8, 16), 16);
    assert!(matches!(&twice, Error::DuplicateKey { name } if name == "a"));
    for (shape, begin, end) in [
        ("[3]", 0, 8),
        ("[2]", 8, 0),
        ("[4611686018427387904,4]", 0, 8),
        ("[18446744073709551615,18446744073709551615]", 0, 8),
        ("[2]", 0, u64::MAX),
    ] {
        let fault = bench.fault(&tensors(&tensor("a", shape, begin, end), 8));
        assert!(
            matches!(&fault, Error::Bytes { name, .. } if name == "a"),
            "{shape}: {fault}"
        );
    }
    for shape in ["[-1]", "[1e99]", "\"x\"", "[0.5]"] {
        let fault = bench.fault(&tensors(&tensor("a", shape, 0, 4), 4));
        assert!(matches!(fault, Error::Header(_)), "{shape}");
    }
    // A huge tensor that the file does not have is noticed before anything is allocated for it.
    let huge = bench.fault(&tensors(
        &tensor("a", "[1000000000000]", 0, 4_000_000_000_000),
        8,
    ));
    assert!(matches!(
        huge,
        Error::Truncated {
            expected: 4_000_000_000_000,
            found: 8,
            ..
        }
    ));
}

#[test]
fn duplicate_metadata() {
    let bench = Bench::new();
    let twice = bench.edited(
        "{\"__metadata__\":",
        "{\"__metadata__\":{},\"__metadata__\":",
    );
    assert!(matches!(bench.fault(&twice), Error::DuplicateKey { .. }));
    let twice = bench.edited("{\"dunnart\":", "{\"dunnart\":\"{}\",\"dunnart\":");
    assert!(matches!(bench.fault(&twice), Error::DuplicateKey { .. }));
}

#[test]
fn element_types_and_shapes() {
    let bench = Bench::new();
    let fault = bench.fault(&bench.edited("\"F32\"", "\"BF16\""));
    assert!(
        matches!(&fault, Error::ElementType { found, .. } if found == "BF16"),
        "{fault}"
    );
    let fault = bench.fault(&bench.edited("\"dtype\":\"F32\"", "\"dtype\":\"I32\""));
    assert!(matches!(fault, Error::Checksum { .. }), "{fault}");
}

#[test]
fn case_26_wrapped_keys_are_read_as_plain_ones() {
    let bench = Bench::new();
    let expected = model::<f32>(&settings(), 1);
    for prefix in [
        "module.",
        "_orig_mod.",
        "_orig_mod.module.",
        "module.module._orig_mod.",
    ] {
        let mut header = bench.header.clone();
        for start in ["\"flow.", "\"embedding_net.", "\"optim."] {
            header = header.replace(start, &format!("\"{prefix}{}", &start[1..]));
        }
        std::fs::write(&bench.path, join(&header, &bench.data)).unwrap();
        assert_eq!(Model::read(&bench.path).unwrap(), expected);
        let tensors = read_header(&bench.path).unwrap().tensors;
        assert!(tensors.iter().all(|t| t.name.starts_with(prefix)));
    }
}

#[test]
fn metadata_that_lies() {
    let bench = Bench::new();
    let fault = bench.fault(&bench.edited("\\\"format_version\\\":1", "\\\"format_version\\\":9"));
    assert!(
        matches!(
            &fault,
            Error::Newer {
                found: 9,
                supported: 1,
                ..
            }
        ),
        "{fault}"
    );
    assert!(
        fault.to_string().contains("use dunnart 0.1.0 or newer"),
        "{fault}"
    );
    let edits = [
        (
            "\\\"format_version\\\":1",
            "\\\"format_version\\\":\\\"1\\\"",
        ),
        ("\\\"checksum\\\"", "\\\"checksun\\\""),
        ("\\\"hidden_dim\\\":4", "\\\"hidden_dim\\\":-4"),
        ("\\\"hidden_dim\\\":4", "\\\"hidden_dimm\\\":4"),
        ("\\\"history\\\":[", "\\\"history\\\":[0,"),
    ];
    for (from, to) in edits {
        let fault = bench.fault(&bench.edited(from, to));
        assert!(matches!(fault, Error::Metadata(_)), "{to}: {fault}");
    }
    let no_network =
        bench.fault(&bench.edited("\\\"num_flow_steps\\\":2", "\\\"num_flow_steps\\\":0"));
    assert!(matches!(no_network, Error::Flow(_)), "{no_network}");
}

#[test]
fn architectures_larger_than_the_file_allocate_nothing() {
    let bench = Bench::new();
    for (from, to) in [
        (
            "\\\"num_flow_steps\\\":2",
            "\\\"num_flow_steps\\\":4000000000",
        ),
        (
            "\\\"num_transform_blocks\\\":1",
            "\\\"num_transform_blocks\\\":18446744073709551615",
        ),
        ("\\\"hidden_dim\\\":4", "\\\"hidden_dim\\\":1000000000"),
        ("\\\"input_dim\\\":3", "\\\"input_dim\\\":1000000000"),
        (
            "\\\"input_dims\\\":[2,3,4]",
            "\\\"input_dims\\\":[1000000000,3,4]",
        ),
        (
            "\\\"hidden_dims\\\":[5,3]",
            "\\\"hidden_dims\\\":[5,4000000000]",
        ),
    ] {
        let fault = bench.fault(&bench.edited(from, to));
        assert!(matches!(fault, Error::Implausible { .. }), "{to}: {fault}");
    }
}

#[test]
fn other_files_are_called_by_their_name() {
    let bench = Bench::new();
    let fault = bench.fault(b"PK\x03\x04 and so on");
    assert!(matches!(fault, Error::Archive(_)), "{fault}");
    let old = [
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 j\xa8P\x19.".as_slice(),
        &[0; 40],
    ]
    .concat();
    let fault = bench.fault(&old);
    assert!(
        matches!(fault, Error::OldTorch) && fault.to_string().contains("hint: "),
        "{fault}"
    );
    assert!(matches!(
        bench.fault(b"\x89HDF\r\n\x1a\n..."),
        Error::OtherFormat { .. }
    ));
    let of = |path: &str| match Model::read(Path::new(path)).unwrap_err() {
        Error::File { fault, .. } => *fault,
        other => panic!("{other}"),
    };
    assert!(matches!(of("/dev/zero"), Error::NotAFile));
    assert!(matches!(of("/"), Error::NotAFile));
    assert!(matches!(of("/no/such/file"), Error::Io(_)));
}

#[test]
fn case_27_the_previous_save_is_named_and_not_taken() {
    let bench = Bench::new();
    let options = WriteOptions {
        keep_previous: true,
        ..WriteOptions::default()
    };
    let (first, second) = (model::<f32>(&settings(), 1), model::<f32>(&settings(), 2));
    first.write(&bench.path, &options).unwrap();
    second.write(&bench.path, &options).unwrap();
    let mut bytes = std::fs::read(&bench.path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&bench.path, &bytes).unwrap();
    let error = Model::read(&bench.path).unwrap_err();
    let text = error.to_string();
    let Error::File {
        previous: Some(previous),
        ..
    } = error
    else {
        panic!("{text}")
    };
    assert!(
        text.contains("is damaged") && text.contains("m.previous.safetensors"),
        "{text}"
    );
    assert_eq!(Model::read(&previous).unwrap(), first);
    std::fs::write(&previous, b"damaged too").unwrap();
    let error = Model::read(&bench.path).unwrap_err();
    assert!(
        matches!(error, Error::File { previous: None, .. }),
        "{error}"
    );
}

/// Damages a file in one of the ways that files get damaged.
fn mutate(bytes: &mut Vec<u8>, random: &mut Stream) {
    let at = random.below(bytes.len().max(1) as u64) as usize;
    let count = 1 + random.below(64) as usize;
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.below(256) as u8,
        3 => {
            let end = (at + count).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => {
            let copy = bytes[at..(at + count).min(bytes.len())].to_vec();
            let to = random.below(bytes.len() as u64) as usize;
            bytes.splice(to..to, copy);
        }
        5 => {
            let end = (at + count).min(bytes.len());
            bytes[at..end].fill(0);
        }
        // Digits of the header: lengths, shapes, offsets, settings.
        6 => {
            let digits: Vec<usize> = (8..bytes.len().min(20_000))
                .filter(|&i| bytes[i].is_ascii_digit())
                .collect();
            if !digits.is_empty() {
                let at = digits[random.below(digits.len() as u64) as usize];
                bytes[at] = b'0' + random.below(10) as u8;
            }
        }
        _ => {
            let value = random.next_u64() >> random.below(64);
            if bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

fn campaign(rounds: u64) {
    let bench = Bench::new();
    let expected = model::<f32>(&settings(), 1);
    for round in 0..rounds {
        let mut random = Key::new(20, Purpose::Benchmark).stream(round);
        let mut bytes = bench.good.clone();
        for _ in 0..=random.below(3) {
            if !bytes.is_empty() {
                mutate(&mut bytes, &mut random);
            }
        }
        std::fs::write(&bench.path, &bytes).unwrap();
        // A damaged file is refused, unless the damage changed nothing that is said.
        match Model::read(&bench.path) {
            Ok(model) => assert_eq!(model, expected, "round {round}"),
            Err(error) => assert!(error.to_string().contains("m.safetensors"), "round {round}"),
        }
    }
}

#[test]
fn damaged_files_are_refused() {
    campaign(500);
}

#[test]
#[ignore = "takes a minute; cargo xtask test --slow"]
fn many_damaged_files_are_refused() {
    campaign(10_000);
}
