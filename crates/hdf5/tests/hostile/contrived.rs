//! Files made by hand to exhaust a reader.

use std::path::Path;

use dunnart_files::WriteOptions;
use dunnart_hdf5::{Attribute, Column, Content, Data};

use crate::seal;

/// A small data set written by this crate.
pub(crate) fn ours(folder: &Path) -> Vec<u8> {
    let path = folder.join("ours.hdf5");
    let mut content = Content::new();
    let settings = "{'domain': {'f_min': 20.0}, 'compression': None}";
    content
        .attribute("", "settings", Attribute::Text(settings.into()))
        .unwrap();
    content
        .attribute("", "numbers", Attribute::Floats(vec![1.0, 2.0]))
        .unwrap();
    let columns = vec![
        Column::f64("chirp_mass", vec![1.0; 5]),
        Column::f32("ra", vec![2.0; 5]),
    ];
    content
        .dataset("parameters", &[5], Data::Columns(columns))
        .unwrap();
    let waves = vec![[1.0, 2.0]; 20];
    content
        .dataset("polarizations/h_plus", &[5, 4], Data::Complex128(waves))
        .unwrap();
    content
        .dataset("version", &[], Data::Text("dunnart".into()))
        .unwrap();
    content.write(&path, &WriteOptions::default()).unwrap();
    std::fs::read(path).unwrap()
}

/// Where `needle` stands in `bytes`, once.
fn find(bytes: &[u8], needle: &[u8]) -> usize {
    let mut places = bytes
        .windows(needle.len())
        .enumerate()
        .filter(|(_, w)| *w == needle);
    let (at, _) = places.next().expect("the pattern is there");
    assert!(places.next().is_none(), "the pattern is there twice");
    at
}

/// The good file with the one place of `from` replaced.
fn replaced(good: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = find(good, from);
    let mut bytes = good.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    seal::again(&mut bytes);
    bytes
}

/// A file whose only dataset has this datatype message, of any length up to 64 kB.
///
/// A root group in the old format: superblock, header with a symbol table, tree, heap, one symbol node,
/// and the dataset's header.
fn with_datatype(datatype: &[u8]) -> Vec<u8> {
    let mut file = b"\x89HDF\r\n\x1a\n".to_vec();
    file.extend([0, 0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0, 0, 0, 0, 0]);
    let undefined = u64::MAX;
    let (root, tree, heap, names, node, dataset) = (96u64, 136, 680, 712, 744, 1072);
    let put = |file: &mut Vec<u8>, words: &[u64]| {
        for word in words {
            file.extend(word.to_le_bytes());
        }
    };
    let end = dataset + 16 + 24 + 8 + 32 + datatype.len() as u64 + 64;
    put(
        &mut file,
        &[0, undefined, end, undefined, 0, root, 1, tree, heap],
    );
    assert_eq!(file.len() as u64, root);
    // The root group's header: one message, the symbol table.
    file.extend([1, 0, 1, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([0x11, 0, 16, 0, 0, 0, 0, 0]);
    put(&mut file, &[tree, heap]);
    file.extend(b"TREE\x00\x00\x01\x00");
    put(&mut file, &[undefined, undefined, 0, node, 8]);
    file.resize(heap as usize, 0);
    file.extend(b"HEAP\x00\x00\x00\x00");
    put(&mut file, &[32, undefined, names]);
    file.extend(b"\0\0\0\0\0\0\0\0x\0\0\0\0\0\0\0");
    file.resize(node as usize, 0);
    file.extend(b"SNOD\x01\x00\x01\x00");
    put(&mut file, &[8, dataset, 0, 0, 0]);
    file.resize(dataset as usize, 0);
    let space = [1, 0, 0, 0, 0, 0, 0, 0];
    let layout = {
        let mut layout = vec![3, 1];
        layout.extend(0u64.to_le_bytes());
        layout.extend(8u64.to_le_bytes());
        layout.resize(24, 0);
        layout
    };
    let messages = [(1u8, space.to_vec()), (3, datatype.to_vec()), (8, layout)];
    let body: usize = messages.iter().map(|(_, data)| 8 + data.len()).sum();
    file.extend([1, 0, 3, 0, 1, 0, 0, 0]);
    file.extend((body as u32).to_le_bytes());
    file.extend([0; 4]);
    for (kind, data) in messages {
        file.extend([kind, 0]);
        file.extend((data.len() as u16).to_le_bytes());
        file.extend([0; 4]);
        file.extend(data);
    }
    file.resize(end as usize, 0);
    file
}

fn head(class: u8, count: u16, size: u32) -> Vec<u8> {
    let mut bytes = vec![0x30 | class, count as u8, (count >> 8) as u8, 0];
    bytes.extend(size.to_le_bytes());
    bytes
}

/// Each file with its name.
pub(crate) fn all(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let good = ours(folder);
    let shape = [5u64.to_le_bytes(), 4u64.to_le_bytes()].concat();
    let wide = |rows: u64, columns: u64| [rows.to_le_bytes(), columns.to_le_bytes()].concat();
    let repeated = |piece: &[u8]| piece.repeat(65_500 / piece.len());
    let mut nested = head(6, u16::MAX, 16);
    nested.extend([0, 0]);
    vec![
        (
            "a shape of a terabyte",
            replaced(&good, &shape, &wide(1 << 36, 4)),
        ),
        (
            "a shape that overflows",
            replaced(&good, &shape, &wide(1 << 40, 1 << 40)),
        ),
        (
            "rows without end",
            replaced(&good, &shape, &wide(u64::MAX, 4)),
        ),
        ("one row too many", replaced(&good, &shape, &wide(6, 4))),
        (
            "lists nested 8,000 deep",
            with_datatype(&repeated(&head(9, 0, 16))),
        ),
        (
            "records nested, each of 65,535 fields",
            with_datatype(&repeated(&nested)),
        ),
        (
            "an element of four gigabytes",
            with_datatype(&head(3, 0, u32::MAX)),
        ),
        ("a record that ends early", with_datatype(&nested)),
        (
            "an opaque type whose tag ends past the message",
            with_datatype(&{
                let mut record = head(6, 2, 16);
                record.extend([b'a', 0, 0]);
                record.extend(head(5, 255, 8));
                record.resize(264, 1);
                record
            }),
        ),
    ]
}

#[test]
fn the_hand_made_file_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.hdf5");
    let mut number = head(1, 0, 8);
    number[1] = 0x20;
    number[2] = 0x3f;
    number.extend([0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3, 0, 0]);
    number.resize(24, 0);
    std::fs::write(&path, with_datatype(&number)).unwrap();
    let file = dunnart_hdf5::Hdf5File::open(&path).unwrap();
    let dataset = file.dataset("x").unwrap();
    assert_eq!(dataset.element().unwrap().to_string(), "float64");
    assert_eq!(dataset.read::<f64>().unwrap().len(), 1);
}
