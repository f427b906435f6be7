//! One chunk of a batch's rows: its buffers, and how a batch is cut.

use super::coupling::{CouplingBuffers, Scratch};
use super::lu::LuBuffers;
use super::trunk::TrunkBuffers;
use crate::Result;

/// Most rows of a chunk.
const MAX_CHUNK: usize = 256;
/// Chunks are multiples of this, so that vectors are full.
const CHUNK_STEP: usize = 16;

/// Rows of a chunk in a plan for `rows` rows; depends on nothing else.
pub(crate) fn chunk_rows(rows: usize) -> usize {
    let chunks = rows.div_ceil(MAX_CHUNK).max(2);
    rows.div_ceil(chunks).next_multiple_of(CHUNK_STEP)
}

/// Buffers of the embedding for one chunk.
#[derive(Debug)]
pub(crate) struct EmbeddingBuffers<T> {
    /// Reduced-basis coefficients, `[2 n I][T]`.
    pub(crate) reduced: Vec<T>,
    /// Gradient by them, or empty where the reduced-basis layers are frozen.
    pub(crate) reduced_gradient: Vec<T>,
    /// Those of the residual network.
    pub(crate) trunk: TrunkBuffers<T>,
}

/// Buffers of one chunk.
#[derive(Debug)]
pub(crate) struct Chunk<T> {
    /// Its first row in the batch.
    pub(crate) first: usize,
    /// Its rows.
    pub(crate) count: usize,
    /// Those of the embedding.
    pub(crate) embedding: Option<EmbeddingBuffers<T>>,
    /// The context, `[C][T]`.
    pub(crate) context: Vec<T>,
    /// Gradient by the context, `[C][T]`, or empty where nobody needs it.
    pub(crate) context_gradient: Vec<T>,
    /// Those of each step; in evaluation steps take turns.
    pub(crate) steps: Vec<CouplingBuffers<T>>,
    /// Those of the last LU transform.
    pub(crate) last: LuBuffers<T>,
    /// Noise, `[D][T]`.
    pub(crate) noise: Vec<T>,
    /// log q, `[T]`.
    pub(crate) log_prob: Vec<T>,
    /// What every layer uses in turn.
    pub(crate) scratch: Scratch<T>,
}

impl<T> Chunk<T> {
    /// Buffers of step `step`.
    pub(crate) fn step(&self, step: usize) -> &CouplingBuffers<T> {
        &self.steps[step % self.steps.len()]
    }
}

/// Runs `f` on every chunk, on as many threads as there are.
pub(crate) fn each<T: Send>(
    chunks: &mut [Chunk<T>],
    f: &(impl Fn(&mut Chunk<T>) -> Result<()> + Sync),
) -> Result<()> {
    match chunks {
        [] => Ok(()),
        [chunk] => f(chunk),
        _ => {
            let (left, right) = chunks.split_at_mut(chunks.len() / 2);
            let (left, right) = rayon::join(|| each(left, f), || each(right, f));
            left.and(right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded_and_cover_everything() {
        for rows in [1, 2, 48, 64, 256, 300, 512, 4096, 5000] {
            let chunk = chunk_rows(rows);
            assert!((CHUNK_STEP..=MAX_CHUNK).contains(&chunk), "{rows}: {chunk}");
            assert_eq!(chunk % CHUNK_STEP, 0);
        }
        assert_eq!(chunk_rows(256), 128);
        assert_eq!(chunk_rows(512), 256);
    }
}
