//! Read plans: the rows that a read visits, and their order, by the key, by an index, or all.
//!
//! A plan only narrows: the whole filter is evaluated on every row that it lends, so a bound may be
//! too wide but never too narrow. Costs are rough numbers of visited rows; the rows of an index are
//! scattered, neighbouring keys are close.

use std::cmp::Ordering;

use marmota_model::{Comparison, FilterExpr, Place, SortKey, Value, ValueRef};
use smallvec::SmallVec;

use crate::table::key_index::{End, KeyRange};
use crate::table::layout;
use crate::table::ordered_index::{Entry, Position};
use crate::table::row_index::RowIndex;
use crate::table::table_rows::{TableRows, Values};

/// The source of the rows.
pub(crate) enum Access {
    /// These rows, in no order.
    Rows(Vec<u32>),
    /// A range of the key.
    Keys(KeyRange),
    /// A range of the index with this number.
    Index(usize, Position, Position),
}

/// The method by which a read finds its rows.
pub(crate) struct Plan {
    pub(crate) access: Access,
    /// True if the order of the key or index is reversed.
    pub(crate) reverse: bool,
    /// True if the rows come in the requested order.
    pub(crate) sorted: bool,
}

/// The request of a read.
pub(crate) struct Wanted<'q> {
    pub(crate) filter: Option<&'q FilterExpr>,
    /// The order, with the key as its last member; empty for any order.
    pub(crate) order: &'q [SortKey],
    pub(crate) limit: Option<u64>,
    /// The values after which to begin, one for each member of the order.
    pub(crate) after: Option<&'q [Value]>,
}

/// The conditions of a filter on one field that every selected row meets.
struct Condition<'f> {
    field: usize,
    equal: Option<ValueRef<'f>>,
    low: End<'f>,
    high: End<'f>,
    start: Option<&'f str>,
    any: Option<&'f [Value]>,
}

type Conditions<'f> = SmallVec<[Condition<'f>; 4]>;

impl Plan {
    pub(crate) fn new(rows: &TableRows, wanted: &Wanted<'_>) -> Self {
        let mut conditions = Conditions::new();
        if let Some(filter) = wanted.filter {
            gather(rows, filter, &mut conditions);
        }
        if let Some(found) = one_row(rows, wanted.filter, &conditions) {
            let access = Access::Rows(found.into_iter().collect());
            return Self { access, reverse: false, sorted: true };
        }
        let planner = Planner::new(rows, wanted, conditions);
        let mut best = planner.by_key();
        for (number, index) in rows.indexes.iter().enumerate() {
            if let Some(other) = planner.by_index(number, index)
                && other.cost < best.cost
            {
                best = other;
            }
        }
        if let Some(found) = planner.by_list(best.cost) {
            let sorted = wanted.order.is_empty();
            return Self { access: Access::Rows(found), reverse: false, sorted };
        }
        best.plan
    }
}

/// Collects the conditions of a filter that hold independent of its other parts.
fn gather<'f>(rows: &TableRows, filter: &'f FilterExpr, conditions: &mut Conditions<'f>) {
    match filter {
        FilterExpr::And(all) => all.iter().for_each(|one| gather(rows, one, conditions)),
        FilterExpr::Compare { field, comparison, value } => {
            let value = value.as_ref();
            if !rows.pages.layout.columns.get(*field).is_some_and(|c| layout::fits(c, value)) {
                return;
            }
            let condition = of_field(conditions, *field);
            match comparison {
                Comparison::Equal => condition.equal = Some(value),
                Comparison::NotEqual => {}
                Comparison::Less => condition.high = Some((value, false)),
                Comparison::LessOrEqual => condition.high = Some((value, true)),
                Comparison::Greater => condition.low = Some((value, false)),
                Comparison::GreaterOrEqual => condition.low = Some((value, true)),
            }
        }
        FilterExpr::In { field, values } => {
            let column = rows.pages.layout.columns.get(*field);
            let fits = |value: &Value| column.is_some_and(|c| layout::fits(c, value.as_ref()));
            if values.iter().all(fits) {
                of_field(conditions, *field).any = Some(values);
            }
        }
        // The order has to ignore the case like `starts_with` does.
        FilterExpr::Match { field, place: Place::Start, text }
            if rows
                .pages
                .layout
                .columns
                .get(*field)
                .is_some_and(|column| column.collation == marmota_model::Collation::NoCase) =>
        {
            of_field(conditions, *field).start = Some(text);
        }
        _ => {}
    }
}

fn of_field<'c, 'f>(conditions: &'c mut Conditions<'f>, field: usize) -> &'c mut Condition<'f> {
    let at = conditions.iter().position(|condition| condition.field == field);
    let at = at.unwrap_or_else(|| {
        let (low, high, start, any) = (None, None, None, None);
        conditions.push(Condition { field, equal: None, low, high, start, any });
        conditions.len() - 1
    });
    &mut conditions[at]
}

fn equal<'f>(conditions: &[Condition<'f>], field: usize) -> Option<ValueRef<'f>> {
    conditions.iter().find(|condition| condition.field == field)?.equal
}

/// Returns the only possible row, if the conditions fix a key or unique index.
fn one_row(
    rows: &TableRows,
    filter: Option<&FilterExpr>,
    conditions: &Conditions<'_>,
) -> Option<Option<u32>> {
    if let Some(key) = equal(conditions, rows.table.key()) {
        return Some(rows.keys.find(&rows.pages, key));
    }
    rows.indexes.iter().find_map(|index| {
        let unique = index.unique.as_ref()?;
        let values: Option<Values<'_>> =
            unique.fields().iter().map(|&field| equal(conditions, field)).collect();
        let values = values.filter(|_| index.has_rows_of(filter))?;
        let value = |field: usize| {
            let place = unique.fields().iter().position(|&other| other == field);
            place.map_or(ValueRef::Null, |place| values[place])
        };
        Some(unique.find(&rows.pages, value))
    })
}

struct Candidate {
    plan: Plan,
    cost: usize,
}

struct Planner<'p> {
    rows: &'p TableRows,
    wanted: &'p Wanted<'p>,
    conditions: Conditions<'p>,
    /// The order without the fields that have only one value.
    order: SmallVec<[SortKey; 4]>,
}

impl<'p> Planner<'p> {
    fn new(rows: &'p TableRows, wanted: &'p Wanted<'p>, conditions: Conditions<'p>) -> Self {
        let free = |by: &&SortKey| equal(&conditions, by.field).is_none();
        let order = wanted.order.iter().filter(free).copied().collect();
        Self { rows, wanted, conditions, order }
    }

    fn condition(&self, field: usize) -> Option<&Condition<'p>> {
        self.conditions.iter().find(|condition| condition.field == field)
    }

    /// Returns `Some` if rows ordered by `fields` and then the key have the requested order; the
    /// value is true if the order is reversed.
    fn serves(&self, fields: &[usize]) -> Option<bool> {
        let Some(first) = self.order.first() else { return Some(false) };
        let wanted = self.order.iter().map(|by| by.field);
        let table = &self.rows.table;
        // The fields of a composite key are as unique as its text.
        let is_of_key = !fields.is_empty() && table.key_fields().ends_with(fields);
        let is_same = wanted.clone().eq(fields.iter().copied().chain([table.key()]))
            || (is_of_key && wanted.eq(fields.iter().copied()));
        let one_way = self.order.iter().all(|by| by.descending == first.descending);
        (is_same && one_way).then_some(first.descending)
    }

    fn cost(&self, count: usize, row: usize, sorted: bool) -> usize {
        let touched = match self.wanted.limit {
            // The number of rows that match the filter is unknown, but not 0.
            Some(limit) if sorted => {
                count.min(usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(16))
            }
            _ => count,
        };
        touched.saturating_mul(row + if sorted { 0 } else { 2 })
    }

    fn by_key(&self) -> Candidate {
        let keys = &self.rows.keys;
        let condition = self.condition(self.rows.table.key());
        let (low, high) = condition.map_or((None, None), |of_key| (of_key.low, of_key.high));
        let range = keys.range(&self.rows.pages, low, high);
        let serves = self.serves(&[]);
        let sorted = serves.is_some();
        let access = Access::Keys(range);
        Candidate {
            cost: self.cost(keys.count(range), 2, sorted),
            plan: Plan { access, reverse: serves.unwrap_or(false), sorted },
        }
    }

    fn by_index(&self, number: usize, index: &RowIndex) -> Option<Candidate> {
        let fixed: Values<'p> =
            index.fields.iter().map_while(|&field| equal(&self.conditions, field)).collect();
        let next = index.fields.get(fixed.len()).and_then(|&field| self.condition(field));
        let next =
            next.filter(|next| next.low.is_some() || next.high.is_some() || next.start.is_some());
        let serves = self.serves(&index.fields[fixed.len()..]);
        let is_useless =
            fixed.is_empty() && next.is_none() && (serves.is_none() || self.order.is_empty());
        if is_useless || !index.has_rows_of(self.wanted.filter) {
            return None;
        }
        let search = Search { rows: self.rows, index };
        let (mut from, mut to) = search.range(&fixed, next);
        if let (Some(reverse), Some(after)) = (serves, self.wanted.after)
            && self.is_within(after)
        {
            let values: Values<'_> =
                self.order.iter().filter_map(|by| self.after(by, after)).collect();
            let start: Values<'_> = fixed.iter().chain(&values).copied().collect();
            if reverse {
                to = to.min(search.first(&start, |order| order.is_lt()));
            } else {
                from = from.max(search.first(&start, |order| order.is_le()));
            }
        }
        let sorted = serves.is_some();
        Some(Candidate {
            cost: self.cost(index.ordered.estimate(from, to), 3, sorted),
            plan: Plan {
                access: Access::Index(number, from, to),
                reverse: serves.unwrap_or(false),
                sorted,
            },
        })
    }

    /// Returns true if the row after which to begin has the values that the filter demands.
    /// Otherwise the row is before or after all found rows, independent of its key.
    fn is_within(&self, after: &[Value]) -> bool {
        self.wanted.order.iter().zip(after).all(|(by, value)| {
            let column = &self.rows.pages.layout.columns[by.field];
            equal(&self.conditions, by.field)
                .is_none_or(|fixed| column.collation.order(fixed, value.as_ref()).is_eq())
        })
    }

    fn after<'v>(&self, by: &SortKey, after: &'v [Value]) -> Option<ValueRef<'v>> {
        let place = self.wanted.order.iter().position(|other| other.field == by.field)?;
        after.get(place).map(Value::as_ref)
    }

    /// Returns the rows that have one of a list of keys, or of values of an index's first field, if
    /// that is cheaper.
    fn by_list(&self, cost: usize) -> Option<Vec<u32>> {
        let cheap = |values: &[Value]| values.len().saturating_mul(16) < cost;
        let mut found = Vec::new();
        let key = self.condition(self.rows.table.key()).and_then(|of_key| of_key.any);
        if let Some(keys) = key.filter(|keys| cheap(keys)) {
            let find = |key: &Value| self.rows.keys.find(&self.rows.pages, key.as_ref());
            found.extend(keys.iter().filter_map(find));
        } else {
            let (index, values) = self.rows.indexes.iter().find_map(|index| {
                let values = self.condition(index.fields[0])?.any?;
                let is_used = cheap(values) && index.has_rows_of(self.wanted.filter);
                is_used.then_some((index, values))
            })?;
            let search = Search { rows: self.rows, index };
            let mut counted = 0;
            let ranges: Vec<_> =
                values.iter().map(|value| search.range(&[value.as_ref()], None)).collect();
            for &(from, to) in &ranges {
                counted += index.ordered.estimate(from, to);
            }
            if self.cost(counted, 3, false) >= cost {
                return None;
            }
            for (from, to) in ranges {
                let _ = index.ordered.walk(from, to, false, |row| {
                    found.push(row);
                    std::ops::ControlFlow::Continue(())
                });
            }
        }
        // The list may contain a value twice.
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

/// Finds positions in an index by values.
pub(crate) struct Search<'r> {
    pub(crate) rows: &'r TableRows,
    pub(crate) index: &'r RowIndex,
}

impl Search<'_> {
    /// Returns the order of an entry relative to values of the index's first fields; a value after
    /// those is compared to the key.
    fn compare(&self, entry: Entry, prefix: Option<u64>, values: &[ValueRef<'_>]) -> Ordering {
        if let Some(prefix) = prefix
            && entry.0 != prefix
        {
            return entry.0.cmp(&prefix);
        }
        let pages = &self.rows.pages;
        let row = pages.row(entry.1);
        let key = self.rows.table.key();
        let fields = self.index.fields.iter().copied().chain([key]);
        fields
            .zip(values)
            .map(|(field, &value)| {
                let column = &pages.layout.columns[field];
                column.collation.order(row.value(column), value)
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Returns the first position that is not `before` these values.
    pub(crate) fn first(
        &self,
        values: &[ValueRef<'_>],
        before: impl Fn(Ordering) -> bool,
    ) -> Position {
        let prefix = values.first().map(|&value| self.index.prefix(&self.rows.pages, value));
        self.index.ordered.partition(|entry| before(self.compare(entry, prefix, values)))
    }

    /// Returns the rows that have the values `fixed` in the first fields, and a value between two
    /// ends in the next one, if there is one.
    pub(crate) fn between(
        &self,
        fixed: &[ValueRef<'_>],
        low: End<'_>,
        high: End<'_>,
    ) -> (Position, Position) {
        let next = self.index.fields.get(fixed.len()).map(|&field| {
            let (equal, start, any) = (None, None, None);
            Condition { field, equal, low, high, start, any }
        });
        self.range(fixed, next.as_ref())
    }

    /// Returns the rows that have the values `fixed` in the first fields and meet the condition on
    /// the next one.
    fn range(&self, fixed: &[ValueRef<'_>], next: Option<&Condition<'_>>) -> (Position, Position) {
        let with = |value| -> Values<'_> { fixed.iter().copied().chain([value]).collect() };
        let low = next.and_then(|next| next.low);
        let high = next.and_then(|next| next.high);
        let start = next.and_then(|next| next.start);
        let from = match (low, start) {
            (Some((value, true)), _) => self.first(&with(value), Ordering::is_lt),
            (Some((value, false)), _) => self.first(&with(value), Ordering::is_le),
            (None, Some(start)) => self.first(&with(ValueRef::Text(start)), Ordering::is_lt),
            (None, None) if fixed.is_empty() => self.index.ordered.start(),
            (None, None) => self.first(fixed, Ordering::is_lt),
        };
        let to = match (high, start) {
            (Some((value, true)), _) => self.first(&with(value), Ordering::is_le),
            (Some((value, false)), _) => self.first(&with(value), Ordering::is_lt),
            (None, Some(start)) => self.end_of_start(fixed, start),
            (None, None) if fixed.is_empty() => self.index.ordered.end(),
            (None, None) => self.first(fixed, Ordering::is_le),
        };
        (from, to)
    }

    /// Returns the position after the last text that begins with `start`.
    fn end_of_start(&self, fixed: &[ValueRef<'_>], start: &str) -> Position {
        let pages = &self.rows.pages;
        let field = self.index.fields[fixed.len()];
        let column = &pages.layout.columns[field];
        self.index.ordered.partition(|entry| match self.compare(entry, None, fixed) {
            Ordering::Equal => match pages.row(entry.1).value(column) {
                ValueRef::Text(text) => {
                    Place::Start.finds(text, start)
                        || column
                            .collation
                            .order(ValueRef::Text(text), ValueRef::Text(start))
                            .is_lt()
                }
                _ => true,
            },
            order => order.is_lt(),
        })
    }

    /// Returns the rows that have this value in the first field.
    pub(crate) fn rows_with(&self, value: ValueRef<'_>) -> (Position, Position) {
        self.range(&[value], None)
    }
}
