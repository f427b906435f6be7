//! Buffers of one tile of rows, allocated once for each worker, and how rows are cut into tiles.

use super::weights::Trunk;
use crate::plan::Scalar;

/// Most rows of a tile.
const MAX_TILE: usize = 512;
/// Tiles are multiples of this, so that vectors are full.
const TILE_STEP: usize = 16;

/// Rows of a tile when `rows` are to be computed; depends on nothing else.
pub(crate) fn tile_rows(rows: usize) -> usize {
    // Even few rows are worth two tiles, for two threads.
    let tiles = rows
        .div_ceil(MAX_TILE)
        .max(if rows >= 8 * TILE_STEP { 2 } else { 1 });
    rows.div_ceil(tiles)
        .next_multiple_of(TILE_STEP)
        .max(TILE_STEP)
}

/// Activations of a residual network for one tile.
#[derive(Debug)]
pub(crate) struct TrunkBuffers<T> {
    /// Residual stream, `[H][T]`.
    pub(crate) stream: Vec<T>,
    /// Activation before a linear layer, `[H][T]`.
    pub(crate) active: Vec<T>,
    /// Output of a linear layer, `[H][T]`.
    pub(crate) linear: Vec<T>,
    /// Gates before their sigmoid, `[H][T]`.
    pub(crate) gate: Vec<T>,
    /// Means of layer normalisation, `[T]`.
    pub(crate) mean: Vec<T>,
    /// Inverse standard deviations of layer normalisation, `[T]`.
    pub(crate) inverse: Vec<T>,
}

impl<T: Scalar> TrunkBuffers<T> {
    /// Buffers for tiles of at most `rows` rows.
    pub(crate) fn new<'a>(trunks: impl Iterator<Item = &'a Trunk<T>>, rows: usize) -> Self {
        let width = trunks.map(Trunk::max_width).max().unwrap_or(0);
        let wide = || vec![T::ZERO; width * rows];
        Self {
            stream: wide(),
            active: wide(),
            linear: wide(),
            gate: wide(),
            mean: vec![T::ZERO; rows],
            inverse: vec![T::ZERO; rows],
        }
    }
}

/// Activations of the flow for one tile.
#[derive(Debug)]
pub(crate) struct FlowBuffers<T> {
    /// The conditioners' activations.
    pub(crate) trunk: TrunkBuffers<T>,
    /// Features before a transform, `[D][T]`.
    pub(crate) x: Vec<T>,
    /// Features after a transform, `[D][T]`.
    pub(crate) y: Vec<T>,
    /// Input of a conditioner, `[D][T]`.
    pub(crate) condition: Vec<T>,
    /// The context of each row, `[C][T]`; empty if it is the same for all.
    pub(crate) context: Vec<T>,
    /// Spline logits, `[D_tr (3 K - 1)][T]`.
    pub(crate) logits: Vec<T>,
    /// Sum of log-dets, `[T]`.
    pub(crate) log_det: Vec<T>,
    /// Log-det of one feature, `[T]`.
    pub(crate) scratch: Vec<T>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_bounded_and_cover_everything() {
        for rows in [0, 1, 15, 100, 128, 513, 1000, 50_000] {
            let tile = tile_rows(rows);
            assert!((TILE_STEP..=MAX_TILE).contains(&tile), "{rows}: {tile}");
            assert_eq!(tile % TILE_STEP, 0);
        }
        assert_eq!(tile_rows(1024), 512);
        assert_eq!(tile_rows(256), 128);
    }
}
