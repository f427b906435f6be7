//! Cutting one chunk into many that threads can take independently.

use crate::chunk::{Chunk, SplineReal, Task};
use crate::layout::{Source, Target};

impl<'a, T: SplineReal> Chunk<'a, T> {
    /// The same work in chunks of at most `length` elements.
    pub(crate) fn split(self, length: usize) -> Vec<Self> {
        let elements = self.input.len();
        let pieces = elements.div_ceil(length);
        let width = 3 * self.constants.bins - 1;
        let mut targets = match self.target {
            Some(target) => split_target(target, length, pieces, width),
            None => (0..pieces).map(|_| None).collect(),
        };
        let tasks = split_task(self.task, length);
        targets
            .drain(..)
            .zip(tasks)
            .enumerate()
            .map(|(piece, (target, task))| {
                let (first, end) = (piece * length, ((piece + 1) * length).min(elements));
                let source = self.source.map(|source| match source {
                    Source::Rows {
                        parts,
                        stride,
                        start,
                    } => Source::Rows {
                        parts,
                        stride,
                        start: start + first,
                    },
                    Source::Packed(values) => Source::Packed(&values[first * width..end * width]),
                });
                let (constants, inverse) = (self.constants, self.inverse);
                Chunk {
                    constants,
                    inverse,
                    input: &self.input[first..end],
                    source,
                    target,
                    task,
                }
            })
            .collect()
    }
}

fn split_target<T>(
    target: Target<'_, T>,
    length: usize,
    pieces: usize,
    width: usize,
) -> Vec<Option<Target<'_, T>>> {
    if let Target::Packed(values) = target {
        return values
            .chunks_mut(length * width)
            .map(|part| Some(Target::Packed(part)))
            .collect();
    }
    let mut split: Vec<[Vec<&mut [T]>; 3]> = (0..pieces).map(|_| Default::default()).collect();
    match target {
        Target::Rows { parts, stride } => {
            for (group, part) in parts.into_iter().enumerate() {
                for row in part.chunks_mut(stride) {
                    distribute(&mut split, group, row, length);
                }
            }
        }
        Target::Pieces(groups) => {
            for (group, rows) in groups.into_iter().enumerate() {
                for row in rows {
                    distribute(&mut split, group, row, length);
                }
            }
        }
        Target::Packed(_) => {}
    }
    split
        .into_iter()
        .map(|pieces| Some(Target::Pieces(pieces)))
        .collect()
}

/// Hands the parts of one row to the pieces they belong to.
fn distribute<'a, T>(
    split: &mut [[Vec<&'a mut [T]>; 3]],
    group: usize,
    row: &'a mut [T],
    length: usize,
) {
    for (piece, part) in split.iter_mut().zip(row.chunks_mut(length)) {
        piece[group].push(part);
    }
}

fn split_task<T>(task: Task<'_, T>, length: usize) -> Vec<Task<'_, T>> {
    match task {
        Task::Evaluate { output, log_det } => output
            .chunks_mut(length)
            .zip(log_det.chunks_mut(length))
            .map(|(output, log_det)| Task::Evaluate { output, log_det })
            .collect(),
        Task::Differentiate {
            output,
            log_det,
            input,
            prepared,
        } => output
            .chunks(length)
            .zip(log_det.chunks(length))
            .zip(input.chunks_mut(length))
            .map(|((output, log_det), input)| Task::Differentiate {
                output,
                log_det,
                input,
                prepared,
            })
            .collect(),
    }
}
