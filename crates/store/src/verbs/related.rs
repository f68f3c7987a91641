//! Reads of related rows: those whose field has one of many values. The values are read together,
//! never one by one.

use std::collections::HashSet;
use std::sync::Arc;

use marmota_model::binary::put_value;
use marmota_model::{FilterExpr, RowQuery, Table, Value};

use crate::contract::operation::Operation;

/// The maximum number of values in one operation: with the terms of its own filter, it is a filter
/// that every engine accepts.
const KEYS_MAX: usize = 400;

/// A read of the rows of a table whose field has one of some values, as one operation for each 400
/// different values.
///
/// Execute each operation with [`RelatedRead::with_operation`], then call [`RelatedRead::advance`].
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, NoRows, Role, RowQuery, Schema, Value};
/// # use marmota_store::Store;
/// # let id = Field::new("id", Kind::I64).role(Role::Key);
/// # let note = Schema::new("note", vec![id, Field::new("page", Kind::I64)]);
/// # let store = Store::builder(Memory::new()).schema(note).open()?;
/// use marmota_store::related::RelatedRead;
///
/// let notes = store.table("note")?;
/// // The first three notes of each page.
/// let pages = [Value::Int(1), Value::Int(2), Value::Int(1)];
/// let mut read = RelatedRead::new(notes, 1, RowQuery::new(), Some(3), pages);
/// while let Some(done) = read.with_operation(|operation| store.run(operation, &mut NoRows)) {
///     done?;
///     read.advance();
/// }
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct RelatedRead {
    table: Arc<Table>,
    by: usize,
    limit: Option<u64>,
    filter: Option<FilterExpr>,
    /// The query of the current operation.
    query: RowQuery,
    keys: Vec<Value>,
    /// The number of keys of the operations so far.
    read: usize,
    is_begun: bool,
}

impl RelatedRead {
    /// Creates a read of the rows whose field `by` has one of `keys`, and which the query selects.
    /// `limit` is the maximum number of rows for each key; `None` for no limit. NULL and repeated
    /// keys are left out.
    ///
    /// The query needs the fields that it reads, with `by`, and has neither a limit nor a start.
    #[must_use]
    pub fn new(
        table: Arc<Table>,
        by: usize,
        mut query: RowQuery,
        limit: Option<u64>,
        keys: impl IntoIterator<Item = Value>,
    ) -> Self {
        let mut known = HashSet::new();
        let is_new = |key: &Value| {
            let mut bytes = Vec::new();
            put_value(&mut bytes, key.as_ref());
            *key != Value::Null && known.insert(bytes)
        };
        let keys = keys.into_iter().filter(is_new).collect();
        let filter = query.filter.take();
        Self { table, by, limit, filter, query, keys, read: 0, is_begun: false }
    }

    /// Calls `run` with the current operation, which is the same until [`RelatedRead::advance`].
    /// Returns `None` after the last one.
    pub fn with_operation<T>(&mut self, run: impl FnOnce(&mut Operation<'_>) -> T) -> Option<T> {
        if self.read >= self.keys.len() {
            return None;
        }
        if !self.is_begun {
            let end = self.keys.len().min(self.read + KEYS_MAX);
            let values = self.keys[self.read..end].to_vec();
            let of_keys = FilterExpr::In { field: self.by, values };
            self.query.filter = Some(match &self.filter {
                Some(filter) => of_keys.and(filter.clone()),
                None => of_keys,
            });
            self.is_begun = true;
        }
        let (table, query, by) = (&*self.table, &self.query, self.by);
        Some(match self.limit {
            Some(limit) => run(&mut Operation::ListEach { table, query, by, limit }),
            None => run(&mut Operation::List { table, query }),
        })
    }

    /// Continues with the next operation, after one that has succeeded.
    pub fn advance(&mut self) {
        self.read += KEYS_MAX;
        self.is_begun = false;
    }
}
