//! Rows of coefficients in the order in which the product reads them.

use super::multiply::ROWS;
use super::{DetectorDraw, Rows};

/// Rows of coefficients in groups, each group `[size][ROWS]` pairs; rows that fill up the last group are
/// zero.
pub(super) struct Coefficients {
    packed: Vec<[f32; 2]>,
    rows: usize,
    size: usize,
    projected: bool,
}

impl Coefficients {
    /// One row per sample and detector, projected, for up to two detectors; otherwise two per sample,
    /// plus and cross.
    pub(super) fn new(
        rows: Rows<'_>,
        size: usize,
        draws: &[DetectorDraw<'_>],
        detectors: usize,
    ) -> Self {
        let samples = draws.len() / detectors;
        let projected = detectors <= 2;
        let count = samples * if projected { detectors } else { 2 };
        let mut packed = vec![[0.0; 2]; count.div_ceil(ROWS) * ROWS * size];
        for row in 0..count {
            let group = &mut packed[row / ROWS * ROWS * size..][..ROWS * size];
            let places = group.iter_mut().skip(row % ROWS).step_by(ROWS);
            if projected {
                let sample = row / detectors;
                let range = sample * size..(sample + 1) * size;
                let (a, b) = factors(&draws[row]);
                let pairs = rows.plus[range.clone()].iter().zip(&rows.cross[range]);
                for (place, (plus, cross)) in places.zip(pairs) {
                    *place = [a * plus[0] + b * cross[0], a * plus[1] + b * cross[1]];
                }
            } else {
                let sample = row / 2;
                let source = [rows.plus, rows.cross][row % 2];
                for (place, pair) in places.zip(&source[sample * size..]) {
                    *place = *pair;
                }
            }
        }
        Self {
            packed,
            rows: count,
            size,
            projected,
        }
    }

    /// Whether a row is a detector's strain.
    pub(super) fn is_projected(&self) -> bool {
        self.projected
    }

    pub(super) fn groups(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// The numbers of a group.
    pub(super) fn group(&self, group: usize) -> &[[f32; 2]] {
        &self.packed[group * ROWS * self.size..][..ROWS * self.size]
    }

    /// The rows that a group holds.
    pub(super) fn rows(&self, group: usize) -> std::ops::Range<usize> {
        group * ROWS..self.rows.min((group + 1) * ROWS)
    }
}

/// F+ and Fx in single precision.
fn factors(draw: &DetectorDraw<'_>) -> (f32, f32) {
    (draw.antenna.plus as f32, draw.antenna.cross as f32)
}
