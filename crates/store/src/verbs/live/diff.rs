//! The difference of two pages, as patches that are applied one after the other.

use std::cmp::Ordering;
use std::sync::Arc;

use marmota_model::{FieldSet, Value};

use super::update::{LiveRow, RowPatch};

/// The rows of a page, and how they are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageShape {
    /// The field with the key.
    pub(crate) key: usize,
    /// The fields that subscribers see.
    pub(crate) shown: FieldSet,
}

impl PageShape {
    /// Returns the patches that lead from one page to another. Both have each key at most once.
    ///
    /// Rows that keep their order are updated in place; the fewest possible rows are moved, which
    /// takes a removal and an addition.
    pub(crate) fn diff(self, old: &[LiveRow], new: &[LiveRow]) -> Vec<RowPatch> {
        let same_key = |(a, b): &(&LiveRow, &LiveRow)| self.compare_keys(a, b).is_eq();
        let first = old.iter().zip(new).take_while(same_key).count();
        let (old_rest, new_rest) = (&old[first..], &new[first..]);
        let last = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same_key).count();
        let mut patches = Vec::new();
        for (index, (old, new)) in old.iter().zip(new).take(first).enumerate() {
            self.update(index, old, new, &mut patches);
        }
        let old_middle = &old_rest[..old_rest.len() - last];
        let new_middle = &new_rest[..new_rest.len() - last];
        self.diff_middle(first, old_middle, new_middle, &mut patches);
        for back in (1..=last).rev() {
            let index = new.len() - back;
            self.update(index, &old[old.len() - back], &new[index], &mut patches);
        }
        patches
    }

    /// Adds the patches of two pages' parts that begin at this index of both.
    fn diff_middle(
        self,
        start: usize,
        old: &[LiveRow],
        new: &[LiveRow],
        patches: &mut Vec<RowPatch>,
    ) {
        let mut by_key: Vec<usize> = (0..old.len()).collect();
        by_key.sort_by(|&a, &b| self.compare_keys(&old[a], &old[b]));
        let place = |row: &LiveRow| {
            let found = by_key.binary_search_by(|&at| self.compare_keys(&old[at], row));
            found.ok().map(|at| by_key[at])
        };
        let places: Vec<Option<usize>> = new.iter().map(place).collect();
        let kept = longest_ascending(&places);
        let mut stays = vec![false; old.len()];
        kept.iter().filter_map(|&at| places[at]).for_each(|place| stays[place] = true);
        let removed = (0..old.len()).rev().filter(|&at| !stays[at]);
        patches.extend(removed.map(|at| RowPatch::Remove { index: start + at }));
        let mut kept = kept.into_iter().peekable();
        for (at, row) in new.iter().enumerate() {
            match (kept.next_if_eq(&at), places[at]) {
                (Some(_), Some(place)) => self.update(start + at, &old[place], row, patches),
                _ => patches.push(RowPatch::Add { index: start + at, row: Arc::clone(row) }),
            }
        }
    }

    /// Adds an update, if a field that is shown has another value.
    fn update(self, index: usize, old: &LiveRow, new: &LiveRow, patches: &mut Vec<RowPatch>) {
        if Arc::ptr_eq(old, new) {
            return;
        }
        let is_changed = |&field: &usize| old.get(field) != new.get(field);
        let changed: FieldSet = self.shown.iter().filter(is_changed).collect();
        if !changed.is_empty() {
            patches.push(RowPatch::Update { index, row: Arc::clone(new), changed });
        }
    }

    fn compare_keys(self, a: &[Value], b: &[Value]) -> Ordering {
        a[self.key].as_ref().order(&b[self.key].as_ref())
    }
}

/// Returns the indexes of a longest ascending part of the numbers (patience sorting).
fn longest_ascending(numbers: &[Option<usize>]) -> Vec<usize> {
    // For each length, the index of the least number that ends such a part.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; numbers.len()];
    for (at, number) in numbers.iter().enumerate() {
        if number.is_none() {
            continue;
        }
        let length = ends.partition_point(|&end| numbers[end] < *number);
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut longest = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        longest.push(at);
        next = before[at];
    }
    longest.reverse();
    longest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::verbs::live::update::apply_patches;

    fn page() -> impl Strategy<Value = Vec<LiveRow>> {
        let row = (0_i64..12, 0_i64..3);
        prop::collection::vec(row, 0..10).prop_map(|rows| {
            let mut keys = Vec::new();
            let mut page: Vec<LiveRow> = Vec::new();
            for (key, value) in rows {
                if !keys.contains(&key) {
                    keys.push(key);
                    page.push(Arc::new([Value::Int(key), Value::Int(value)]));
                }
            }
            page
        })
    }

    const SHAPE: PageShape = PageShape { key: 0, shown: FieldSet::first(2) };

    proptest! {
        #[test]
        fn patches_lead_from_the_old_page_to_the_new_one(old in page(), new in page()) {
            let mut rows = old.clone();
            apply_patches(&mut rows, &SHAPE.diff(&old, &new));
            prop_assert_eq!(rows, new);
        }

        #[test]
        fn equal_pages_have_no_patches(page in page()) {
            prop_assert!(SHAPE.diff(&page, &page.clone()).is_empty());
        }
    }

    #[test]
    fn one_moved_row_is_one_removal_and_one_addition() {
        let row = |key| -> LiveRow { Arc::new([Value::Int(key), Value::Null]) };
        let old: Vec<LiveRow> = (0..6).map(row).collect();
        let new: Vec<LiveRow> = [0, 4, 1, 2, 3, 5].map(row).into();
        let patches = SHAPE.diff(&old, &new);
        assert!(
            matches!(&*patches, [RowPatch::Remove { index: 4 }, RowPatch::Add { index: 1, .. }]),
            "{patches:?}"
        );
    }
}
