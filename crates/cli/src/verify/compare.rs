//! Two tensors, element by element.

/// How far computed values are from expected ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Number of elements.
    pub count: usize,
    /// Where the difference is largest.
    pub worst: usize,
    /// The computed value there.
    pub computed: f64,
    /// The expected value there.
    pub expected: f64,
    /// The largest difference; infinite where one side is NaN and the other is not.
    pub difference: f64,
    /// The largest magnitude among the expected values that are finite.
    pub magnitude: f64,
}

/// `|a - b|`; equal values, infinities and NaN among them, have none.
fn distance(computed: f64, expected: f64) -> f64 {
    if computed == expected || (computed.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    let difference = (computed - expected).abs();
    if difference.is_nan() {
        f64::INFINITY
    } else {
        difference
    }
}

impl Comparison {
    /// Compares slices of equal length; `None` when the lengths differ.
    pub fn new(computed: &[f64], expected: &[f64]) -> Option<Self> {
        if computed.len() != expected.len() {
            return None;
        }
        let mut result = Self {
            count: expected.len(),
            worst: 0,
            computed: computed.first().copied().unwrap_or(0.0),
            expected: expected.first().copied().unwrap_or(0.0),
            difference: 0.0,
            magnitude: 0.0,
        };
        for (index, (&c, &e)) in computed.iter().zip(expected).enumerate() {
            let difference = distance(c, e);
            if difference > result.difference {
                result.worst = index;
                result.computed = c;
                result.expected = e;
                result.difference = difference;
            }
            if e.is_finite() {
                result.magnitude = result.magnitude.max(e.abs());
            }
        }
        Some(result)
    }
}

/// The differences of two slices, ascending; quantiles are read off it.
pub(super) fn sorted_differences(computed: &[f64], expected: &[f64]) -> Vec<f64> {
    let mut differences: Vec<f64> = computed
        .iter()
        .zip(expected)
        .map(|(&c, &e)| distance(c, e))
        .collect();
    differences.sort_by(f64::total_cmp);
    differences
}

/// The element of rank `share` between the first (0) and the last (1), to the nearest; the spline
/// crate's own tests read quantiles the same way.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len().saturating_sub(1) as f64).round();
    sorted.get(rank as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_element_is_found_with_both_values() {
        let c = Comparison::new(&[1.0, 2.5, -3.0], &[1.0, 2.0, -3.25]).unwrap();
        assert_eq!((c.count, c.worst), (3, 1));
        assert_eq!((c.computed, c.expected, c.difference), (2.5, 2.0, 0.5));
        assert_eq!(c.magnitude, 3.25);
    }

    #[test]
    fn nan_differs_unless_it_is_expected() {
        let nan = f64::NAN;
        let c = Comparison::new(&[nan, 1.0], &[nan, 1.0]).unwrap();
        assert_eq!(c.difference, 0.0);
        for (computed, expected) in [(nan, 1.0), (1.0, nan), (nan, f64::INFINITY)] {
            let c = Comparison::new(&[0.0, computed], &[0.0, expected]).unwrap();
            assert_eq!(
                (c.worst, c.difference),
                (1, f64::INFINITY),
                "{computed} {expected}"
            );
        }
        let c = Comparison::new(&[f64::INFINITY], &[f64::INFINITY]).unwrap();
        assert_eq!(c.difference, 0.0);
        let c = Comparison::new(&[f64::INFINITY], &[f64::NEG_INFINITY]).unwrap();
        assert_eq!(c.difference, f64::INFINITY);
    }

    #[test]
    fn other_lengths_cannot_be_compared() {
        assert_eq!(Comparison::new(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Comparison::new(&[], &[]).unwrap().difference, 0.0);
    }

    #[test]
    fn quantiles_are_elements() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted[..3], 0.5), 2.0);
        assert_eq!(quantile(&sorted, 0.99), 4.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
