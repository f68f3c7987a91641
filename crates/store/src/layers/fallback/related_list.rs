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
    Collation, Error, ErrorKind, FilterExpr, RelatedField, Result, RowQuery, RowSink, SortKey,
    Table, Value, ValueRef,
};

use super::related_lookup::{KEYS_MAX, RelatedLookup};
use super::staged_read::{StageQuery, StagedRead};
use crate::contract::operation::Operation;
use crate::rows::best_rows::bytes_of;
use crate::rows::row_buffer::RowBuffer;

/// The maximum size of the places, of the related values, and of the rows between two lendings.
const BYTES_MAX: usize = 32 << 20;

/// A list by related fields, between the lists of its stages.
#[derive(Debug)]
pub(super) struct RelatedList {
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
}

/// A sort key with the path that replaces it.
#[derive(Debug)]
struct Term {
    by: SortKey,
    collation: Collation,
    path: Option<RelatedField>,
}

#[derive(Debug)]
enum Stage {
    Places,
    /// The values of a term.
    Related(usize, RelatedLookup),
    Page(Page),
    Done,
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
    /// Begins a list of rows of `table`, for a query whose paths fit it.
    pub(super) fn new(table: &Table, query: &RowQuery) -> Self {
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
        Self { terms, places, after, bytes: 0, stage, list, lent: 0 }
    }

    /// Prepares the first list for a term, or that of the first page if no term remains.
    fn next_term(&mut self, table: &Table, query: &RowQuery, term: usize) -> Result<()> {
        let Some(at) = self.terms.get(term) else {
            self.sort(query.limit);
            self.read_page(table, query, 0);
            return Ok(());
        };
        let references = self.places.iter().chain(&self.after).map(|place| place[term].clone());
        let lookup = match &at.path {
            Some(path) => RelatedLookup::new(table, path, references)?,
            None => None,
        };
        match lookup {
            Some(lookup) => {
                self.list = lookup.list();
                self.stage = Stage::Related(term, lookup);
                Ok(())
            }
            None => self.next_term(table, query, term + 1),
        }
    }

    /// Replaces the references in the places by the values of their rows.
    fn join(&mut self, term: usize, lookup: &RelatedLookup) {
        self.terms[term].collation = lookup.collation();
        for place in self.places.iter_mut().chain(&mut self.after) {
            place[term] = lookup.value(place[term].as_ref());
            self.bytes += bytes_of(&place[term]);
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

impl StagedRead for RelatedList {
    fn table(&self) -> Option<Option<&str>> {
        match &self.stage {
            Stage::Done => None,
            Stage::Related(_, lookup) => Some(Some(lookup.table())),
            Stage::Places | Stage::Page(_) => Some(None),
        }
    }

    fn query(&self) -> StageQuery {
        StageQuery::List(self.list.clone())
    }

    fn advance(&mut self, operation: &Operation<'_>, sink: &mut dyn RowSink) -> Result<()> {
        let Operation::List { table, query } = operation else { return Ok(()) };
        if self.bytes > BYTES_MAX {
            let message = format!(
                "a list in an order by related rows keeps more than {BYTES_MAX} bytes; select \
                 fewer rows with `filter`, or lower the limit"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Places => self.next_term(table, query, 0),
            Stage::Related(term, mut lookup) => {
                if lookup.advance(table)? {
                    self.list = lookup.list();
                    self.stage = Stage::Related(term, lookup);
                    return Ok(());
                }
                self.join(term, &lookup);
                self.next_term(table, query, term + 1)
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

    fn lent(&self) -> u64 {
        self.lent
    }
}

/// Takes the rows of the list of the stage.
impl RowSink for RelatedList {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match &mut self.stage {
            Stage::Places => {
                let place: Box<[Value]> =
                    self.terms.iter().map(|term| row[term.by.field].to_value()).collect();
                self.bytes += size_of::<Box<[Value]>>() + place.iter().map(bytes_of).sum::<usize>();
                self.places.push(place);
            }
            Stage::Related(_, lookup) => self.bytes += lookup.add(row),
            Stage::Page(page) => {
                let key = self.terms.last().map_or(ValueRef::Null, |key| row[key.by.field]);
                let mut kept = RowBuffer::default();
                kept.push(row);
                self.bytes += kept.size();
                page.rows.push((key.to_value(), kept));
            }
            Stage::Done => return ControlFlow::Break(()),
        }
        if self.bytes > BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
