//! Checksums of the newer format, recomputed after damage.

/// Bob Jenkins' lookup3 with an initial value of 0, as the format uses it.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let word = |piece: &[u8]| {
        let mut four = [0; 4];
        four[..piece.len()].copy_from_slice(piece);
        u32::from_le_bytes(four)
    };
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        for (turn, k) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
            let (x, y, z) = match turn % 3 {
                0 => (&mut a, &mut c, &mut b),
                1 => (&mut b, &mut a, &mut c),
                _ => (&mut c, &mut b, &mut a),
            };
            *x = x.wrapping_sub(*y) ^ y.rotate_left(k);
            *y = y.wrapping_add(*z);
        }
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let mut last = [0; 12];
    last[..rest.len()].copy_from_slice(rest);
    a = a.wrapping_add(word(&last[..4]));
    b = b.wrapping_add(word(&last[4..8]));
    c = c.wrapping_add(word(&last[8..]));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Gives the superblock, and every object header and block whose length can be told, its checksum again.
pub(crate) fn again(file: &mut [u8]) {
    if file.len() > 48 && matches!(file[8], 2 | 3) {
        seal(file, 0, 44);
    }
    for at in 0..file.len().saturating_sub(16) {
        match &file[at..at + 4] {
            b"OHDR" => {
                let flags = file[at + 5];
                let mut body = at + 6;
                body += if flags & 0x20 != 0 { 16 } else { 0 };
                body += if flags & 0x10 != 0 { 4 } else { 0 };
                let width = 1usize << (flags & 3);
                let Some(size) = number(file, body, width) else {
                    continue;
                };
                let length = (body + width - at).saturating_add(size);
                seal(file, at, length);
                continuations(file, body + width, size, flags & 4 != 0);
            }
            // Heap and index headers have one length each with eight-byte addresses.
            b"FRHP" => seal(file, at, 142),
            b"BTHD" => seal(file, at, 34),
            b"FAHD" => seal(file, at, 24),
            b"EAHD" => seal(file, at, 68),
            _ => {}
        }
    }
}

/// Seals the blocks that continue an object header.
fn continuations(file: &mut [u8], start: usize, size: usize, ordered: bool) {
    let prefix = if ordered { 6 } else { 4 };
    let mut at = start;
    let end = start.saturating_add(size).min(file.len());
    while at + prefix <= end {
        let (kind, length) = (file[at], number(file, at + 1, 2).unwrap_or(0));
        if kind == 0x10
            && let (Some(address), Some(length)) = (
                number(file, at + prefix, 8),
                number(file, at + prefix + 8, 8),
            )
            && length > 8
        {
            seal(file, address, length - 4);
        }
        at += prefix + length;
    }
}

fn number(file: &[u8], at: usize, width: usize) -> Option<usize> {
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(file.get(at..at.checked_add(width)?)?);
    usize::try_from(u64::from_le_bytes(bytes)).ok()
}

/// Writes the checksum of `length` bytes from `at` on behind them.
fn seal(file: &mut [u8], at: usize, length: usize) {
    let Some(end) = at.checked_add(length) else {
        return;
    };
    if end.checked_add(4).is_some_and(|after| after <= file.len()) {
        let sum = lookup3(&file[at..end]);
        file[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn sealing_an_intact_file_changes_nothing() {
    for name in ["v110", "latest"] {
        let path = crate::fixtures().join(format!("hdf5/{name}.hdf5"));
        let good = std::fs::read(path).unwrap();
        let mut sealed = good.clone();
        again(&mut sealed);
        let changed = good.iter().zip(&sealed).filter(|(a, b)| a != b).count();
        assert_eq!(changed, 0, "{name}");
    }
}
