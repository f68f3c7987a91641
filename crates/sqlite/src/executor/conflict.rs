//! Inserts with a conflict action.
//!
//! They start with the same statement as any insert; more is done only if SQLite reports that the
//! row's key or a unique value is taken. So a new row costs the same as without a conflict action.
//! The conflicting rows are looked up in the order that [`OnConflict`] promises, which SQLite's ON
//! CONFLICT does not keep.

use std::ops::ControlFlow;

use marmota_model::{FieldSet, Index, Result, RowQuery, Table, Value, ValueRef};
use marmota_sql::quoted;
use marmota_store::operation::{
    Keys, OnConflict, Outcome, UpsertEffect, UpsertResult, conflict_filters,
};

use crate::executor::Executor;
use crate::executor::write::insert_sql;
use crate::fault;
use crate::ffi::{Failure, code};
use crate::statement::column::bind_present;
use crate::statement::key::stored;
use crate::statement::{Head, Verb};

impl Executor {
    /// Inserts a row with a conflict action. An error leaves no changes: each writing statement is
    /// the only one, or all are undone.
    pub(crate) fn insert_over(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        // Outside of a transaction, another program may write between two statements.
        let has_several = on_conflict == OnConflict::Replace && has_unique_generated(table);
        let (placed, version) = match self.connection.in_transaction() && !has_several {
            true => self.put(table, row, on_conflict)?,
            false => self.atomically(|executor| executor.put(table, row, on_conflict))?,
        };
        let rows = u64::from(placed.effect != UpsertEffect::Ignored);
        let (effect, keys) = (placed.effect, Keys::One(placed.key));
        Ok(Outcome { rows, keys, version, effect, ..Outcome::default() })
    }

    /// Inserts a row or applies the conflict action. Also returns its version.
    pub(crate) fn put(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<(UpsertResult<Value>, Option<i64>)> {
        let new = |key, effect| {
            (
                UpsertResult { key, effect },
                table.version().and_then(|version| row[version].as_int()),
            )
        };
        let failure = match self.write_row(table, row, Verb::Insert)? {
            Ok(()) => return Ok(new(self.new_key(table, row), UpsertEffect::Inserted)),
            Err(failure) => failure,
        };
        if !fault::is_taken(&failure) {
            return Err(self.not_inserted(&failure, table, row));
        }
        let in_the_way = self.in_the_way(table, row)?;
        // Empty if the violated index is not part of the schema.
        let Some(there) = in_the_way.first() else {
            return Err(self.not_inserted(&failure, table, row));
        };
        match on_conflict {
            OnConflict::Refuse => Err(self.not_inserted(&failure, table, row)),
            OnConflict::Ignore => {
                Ok((UpsertResult { key: there.clone(), effect: UpsertEffect::Ignored }, None))
            }
            OnConflict::Replace if has_unique_generated(table) => {
                let others = in_the_way.iter().filter(|key| key.as_ref() != row[table.key()]);
                for other in others {
                    self.delete(table, &other.as_ref(), None)?;
                }
                match self.write_row(table, row, Verb::Replace)? {
                    Ok(()) => Ok(new(self.new_key(table, row), UpsertEffect::Replaced)),
                    Err(failure) => Err(self.not_put(&failure, table, row, &in_the_way)),
                }
            }
            OnConflict::Replace => match self.write_row(table, row, Verb::Replace)? {
                Ok(()) => Ok(new(self.new_key(table, row), UpsertEffect::Replaced)),
                Err(failure) => {
                    let error = self.not_put(&failure, table, row, &in_the_way);
                    let is_referred = failure.code() == code::CONSTRAINT_FOREIGNKEY
                        && error.violations().is_empty();
                    Err(if is_referred {
                        self.not_removed(&failure, table, &in_the_way)
                    } else {
                        error
                    })
                }
            },
            OnConflict::Update { fields } => {
                let mut written = row.to_vec();
                for field in (0..row.len()).filter(|&field| !fields.contains(field)) {
                    written[field] = ValueRef::Absent;
                }
                let outcome = self.update(table, &there.as_ref(), &written, None)?;
                let placed = UpsertResult { key: there.clone(), effect: UpsertEffect::Updated };
                Ok((placed, outcome.version))
            }
        }
    }

    /// Writes a row with one statement.
    fn write_row(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        verb: Verb,
    ) -> Result<Result<(), Failure>> {
        let number = self.number(table)?;
        let fields = FieldSet::present(row);
        let head = Head { verb, table: number, fields, variant: 1 };
        let place = self.statement(head, |_| {
            let mut sql = insert_sql(table, row, 1);
            match verb {
                Verb::Replace if has_unique_generated(table) => sql.push_str(&overwrites(table)),
                Verb::Replace => sql.insert_str("INSERT".len(), " OR REPLACE"),
                _ => {}
            }
            (sql, Box::default())
        })?;
        let mut run = self.connection.start(self.statements.at(place).id);
        bind_present(&mut run, table, row);
        Ok(run.finish().map(drop))
    }

    /// Returns the key of the row that was written last.
    fn new_key(&self, table: &Table, row: &[ValueRef<'_>]) -> Value {
        match row[table.key()] {
            ValueRef::Absent => Value::Int(self.connection.last_insert_rowid()),
            key => key.to_value(),
        }
    }

    /// Returns the keys of the rows that conflict with a new one. The first one decides.
    fn in_the_way(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for filter in conflict_filters(table, row) {
            let query = RowQuery {
                filter: Some(filter),
                fields: Some(FieldSet::EMPTY.with(table.key())),
                limit: Some(1),
                ..RowQuery::new()
            };
            let mut keep = |row: &[ValueRef<'_>]| {
                let key = row[table.key()].to_value();
                if !found.contains(&key) {
                    found.push(key);
                }
                ControlFlow::Break(())
            };
            self.list(table, &query, &mut keep)?;
        }
        Ok(found)
    }

    /// Returns the error for a row that cannot be replaced because other rows refer to it.
    #[cold]
    fn not_removed(
        &mut self,
        failure: &Failure,
        table: &Table,
        going: &[Value],
    ) -> marmota_model::Error {
        let referred =
            going.iter().find(|key| !self.referrers(table, Some(&key.as_ref())).is_empty());
        self.kept(failure, table, referred.map(Value::as_ref).as_ref())
    }
}

/// Returns true if a unique index has a generated column. `OR REPLACE` would delete a row with the
/// same value of it, which is not known before.
fn has_unique_generated(table: &Table) -> bool {
    let generated = table.generated_fields();
    let has_one = |index: Index| index.fields.iter().any(|&field| generated.contains(field));
    !generated.is_empty() && table.indexes().into_iter().filter(|index| index.unique).any(has_one)
}

/// Returns the end of an insert that overwrites the row with the same key.
fn overwrites(table: &Table) -> String {
    let name = |field: usize| quoted(&table.fields()[field].name);
    let key: Vec<String> = table.key_order().iter().map(|&field| name(field)).collect();
    let generated = table.generated_fields();
    let written = stored(table).filter(|field| !generated.contains(*field));
    let set: Vec<String> = written.map(|field| format!("{0}=excluded.{0}", name(field))).collect();
    format!(" ON CONFLICT ({}) DO UPDATE SET {}", key.join(","), set.join(","))
}
