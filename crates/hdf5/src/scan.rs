//! A look at a block of metadata before the library parses it.
//!
//! The library parses datatypes by recursion and reserves space for as many members as a compound claims.
//! A block of 64 kB can nest six thousand compounds that claim 65,535 members each: a full stack or
//! gigabytes of reservations. Datatypes are not marked in a block, so every offset where one could begin
//! is tried; what nests deeper or reserves more than any real file is refused.

/// Datatypes nested deeper than this are refused. dingo's files nest two; a run of equal numbers can look
/// like a chain, so the bound is what a small stack bears rather than what a file needs.
const MAX_DEPTH: u32 = 400;
/// What the compounds of one datatype may reserve, in members; dingo's have fewer than a hundred.
const MAX_MEMBERS: u64 = 200_000;
/// Steps allowed for each byte of a block before it is refused as contrived.
const STEPS_PER_BYTE: u64 = 64;
/// A block this small may take as many steps as one of this size.
const SMALL: u64 = 4096;

/// Checks every datatype that could begin in `block`.
///
/// # Errors
///
/// Says what the block claims when no real datatype would.
pub(crate) fn datatypes(block: &[u8]) -> Result<(), String> {
    let mut scan = Scan {
        block,
        members: 0,
        steps: (block.len() as u64).max(SMALL) * STEPS_PER_BYTE,
        verdict: Ok(()),
    };
    for (at, first) in block.iter().enumerate() {
        // Only a class with parts can nest: compound, enumeration, variable length, array, complex.
        if matches!(first & 0x0f, 6 | 8..=11) {
            scan.members = 0;
            let _ = scan.datatype(at, 0);
            if scan.verdict.is_err() {
                return scan.verdict;
            }
        }
    }
    Ok(())
}

struct Scan<'a> {
    block: &'a [u8],
    members: u64,
    steps: u64,
    verdict: Result<(), String>,
}

impl Scan<'_> {
    fn refuse<T>(&mut self, reason: &str) -> Option<T> {
        self.verdict = Err(reason.to_owned());
        None
    }

    fn byte(&self, at: usize) -> Option<usize> {
        self.block.get(at).map(|&byte| usize::from(byte))
    }

    /// Where the name that starts at `at` ends, after its terminator.
    fn after_name(&mut self, at: usize, padded: bool) -> Option<usize> {
        let rest = self.block.get(at..)?;
        let length = rest.iter().position(|&byte| byte == 0).map(|end| end + 1);
        let passed = length.unwrap_or(rest.len()) as u64;
        self.steps = self.steps.saturating_sub(passed / 8);
        let length = length?;
        Some(
            at + if padded {
                length.next_multiple_of(8)
            } else {
                length
            },
        )
    }

    /// Where the datatype that starts at `at` ends; `None` when it is none, or refused.
    fn datatype(&mut self, at: usize, depth: u32) -> Option<usize> {
        if depth > MAX_DEPTH {
            return self.refuse("it nests datatypes deeper than any real file");
        }
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            return self.refuse("its datatypes are entangled as in no real file");
        }
        let head = self.block.get(at..at.checked_add(8)?)?;
        let (class, version) = (head[0] & 0x0f, head[0] >> 4);
        let count = usize::from(head[1]) | usize::from(head[2]) << 8;
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let body = at + 8;
        match class {
            0 | 4 => Some(body + 4),
            1 => Some(body + 12),
            2 => Some(body + 2),
            3 | 7 => Some(body),
            5 => Some(body + usize::from(head[1]).next_multiple_of(8)),
            6 | 11 if class == 11 || (1..=5).contains(&version) => {
                let old = class == 6 && version < 3;
                self.members += count as u64;
                if self.members > MAX_MEMBERS {
                    return self
                        .refuse("its compound datatypes claim more members than any real file");
                }
                // The width of a member's offset depends on the record's size from version 3 on.
                let offset_bytes = match size {
                    _ if old => 4,
                    0..=0xff => 1,
                    0x100..=0xffff => 2,
                    0x1_0000..=0xff_ffff => 3,
                    _ => 4,
                };
                let mut next = body;
                for _ in 0..count {
                    next = self.after_name(next, old)?;
                    next += offset_bytes + if old && version == 1 { 28 } else { 0 };
                    next = self.datatype(next, depth + 1)?;
                }
                Some(next)
            }
            8 => {
                let value = self.block.get(body + 4..body + 8)?;
                let width = u32::from_le_bytes([value[0], value[1], value[2], value[3]]) as usize;
                let mut next = self.datatype(body, depth + 1)?;
                for _ in 0..count {
                    next = self.after_name(next, version < 3)?;
                }
                next.checked_add(count.checked_mul(width)?)
            }
            9 => self.datatype(body, depth + 1),
            10 if (2..=5).contains(&version) => {
                let rank = self.byte(body)?;
                let dimensions = if version == 2 {
                    4 + 8 * rank
                } else {
                    1 + 4 * rank
                };
                self.datatype(body + dimensions, depth + 1)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(class: u8, count: u16, size: u32) -> Vec<u8> {
        let mut bytes = vec![0x30 | class, count as u8, (count >> 8) as u8, 0];
        bytes.extend(size.to_le_bytes());
        bytes
    }

    #[test]
    fn an_ordinary_record_passes() {
        let mut block = vec![0; 24];
        block.extend(head(6, 2, 16));
        for name in ["r", "i"] {
            block.extend(name.as_bytes());
            block.extend([0, 0]);
            block.extend(head(1, 0, 8));
            block.extend([0; 12]);
        }
        assert_eq!(datatypes(&block), Ok(()));
        assert_eq!(datatypes(&[]), Ok(()));
    }

    #[test]
    fn nested_claims_are_refused() {
        let mut deep = Vec::new();
        for _ in 0..1000 {
            deep.extend(head(9, 0, 16));
        }
        assert!(datatypes(&deep).unwrap_err().contains("deeper"));
        let mut wide = Vec::new();
        for _ in 0..10 {
            wide.extend(head(6, u16::MAX, 16));
            wide.extend([0, 0]);
        }
        assert!(datatypes(&wide).unwrap_err().contains("more members"));
        // The chain begins behind an innocent sibling.
        let mut behind = head(6, 2, 16);
        behind.extend([b'a', 0, 0]);
        behind.extend(head(0, 0, 4));
        behind.extend([0; 4]);
        behind.extend([b'b', 0, 0]);
        behind.extend(&wide);
        assert!(datatypes(&behind).is_err());
    }

    #[test]
    fn noise_ends_quickly() {
        let mut state = 1u64;
        let block: Vec<u8> = (0..1 << 18)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let _ = datatypes(&block);
    }
}
