//! A map from names to values that keeps the order of insertion.

use std::collections::HashMap;

use crate::{Error, Result};

/// Values by unique names, in the order in which they were inserted.
#[derive(Clone, Debug)]
pub struct Named<V> {
    entries: Vec<(String, V)>,
    index: HashMap<String, usize>,
}

impl<V> Default for Named<V> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            index: HashMap::new(),
        }
    }
}

impl<V: PartialEq> PartialEq for Named<V> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<V> Named<V> {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a value.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] when there is a value of that name.
    pub fn insert(&mut self, name: impl Into<String>, value: V) -> Result<()> {
        let name = name.into();
        if self.index.contains_key(&name) {
            return Err(Error::DuplicateKey { name });
        }
        self.index.insert(name.clone(), self.entries.len());
        self.entries.push((name, value));
        Ok(())
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.index.get(name).map(|&i| &self.entries[i].1)
    }

    /// The value of that name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.index.get(name).map(|&i| &mut self.entries[i].1)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reorders by a rank of the names; equal ranks are ordered by name.
    pub fn sort_by_rank(&mut self, rank: impl Fn(&str) -> usize) {
        self.entries
            .sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
        self.index = self
            .entries
            .iter()
            .enumerate()
            .map(|(i, (n, _))| (n.clone(), i))
            .collect();
    }
}

impl<V> IntoIterator for Named<V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
