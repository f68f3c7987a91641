//! An ordered index: row numbers in an order that the caller defines. They are in sorted chunks,
//! each short enough that an insert moves little, with the first eight bytes of each row's value
//! next to its number, so that a search rarely reads rows.
//!
//! It stores no values: a closure reads them from the rows for comparisons. It was chosen over a
//! `BTreeMap` of encoded keys because that would store values twice, and because a `BTreeMap`
//! cannot compare by data that is stored elsewhere.

use std::cmp::Ordering;
use std::ops::ControlFlow;

/// The maximum number of rows in a chunk. Measured: 128 to 512 are equally fast, below and above it
/// is slower.
const CHUNK_ROWS_MAX: usize = 256;

/// A row number and the prefix of its first value.
pub(crate) type Entry = (u64, u32);

/// The position of an entry: the chunk, then the index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(usize, usize);

impl From<[usize; 2]> for Position {
    fn from([chunk, place]: [usize; 2]) -> Self {
        Self(chunk, place)
    }
}

impl From<Position> for [usize; 2] {
    fn from(Position(chunk, place): Position) -> Self {
        [chunk, place]
    }
}

/// Row numbers in order.
#[derive(Default)]
pub(crate) struct OrderedIndex {
    /// The chunks; none of them is empty.
    chunks: Vec<Vec<Entry>>,
    len: usize,
}

impl OrderedIndex {
    /// Adds an entry; `compare` returns the order of an existing entry relative to the new one.
    pub(crate) fn insert(&mut self, new: Entry, mut compare: impl FnMut(Entry) -> Ordering) {
        self.len += 1;
        let Some(last) = self.chunks.last_mut() else {
            self.chunks.push(vec![new]);
            return;
        };
        // Ascending keys and timestamps are added at the end, and fill chunks completely.
        if last.last().is_some_and(|&entry| compare(entry).is_lt()) {
            if last.len() < CHUNK_ROWS_MAX {
                last.push(new);
            } else {
                self.chunks.push(vec![new]);
            }
            return;
        }
        let Position(at, place) = self.partition(|entry| compare(entry).is_lt());
        let chunk = &mut self.chunks[at];
        chunk.insert(place, new);
        if chunk.len() > CHUNK_ROWS_MAX {
            let second = chunk.split_off(CHUNK_ROWS_MAX / 2);
            self.chunks.insert(at + 1, second);
        }
    }

    /// Removes the entry for which `compare` returns `Equal`.
    pub(crate) fn remove(&mut self, mut compare: impl FnMut(Entry) -> Ordering) {
        let Position(at, place) = self.partition(|entry| compare(entry).is_lt());
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        if !chunk.get(place).is_some_and(|&entry| compare(entry).is_eq()) {
            return;
        }
        chunk.remove(place);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        } else if chunk.len() < CHUNK_ROWS_MAX / 8 && at + 1 < self.chunks.len() {
            // Deletes must not result in many short chunks.
            if self.chunks[at].len() + self.chunks[at + 1].len() <= CHUNK_ROWS_MAX / 2 {
                let mut next = self.chunks.remove(at + 1);
                self.chunks[at].append(&mut next);
            }
        }
    }

    /// Returns the first position whose entry is not `before` the searched one.
    pub(crate) fn partition(&self, mut before: impl FnMut(Entry) -> bool) -> Position {
        let at =
            self.chunks.partition_point(|chunk| chunk.last().is_some_and(|&entry| before(entry)));
        match self.chunks.get(at) {
            Some(chunk) => Position(at, chunk.partition_point(|&entry| before(entry))),
            None => Position(at, 0),
        }
    }

    /// Returns the position of the first entry.
    pub(crate) const fn start(&self) -> Position {
        Position(0, 0)
    }

    /// Returns the position after the last entry.
    pub(crate) fn end(&self) -> Position {
        Position(self.chunks.len(), 0)
    }

    /// Returns the last row.
    pub(crate) fn last(&self) -> Option<u32> {
        Some(self.chunks.last()?.last()?.1)
    }

    /// Returns the number of entries between two positions.
    #[cfg(test)]
    fn count(&self, from: Position, to: Position) -> usize {
        if from >= to {
            return 0;
        }
        let whole: usize = self.chunks[from.0..to.0].iter().map(Vec::len).sum();
        whole + to.1 - from.1
    }

    /// Returns the approximate number of entries between two positions, in O(1).
    pub(crate) fn estimate(&self, from: Position, to: Position) -> usize {
        match to.0.checked_sub(from.0) {
            None => 0,
            Some(0) => to.1.saturating_sub(from.1),
            Some(chunks) => {
                let mean = self.len / self.chunks.len().max(1);
                (chunks * mean + to.1).saturating_sub(from.1).max(1)
            }
        }
    }

    /// Reads up to `most` rows from the front of a range, or from its back, and moves that end of
    /// the range.
    pub(crate) fn draw(
        &self,
        from: &mut Position,
        to: &mut Position,
        reverse: bool,
        most: usize,
        into: &mut Vec<u32>,
    ) {
        while into.len() < most && *from < *to {
            if reverse {
                if to.1 == 0 {
                    let chunk = to.0 - 1;
                    *to = Position(chunk, self.chunks[chunk].len());
                    continue;
                }
                to.1 -= 1;
                into.push(self.chunks[to.0][to.1].1);
            } else if from.1 >= self.chunks[from.0].len() {
                *from = Position(from.0 + 1, 0);
            } else {
                into.push(self.chunks[from.0][from.1].1);
                from.1 += 1;
            }
        }
    }

    /// Lends the rows between two positions, in order or reversed.
    #[inline]
    pub(crate) fn walk(
        &self,
        from: Position,
        to: Position,
        reverse: bool,
        mut lend: impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.walk_chunks(from, to, reverse, |entries| {
            if reverse {
                entries.iter().rev().try_for_each(|&(_, row)| lend(row))
            } else {
                entries.iter().try_for_each(|&(_, row)| lend(row))
            }
        })
    }

    /// Returns the rows that [`OrderedIndex::walk`] lends after the first `skip`, copied by the
    /// chunk, which is faster than a call for each row.
    pub(crate) fn rows_behind(
        &self,
        from: Position,
        to: Position,
        reverse: bool,
        mut skip: usize,
    ) -> Vec<u32> {
        let mut rows = Vec::with_capacity(self.estimate(from, to).saturating_sub(skip));
        let _ = self.walk_chunks(from, to, reverse, |entries| {
            let skipped = skip.min(entries.len());
            skip -= skipped;
            if reverse {
                let left = &entries[..entries.len() - skipped];
                rows.extend(left.iter().rev().map(|&(_, row)| row));
            } else {
                rows.extend(entries[skipped..].iter().map(|&(_, row)| row));
            }
            ControlFlow::Continue(())
        });
        rows
    }

    /// Lends the part of each chunk between two positions.
    #[inline]
    fn walk_chunks(
        &self,
        from: Position,
        to: Position,
        reverse: bool,
        mut lend: impl FnMut(&[Entry]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let chunks = from.0..self.chunks.len().min(to.0 + 1);
        let mut lend_chunk = |at: usize| {
            let chunk = &self.chunks[at];
            let first = if at == from.0 { from.1 } else { 0 };
            let end = if at == to.0 { to.1 } else { chunk.len() };
            lend(chunk.get(first..end).unwrap_or(&[]))
        };
        if reverse {
            chunks.rev().try_for_each(&mut lend_chunk)
        } else {
            chunks.clone().try_for_each(&mut lend_chunk)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(ordered: &OrderedIndex, reverse: bool) -> Vec<u32> {
        let mut rows = Vec::new();
        let _ = ordered.walk(ordered.start(), ordered.end(), reverse, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        rows
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_set(
            steps in prop::collection::vec((any::<bool>(), 0u32..2000), 1..3000),
            skip in 0usize..600,
        ) {
            let mut ordered = OrderedIndex::default();
            let mut set = std::collections::BTreeSet::new();
            for (insert, row) in steps {
                let compare = |(_, other): Entry| other.cmp(&row);
                if insert {
                    if set.insert(row) {
                        ordered.insert((0, row), compare);
                    }
                } else {
                    set.remove(&row);
                    ordered.remove(compare);
                }
            }
            let mut expected: Vec<u32> = set.iter().copied().collect();
            prop_assert_eq!(all(&ordered, false), expected.clone());
            prop_assert_eq!(ordered.last(), expected.last().copied());
            let from = ordered.partition(|(_, row)| row < 500);
            let to = ordered.partition(|(_, row)| row < 1500);
            for reverse in [false, true] {
                let (start, end) = (from, to);
                let (mut from, mut to, mut drawn) = (from, to, Vec::new());
                loop {
                    let mut some = Vec::new();
                    ordered.draw(&mut from, &mut to, reverse, 7, &mut some);
                    if some.is_empty() {
                        break;
                    }
                    drawn.append(&mut some);
                }
                if reverse {
                    drawn.reverse();
                }
                prop_assert_eq!(drawn, set.range(500..1500).copied().collect::<Vec<u32>>());
                let mut behind: Vec<u32> = set.range(500..1500).copied().collect();
                if reverse {
                    behind.reverse();
                }
                behind.drain(..skip.min(behind.len()));
                prop_assert_eq!(ordered.rows_behind(start, end, reverse, skip), behind);
            }
            prop_assert_eq!(ordered.count(from, to), set.range(500..1500).count());
            expected.reverse();
            prop_assert_eq!(all(&ordered, true), expected);
        }
    }
}
