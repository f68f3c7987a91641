//! The index of a table's key: rows by key, and in the order of keys.
//!
//! Automatic keys are consecutive, so a vector from key to row number is both the fastest index and
//! the order itself. Integer keys with too many gaps, UUIDs and texts have a hash index and an
//! ordered one.

use std::ops::ControlFlow;

use marmota_model::{KeyKind, ValueRef};

use crate::table::hash_index::HashIndex;
use crate::table::ordered_index::{OrderedIndex, Position};
use crate::table::pages::Pages;
use crate::table::sort_prefix as compare;

/// The entry for a key without a row.
const NONE: u32 = u32::MAX;
/// A vector with fewer entries than this may have any number of gaps.
const PLACES_MIN: usize = 4096;
/// The maximum number of entries of a vector for each row.
const PLACES_PER_ROW_MAX: usize = 4;

/// The key index of a table.
pub(crate) struct KeyIndex {
    field: usize,
    kind: KeyKind,
    len: usize,
    rows: Rows,
}

enum Rows {
    /// The row with the key `base + place`, or [`NONE`].
    Dense {
        base: i64,
        places: Vec<u32>,
    },
    Sparse {
        hashed: HashIndex,
        ordered: OrderedIndex,
    },
}

/// A range in the order of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyRange {
    Places(usize, usize),
    Positions(Position, Position),
}

/// One end of a range, and true if its value is in the range.
pub(crate) type End<'v> = Option<(ValueRef<'v>, bool)>;

impl KeyRange {
    /// Returns its two ends as numbers, for [`KeyIndex::between`].
    pub(crate) fn ends(self) -> ([usize; 2], [usize; 2]) {
        match self {
            Self::Places(from, to) => ([from, 0], [to, 0]),
            Self::Positions(from, to) => (from.into(), to.into()),
        }
    }
}

impl KeyIndex {
    pub(crate) fn new(field: usize, kind: KeyKind) -> Self {
        let rows = match kind {
            KeyKind::Auto => Rows::Dense { base: 1, places: Vec::new() },
            _ => Rows::sparse(field),
        };
        Self { field, kind, len: 0, rows }
    }

    /// Returns the number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the row with this key.
    #[inline]
    pub(crate) fn find(&self, pages: &Pages, key: ValueRef<'_>) -> Option<u32> {
        match (&self.rows, key) {
            (Rows::Dense { base, places }, ValueRef::Int(key)) => {
                let place = usize::try_from(key.checked_sub(*base)?).ok()?;
                places.get(place).copied().filter(|&row| row != NONE)
            }
            (Rows::Dense { .. }, _) => None,
            (Rows::Sparse { hashed, .. }, key) => hashed.find(pages, |_| key),
        }
    }

    /// Returns the highest key, if it is an integer.
    pub(crate) fn last_int(&self, pages: &Pages) -> Option<i64> {
        match &self.rows {
            // The last entry has a row: see `remove`.
            Rows::Dense { base, places } => {
                places.len().checked_sub(1).map(|last| base + last as i64)
            }
            Rows::Sparse { ordered, .. } => ordered.last().map(|row| pages.int(row, self.field)),
        }
    }

    /// Adds a row whose key no other row has.
    pub(crate) fn insert(&mut self, pages: &Pages, row: u32) {
        if let Rows::Dense { base, places } = &mut self.rows {
            let key = pages.int(row, self.field);
            if places.is_empty() {
                // Keys usually begin with 1, even if another comes first.
                *base = if (1..PLACES_MIN as i64).contains(&key) { 1 } else { key };
            }
            let place = key.checked_sub(*base).and_then(|place| usize::try_from(place).ok());
            let most = (self.len * PLACES_PER_ROW_MAX).max(PLACES_MIN);
            match place {
                Some(place) if place < places.len() => {
                    places[place] = row;
                    self.len += 1;
                    return;
                }
                Some(place) if place == places.len() => {
                    places.push(row);
                    self.len += 1;
                    return;
                }
                Some(place) if place < most => {
                    places.resize(place, NONE);
                    places.push(row);
                    self.len += 1;
                    return;
                }
                _ => self.make_sparse(pages),
            }
        }
        self.len += 1;
        let field = self.field;
        if let Rows::Sparse { hashed, ordered } = &mut self.rows {
            hashed.insert(pages, row);
            insert_ordered(ordered, pages, field, row);
        }
    }

    fn make_sparse(&mut self, pages: &Pages) {
        let Rows::Dense { places, .. } = &self.rows else { return };
        let Rows::Sparse { mut hashed, mut ordered } = Rows::sparse(self.field) else { return };
        for &row in places.iter().filter(|&&row| row != NONE) {
            hashed.insert(pages, row);
            insert_ordered(&mut ordered, pages, self.field, row);
        }
        self.rows = Rows::Sparse { hashed, ordered };
    }

    /// Removes a row whose key still exists.
    pub(crate) fn remove(&mut self, pages: &Pages, row: u32) {
        self.len -= 1;
        let field = self.field;
        match &mut self.rows {
            Rows::Dense { base, places } => {
                let key = pages.int(row, field);
                if let Some(place) =
                    usize::try_from(key - *base).ok().and_then(|at| places.get_mut(at))
                {
                    *place = NONE;
                }
                while places.last() == Some(&NONE) {
                    places.pop();
                }
                // A table that is used as a queue has its rows at the end.
                if places.len() > (self.len * PLACES_PER_ROW_MAX).max(PLACES_MIN) {
                    let first = places.iter().position(|&row| row != NONE).unwrap_or(0);
                    places.drain(..first);
                    *base += first as i64;
                    if places.len() > self.len * PLACES_PER_ROW_MAX {
                        self.make_sparse(pages);
                    }
                }
            }
            Rows::Sparse { hashed, ordered } => {
                hashed.remove(pages, row);
                remove_ordered(ordered, pages, field, row);
                if self.len == 0 {
                    *self = Self::new(self.field, self.kind);
                }
            }
        }
    }

    /// Returns the range of rows whose keys lie between two ends.
    pub(crate) fn range(&self, pages: &Pages, low: End<'_>, high: End<'_>) -> KeyRange {
        match &self.rows {
            Rows::Dense { base, places } => {
                let place = |end: End<'_>, above: bool, none: usize| match end {
                    Some((ValueRef::Int(key), inclusive)) => {
                        let step = i128::from(inclusive == above);
                        let place = i128::from(key) - i128::from(*base) + step;
                        place.clamp(0, places.len() as i128) as usize
                    }
                    _ => none,
                };
                KeyRange::Places(place(low, false, 0), place(high, true, places.len()))
            }
            Rows::Sparse { ordered, .. } => {
                let collation = pages.layout.columns[self.field].collation;
                let at = |key, inclusive_before: bool| {
                    ordered.partition(|(_, row)| {
                        let order = collation.order(pages.value(row, self.field), key);
                        order.is_lt() || order.is_eq() && inclusive_before
                    })
                };
                KeyRange::Positions(
                    low.map_or(ordered.start(), |(key, inclusive)| at(key, !inclusive)),
                    high.map_or(ordered.end(), |(key, inclusive)| at(key, inclusive)),
                )
            }
        }
    }

    /// Returns the range with these ends, which have to be of the current index.
    pub(crate) fn between(&self, from: [usize; 2], to: [usize; 2]) -> KeyRange {
        match &self.rows {
            Rows::Dense { .. } => KeyRange::Places(from[0], to[0]),
            Rows::Sparse { .. } => KeyRange::Positions(from.into(), to.into()),
        }
    }

    /// Returns the approximate number of rows in a range.
    pub(crate) fn count(&self, range: KeyRange) -> usize {
        match (&self.rows, range) {
            (_, KeyRange::Places(from, to)) => to.saturating_sub(from).min(self.len),
            (Rows::Sparse { ordered, .. }, KeyRange::Positions(from, to)) => {
                ordered.estimate(from, to)
            }
            (Rows::Dense { .. }, KeyRange::Positions(..)) => 0,
        }
    }

    /// Moves up to `most` rows from the front of a range to `into`, or from its back.
    pub(crate) fn draw(
        &self,
        range: &mut KeyRange,
        reverse: bool,
        most: usize,
        into: &mut Vec<u32>,
    ) {
        match (&self.rows, range) {
            (Rows::Dense { places, .. }, KeyRange::Places(from, to)) => {
                while into.len() < most && *from < *to {
                    let place = if reverse {
                        *to -= 1;
                        *to
                    } else {
                        *from += 1;
                        *from - 1
                    };
                    into.extend(places.get(place).copied().filter(|&row| row != NONE));
                }
            }
            (Rows::Sparse { ordered, .. }, KeyRange::Positions(from, to)) => {
                ordered.draw(from, to, reverse, most, into);
            }
            // A range always fits the index: both are read under one lock.
            _ => {}
        }
    }

    /// Lends the rows of a range in the order of keys or reversed.
    #[inline]
    pub(crate) fn walk(
        &self,
        range: KeyRange,
        reverse: bool,
        mut lend: impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match (&self.rows, range) {
            (Rows::Dense { places, .. }, KeyRange::Places(from, to)) => {
                let rows = places.get(from..to).unwrap_or(&[]);
                let mut lend = |&row: &u32| {
                    if row == NONE { ControlFlow::Continue(()) } else { lend(row) }
                };
                if reverse {
                    rows.iter().rev().try_for_each(&mut lend)
                } else {
                    rows.iter().try_for_each(&mut lend)
                }
            }
            (Rows::Sparse { ordered, .. }, KeyRange::Positions(from, to)) => {
                ordered.walk(from, to, reverse, lend)
            }
            // A range always fits the index: both are read under one lock.
            _ => ControlFlow::Continue(()),
        }
    }

    /// Returns the rows that [`KeyIndex::walk`] lends after the first `skip`, copied by the slice.
    pub(crate) fn rows_behind(&self, range: KeyRange, reverse: bool, skip: usize) -> Vec<u32> {
        match (&self.rows, range) {
            (Rows::Dense { places, .. }, KeyRange::Places(from, to)) => {
                let within = places.get(from..to).unwrap_or(&[]);
                // Without gaps, an entry is a row.
                if self.len == places.len() {
                    let left = within.len().saturating_sub(skip);
                    return match reverse {
                        false => within[within.len() - left..].to_vec(),
                        true => within[..left].iter().rev().copied().collect(),
                    };
                }
                let rows = within.iter().copied().filter(|&row| row != NONE);
                let mut left = Vec::with_capacity(within.len().saturating_sub(skip));
                match reverse {
                    false => left.extend(rows.skip(skip)),
                    true => left.extend(rows.rev().skip(skip)),
                }
                left
            }
            (Rows::Sparse { ordered, .. }, KeyRange::Positions(from, to)) => {
                ordered.rows_behind(from, to, reverse, skip)
            }
            // A range always fits the index: both are read under one lock.
            _ => Vec::new(),
        }
    }
}

impl Rows {
    fn sparse(field: usize) -> Self {
        Self::Sparse { hashed: HashIndex::new(&[field]), ordered: OrderedIndex::default() }
    }
}

fn prefix(pages: &Pages, field: usize, row: u32) -> u64 {
    compare::prefix(pages.layout.columns[field].collation, pages.value(row, field))
}

fn insert_ordered(ordered: &mut OrderedIndex, pages: &Pages, field: usize, row: u32) {
    let collation = pages.layout.columns[field].collation;
    let (prefix, key) = (prefix(pages, field, row), pages.value(row, field));
    ordered.insert((prefix, row), |(other, at)| {
        other.cmp(&prefix).then_with(|| collation.order(pages.value(at, field), key))
    });
}

fn remove_ordered(ordered: &mut OrderedIndex, pages: &Pages, field: usize, row: u32) {
    let collation = pages.layout.columns[field].collation;
    let (prefix, key) = (prefix(pages, field, row), pages.value(row, field));
    ordered.remove(|(other, at)| {
        other.cmp(&prefix).then_with(|| collation.order(pages.value(at, field), key))
    });
}
