//! The window of a live query: the rows that match its filter, up to a boundary.
//!
//! ```text
//!  rows:  a b c d e f g h | i j k …
//!         ───────           the page (limit 4)
//!                 ───────   spare rows: they fill the page after deletes
//!                         ^ the boundary: the last row up to which all matching rows are known
//! ```
//! A window without a boundary has all rows that match. If it has a boundary and no row after the
//! page, the next page's existence is unknown, and the window has to be read again.

use std::sync::Arc;

use marmota_model::{Value, ValueRef};

use super::definition::{LiveDefinition, Selector};
use super::update::{LiveRow, PageEnd};

/// The number of spare rows of a small page; larger ones have half a page.
const SPARE_ROWS: usize = 16;

/// The rows that match a filter, in order, up to a boundary.
#[derive(Clone, Debug)]
pub(crate) struct LiveWindow {
    rows: Vec<LiveRow>,
    /// The window has all matching rows up to and including this place; `None` if it has all.
    boundary: Option<LiveRow>,
    count: Option<u64>,
}

/// A row of a change, owned and borrowed.
pub(crate) struct ChangedRow<'c> {
    values: &'c [Value],
    borrowed: Vec<ValueRef<'c>>,
}

impl<'c> ChangedRow<'c> {
    pub(crate) fn new(values: &'c [Value]) -> Self {
        Self { values, borrowed: values.iter().map(Value::as_ref).collect() }
    }

    pub(crate) fn borrowed(&self) -> &[ValueRef<'c>] {
        &self.borrowed
    }
}

/// The effect of a change on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowEffect {
    Unchanged,
    Changed,
    /// The change does not fit the window, which has to be read again.
    Conflict,
}

impl LiveWindow {
    /// Returns the number of rows to read for the window of a page; `None` for all.
    pub(crate) fn rows_max(definition: &LiveDefinition) -> Option<u64> {
        let limit = definition.query.limit?;
        Some(limit.saturating_add(limit / 2).saturating_add(SPARE_ROWS as u64))
    }

    /// Creates the window of rows that were read with the limit [`Self::rows_max`].
    pub(crate) fn new(definition: &LiveDefinition, rows: Vec<LiveRow>, count: Option<u64>) -> Self {
        let is_full = Self::rows_max(definition).is_some_and(|max| rows.len() as u64 >= max);
        let boundary = rows.last().filter(|_| is_full).cloned();
        Self { rows, boundary, count }
    }

    /// Returns the rows of the page.
    pub(crate) fn page(&self, definition: &LiveDefinition) -> &[LiveRow] {
        &self.rows[..self.rows.len().min(definition.page_rows())]
    }

    /// Returns the facts about the page that are not in its rows.
    pub(crate) fn end(&self, definition: &LiveDefinition) -> PageEnd {
        PageEnd {
            count: self.count,
            has_more: self.rows.len() > definition.page_rows(),
            last: self.page(definition).last().cloned(),
        }
    }

    /// Returns true if it has all rows of the page, and it is known whether more follow.
    pub(crate) fn is_sufficient(&self, definition: &LiveDefinition) -> bool {
        self.boundary.is_none() || self.rows.len() > definition.page_rows()
    }

    /// Applies the change of a row. The rows are those before and after it; `None` if the row did
    /// not exist.
    pub(crate) fn apply(
        &mut self,
        selector: &Selector<'_>,
        definition: &LiveDefinition,
        before: Option<&ChangedRow<'_>>,
        after: Option<&ChangedRow<'_>>,
    ) -> WindowEffect {
        let matching = |row: &&ChangedRow<'_>| selector.selects(row.borrowed());
        let (before, after) = (before.filter(matching), after.filter(matching));
        let mut effect = WindowEffect::Unchanged;
        if before.is_some() != after.is_some()
            && let Some(count) = &mut self.count
        {
            let counted = match after {
                Some(_) => count.checked_add(1),
                None => count.checked_sub(1),
            };
            let Some(counted) = counted else { return WindowEffect::Conflict };
            *count = counted;
            effect = WindowEffect::Changed;
        }
        let in_range = |row: &&ChangedRow<'_>| {
            selector.is_in_range(row.values) && self.is_known(definition, row.values)
        };
        let (before, after) = (before.filter(in_range), after.filter(in_range));
        let after = after.map(|after| definition.row(after.values));
        if let Some(before) = before {
            let Ok(place) = self.place(definition, before.values) else {
                return WindowEffect::Conflict;
            };
            if after.as_ref().is_some_and(|after| **after == *self.rows[place]) {
                return effect;
            }
            self.rows.remove(place);
            effect = WindowEffect::Changed;
        }
        if let Some(after) = after {
            let Err(place) = self.place(definition, &after) else { return WindowEffect::Conflict };
            self.rows.insert(place, after);
            self.shrink(definition);
            effect = WindowEffect::Changed;
        }
        effect
    }

    /// Returns true if the window has all matching rows up to the place of this row.
    fn is_known(&self, definition: &LiveDefinition, row: &[Value]) -> bool {
        let boundary = self.boundary.as_ref();
        boundary.is_none_or(|boundary| definition.order.compare(row, boundary).is_le())
    }

    fn place(&self, definition: &LiveDefinition, row: &[Value]) -> Result<usize, usize> {
        self.rows.binary_search_by(|known| definition.order.compare(known, row))
    }

    /// Drops rows that are far after the page. Half of the spare rows stay, so that it is not done
    /// for each row.
    fn shrink(&mut self, definition: &LiveDefinition) {
        let Some(max) = Self::rows_max(definition) else { return };
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let spare = max.saturating_sub(definition.page_rows());
        if self.rows.len() > max.saturating_add(spare) {
            self.rows.truncate(max);
            self.boundary = self.rows.last().map(Arc::clone);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use marmota_model::{
        Comparison, Field, FilterExpr, Kind, Role, RowQuery, Schema, SortKey, Table,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::rows::row_order::RowOrder;

    fn table() -> Arc<Table> {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("rank", Kind::I64).nullable(true),
            Field::new("group", Kind::I64),
        ];
        Arc::new(Table::new(Schema::new("thing", fields)).unwrap())
    }

    fn definition(limit: u64, descending: bool, after: Option<Vec<Value>>) -> LiveDefinition {
        let filter =
            FilterExpr::Compare { field: 2, comparison: Comparison::Equal, value: Value::Int(1) };
        let query = RowQuery {
            filter: Some(filter),
            order: vec![SortKey { field: 1, descending }],
            limit: Some(limit),
            after,
            ..RowQuery::new()
        };
        LiveDefinition::of_query(table(), query, true)
    }

    /// The rows that an engine would return, and their count.
    fn list(definition: &LiveDefinition, rows: &BTreeMap<i64, Vec<Value>>) -> (Vec<LiveRow>, u64) {
        let order = RowOrder::new(&definition.table, &definition.query);
        let selector = definition.selector().unwrap();
        let mut all: Vec<&Vec<Value>> = rows.values().collect();
        all.retain(|row| selector.selects(ChangedRow::new(row).borrowed()));
        let count = all.len() as u64;
        all.retain(|row| selector.is_in_range(row));
        all.sort_by(|a, b| order.compare(a, b));
        (all.into_iter().map(|row| definition.row(row)).collect(), count)
    }

    fn read(definition: &LiveDefinition, rows: &BTreeMap<i64, Vec<Value>>) -> LiveWindow {
        let (mut all, count) = list(definition, rows);
        all.truncate(LiveWindow::rows_max(definition).unwrap() as usize);
        LiveWindow::new(definition, all, Some(count))
    }

    fn rank() -> impl Strategy<Value = Value> {
        prop_oneof![Just(Value::Null), (0_i64..5).prop_map(Value::Int)]
    }

    fn write() -> impl Strategy<Value = (i64, Option<(Value, i64)>)> {
        (0_i64..60, prop::option::weighted(0.6, (rank(), 0_i64..3)))
    }

    proptest! {
        #[test]
        fn a_window_has_the_page_that_a_list_has(
            limit in 1_u64..6,
            descending: bool,
            after in prop::option::of((rank(), 0_i64..60)),
            writes in prop::collection::vec(write(), 0..400),
        ) {
            let after = after.map(|(rank, id)| vec![rank, Value::Int(id)]);
            let definition = definition(limit, descending, after);
            let selector = definition.selector().unwrap();
            let mut rows = BTreeMap::new();
            let mut window = read(&definition, &rows);
            let mut reads = 0;
            for (id, write) in writes {
                let before = rows.remove(&id);
                let after = write.map(|(rank, group)| vec![Value::Int(id), rank, Value::Int(group)]);
                if let Some(after) = &after {
                    rows.insert(id, after.clone());
                }
                let (old, new) = (before.as_deref(), after.as_deref());
                let (old, new) = (old.map(ChangedRow::new), new.map(ChangedRow::new));
                let kept = window.clone();
                let effect = window.apply(&selector, &definition, old.as_ref(), new.as_ref());
                prop_assert_ne!(effect, WindowEffect::Conflict);
                if !window.is_sufficient(&definition) {
                    reads += 1;
                    window = read(&definition, &rows);
                }
                let (all, count) = list(&definition, &rows);
                let page = &all[..all.len().min(limit as usize)];
                prop_assert_eq!(window.page(&definition), page);
                let end = window.end(&definition);
                prop_assert_eq!((end.count, end.has_more), (Some(count), all.len() > page.len()));
                // The change can be undone.
                if reads == 0 {
                    let mut undone = window.clone();
                    let effect = undone.apply(&selector, &definition, new.as_ref(), old.as_ref());
                    prop_assert_ne!(effect, WindowEffect::Conflict);
                    if undone.is_sufficient(&definition) {
                        prop_assert_eq!(undone.page(&definition), kept.page(&definition));
                    }
                }
            }
            prop_assert!(reads <= 60, "{} reads", reads);
        }
    }
}
