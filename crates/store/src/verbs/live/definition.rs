//! The definition of a live query: which rows, in which order, with which fields.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use marmota_model::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, Kind, Result, RowQuery, Table, Value,
    ValueRef,
};

use super::diff::PageShape;
use super::update::LiveRow;
use crate::rights::{Right, is_internal};
use crate::rows::predicate::{Condition, Ready};
use crate::rows::row_order::RowOrder;
use crate::store::Store;

/// The definition of a live query, with the filter of the caller's rights.
#[derive(Debug)]
pub(crate) struct LiveDefinition {
    pub(crate) table: Arc<Table>,
    /// The query that reads the page; its limit is that of the page.
    pub(crate) query: RowQuery,
    /// True if all rows that the filter selects are counted.
    pub(crate) counts: bool,
    /// The fields that subscribers see.
    shown: FieldSet,
    /// The fields that a row of the page has: those that are shown and those of the order.
    read: FieldSet,
    pub(crate) order: RowOrder,
    condition: Option<Condition>,
    /// The related tables on whose rows the filter depends. A change of one of them, and of the
    /// table itself, is followed by a new read.
    related: Vec<Arc<Table>>,
}

/// The parts of a query that rights narrow, as its caller wrote them.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    filter: Option<FilterExpr>,
    fields: Option<FieldSet>,
}

impl Written {
    pub(crate) fn of(query: &RowQuery) -> Self {
        Self { filter: query.filter.clone(), fields: query.fields }
    }
}

/// Definitions are equal if their pages are.
impl PartialEq for LiveDefinition {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
            && (self.counts, self.shown) == (other.counts, other.shown)
            && self.query == other.query
    }
}

impl LiveDefinition {
    /// Checks a query, and combines its filter with that of the caller's rights.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid query and for one that uses blobs,
    /// [`ErrorKind::Denied`] without the right to read, [`ErrorKind::Unsupported`] for a table
    /// whose changes are not recorded.
    pub(crate) fn new(
        store: &Store,
        table: &Arc<Table>,
        query: RowQuery,
        counts: bool,
    ) -> Result<Self> {
        store.feed()?;
        if is_internal(table) {
            let message = format!("changes of the table `{}` are not recorded", table.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        query.check(table)?;
        query.refuse_related("a live query")?;
        let shown = shown_of(store, table, &query)?;
        let query = RowQuery { fields: Some(shown), ..query };
        let used = query.filter.as_ref().map_or(FieldSet::EMPTY, |filter| filter.fields(table));
        check_blobs(table, shown.union(RowOrder::new(table, &query).fields()).union(used))?;
        let filter = readable(store, table, &query)?;
        let definition = Self::of_query(Arc::clone(table), RowQuery { filter, ..query }, counts);
        match definition.related.iter().find(|related| is_internal(related)) {
            None => Ok(definition),
            Some(internal) => {
                let message = format!(
                    "a live query of `{}` depends on rows of `{}`, whose changes are not recorded: \
                     use a filter, and rules of grants, on other tables",
                    table.name(),
                    internal.name()
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Makes the definition of a query whose filter has the caller's rights.
    pub(crate) fn of_query(table: Arc<Table>, query: RowQuery, counts: bool) -> Self {
        let shown = query.fields.unwrap_or(table.read_by_default());
        let order = RowOrder::new(&table, &query);
        let read = shown.union(order.fields());
        let related = query.filter.as_ref().map_or_else(Vec::new, |filter| related(&table, filter));
        // A condition on related rows is evaluated by the engine only.
        let filter = query.filter.as_ref().filter(|_| related.is_empty());
        let condition = filter.map(|filter| Condition::new(filter.clone(), &table));
        let query = RowQuery { fields: Some(read), ..query };
        Self { table, query, counts, shown, read, order, condition, related }
    }

    /// Returns true if this query, without rights, has the same definition for the caller of this
    /// store.
    pub(crate) fn is_readable(&self, store: &Store, written: &Written) -> bool {
        let query = RowQuery {
            filter: written.filter.clone(),
            fields: written.fields,
            ..self.query.clone()
        };
        let shown = shown_of(store, &self.table, &query);
        let query = RowQuery { fields: Some(self.shown), ..query };
        shown.is_ok_and(|shown| shown == self.shown)
            && readable(store, &self.table, &query).is_ok_and(|filter| filter == self.query.filter)
    }

    /// Returns a number for the rows and fields that the caller may read, if the caller's rights
    /// narrow the query as it was written.
    pub(crate) fn rights_tag(&self, written: &Written) -> Option<u32> {
        let filter = self.query.filter.as_ref();
        let fields = written.fields.unwrap_or(self.table.read_by_default());
        (filter != written.filter.as_ref() || fields != self.shown).then(|| {
            let mut hasher = DefaultHasher::new();
            format!("{filter:?} {:?}", self.shown).hash(&mut hasher);
            hasher.finish() as u32
        })
    }

    /// Returns the number of rows of a page.
    pub(crate) fn page_rows(&self) -> usize {
        self.query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    pub(crate) fn shape(&self) -> PageShape {
        PageShape { key: self.table.key(), shown: self.shown }
    }

    /// Prepares the filter for a number of rows.
    ///
    /// # Errors
    /// None, as the filter was checked.
    pub(crate) fn selector(&self) -> Result<Selector<'_>> {
        let ready = self.condition.as_ref().map(|condition| condition.asked(&self.table));
        Ok(Selector { ready: ready.transpose()?, definition: self })
    }

    /// Returns a row of the page from a whole row.
    pub(crate) fn row(&self, whole: &[Value]) -> LiveRow {
        let value = |(field, value): (usize, &Value)| match self.read.contains(field) {
            true => value.clone(),
            false => Value::Absent,
        };
        whole.iter().enumerate().map(value).collect()
    }

    /// Returns true if the rows have to be read again after a change of this table.
    pub(crate) fn reads_again_after(&self, table: &Table) -> bool {
        let is_it = |other: &Arc<Table>| other.name() == table.name();
        self.is_related() && (is_it(&self.table) || self.related.iter().any(is_it))
    }

    /// Returns true if the filter depends on rows of related tables.
    pub(crate) const fn is_related(&self) -> bool {
        !self.related.is_empty()
    }

    /// Returns a field and its only possible value, if the filter has such a condition in a
    /// conjunction.
    pub(crate) fn fixed_value(&self) -> Option<(usize, &Value)> {
        fixed_value(self.query.filter.as_ref()?)
    }
}

/// The prepared filter of a definition.
pub(crate) struct Selector<'d> {
    definition: &'d LiveDefinition,
    ready: Option<Ready<'d>>,
}

impl Selector<'_> {
    /// Returns true if the filter selects a whole row, which may precede the page.
    pub(crate) fn selects(&self, row: &[ValueRef<'_>]) -> bool {
        self.ready.as_ref().is_none_or(|ready| ready.selects(row))
    }

    /// Returns true if a row that the filter selects is not before the first page's start.
    pub(crate) fn is_in_range(&self, row: &[Value]) -> bool {
        let LiveDefinition { query, order, .. } = self.definition;
        let after = query.after.as_ref();
        after.is_none_or(|after| order.compare_with_cursor(row, after) == Ordering::Greater)
    }
}

/// Returns the fields that a query shows. If the readable fields differ from row to row, those of all
/// rows, unless the query names others. The query selects only rows whose fields of the order can be
/// read, and its rows have their values: they are shown, too.
fn shown_of(store: &Store, table: &Table, query: &RowQuery) -> Result<FieldSet> {
    let shown = query.fields.unwrap_or(table.read_by_default());
    let Some(rights) = store.rights() else { return Ok(shown) };
    Ok(match (&rights.admit(Right::Read, table)?.read_fields, query.fields) {
        (None, _) => shown,
        (Some(read), None) => {
            let order = RowOrder::new(table, query).fields();
            shown.intersection(read.every.union(order))
        }
        (Some(read), Some(_)) => shown.intersection(read.any),
    })
}

/// Combines the filter of a query with the rows of which the caller may read all fields of the
/// query.
fn readable(store: &Store, table: &Table, query: &RowQuery) -> Result<Option<FilterExpr>> {
    match store.rights() {
        None => Ok(query.filter.clone()),
        Some(rights) => {
            let used = RowOrder::new(table, query).fields();
            let used = query.fields.map_or(used, |fields| used.union(fields));
            rights.read_filter(table, query.filter.as_ref(), used)
        }
    }
}

/// Returns the related tables on whose rows a filter depends.
fn related(table: &Table, filter: &FilterExpr) -> Vec<Arc<Table>> {
    let mut related: Vec<Arc<Table>> = Vec::new();
    let Ok(()) = filter.each_related(&mut |name| -> std::result::Result<(), Infallible> {
        if let Ok(one) = table.related(name)
            && !related.iter().any(|known| Arc::ptr_eq(known, &one))
        {
            related.push(one);
        }
        Ok(())
    });
    related
}

fn check_blobs(table: &Table, fields: FieldSet) -> Result<()> {
    let mut fields = fields.iter().map(|field| &table.fields()[field]);
    match fields.find(|field| field.kind == Kind::Blob) {
        None => Ok(()),
        Some(field) => {
            let message = format!(
                "a live query has no blobs; leave out the field `{}`, and read it with its row",
                field.name
            );
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

fn fixed_value(filter: &FilterExpr) -> Option<(usize, &Value)> {
    match filter {
        FilterExpr::Compare { field, comparison: Comparison::Equal, value } => {
            Some((*field, value))
        }
        FilterExpr::And(all) => all.iter().find_map(fixed_value),
        _ => None,
    }
}
