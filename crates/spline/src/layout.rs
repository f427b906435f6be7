//! Where the logits of the elements lie in memory, and blocks of them in and out.

use crate::block::LANES;
use crate::{Error, SplineSettings};

/// Logits of n elements, to read.
///
/// # Shapes
/// K bins. `BinsMajor`: widths `[K][n]`, heights `[K][n]`, derivatives `[K - 1][n]`, each row holding
/// one logit of all elements; this is the fast layout. `ElementMajor`: `[n][3 K - 1]`, each row
/// holding widths, heights and derivatives of one element, as the last layer of a conditioner
/// gives them batch-first.
#[derive(Clone, Copy, Debug)]
pub enum Parameters<'a, T> {
    /// One row for each logit.
    BinsMajor {
        /// Unnormalized widths, `[K][n]`.
        widths: &'a [T],
        /// Unnormalized heights, `[K][n]`.
        heights: &'a [T],
        /// Unnormalized inner derivatives, `[K - 1][n]`.
        derivatives: &'a [T],
    },
    /// One row for each element, `[n][3 K - 1]`.
    ElementMajor(&'a [T]),
}

/// Logits of n elements or gradients with respect to them, to write; shapes as [`Parameters`].
#[derive(Debug)]
pub enum ParametersMut<'a, T> {
    /// One row for each logit.
    BinsMajor {
        /// Unnormalized widths, `[K][n]`.
        widths: &'a mut [T],
        /// Unnormalized heights, `[K][n]`.
        heights: &'a mut [T],
        /// Unnormalized inner derivatives, `[K - 1][n]`.
        derivatives: &'a mut [T],
    },
    /// One row for each element, `[n][3 K - 1]`.
    ElementMajor(&'a mut [T]),
}

/// Values before heights and before derivatives in `[3 K - 1][n]`.
fn offsets(settings: &SplineSettings, length: usize) -> (usize, usize) {
    let elements = length / settings.parameters_per_element();
    (
        settings.num_bins * elements,
        2 * settings.num_bins * elements,
    )
}

impl<'a, T> Parameters<'a, T> {
    /// Bins-major parameters out of one buffer `[3 K - 1][n]`: widths, heights, derivatives.
    ///
    /// A buffer that is no multiple of 3 K - 1 is reported by the call that uses the parameters.
    pub fn from_rows(settings: &SplineSettings, rows: &'a [T]) -> Self {
        let (heights, derivatives) = offsets(settings, rows.len());
        Self::BinsMajor {
            widths: &rows[..heights],
            heights: &rows[heights..derivatives],
            derivatives: &rows[derivatives..],
        }
    }

    pub(crate) fn check(&self, settings: &SplineSettings, elements: usize) -> Result<(), Error> {
        match self {
            Self::BinsMajor {
                widths,
                heights,
                derivatives,
            } => {
                let lengths = [widths.len(), heights.len(), derivatives.len()];
                check_rows(settings, elements, lengths)
            }
            Self::ElementMajor(values) => check_packed(settings, elements, values.len()),
        }
    }
}

impl<'a, T> ParametersMut<'a, T> {
    /// Bins-major parameters out of one buffer `[3 K - 1][n]`: widths, heights, derivatives.
    ///
    /// A buffer that is no multiple of 3 K - 1 is reported by the call that uses the parameters.
    pub fn from_rows(settings: &SplineSettings, rows: &'a mut [T]) -> Self {
        let (heights, derivatives) = offsets(settings, rows.len());
        let (rest, derivatives) = rows.split_at_mut(derivatives);
        let (widths, heights) = rest.split_at_mut(heights);
        Self::BinsMajor {
            widths,
            heights,
            derivatives,
        }
    }

    pub(crate) fn check(&self, settings: &SplineSettings, elements: usize) -> Result<(), Error> {
        match self {
            Self::BinsMajor {
                widths,
                heights,
                derivatives,
            } => {
                let lengths = [widths.len(), heights.len(), derivatives.len()];
                check_rows(settings, elements, lengths)
            }
            Self::ElementMajor(values) => check_packed(settings, elements, values.len()),
        }
    }
}

fn check_rows(
    settings: &SplineSettings,
    elements: usize,
    lengths: [usize; 3],
) -> Result<(), Error> {
    let bins = settings.num_bins;
    check_length("unnormalized widths", bins * elements, lengths[0])?;
    check_length("unnormalized heights", bins * elements, lengths[1])?;
    check_length(
        "unnormalized derivatives",
        (bins - 1) * elements,
        lengths[2],
    )
}

fn check_packed(settings: &SplineSettings, elements: usize, actual: usize) -> Result<(), Error> {
    check_length(
        "spline parameters",
        settings.parameters_per_element() * elements,
        actual,
    )
}

pub(crate) fn check_length(
    name: &'static str,
    expected: usize,
    actual: usize,
) -> Result<(), Error> {
    if expected == actual {
        Ok(())
    } else {
        Err(Error::Length {
            name,
            expected,
            actual,
        })
    }
}

/// The logits of one chunk of elements, to read.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a, T> {
    /// Three buffers of rows of `stride` elements, of which the chunk starts at `start`.
    Rows {
        parts: [&'a [T]; 3],
        stride: usize,
        start: usize,
    },
    /// Rows of 3 K - 1 values, one for each element of the chunk.
    Packed(&'a [T]),
}

/// The logits of one chunk of elements, to read and write.
pub(crate) enum Target<'a, T> {
    /// Three buffers of rows of `stride` elements, all of which are the chunk.
    Rows {
        parts: [&'a mut [T]; 3],
        stride: usize,
    },
    /// For each of the three groups, the pieces of its rows that belong to the chunk.
    Pieces([Vec<&'a mut [T]>; 3]),
    /// Rows of 3 K - 1 values, one for each element of the chunk.
    Packed(&'a mut [T]),
}

/// Which group of logits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Widths = 0,
    Heights = 1,
    Derivatives = 2,
}

/// Copies one block of one row; what lies beyond the last element becomes zero.
#[inline(always)]
pub(crate) fn copy_in<T: Copy + Default>(row: &[T], into: &mut [T; LANES]) {
    if let Some(whole) = row.first_chunk::<LANES>() {
        *into = *whole;
    } else {
        *into = [T::default(); LANES];
        into[..row.len()].copy_from_slice(row);
    }
}

/// Copies one block to one row; a shorter row takes what fits.
#[inline(always)]
pub(crate) fn copy_out<T: Copy>(from: &[T; LANES], row: &mut [T]) {
    if let Some(whole) = row.first_chunk_mut::<LANES>() {
        *whole = *from;
    } else {
        let length = row.len();
        row.copy_from_slice(&from[..length]);
    }
}

/// The same group of logits for a block of elements: K (or K - 1) rows of lanes.
#[inline(always)]
fn gather<T: Copy + Default>(packed: &[T], width: usize, column: usize, rows: &mut [[T; LANES]]) {
    for row in rows.iter_mut() {
        *row = [T::default(); LANES];
    }
    for (lane, element) in packed.chunks_exact(width).take(LANES).enumerate() {
        for (row, value) in rows.iter_mut().zip(&element[column..]) {
            row[lane] = *value;
        }
    }
}

impl<T: Copy + Default> Source<'_, T> {
    /// Loads the block that starts at element `first`; `bins` is K.
    #[inline(always)]
    pub(crate) fn load(&self, group: Group, bins: usize, first: usize, rows: &mut [[T; LANES]]) {
        match self {
            Self::Rows {
                parts,
                stride,
                start,
            } => {
                let part = parts[group as usize];
                for (k, row) in rows.iter_mut().enumerate() {
                    copy_in(&part[k * stride + start + first..(k + 1) * stride], row);
                }
            }
            Self::Packed(values) => {
                let width = 3 * bins - 1;
                gather(&values[first * width..], width, group as usize * bins, rows);
            }
        }
    }
}

impl<T: Copy + Default> Target<'_, T> {
    /// Loads the block that starts at element `first`; `bins` is K.
    #[inline(always)]
    pub(crate) fn load(&self, group: Group, bins: usize, first: usize, rows: &mut [[T; LANES]]) {
        match self {
            Self::Rows { parts, stride } => {
                let part = &parts[group as usize];
                for (k, row) in rows.iter_mut().enumerate() {
                    copy_in(&part[k * stride + first..(k + 1) * stride], row);
                }
            }
            Self::Pieces(pieces) => {
                for (piece, row) in pieces[group as usize].iter().zip(rows) {
                    copy_in(&piece[first..], row);
                }
            }
            Self::Packed(values) => {
                let width = 3 * bins - 1;
                gather(&values[first * width..], width, group as usize * bins, rows);
            }
        }
    }

    /// Stores the block that starts at element `first`; `bins` is K.
    #[inline(always)]
    pub(crate) fn store(&mut self, group: Group, bins: usize, first: usize, rows: &[[T; LANES]]) {
        match self {
            Self::Rows { parts, stride } => {
                let part = &mut parts[group as usize];
                for (k, row) in rows.iter().enumerate() {
                    copy_out(row, &mut part[k * *stride + first..(k + 1) * *stride]);
                }
            }
            Self::Pieces(pieces) => {
                for (piece, row) in pieces[group as usize].iter_mut().zip(rows) {
                    copy_out(row, &mut piece[first..]);
                }
            }
            Self::Packed(values) => {
                let width = 3 * bins - 1;
                let column = group as usize * bins;
                let elements = values[first * width..].chunks_exact_mut(width).take(LANES);
                for (lane, element) in elements.enumerate() {
                    for (value, row) in element[column..].iter_mut().zip(rows) {
                        *value = row[lane];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that tells group, row and element apart.
    fn mark(group: usize, row: usize, element: usize) -> f64 {
        (group * 1_000_000 + row * 10_000 + element) as f64
    }

    #[test]
    fn every_layout_loads_and_stores_the_same_blocks() {
        let (bins, elements) = (5, LANES + 7);
        let settings = SplineSettings::new(bins, 1.0);
        let counts = [bins, bins, bins - 1];
        let mut rows = Vec::new();
        for (group, count) in counts.into_iter().enumerate() {
            for row in 0..count {
                rows.extend((0..elements).map(|element| mark(group, row, element)));
            }
        }
        let mut packed = Vec::new();
        for element in 0..elements {
            for (group, count) in counts.into_iter().enumerate() {
                packed.extend((0..count).map(|row| mark(group, row, element)));
            }
        }
        let Parameters::BinsMajor {
            widths,
            heights,
            derivatives,
        } = Parameters::from_rows(&settings, &rows)
        else {
            panic!("from_rows gives rows");
        };
        let strided = Source::Rows {
            parts: [widths, heights, derivatives],
            stride: elements,
            start: 0,
        };
        let groups = [Group::Widths, Group::Heights, Group::Derivatives];
        let mut copy = vec![0.0; packed.len()];
        for first in [0, LANES] {
            for (group, count) in groups.into_iter().zip(counts) {
                let mut from_rows = vec![[0.0; LANES]; count];
                let mut from_packed = vec![[1.0; LANES]; count];
                strided.load(group, bins, first, &mut from_rows);
                Source::Packed(&packed).load(group, bins, first, &mut from_packed);
                assert_eq!(from_rows, from_packed);
                for (row, lanes) in from_rows.iter().enumerate() {
                    for (lane, value) in lanes.iter().enumerate() {
                        let element = first + lane;
                        let expected = if element < elements {
                            mark(group as usize, row, element)
                        } else {
                            0.0
                        };
                        assert_eq!(*value, expected);
                    }
                }
                Target::Packed(&mut copy).store(group, bins, first, &from_rows);
            }
        }
        assert_eq!(copy, packed);
    }

    #[test]
    fn a_wrong_length_names_the_slice() {
        let settings = SplineSettings::new(4, 1.0);
        let rows = vec![0.0_f32; 11 * 3 + 1];
        let error = Parameters::from_rows(&settings, &rows).check(&settings, 3);
        let expected = Error::Length {
            name: "unnormalized derivatives",
            expected: 9,
            actual: 10,
        };
        assert_eq!(error, Err(expected));
        let error = Parameters::ElementMajor(&rows).check(&settings, 3);
        assert_eq!(
            error.map_err(|error| error.to_string()),
            Err("spline parameters: expected 33 values, got 34".to_owned())
        );
    }
}
