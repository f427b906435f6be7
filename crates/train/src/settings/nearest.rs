//! The known key that a misspelt one most probably means.

/// The candidate nearest to `word`, if any is near enough to be meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = simplify(word);
    candidates
        .into_iter()
        .map(|candidate| (distance(&plain, &simplify(candidate)), candidate))
        .filter(|&(distance, candidate)| {
            distance <= (candidate.chars().count().max(plain.len()) / 3).clamp(1, 4)
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The hint of an unknown key: the nearest known one, or all of them.
pub(crate) fn hint(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("known here are {}", known.join(", ")),
    }
}

/// Case, hyphens and underscores are the commonest slips, so they do not count.
fn simplify(word: &str) -> Vec<char> {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .take(64)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Number of insertions, deletions, replacements and swaps of neighbours between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_meant_key() {
        let known = ["lr", "betas", "eps", "weight_decay", "fused"];
        assert_eq!(nearest("lrr", known), Some("lr"));
        assert_eq!(nearest("beats", known), Some("betas"));
        assert_eq!(nearest("WeightDecay", known), Some("weight_decay"));
        assert_eq!(nearest("wieght-decay", known), Some("weight_decay"));
        assert_eq!(nearest("momentum", known), None);
    }

    #[test]
    fn counts_edits() {
        let count = |a: &str, b: &str| distance(&simplify(a), &simplify(b));
        assert_eq!(count("kitten", "sitting"), 3);
        assert_eq!(count("ab", "ba"), 1);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("x", "x"), 0);
    }

    #[test]
    fn a_hostile_key_costs_nothing() {
        assert_eq!(nearest(&"a".repeat(10_000_000), ["lr", "betas"]), None);
    }
}
