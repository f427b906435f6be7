//! A permutation from a key.

use crate::key::Key;

/// The order of `0..n` that [`crate::Stream::shuffle`] of the key's stream 0 gives.
pub fn permutation(key: &Key, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    key.stream(0).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;

    #[test]
    fn permutes_and_depends_on_the_key() {
        let key = Key::new(3, Purpose::Shuffle);
        for n in [0, 1, 2, 17, 4096] {
            let mut order = permutation(&key, n);
            assert_eq!(order, permutation(&key, n));
            order.sort_unstable();
            assert!(order.into_iter().eq(0..n));
        }
        assert_ne!(permutation(&key, 100), permutation(&key.epoch(1), 100));
    }

    /// All 24 orders of four elements appear equally often: chi-squared with 23 degrees of freedom.
    #[test]
    fn is_unbiased() {
        let draws = 24_000u32;
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..draws {
            *counts
                .entry(permutation(&Key::new(9, Purpose::Shuffle).epoch(epoch), 4))
                .or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        let expected = f64::from(draws) / 24.0;
        let chi_squared: f64 = counts
            .values()
            .map(|&count| (f64::from(count) - expected).powi(2) / expected)
            .sum();
        // The 0.1 and 99.9 per cent points of chi-squared with 23 degrees of freedom.
        assert!(
            (7.5..49.7).contains(&chi_squared),
            "chi squared {chi_squared}"
        );
    }

    /// Computed by an independent program; a change here changes every run ever made.
    #[test]
    fn golden() {
        assert_eq!(
            permutation(&Key::new(42, Purpose::Shuffle), 10),
            [2, 0, 3, 6, 9, 7, 5, 4, 8, 1]
        );
    }
}
