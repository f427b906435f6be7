//! The basis of a compressed data set, laid out for the product with coefficients.

use super::BLOCK;
use super::multiply::LANES;

/// The conjugate of a basis V over the kept bins: a row of coefficients c is the waveform
/// `h_f = sum_k c_k conj(V_fk)`.
///
/// Bins lie in tiles of `LANES`, a tile's numbers for one coefficient beside each other: real parts,
/// then imaginary parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    packed: Vec<f32>,
    bins: usize,
    size: usize,
}

impl Basis {
    /// A basis from V, complex numbers as pairs, over bins that all reach the network; each bin is
    /// multiplied by its element of `scale` if there is one.
    ///
    /// # Shapes
    /// `v` is `[bins, columns]`, of which the first `size` columns are taken; `scale` is `[bins]`. Returns
    /// `None` for other shapes.
    pub fn new(
        v: &[[f32; 2]],
        (bins, columns): (usize, usize),
        size: usize,
        scale: Option<&[f64]>,
    ) -> Option<Self> {
        let whole = bins.checked_mul(columns) == Some(v.len());
        let scaled = scale.is_none_or(|scale| scale.len() == bins);
        if !whole || !scaled || size == 0 || size > columns {
            return None;
        }
        let mut packed = vec![0.0; bins.div_ceil(LANES) * size * 2 * LANES];
        for (bin, row) in v.chunks_exact(columns).enumerate() {
            let factor = scale.map_or(1.0, |scale| scale[bin]);
            let tile = &mut packed[bin / LANES * size * 2 * LANES..];
            for (numbers, [re, im]) in tile.chunks_exact_mut(2 * LANES).zip(&row[..size]) {
                numbers[bin % LANES] = (f64::from(*re) * factor) as f32;
                numbers[LANES + bin % LANES] = (-f64::from(*im) * factor) as f32;
            }
        }
        Some(Self { packed, bins, size })
    }

    /// Bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Coefficients of a waveform.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The tiles of a block.
    pub(super) fn block(&self, block: usize) -> &[f32] {
        let numbers = BLOCK * self.size * 2;
        let start = block * numbers;
        &self.packed[start..self.packed.len().min(start + numbers)]
    }
}
