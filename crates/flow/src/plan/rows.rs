//! Between the batch's row-major order and the plan's features-first order.

/// `[T][width]` to `[width][T]`.
pub(crate) fn to_features_first<T: Copy>(rows: &[T], width: usize, out: &mut [T]) {
    debug_assert_eq!(rows.len(), out.len());
    if width == 0 {
        return;
    }
    let count = rows.len() / width;
    for (feature, out) in out.chunks_exact_mut(count.max(1)).enumerate() {
        for (value, row) in out.iter_mut().zip(rows.chunks_exact(width)) {
            *value = row[feature];
        }
    }
}

/// `[width][T]` to `[T][width]`.
pub(crate) fn to_rows<T: Copy>(features: &[T], width: usize, out: &mut [T]) {
    debug_assert_eq!(features.len(), out.len());
    if width == 0 {
        return;
    }
    let count = features.len() / width;
    for (feature, values) in features.chunks_exact(count.max(1)).enumerate() {
        for (row, value) in out.chunks_exact_mut(width).zip(values) {
            row[feature] = *value;
        }
    }
}

/// Fills every row of `[features][T]` with its own constant.
pub(crate) fn fill_rows<T: Copy>(constants: &[T], out: &mut [T]) {
    if constants.is_empty() {
        return;
    }
    let count = out.len() / constants.len();
    for (row, constant) in out.chunks_exact_mut(count.max(1)).zip(constants) {
        row.fill(*constant);
    }
}

/// Copies the listed rows of `[features][T]` to adjacent rows.
pub(crate) fn gather<T: Copy>(features: &[T], which: &[usize], count: usize, out: &mut [T]) {
    for (row, &feature) in out.chunks_exact_mut(count.max(1)).zip(which) {
        row.copy_from_slice(&features[feature * count..(feature + 1) * count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_orders_are_inverse_to_each_other() {
        let rows: Vec<usize> = (0..12).collect();
        let mut features = vec![0; 12];
        to_features_first(&rows, 3, &mut features);
        assert_eq!(features, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
        let mut back = vec![0; 12];
        to_rows(&features, 3, &mut back);
        assert_eq!(back, rows);
        let mut some = vec![0; 8];
        gather(&features, &[2, 0], 4, &mut some);
        assert_eq!(some, [2, 5, 8, 11, 0, 3, 6, 9]);
        fill_rows(&[7, 9], &mut some);
        assert_eq!(some, [7, 7, 7, 7, 9, 9, 9, 9]);
    }
}
