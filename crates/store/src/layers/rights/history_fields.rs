//! The fields in entries of the history, for a caller who may not read all fields of the tables.

use std::ops::ControlFlow;

use marmota_model::{Error, ErrorKind, FieldSet, Result, RowQuery, RowSink, Table, ValueRef};

use crate::contract::operation::Operation;
use crate::rights::Rights;
use crate::rows::history::{HISTORY_TABLE, History};

impl Rights {
    /// Returns true if the entries that an operation reads are to be passed through
    /// [`ReadableEntries`].
    pub(super) fn limits_entries(&self, operation: &Operation<'_>) -> bool {
        self.limits_fields()
            && operation.table().is_some_and(|table| {
                table.name() == HISTORY_TABLE
                    && self.of(table).is_ok_and(|rights| !rights.read.is_all())
            })
    }

    /// Calls `run` with a read of entries, and a sink that leaves out fields that the caller may not
    /// read. It has to be called in the same way again while the operation waits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a filter, order or group that depends on the fields of entries.
    pub(super) fn with_readable_entries<T>(
        &self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        run: impl FnOnce(&mut Operation<'_>, &mut dyn RowSink) -> T,
    ) -> Result<T> {
        let used = match operation {
            Operation::List { table, query } | Operation::ListEach { table, query, .. } => {
                let filter = query.filter.as_ref().map(|filter| filter.fields(table));
                let order = query.order.iter().map(|by| by.field);
                order.fold(filter.unwrap_or(FieldSet::EMPTY), FieldSet::with)
            }
            Operation::ListRanked { .. } => FieldSet::EMPTY.with(History::FIELDS.position()),
            Operation::Count { table, filter } | Operation::Estimate { table, filter } => {
                filter.map_or(FieldSet::EMPTY, |filter| filter.fields(table))
            }
            Operation::Group { table, query, .. } => {
                let filter = query.filter.as_ref().map(|filter| filter.fields(table));
                query.fields().union(filter.unwrap_or(FieldSet::EMPTY))
            }
            _ => FieldSet::EMPTY,
        };
        if used.contains(History::FIELDS.position()) {
            let message = "`fields` of the history cannot be used in filters, orders and groups \
                           here: the caller may not read all fields of the tables";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let of_table = History::OF_TABLE.position();
        let entries = |asked: FieldSet| (asked.with(of_table), !asked.contains(of_table));
        Ok(match operation {
            Operation::Get { table, key, fields } => {
                let (fields, is_added) = entries(*fields);
                let mut sink = ReadableEntries { rights: self, sink, is_added };
                run(&mut Operation::Get { table, key: *key, fields }, &mut sink)
            }
            Operation::List { table, query } => {
                let (fields, is_added) = entries(asked(table, query));
                let query = &RowQuery { fields: Some(fields), ..RowQuery::clone(query) };
                let mut sink = ReadableEntries { rights: self, sink, is_added };
                run(&mut Operation::List { table, query }, &mut sink)
            }
            Operation::ListEach { table, query, by, limit } => {
                let (fields, is_added) = entries(asked(table, query));
                let query = &RowQuery { fields: Some(fields), ..RowQuery::clone(query) };
                let (by, limit) = (*by, *limit);
                let mut sink = ReadableEntries { rights: self, sink, is_added };
                run(&mut Operation::ListEach { table, query, by, limit }, &mut sink)
            }
            operation => run(operation, sink),
        })
    }

    /// Returns the JSON of an entry's fields, with those that the caller may read.
    fn readable_entry(&self, of_table: &str, json: &str) -> Option<String> {
        let is_it = |table: &Table| {
            table.name() == of_table || table.schema().was.as_deref() == Some(of_table)
        };
        let rights = self.tables.iter().find(|rights| is_it(&rights.table))?;
        if rights.history_fields == rights.table.all() {
            return Some(json.to_owned());
        }
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
        // Entries have the names of their time. Those that are not known now are left out.
        let is_readable = |name: &str| {
            rights.history_fields.iter().any(|field| {
                let field = &rights.table.fields()[field];
                field.name == name || field.was.as_deref() == Some(name)
            })
        };
        let readable = fields.into_iter().filter(|(name, _)| is_readable(name));
        let readable: serde_json::Map<String, serde_json::Value> = readable.collect();
        serde_json::to_string(&readable).ok()
    }
}

fn asked(table: &Table, query: &RowQuery) -> FieldSet {
    query.fields.unwrap_or_else(|| table.read_by_default())
}

/// A sink that leaves out fields of entries.
struct ReadableEntries<'s> {
    rights: &'s Rights,
    sink: &'s mut dyn RowSink,
    /// True if the name of the table was read in addition.
    is_added: bool,
}

impl RowSink for ReadableEntries<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let (of_table, fields) = (History::OF_TABLE.position(), History::FIELDS.position());
        let mut lent = row.to_vec();
        let readable = match (row[of_table].as_text(), row[fields]) {
            (Some(table), ValueRef::Json(json)) => self.rights.readable_entry(table, json),
            _ => None,
        };
        if let ValueRef::Json(_) = row[fields] {
            lent[fields] = readable.as_deref().map_or(ValueRef::Null, ValueRef::Json);
        }
        if self.is_added {
            lent[of_table] = ValueRef::Absent;
        }
        self.sink.row(&lent)
    }
}
