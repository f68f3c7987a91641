//! Inserts that know what to do where a row is there already.
//!
//! They begin as any insert does, with the same statement: only where SQLite
//! finds the row's key or a unique value taken is there more to do. So a new
//! row costs what it always does, and which row is in the way is looked up in
//! the order that [`OnConflict`] promises, which SQLite's own ON CONFLICT does
//! not.

use std::ops::ControlFlow;

use marmota_model::{Comparison, FieldSet, FilterExpr, Query, Result, Table, Value, ValueRef};
use marmota_store::operation::{Effect, Keys, OnConflict, Outcome, UpsertResult};

use crate::column::bind_present;
use crate::fault;
use crate::ffi::{Failure, code};
use crate::lane::Lane;
use crate::statement::{Head, Verb};
use crate::write::insert_sql;

impl Lane {
    /// An insert that does not refuse what is there already. Of an error
    /// nothing is left: each statement that writes is the only one.
    pub(crate) fn insert_over(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        // Another program may write between two statements, unless they are
        // in a transaction.
        let (placed, version) = match self.connection.in_transaction() {
            true => self.put(table, row, on_conflict)?,
            false => self.atomically(|lane| lane.put(table, row, on_conflict))?,
        };
        let rows = u64::from(placed.effect != Effect::Ignored);
        let (effect, keys) = (placed.effect, Keys::One(placed.key));
        Ok(Outcome { rows, keys, version, effect, ..Outcome::default() })
    }

    /// Inserts a row, or does what is to be done; also gives its version.
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
            Ok(()) => return Ok(new(self.new_key(table, row), Effect::Inserted)),
            Err(failure) => failure,
        };
        if !fault::is_taken(&failure) {
            return Err(self.not_inserted(&failure, table, row));
        }
        let in_the_way = self.in_the_way(table, row)?;
        // Nothing, where an index is the file's own and not of the schema.
        let Some(there) = in_the_way.first() else {
            return Err(self.not_inserted(&failure, table, row));
        };
        match on_conflict {
            OnConflict::Refuse => Err(self.not_inserted(&failure, table, row)),
            OnConflict::Ignore => {
                Ok((UpsertResult { key: there.clone(), effect: Effect::Ignored }, None))
            }
            OnConflict::Replace => match self.write_row(table, row, Verb::Replace)? {
                Ok(()) => Ok(new(self.new_key(table, row), Effect::Replaced)),
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
                let placed = UpsertResult { key: there.clone(), effect: Effect::Updated };
                Ok((placed, outcome.version))
            }
        }
    }

    /// One statement that puts a row there.
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
            if verb == Verb::Replace {
                sql.insert_str("INSERT".len(), " OR REPLACE");
            }
            (sql, Box::default())
        })?;
        let mut run = self.connection.start(self.statements.at(place).id);
        bind_present(&mut run, row);
        Ok(run.finish().map(drop))
    }

    /// The key of the row that was written last.
    fn new_key(&self, table: &Table, row: &[ValueRef<'_>]) -> Value {
        match row[table.key()] {
            ValueRef::Absent => Value::Int(self.connection.last_insert_rowid()),
            key => key.to_value(),
        }
    }

    /// The keys of the rows that a new one collides with, the one that decides
    /// first.
    fn in_the_way(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        let key = [table.key()];
        let indexes = table.indexes();
        let unique = indexes.iter().filter(|index| index.unique).map(|index| &*index.fields);
        for fields in std::iter::once(&key[..]).chain(unique) {
            if fields.iter().any(|&field| row[field].is_null() || row[field].is_absent()) {
                continue;
            }
            let equal = |&field: &usize| FilterExpr::Compare {
                field,
                comparison: Comparison::Equal,
                value: row[field].to_value(),
            };
            let query = Query {
                filter: Some(FilterExpr::And(fields.iter().map(equal).collect())),
                fields: Some(FieldSet::EMPTY.with(table.key())),
                limit: Some(1),
                ..Query::new()
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

    /// The error of a row that cannot go for a new one, because it is referred
    /// to.
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
