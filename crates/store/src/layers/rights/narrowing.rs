//! Operations of a caller with rights: they are refused, or narrowed to the rows that the caller
//! may access.
//!
//! A narrowed operation borrows from the original one, and lives as long as one call of the next
//! layer.

use std::borrow::Cow;
use std::ops::ControlFlow;

use marmota_model::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, GroupQuery, RankedQuery, Result, RowQuery,
    RowSink, RowSource, Table, ValueRef,
};

use crate::contract::operation::{OnConflict, Operation, Outcome};
use crate::rights::{Access, Right, Rights, RowMask, TableRights};
use crate::rows::predicate::Ready;

impl Rights {
    /// Calls `run` with the narrowed operation, which has to be passed in the same way again while
    /// it waits.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for an operation that the caller may not execute.
    pub(crate) fn narrowed<T>(
        &self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        run: impl FnOnce(&mut Operation<'_>, &mut dyn RowSink, &mut Outcome) -> T,
    ) -> Result<T> {
        match operation {
            Operation::Get { table, key, fields } => {
                let rights = self.admit(Right::Read, table)?;
                let asked = rights.readable(*fields);
                let mask = rights.mask(FieldSet::EMPTY)?;
                if rights.read.is_all() && mask.is_none() {
                    let mut get = Operation::Get { table, key: *key, fields: asked };
                    return Ok(run(&mut get, sink, outcome));
                }
                let needed = mask.as_ref().map_or(FieldSet::EMPTY, |mask| mask.needed);
                if rights.read.has_relations() {
                    let fields = asked.union(needed);
                    let query = read_of_row(table, *key, fields, &rights.read);
                    let mut list = Operation::List { table, query: &query };
                    let mut shown = ReadableRow::new(sink, fields, asked, None, mask);
                    return Ok(run(&mut list, &mut shown, outcome));
                }
                let fields = asked.union(rights.read.fields(table)).union(needed);
                let ready = match &rights.read {
                    Access::Where(condition) => Some(condition.asked(table)?),
                    Access::All | Access::Denied => None,
                };
                let mut readable = ReadableRow::new(sink, fields, asked, ready, mask);
                let mut get = Operation::Get { table, key: *key, fields };
                let ran = run(&mut get, &mut readable, outcome);
                if readable.hidden {
                    outcome.rows = 0;
                }
                Ok(ran)
            }
            Operation::List { table, query } => {
                let rights = self.admit(Right::Read, table)?;
                let related = query.filter.as_ref().is_some_and(FilterExpr::has_relations)
                    || !query.related.is_empty();
                if rights.read.is_all() && !related && rights.read_fields.is_none() {
                    return Ok(run(operation, sink, outcome));
                }
                let used = query.order.iter().map(|by| by.field).collect();
                let filter = self.read_filter(table, query.filter.as_ref(), used)?;
                let filter_fields = query.filter.as_ref().map(|filter| filter.fields(table));
                let used = filter_fields.unwrap_or(FieldSet::EMPTY).union(used);
                let related = self.narrow_fields(table, &query.related)?;
                let mut query = RowQuery { filter, related, ..RowQuery::clone(query) };
                let mut shown = self.masked(rights, &mut query.fields, used, sink)?;
                let (sink, query) = (shown.sink(), &query);
                Ok(run(&mut Operation::List { table, query }, sink, outcome))
            }
            Operation::Count { table, filter } => {
                let filter = self.read_filter(table, *filter, FieldSet::EMPTY)?;
                let mut count = Operation::Count { table, filter: filter.as_ref() };
                Ok(run(&mut count, sink, outcome))
            }
            Operation::Estimate { table, filter } => {
                let filter = self.read_filter(table, *filter, FieldSet::EMPTY)?;
                let mut estimate = Operation::Estimate { table, filter: filter.as_ref() };
                Ok(run(&mut estimate, sink, outcome))
            }
            Operation::ListEach { table, query, by, limit } => {
                let rights = self.admit(Right::Read, table)?;
                let used = query.order.iter().map(|by| by.field).chain([*by]).collect();
                let filter = self.read_filter(table, query.filter.as_ref(), used)?;
                let filter_fields = query.filter.as_ref().map(|filter| filter.fields(table));
                let used = filter_fields.unwrap_or(FieldSet::EMPTY).union(used);
                let mut query = RowQuery { filter, ..RowQuery::clone(query) };
                let (by, limit) = (*by, *limit);
                let mut shown = self.masked(rights, &mut query.fields, used, sink)?;
                let (sink, query) = (shown.sink(), &query);
                Ok(run(&mut Operation::ListEach { table, query, by, limit }, sink, outcome))
            }
            Operation::ListRanked { table, query } => {
                let rights = self.admit(Right::Read, table)?;
                let filter = self.read_filter(table, query.filter.as_ref(), query.by.fields())?;
                let filter_fields = query.filter.as_ref().map(|filter| filter.fields(table));
                let used = filter_fields.unwrap_or(FieldSet::EMPTY).union(query.by.fields());
                let mut query = RankedQuery { filter, ..RankedQuery::clone(query) };
                let mut shown = self.masked(rights, &mut query.fields, used, sink)?;
                let (sink, query) = (shown.sink(), &query);
                Ok(run(&mut Operation::ListRanked { table, query }, sink, outcome))
            }
            Operation::Group { table, query, result } => {
                let filter = self.read_filter(table, query.filter.as_ref(), query.fields())?;
                let related = self.narrow_fields(table, &query.related)?;
                let query = &GroupQuery { filter, related, ..GroupQuery::clone(query) };
                Ok(run(&mut Operation::Group { table, query, result }, sink, outcome))
            }
            Operation::DeleteWhere { table, filter } => {
                let rights = self.admit(Right::Delete, table)?;
                let filter = self.read_filter(table, *filter, FieldSet::EMPTY)?;
                let filter = rights.delete.narrow(filter);
                let mut delete = Operation::DeleteWhere { table, filter: filter.as_ref() };
                Ok(run(&mut delete, sink, outcome))
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let rights = self.admit_insert(table, *on_conflict)?;
                if self.guards(&Operation::Insert { table, row: &[], on_conflict: *on_conflict })
                    || rights.insert.is_all() && rights.referring.is_empty()
                {
                    return Ok(run(operation, sink, outcome));
                }
                let (table, on_conflict) = (*table, *on_conflict);
                let row = vec![ValueRef::Absent; table.fields().len()];
                let mut checked = CheckedRows { whose: self, rights, rows: &mut **rows, row };
                Ok(run_insert_many(table, &mut checked, on_conflict, |operation| {
                    run(operation, sink, outcome)
                }))
            }
            Operation::Sql { .. } => {
                let message = "raw SQL would bypass the rules on rows; read with filters, or use a \
                               store without rights";
                Err(Error::new(ErrorKind::Denied, message))
            }
            Operation::Aggregate { .. } => {
                let message = "an aggregation would bypass the rules on rows; read with filters, \
                               or use a store without rights";
                Err(Error::new(ErrorKind::Denied, message))
            }
            // The answers of callers are separate, so that none gets another's.
            Operation::Batch { writes, links, once: Some(once), mode, results } => {
                let once = Some(once.lend_to(&self.caller_key()));
                let (writes, links, mode) = (*writes, *links, *mode);
                let results = &mut **results;
                let mut batch = Operation::Batch { writes, links, once, mode, results };
                Ok(run(&mut batch, sink, outcome))
            }
            operation => {
                self.admit_write(operation)?;
                Ok(run(operation, sink, outcome))
            }
        }
    }

    /// Combines the filter of a delete with the rows that the caller may delete.
    pub(crate) fn narrow_delete(
        &self,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Option<FilterExpr> {
        // A filter that depends on what the caller may not read selects no row.
        let filter = self.read_filter(table, filter, FieldSet::EMPTY);
        let access = self.of(table).map_or(&Access::Denied, |rights| &rights.delete);
        filter.map_or_else(|_| Access::Denied.narrow(None), |filter| access.narrow(filter))
    }

    /// Returns a filter on rows of a table, combined with the rows that the caller may read, of
    /// which the filter only depends on readable fields; `used` are other fields on which the
    /// result depends.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a table that the caller may not read, and that of an unknown field
    /// for a field.
    pub(crate) fn read_filter(
        &self,
        table: &Table,
        filter: Option<&FilterExpr>,
        used: FieldSet,
    ) -> Result<Option<FilterExpr>> {
        let rights = self.admit(Right::Read, table)?;
        let rows = match &rights.read_fields {
            None => Cow::Borrowed(&rights.read),
            Some(_) => {
                let in_filter = filter.map_or(FieldSet::EMPTY, |filter| filter.fields(table));
                rights.reading(used.union(in_filter))?
            }
        };
        Ok(rows.narrow(self.narrow_related(table, filter)?))
    }

    /// Limits the fields of a query to those that the caller may read, and returns the sink to
    /// which they come. All rows are those in which the fields `used` may be read.
    fn masked<'s, 'r>(
        &self,
        rights: &'r TableRights,
        fields: &mut Option<FieldSet>,
        used: FieldSet,
        sink: &'s mut dyn RowSink,
    ) -> Result<Shown<'s, 'r>> {
        if rights.read_fields.is_none() {
            return Ok(Shown::All(sink));
        }
        let asked = fields.unwrap_or_else(|| rights.table.read_by_default());
        let asked = rights.readable(asked);
        let mask = rights.mask(used)?;
        let read = asked.union(mask.as_ref().map_or(FieldSet::EMPTY, |mask| mask.needed));
        *fields = Some(read);
        Ok(match mask {
            None => Shown::All(sink),
            mask => Shown::Some(ReadableRow::new(sink, read, asked, None, mask)),
        })
    }

    /// Checks writes of one row, and updates of several, as far as this is possible without reading
    /// rows.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], or [`ErrorKind::Unauthenticated`] for an anonymous caller.
    fn admit_write(&self, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Insert { table, row, on_conflict } => {
                let rights = self.admit_insert(table, *on_conflict)?;
                match self.guards(operation) {
                    true => Ok(()),
                    false => self.check_insert(rights, row),
                }
            }
            Operation::Update { table, .. }
            | Operation::UpdateMany { table, .. }
            | Operation::Increment { table, .. } => self.admit(Right::Update, table).map(drop),
            Operation::Delete { table, .. } => self.admit(Right::Delete, table).map(drop),
            // Each write of a batch has its own result.
            _ => Ok(()),
        }
    }
}

/// Returns the read of a row by its key as a list, for access that only the engine can evaluate.
fn read_of_row(table: &Table, key: ValueRef<'_>, fields: FieldSet, access: &Access) -> RowQuery {
    let (field, value) = (table.key(), key.to_value());
    let row = FilterExpr::Compare { field, comparison: Comparison::Equal, value };
    let filter = access.narrow(Some(row));
    RowQuery { filter, limit: Some(1), fields: Some(fields), ..RowQuery::new() }
}

/// Calls `run` with an insert of rows from a source with a shorter lifetime than the operation's
/// own.
fn run_insert_many<'a, T>(
    table: &'a Table,
    rows: &'a mut dyn RowSource<'a>,
    on_conflict: OnConflict,
    run: impl FnOnce(&mut Operation<'_>) -> T,
) -> T {
    run(&mut Operation::InsertMany { table, rows, on_conflict })
}

/// The sink of a read, or one that leaves out fields.
#[allow(
    clippy::large_enum_variant,
    reason = "one for each read, on the stack; a box would allocate"
)]
enum Shown<'s, 'r> {
    All(&'s mut dyn RowSink),
    Some(ReadableRow<'s, 'r>),
}

impl Shown<'_, '_> {
    fn sink(&mut self) -> &mut dyn RowSink {
        match self {
            Self::All(sink) => *sink,
            Self::Some(readable) => readable,
        }
    }
}

/// A sink that passes on rows that the caller may read, with the requested fields that the caller
/// may read. The fields of rules are read in addition.
struct ReadableRow<'s, 'f> {
    /// Checks the row, if that was not done by a filter.
    ready: Option<Ready<'f>>,
    /// Checks the fields, if they depend on the row.
    mask: Option<RowMask<'f>>,
    sink: &'s mut dyn RowSink,
    /// The fields that are read, and those that were requested.
    fields: FieldSet,
    asked: FieldSet,
    hidden: bool,
}

impl<'s, 'f> ReadableRow<'s, 'f> {
    fn new(
        sink: &'s mut dyn RowSink,
        fields: FieldSet,
        asked: FieldSet,
        ready: Option<Ready<'f>>,
        mask: Option<RowMask<'f>>,
    ) -> Self {
        Self { ready, mask, sink, fields, asked, hidden: false }
    }
}

impl RowSink for ReadableRow<'_, '_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.ready.as_ref().is_some_and(|ready| !ready.selects(row)) {
            self.hidden = true;
            return ControlFlow::Break(());
        }
        let shown = match &self.mask {
            None => self.asked,
            Some(mask) => self.asked.intersection(mask.fields(row)),
        };
        if self.fields == shown {
            return self.sink.row(row);
        }
        let mut lent = row.to_vec();
        for (field, value) in lent.iter_mut().enumerate() {
            if !shown.contains(field) {
                *value = ValueRef::Absent;
            }
        }
        self.sink.row(&lent)
    }
}

/// A source that checks each row against the rights, before the engine inserts it.
struct CheckedRows<'j, 'a> {
    whose: &'j Rights,
    rights: &'j TableRights,
    rows: &'j mut dyn RowSource<'a>,
    row: Vec<ValueRef<'a>>,
}

impl<'s, 'a: 's> RowSource<'s> for CheckedRows<'_, 'a> {
    fn remaining(&self) -> usize {
        self.rows.remaining()
    }

    fn next(&mut self, row: &mut [ValueRef<'s>]) -> Result<bool> {
        if !self.rows.next(&mut self.row)? {
            return Ok(false);
        }
        self.whose.check_insert(self.rights, &self.row)?;
        row.copy_from_slice(&self.row);
        Ok(true)
    }
}
