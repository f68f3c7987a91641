//! One side of a case: a store, an open transaction if any, and the result of each step as text.

use std::fmt::Write as _;
use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, FilterExpr, GroupQuery, KeyKind, Kind, NoRows, Result, RowQuery, RowSource,
    Scratch, Table, Value, ValueRef,
};
use marmota_store::operation::{OnConflict, Operation, Outcome};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_store::{Savepoint, Store, Transaction};

use super::step::{CONTINUE, Change, Step};
use super::tables::{models, schemas};
use crate::conformance::harness::refusal::refusal;
use crate::conformance::harness::subject::{Stand, Subject};

pub(super) struct World<'s> {
    // Declared before the store, so that it is dropped first.
    transaction: Option<Transaction>,
    savepoints: Vec<Savepoint>,
    stand: Stand<'s>,
    keeps: bool,
    tables: Vec<Arc<Table>>,
    /// The next automatic key, if the case assigns keys because engines may assign different ones.
    next_key: Option<std::cell::Cell<i64>>,
}

/// Rows that are validated before the call. Which row an error names depends on how many rows an
/// engine processes at once, so none of these may violate a rule.
struct Ready<'a> {
    rows: std::vec::IntoIter<Vec<ValueRef<'a>>>,
}

impl<'a> RowSource<'a> for Ready<'a> {
    fn remaining(&self) -> usize {
        self.rows.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(next) = self.rows.next() else { return Ok(false) };
        row.copy_from_slice(&next);
        Ok(true)
    }
}

impl<'s> World<'s> {
    pub(super) fn open(subject: &'s Subject, gives_keys: bool) -> Self {
        let stand = Stand::open(subject, models);
        let (tables, keeps) = (tables(&stand), subject.capability().persistent);
        let next_key = gives_keys.then(|| std::cell::Cell::new(1_000));
        Self { transaction: None, savepoints: Vec::new(), stand, keeps, tables, next_key }
    }

    fn scope(&self) -> &Store {
        match &self.transaction {
            Some(transaction) => transaction,
            None => &self.stand,
        }
    }

    /// Executes the step. Returns its result or error as text.
    pub(super) fn execute(&mut self, step: &Step) -> String {
        let result = match step {
            Step::Change(change) => self.change(change),
            Step::InsertMany { table, rows, on_conflict } => {
                self.insert_many(*table, rows, *on_conflict)
            }
            Step::UpdateMany { table, rows } => self.update_many(*table, rows),
            Step::DeleteWhere { table, filter } => {
                filter.check(&self.tables[*table]).and_then(|()| {
                    let table = &self.tables[*table];
                    self.run(&mut Operation::DeleteWhere { table, filter: Some(filter) })
                })
            }
            Step::Batch { changes, each } => self.batch(changes, *each),
            Step::Get { table, key } => {
                let got = self.scope().get_record(&self.tables[*table], key.clone()).run();
                got.map(|record| format!("{:?}", record.values()))
            }
            Step::List { table, filter, order, limit } => {
                let (filter, order) = (filter.clone(), order.clone());
                self.list(*table, &RowQuery { filter, order, limit: *limit, ..RowQuery::new() })
            }
            Step::Count { table, filter } => {
                let table = &self.tables[*table];
                filter.as_ref().map_or(Ok(()), |filter| filter.check(table)).and_then(|()| {
                    self.run(&mut Operation::Count { table, filter: filter.as_ref() })
                })
            }
            Step::Group { table, filter, by, select, limit } => {
                self.group(*table, filter.clone(), by, select, *limit)
            }
            Step::ListEach { table, filter, order, by, limit } => {
                let (filter, order) = (filter.clone(), order.clone());
                self.list_each(*table, &RowQuery { filter, order, ..RowQuery::new() }, *by, *limit)
            }
            Step::Pages { table, filter, order, rows } => {
                let (filter, order) = (filter.clone(), order.clone());
                let query = RowQuery { filter, order, limit: Some(*rows), ..RowQuery::new() };
                self.pages(*table, query)
            }
            control => self.control(control),
        };
        result.unwrap_or_else(|error| refused(&error))
    }

    /// Returns all rows of all tables, blobs included.
    pub(super) fn contents(&self) -> String {
        let mut text = String::new();
        for table in 0..self.tables.len() {
            let fields = Some(self.tables[table].all());
            let rows = self.list(table, &RowQuery { fields, ..RowQuery::new() });
            let rows = rows.unwrap_or_else(|error| refused(&error));
            let _ = write!(text, "\n{}: {rows}", self.tables[table].name());
        }
        text
    }

    fn run(&self, operation: &mut Operation<'_>) -> Result<String> {
        self.scope().run(operation, &mut NoRows).map(|outcome| outcome_text(&outcome))
    }

    fn change(&self, change: &Change) -> Result<String> {
        // A batch of one validates the row.
        let mut batch = self.scope().batch();
        self.add(&mut batch, change);
        let outcomes = batch.all_or_nothing().run()?;
        outcomes.into_iter().map(|outcome| outcome.map(|outcome| outcome_text(&outcome))).collect()
    }

    fn add(&self, batch: &mut marmota_store::batch::Batch<'_>, change: &Change) {
        let table = |table: &usize| Arc::clone(&self.tables[*table]);
        match change {
            Change::Insert { table, row, on_conflict } => {
                let row = self.with_key(*table, row);
                let added = batch.insert_values(&self.tables[*table], &row);
                match on_conflict {
                    OnConflict::Refuse => {}
                    OnConflict::Ignore => drop(added.or_ignore()),
                    OnConflict::Replace => drop(added.or_replace()),
                    OnConflict::Update { .. } => drop(added.or_update()),
                }
                batch
            }
            Change::Update { table, key, row, version } => {
                batch.update_values(&self.tables[*table], key.clone(), row, *version)
            }
            Change::Increment { table: at, key, field, by } => {
                batch.increment_value(table(at), key.clone(), *field, by.clone())
            }
            Change::Delete { table: at, key, version } => {
                batch.delete_value(table(at), key.clone(), *version)
            }
        };
    }

    /// Returns the row with a key, if it has none and the case assigns keys.
    fn with_key(&self, table: usize, row: &[Value]) -> Vec<Value> {
        let (key, mut row) = (self.tables[table].key(), row.to_vec());
        if let (Some(next), KeyKind::Auto) = (&self.next_key, self.tables[table].key_kind())
            && matches!(row[key], Value::Absent | Value::Null)
        {
            row[key] = Value::Int(next.replace(next.get() + 1));
        }
        row
    }

    fn batch(&self, changes: &[Change], each: bool) -> Result<String> {
        let mut batch = self.scope().batch();
        for change in changes {
            self.add(&mut batch, change);
        }
        let results =
            if each { batch.continue_on_error() } else { batch.all_or_nothing() }.run()?;
        let told = |result: Result<Outcome>| match result {
            Ok(outcome) => outcome_text(&outcome),
            Err(error) => refused(&error),
        };
        Ok(results.into_iter().map(told).collect::<Vec<_>>().join("; "))
    }

    fn insert_many(
        &self,
        table: usize,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<String> {
        let rows: Vec<Vec<Value>> = rows.iter().map(|row| self.with_key(table, row)).collect();
        let table = &self.tables[table];
        // All rows with a key, or all without.
        let unset = |key: &Value| matches!(key, Value::Absent | Value::Null);
        let keyed = rows.first().is_some_and(|row| !unset(&row[table.key()]));
        let scratch = Scratch::new();
        let ready = rows.iter().map(|values| {
            let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            if !keyed {
                row[table.key()] = ValueRef::Absent;
            } else if unset(&values[table.key()]) {
                row[table.key()] = rows[0][table.key()].as_ref();
            }
            leave_out_own_references(table, &mut row);
            prepare::insert(
                table,
                &mut row,
                ValueSource::Values,
                WriteTimestamp::now(table),
                &scratch,
            )?;
            Ok(row)
        });
        let mut source = Ready { rows: ready.collect::<Result<Vec<_>>>()?.into_iter() };
        // All fields but one, which remains unchanged.
        let given = table.all().without(table.fields().len() - 2);
        let on_conflict = on_conflict.with_given(table, given);
        self.run(&mut Operation::InsertMany { table, rows: &mut source, on_conflict })
    }

    fn update_many(&self, table: usize, rows: &[Vec<Value>]) -> Result<String> {
        let table = &self.tables[table];
        let scratch = Scratch::new();
        let ready = rows.iter().map(|values| {
            let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            let key = match row[table.key()] {
                ValueRef::Absent | ValueRef::Null => {
                    return Err(Error::new(ErrorKind::Invalid, "no key"));
                }
                key => key,
            };
            prepare::update(
                table,
                &mut row,
                ValueSource::Values,
                WriteTimestamp::now(table),
                &scratch,
            )?;
            // The same fields in every row.
            let mut violations = Vec::new();
            prepare::fill_for_replace(table, &mut row, &mut violations);
            prepare::finish(violations)?;
            for (field, value) in row.iter_mut().enumerate() {
                if !table.read_by_default().contains(field) {
                    *value = ValueRef::Absent;
                }
            }
            row[table.key()] = key;
            Ok(row)
        });
        let mut source = Ready { rows: ready.collect::<Result<Vec<_>>>()?.into_iter() };
        self.run(&mut Operation::UpdateMany { table, rows: &mut source })
    }

    fn list(&self, table: usize, query: &RowQuery) -> Result<String> {
        let (table, mut text, mut rows) = (&self.tables[table], String::new(), 0_u64);
        query.check(table)?;
        let mut sink = |row: &[ValueRef<'_>]| {
            rows += 1;
            let _ = write!(text, "\n  {row:?}");
            CONTINUE
        };
        let outcome = self.scope().run(&mut Operation::List { table, query }, &mut sink)?;
        assert_eq!(outcome.rows, rows, "rows lent are rows counted");
        Ok(text)
    }

    /// Reads the first rows of each value of a field, in the order of the values: between rows with
    /// different ones, the order is the engine's.
    fn list_each(&self, table: usize, query: &RowQuery, by: usize, limit: u64) -> Result<String> {
        let (table, mut rows) = (&self.tables[table], Vec::new());
        query.check(table)?;
        let mut sink = |row: &[ValueRef<'_>]| {
            rows.push((format!("{:?}", row[by]), format!("\n  {row:?}")));
            CONTINUE
        };
        self.scope().run(&mut Operation::ListEach { table, query, by, limit }, &mut sink)?;
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    fn group(
        &self,
        table: usize,
        filter: Option<FilterExpr>,
        by: &[&str],
        select: &[&str],
        limit: Option<u64>,
    ) -> Result<String> {
        let table = &self.tables[table];
        let mut query = GroupQuery { filter, limit, ..GroupQuery::new() };
        if !by.is_empty() {
            query.group_by(table, &by.join(","))?;
        }
        query.select(table, &select.join(","))?;
        let groups = self.scope().list_records(table).group(query).run()?;
        Ok(groups.iter().map(|group| format!("\n  {:?}", group.values())).collect())
    }

    fn pages(&self, table: usize, mut query: RowQuery) -> Result<String> {
        let table = &self.tables[table];
        let (order, mut text) = (query.order_with_key(table), String::new());
        for _ in 0..200 {
            let page = self.scope().list_records(table).query(query.clone()).run()?;
            let Some(last) = page.last() else { break };
            let behind = order.iter().map(|by| last.values()[by.field].clone());
            query.after = Some(behind.collect());
            for record in &page {
                let _ = write!(text, "\n  {:?}", record.values());
            }
        }
        Ok(text)
    }

    fn control(&mut self, step: &Step) -> Result<String> {
        match (step, &mut self.transaction) {
            (Step::Begin, None) => self.transaction = Some(self.stand.begin_run()?),
            (Step::Commit | Step::Rollback, Some(_)) => {
                self.savepoints.clear();
                let transaction = self.transaction.take();
                let transaction = transaction.as_ref().map_or_else(never, Ok)?;
                match step {
                    Step::Commit => transaction.commit().run()?,
                    _ => transaction.rollback().run()?,
                }
            }
            (Step::Savepoint, Some(transaction)) => {
                self.savepoints.push(transaction.savepoint_run()?);
            }
            (Step::RollbackTo(at), Some(transaction)) if *at < self.savepoints.len() => {
                // Savepoints set after it no longer exist.
                self.savepoints.truncate(at + 1);
                transaction.rollback_to(&self.savepoints[*at]).run()?;
            }
            (Step::Release(at), Some(transaction)) if *at < self.savepoints.len() => {
                let mut released = self.savepoints.drain(*at..);
                let first = released.next().map_or_else(never, Ok)?;
                drop(released);
                transaction.release(first).run()?;
            }
            (Step::Reopen, None) if self.keeps => {
                self.stand.reopen();
                self.tables = tables(&self.stand);
            }
            _ => {}
        }
        Ok(String::new())
    }
}

/// Clears references to rows of the same call, because engines differ in whether these may refer to
/// later rows.
fn leave_out_own_references(table: &Table, row: &mut [ValueRef<'_>]) {
    for (field, value) in table.fields().iter().zip(row) {
        if matches!(&field.kind, Kind::Reference { table: to, .. } if to == table.name()) {
            *value = ValueRef::Absent;
        }
    }
}

fn tables(store: &Store) -> Vec<Arc<Table>> {
    schemas().map(|schema| store.table(&schema.name).unwrap()).into()
}

fn never<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Bug, "it was looked at a moment ago"))
}

/// Returns an outcome as text, without the parts that are optional for engines.
fn outcome_text(outcome: &Outcome) -> String {
    let Outcome { rows, keys, version, value, effect, .. } = outcome;
    format!("{rows} {keys:?} {version:?} {value:?} {effect:?}")
}

fn refused(error: &Error) -> String {
    let (kind, mut violations) = refusal(error);
    // If several values are taken, an engine may name any of them.
    let taken = violations.iter().any(|(_, rule)| rule == "unique");
    violations.retain(|(_, rule)| rule != "unique");
    // The index of the row or write at fault, if one is named.
    let place = error.message().split(':').next().filter(|start| {
        let place = start.strip_prefix("row ").or_else(|| start.strip_prefix("write "));
        place.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let taken = if taken { ", a value is taken" } else { "" };
    format!("refused, {kind:?} {violations:?}{taken} {place:?}")
}
