//! Computes the computed fields of stored rows when a store is opened with new expressions.
//!
//! The expressions of a database are in a table. A field without a record, or with another
//! expression, is computed for all rows, in pages; its record is written after them. A start that is
//! interrupted therefore repeats the work, and two processes that start at the same time write the
//! same values.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, Field, FieldSet, Kind, NoRows, Result, Role, RowQuery, RowSink, Schema,
    Scratch, Table, Value, ValueRef,
};

use crate::contract::operation::{OnConflict, Operation, Outcome};
use crate::rows::registry::Registry;
use crate::store::Store;

/// The table of the expressions of computed fields.
pub(crate) const COMPUTED: &str = "marmota_computed";
/// The columns of the table, by place.
const KEY: usize = 0;
const EXPRESSION: usize = 1;
/// The number of rows that are computed at once.
const PAGE_ROWS: u64 = 256;

/// A function that executes an operation below the layers: without hooks, history and rights.
type Run<'r> = dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<Outcome> + 'r;

/// The tables of a store with computed fields, and the table of their expressions.
pub(crate) struct ComputedTables {
    pub(crate) expressions: Arc<Table>,
    /// Each with the fields that are computed for its stored rows.
    tables: Vec<(Arc<Table>, FieldSet)>,
}

impl ComputedTables {
    /// Returns the tables that the store computes; `None` without any. `computed` returns the
    /// fields that it computes for the stored rows of a table.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] for a model whose table has the name of the table of expressions.
    pub(crate) fn of(
        registry: &Registry,
        computed: impl Fn(&Table) -> FieldSet,
    ) -> Result<Option<Self>> {
        if registry.find(COMPUTED).is_some() {
            let message =
                format!("the table name `{COMPUTED}` is reserved for the store; rename yours");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let tables = registry.tables().iter().map(|table| (Arc::clone(table), computed(table)));
        let tables: Vec<_> = tables.filter(|(_, fields)| !fields.is_empty()).collect();
        if tables.is_empty() {
            return Ok(None);
        }
        let id = Field::new("id", Kind::TEXT).role(Role::Key);
        let fields = vec![id, Field::new("expression", Kind::TEXT)];
        let expressions = Arc::new(Table::new(Schema::new(COMPUTED, fields))?);
        Ok(Some(Self { expressions, tables }))
    }

    /// Returns a table that the store computes.
    pub(crate) fn first(&self) -> Option<&Arc<Table>> {
        self.tables.first().map(|(table, _)| table)
    }

    /// Computes the fields whose expressions are not those of the database.
    ///
    /// # Errors
    /// That of a row, with its key; those of the engine.
    pub(crate) fn fill(&self, store: &Store) -> Result<()> {
        let known = known(store, &self.expressions)?;
        for (table, fields) in &self.tables {
            let name = |field: usize| format!("{}.{}", table.name(), table.fields()[field].name);
            let text = |field: usize| table.fields()[field].computed.as_deref();
            let is_new =
                |&field: &usize| known.get(&name(field)).map(|known| &**known) != text(field);
            let new: Vec<usize> = fields.iter().filter(is_new).collect();
            if new.is_empty() {
                continue;
            }
            fill_table(store, table)?;
            for field in new {
                let key = name(field);
                let row = [ValueRef::Text(&key), ValueRef::Text(text(field).unwrap_or_default())];
                let on_conflict = OnConflict::Update { fields: FieldSet::EMPTY.with(EXPRESSION) };
                let table = &self.expressions;
                let mut record = Operation::Insert { table, row: &row, on_conflict };
                store.run_below(&mut record, &mut NoRows)?;
            }
        }
        forget(store, &self.expressions, &known)
    }
}

/// Returns the expressions of the database, by the name of their field.
fn known(store: &Store, expressions: &Table) -> Result<HashMap<String, String>> {
    let mut known = HashMap::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        if let (ValueRef::Text(name), ValueRef::Text(expression)) = (row[KEY], row[EXPRESSION]) {
            known.insert(name.to_owned(), expression.to_owned());
        }
        ControlFlow::Continue(())
    };
    let query = RowQuery { fields: Some(expressions.all()), ..RowQuery::new() };
    store.run_below(&mut Operation::List { table: expressions, query: &query }, &mut keep)?;
    Ok(known)
}

/// Deletes the records of fields of the store's tables that are not computed any more, so that
/// they are computed again if they become so.
fn forget(store: &Store, expressions: &Table, known: &HashMap<String, String>) -> Result<()> {
    for name in known.keys() {
        let Some((table, field)) = name.split_once('.') else { continue };
        let Some(table) = store.registry().find(table) else { continue };
        let is_computed = |field: usize| table.computed_fields().contains(field);
        if table.find(field).is_some_and(is_computed) {
            continue;
        }
        let key = ValueRef::Text(name);
        let mut delete = Operation::Delete { table: expressions, key, version: None };
        match store.run_below(&mut delete, &mut NoRows) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn fill_table(store: &Store, table: &Arc<Table>) -> Result<()> {
    let mut after: Option<Value> = None;
    loop {
        let last = match store.capability().transactions {
            true => store.transaction(|transaction| {
                fill_page(table, after.clone(), &mut |operation, sink| {
                    transaction.run_below(operation, sink)
                })
            })?,
            false => {
                fill_page(table, after, &mut |operation, sink| store.run_below(operation, sink))?
            }
        };
        match last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// Computes the rows of a page, and returns the key of its last row unless it is the last page.
fn fill_page(table: &Table, after: Option<Value>, run: &mut Run<'_>) -> Result<Option<Value>> {
    let width = table.fields().len();
    let mut values: Vec<Value> = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        values.extend(row.iter().map(ValueRef::to_value));
        ControlFlow::Continue(())
    };
    let query = RowQuery {
        after: after.map(|key| table.place_of_key(key)),
        limit: Some(PAGE_ROWS),
        fields: Some(table.read_by_default()),
        ..RowQuery::new()
    };
    run(&mut Operation::List { table, query: &query }, &mut keep)?;
    for stored in values.chunks_exact(width) {
        let scratch = Scratch::new();
        let mut row: Vec<ValueRef<'_>> = stored.iter().map(Value::as_ref).collect();
        let key = row[table.key()];
        let computed = table
            .compute(&mut row, table.computed_fields(), FieldSet::EMPTY, &scratch)
            .and_then(|computed| {
                let mut violations = Vec::new();
                table.check_fields(&row, computed, &mut violations);
                crate::rows::prepare::finish(violations).map(|()| computed)
            });
        let computed = computed.map_err(|error| at_row(table, key, &error))?;
        if computed.is_empty() {
            continue;
        }
        let mut written = vec![ValueRef::Absent; width];
        computed.iter().for_each(|field| written[field] = row[field]);
        let mut update = Operation::Update { table, key, row: &written, version: None };
        run(&mut update, &mut NoRows).map_err(|error| at_row(table, key, &error))?;
    }
    let is_full = values.len() as u64 == PAGE_ROWS * width as u64;
    let last = values.chunks_exact(width).next_back().filter(|_| is_full);
    Ok(last.map(|last| last[table.key()].clone()))
}

/// Returns the same error with the row.
#[cold]
fn at_row(table: &Table, key: ValueRef<'_>, error: &Error) -> Error {
    let key = marmota_model::text::excerpt_of(key);
    let message = format!(
        "the computed fields of the stored row {key} of `{}`: {}",
        table.name(),
        error.message()
    );
    let named = match error.is_retryable() {
        true => Error::new(error.kind(), message).retryable(),
        false => Error::new(error.kind(), message),
    };
    error.violations().iter().cloned().fold(named, Error::with_violation)
}
