//! One number that changes with any byte of a checkpoint's content.

use serde_json::Value;

use crate::json::canonical;
use crate::tensor::{Data, Tensor, each};

/// CRC-32 of the little-endian bytes of a tensor.
pub(crate) fn of_tensor(tensor: &Tensor) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let result = for_each_block(tensor.data(), &mut |bytes| {
        hasher.update(bytes);
        Ok(())
    });
    debug_assert!(result.is_ok(), "hashing cannot fail");
    hasher.finalize()
}

/// Hands the little-endian bytes of a tensor over, a bounded block at a time.
pub(crate) fn for_each_block(
    data: &Data,
    take: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut block = vec![0; (1 << 16).min(data.len() * data.dtype().bytes())];
    let size = data.dtype().bytes();
    each!(data, values => for part in values.chunks((block.len() / size).max(1)) {
        let block = &mut block[..part.len() * size];
        for (bytes, value) in block.chunks_exact_mut(size).zip(part) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        take(block)?;
    });
    Ok(())
}

/// What the checksum covers of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) crc: u32,
}

/// Checksum of a whole checkpoint: its metadata and, in the order of their names, its tensors.
///
/// It does not depend on where the tensors lie in the file.
pub(crate) fn of_checkpoint(metadata: &Value, mut tensors: Vec<Fingerprint>) -> String {
    tensors.sort();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(canonical(metadata).as_bytes());
    for t in tensors {
        let line = format!("\n{} {} {:?} {:08x}", t.name, t.dtype, t.shape, t.crc);
        hasher.update(line.as_bytes());
    }
    format!("crc32:{:08x}", hasher.finalize())
}
