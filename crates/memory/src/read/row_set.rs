//! A set of row numbers with one bit for each row of the table. The time to add or find a number
//! does not depend on the size of the set.

/// A set of row numbers.
pub(crate) struct RowSet {
    words: Box<[u64]>,
    len: usize,
}

impl RowSet {
    /// Creates an empty set for row numbers lower than `end`.
    pub(crate) fn below(end: u32) -> Self {
        Self { words: vec![0; (end as usize).div_ceil(64)].into(), len: 0 }
    }

    /// Returns the number of rows in the set.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, row: u32) {
        let Some(word) = self.words.get_mut(row as usize / 64) else {
            debug_assert!(false, "row {row} did not exist when the set was made");
            return;
        };
        let bit = 1 << (row % 64);
        self.len += usize::from(*word & bit == 0);
        *word |= bit;
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        self.words.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Returns the lowest number that is `from` or higher.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        let mut mask = u64::MAX << (from % 64);
        for (at, word) in self.words.iter().enumerate().skip(first) {
            let left = word & mask;
            if left != 0 {
                return Some(at as u32 * 64 + left.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_set(rows in prop::collection::vec(0u32..1000, 0..300), from in 0u32..1100) {
            let mut set = RowSet::below(1000);
            let mut sorted = BTreeSet::new();
            for row in rows {
                set.insert(row);
                sorted.insert(row);
            }
            prop_assert_eq!(set.len(), sorted.len());
            prop_assert_eq!(set.next(from), sorted.range(from..).next().copied());
            prop_assert_eq!(set.contains(from), sorted.contains(&from));
        }
    }
}
