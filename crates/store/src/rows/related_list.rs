//! A list in an order by fields of related rows, as lists that engines execute: the values of the
//! order in all rows, the related values, and then the rows of the page.
//!
//! | stage | list | result |
//! |---|---|---|
//! | places | the fields of the order, of all rows that the filter selects | a place for each row |
//! | related | for each step of a path: the key and the next field, of the referenced rows | references in the places replaced by values |
//! | page | the rows with the next keys in order | rows, lent in order |
//!
//! Only the places are kept in memory, up to a limit.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use marmota_model::{
    Collation, Error, ErrorKind, FieldSet, FilterExpr, RelatedOrder, Result, RowQuery, RowSink,
    SortKey, Table, Value, ValueRef,
};

use crate::rows::best_rows::bytes_of;
use crate::rows::row_buffer::RowBuffer;

/// The maximum size of the places, of the related values, and of the rows between two lendings.
const BYTES_MAX: usize = 32 << 20;
/// The maximum number of keys in the filter of one list.
const KEYS_MAX: usize = 400;

/// A list by related fields, between the lists of its stages.
#[derive(Debug)]
pub(crate) struct RelatedList {
    terms: Vec<Term>,
    /// The values of each row in the order, the key last.
    places: Vec<Box<[Value]>>,
    /// The values of the row after which the page begins.
    after: Option<Box<[Value]>>,
    bytes: usize,
    stage: Stage,
    /// The list of the stage.
    list: RowQuery,
    /// The number of rows that were lent.
    lent: u64,
    /// True while the list of the stage waits.
    pub(crate) is_submitted: bool,
}

/// A sort key with the path that replaces it.
#[derive(Debug)]
struct Term {
    by: SortKey,
    collation: Collation,
    path: Option<RelatedOrder>,
}

#[derive(Debug)]
enum Stage {
    Places,
    Related(Joined),
    Page(Page),
    Done,
}

/// The related values of one step of a path.
#[derive(Debug)]
struct Joined {
    term: usize,
    step: usize,
    /// The table of the step.
    table: String,
    /// The position of its key, and of the field that is read.
    fields: (usize, usize),
    collation: Collation,
    /// The references, sorted, each with the value of its row. Those before `read` are read.
    values: Vec<(Value, Value)>,
    read: usize,
    end: usize,
}

/// The rows with the next keys.
#[derive(Debug)]
struct Page {
    /// The index of the first place whose row was not lent, and the end of those in the list.
    from: usize,
    to: usize,
    rows: Vec<(Value, RowBuffer)>,
}

impl RelatedList {
    /// Begins a list of rows of `table`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the paths of the order, or the start of the page, do not fit.
    pub(crate) fn new(table: &Table, query: &RowQuery) -> Result<Self> {
        query.check_paths(table)?;
        let by = query.order_with_key(table);
        let terms: Vec<Term> = by
            .into_iter()
            .enumerate()
            .map(|(place, by)| {
                let path = query.related.iter().find(|path| path.place == place).cloned();
                Term { by, collation: table.fields()[by.field].kind.collation(), path }
            })
            .collect();
        let list = RowQuery {
            filter: query.filter.clone(),
            fields: Some(terms.iter().map(|term| term.by.field).collect()),
            limit: (query.limit == Some(0)).then_some(0),
            ..RowQuery::new()
        };
        let after = query.after.clone().map(Vec::into_boxed_slice);
        let (places, stage) = (Vec::new(), Stage::Places);
        Ok(Self { terms, places, after, bytes: 0, stage, list, lent: 0, is_submitted: false })
    }

    /// Returns the name of the table that the list of the stage reads; the inner option is `None`
    /// for the table of the operation, the outer one after the last stage.
    pub(crate) fn table(&self) -> Option<Option<&str>> {
        match &self.stage {
            Stage::Done => None,
            Stage::Related(joined) => Some(Some(&joined.table)),
            Stage::Places | Stage::Page(_) => Some(None),
        }
    }

    /// Returns the list of the stage and the sink for its rows.
    pub(crate) fn parts(&mut self) -> (RowQuery, RelatedSink<'_>) {
        let Self { terms, places, bytes, stage, list, .. } = self;
        (list.clone(), RelatedSink { terms, places, bytes, stage })
    }

    /// Returns the number of rows that were lent.
    pub(crate) const fn lent(&self) -> u64 {
        self.lent
    }

    /// Continues after the list of the stage: prepares the next one, and lends the rows of a page.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the rows are too many or too large.
    pub(crate) fn advance(
        &mut self,
        table: &Table,
        query: &RowQuery,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        if self.bytes > BYTES_MAX {
            let message = format!(
                "a list in an order by related rows keeps more than {BYTES_MAX} bytes; select \
                 fewer rows with `filter`, or lower the limit"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Places => self.next_step(table, query, (0, 0)),
            Stage::Related(joined) if joined.end < joined.values.len() => {
                self.read_values(Joined { read: joined.end, ..joined });
                Ok(())
            }
            Stage::Related(joined) => {
                self.join(&joined);
                self.next_step(table, query, (joined.term, joined.step + 1))
            }
            Stage::Page(page) => {
                if self.lend(&page, sink).is_continue() {
                    self.read_page(table, query, page.to);
                }
                Ok(())
            }
            Stage::Done => Ok(()),
        }
    }

    /// Prepares the list of a step, or that of the first page if no step remains.
    fn next_step(
        &mut self,
        table: &Table,
        query: &RowQuery,
        (term, step): (usize, usize),
    ) -> Result<()> {
        let Some(at) = self.terms.get(term) else {
            self.sort(query.limit);
            self.read_page(table, query, 0);
            return Ok(());
        };
        let Some(path) = at.path.as_ref().filter(|path| step < path.steps.len()) else {
            return self.next_step(table, query, (term + 1, 0));
        };
        let related = &path.steps[step].step;
        let target = table.related(&related.table)?;
        let next = path.steps.get(step + 1).map_or(path.field, |next| next.step.local);
        let of_key = target.fields()[related.target].kind.collation();
        let places = self.places.iter().chain(&self.after);
        let mut values: Vec<Value> = places.map(|place| place[term].clone()).collect();
        values.retain(|value| *value != Value::Null);
        values.sort_unstable_by(|a, b| of_key.order(a.as_ref(), b.as_ref()));
        values.dedup_by(|a, b| of_key.order(a.as_ref(), b.as_ref()).is_eq());
        let joined = Joined {
            term,
            step,
            table: target.name().to_owned(),
            fields: (related.target, next),
            collation: of_key,
            values: values.into_iter().map(|value| (value, Value::Null)).collect(),
            read: 0,
            end: 0,
        };
        let is_last = step + 1 == path.steps.len();
        if is_last {
            self.terms[term].collation = target.fields()[next].kind.collation();
        }
        if joined.values.is_empty() {
            return self.next_step(table, query, (term, step + 1));
        }
        self.read_values(joined);
        Ok(())
    }

    /// Prepares the list of the next related values.
    fn read_values(&mut self, mut joined: Joined) {
        joined.end = joined.values.len().min(joined.read + KEYS_MAX);
        let (key, next) = joined.fields;
        let keys = joined.values[joined.read..joined.end].iter().map(|(key, _)| key.clone());
        let mut filter = FilterExpr::In { field: key, values: keys.collect() };
        let path = self.terms[joined.term].path.as_ref();
        if let Some(rows) = path.and_then(|path| path.steps[joined.step].rows.clone()) {
            filter = filter.and(rows);
        }
        let fields = Some(FieldSet::EMPTY.with(key).with(next));
        self.list = RowQuery { filter: Some(filter), fields, ..RowQuery::new() };
        self.stage = Stage::Related(joined);
    }

    /// Replaces the references in the places by the values of their rows.
    fn join(&mut self, joined: &Joined) {
        for place in self.places.iter_mut().chain(&mut self.after) {
            let reference = &mut place[joined.term];
            let value = match reference.as_ref() {
                ValueRef::Null => continue,
                value => joined.find(value).map_or(Value::Null, |at| joined.values[at].1.clone()),
            };
            self.bytes += bytes_of(&value);
            *reference = value;
        }
    }

    /// Sorts the places, and keeps those of the page.
    fn sort(&mut self, limit: Option<u64>) {
        let terms = &self.terms;
        let compare = |a: &[Value], b: &[Value]| {
            let terms = terms.iter().zip(a.iter().zip(b));
            terms.fold(Ordering::Equal, |order, (term, (a, b))| {
                order.then_with(|| {
                    let order = term.collation.order(a.as_ref(), b.as_ref());
                    if term.by.descending { order.reverse() } else { order }
                })
            })
        };
        if let Some(after) = &self.after {
            self.places.retain(|place| compare(place, after).is_gt());
        }
        let limit = limit.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        if limit < self.places.len() {
            // A page is small: the other places need not be sorted.
            self.places.select_nth_unstable_by(limit, |a, b| compare(a, b));
            self.places.truncate(limit);
        }
        self.places.sort_unstable_by(|a, b| compare(a, b));
    }

    /// Prepares the list of the rows of the places from an index.
    fn read_page(&mut self, table: &Table, query: &RowQuery, from: usize) {
        let to = self.places.len().min(from + KEYS_MAX);
        if from == to {
            return;
        }
        let keys = self.places[from..to].iter().filter_map(|place| place.last().cloned());
        let keys = FilterExpr::In { field: table.key(), values: keys.collect() };
        let filter = match &query.filter {
            Some(filter) => keys.and(filter.clone()),
            None => keys,
        };
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let fields = Some(fields.with(table.key()));
        self.list = RowQuery { filter: Some(filter), fields, ..RowQuery::new() };
        self.bytes = 0;
        self.stage = Stage::Page(Page { from, to, rows: Vec::new() });
    }

    /// Lends the rows of a page in the order of their places. A row that was deleted meanwhile is
    /// left out.
    fn lend(&mut self, page: &Page, sink: &mut dyn RowSink) -> ControlFlow<()> {
        let collation = self.terms.last().map_or(Collation::Binary, |key| key.collation);
        let mut found: Vec<&(Value, RowBuffer)> = page.rows.iter().collect();
        found.sort_unstable_by(|a, b| collation.order(a.0.as_ref(), b.0.as_ref()));
        for place in &self.places[page.from..page.to] {
            let Some(key) = place.last() else { continue };
            let at = found.binary_search_by(|row| collation.order(row.0.as_ref(), key.as_ref()));
            if let Ok(at) = at {
                let (lent, flow) = found[at].1.lend(sink);
                self.lent += lent;
                flow?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl Joined {
    fn find(&self, key: ValueRef<'_>) -> Option<usize> {
        let by_key = |(other, _): &(Value, Value)| self.collation.order(other.as_ref(), key);
        self.values.binary_search_by(by_key).ok()
    }
}

/// Takes the rows of the list of a stage.
pub(crate) struct RelatedSink<'l> {
    terms: &'l [Term],
    places: &'l mut Vec<Box<[Value]>>,
    bytes: &'l mut usize,
    stage: &'l mut Stage,
}

impl RowSink for RelatedSink<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match self.stage {
            Stage::Places => {
                let place: Box<[Value]> =
                    self.terms.iter().map(|term| row[term.by.field].to_value()).collect();
                *self.bytes +=
                    size_of::<Box<[Value]>>() + place.iter().map(bytes_of).sum::<usize>();
                self.places.push(place);
            }
            Stage::Related(joined) => {
                let (key, next) = joined.fields;
                if let Some(at) = joined.find(row[key]) {
                    joined.values[at].1 = row[next].to_value();
                    *self.bytes += bytes_of(&joined.values[at].1);
                }
            }
            Stage::Page(page) => {
                let key = self.terms.last().map_or(ValueRef::Null, |key| row[key.by.field]);
                let mut kept = RowBuffer::default();
                kept.push(row);
                *self.bytes += kept.size();
                page.rows.push((key.to_value(), kept));
            }
            Stage::Done => return ControlFlow::Break(()),
        }
        if *self.bytes > BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
