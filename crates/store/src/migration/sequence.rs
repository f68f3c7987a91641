//! Compares a program's migrations to those that a database has: which are to be executed or
//! undone, and what is refused because the two do not belong together.
//!
//! ```text
//!  read      the records, before anything is changed
//!  check     the database belongs to this program, and the target can be reached
//!  (plan)    the engine changes the tables
//!  carry_out one transaction for each migration: records, check, record, up
//! ```
//!
//! Two processes may start at the same time: each transaction reads the records again, so the
//! second one finds the work done.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, Field, Kind, NoRows, Result, Role, RowQuery, RowSink, Schema, SortKey, Table,
    Timestamp, Value, ValueRef,
};

use super::{MIGRATIONS, Migration, MigrationStatus, Named, failed};
use crate::contract::engine::{self, Engine};
use crate::contract::operation::{Operation, Outcome};
use crate::rows::registry::Registry;
use crate::store::Store;
use crate::verbs::transaction::Transaction;

/// The columns of the table of records, by place.
const KEY: usize = 0;
const NUMBER: usize = 1;
const NAME: usize = 2;
const DONE: usize = 3;

/// A program's migrations, and the table of their records.
pub(crate) struct Sequence {
    /// The table of records.
    table: Arc<Table>,
    /// The migrations, by number: that with number `n` is at `n - 1`.
    migrations: Vec<Migration>,
}

/// The record of an executed migration.
pub(crate) struct Done {
    /// The key of the record.
    key: Value,
    /// The number of the migration.
    number: u32,
    /// The name of the migration when it was executed.
    name: String,
    /// The time of execution.
    at: Timestamp,
}

/// A function that executes an operation.
type Run<'r> = dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<Outcome> + 'r;

impl Sequence {
    /// Checks the migrations of a program.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for numbers that are not consecutive, or a migration that does
    /// nothing; [`ErrorKind::Conflict`] for a model whose table has the name of the table of
    /// records.
    pub(crate) fn new(migrations: Vec<Migration>, registry: &Registry) -> Result<Self> {
        if registry.table(MIGRATIONS).is_ok() {
            let message = format!(
                "the table name `{MIGRATIONS}` is reserved for the store; rename \
                                   yours"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        for (due, migration) in (1..).zip(&migrations) {
            if migration.number != due {
                return refuse(format!(
                    "{migration} has the wrong number, expected {due}: number migrations 1, 2, 3 \
                     and so on, and add them in this order"
                ));
            }
            if migration.up.is_none() {
                return refuse(format!(
                    "{migration} does nothing: set its step with `up` or `up_sql`"
                ));
            }
            if migration.name.is_empty() {
                return refuse(format!("{migration} has no name: add one"));
            }
        }
        Ok(Self { table: Arc::new(Table::new(schema())?), migrations })
    }

    /// Returns the table of records, if there are migrations.
    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        (!self.migrations.is_empty()).then_some(&self.table)
    }

    /// Reads the records of a database, before anything is changed in it.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn read(&self, engine: &dyn Engine) -> Result<Vec<Done>> {
        if !engine.open_table(&self.table)? {
            return Ok(Vec::new());
        }
        let mut session = engine.session()?;
        self.done(&mut |operation, sink| engine::run(&mut *session, operation, sink))
    }

    /// Reads the records, in order.
    fn done(&self, run: &mut Run<'_>) -> Result<Vec<Done>> {
        let query = RowQuery {
            order: vec![SortKey { field: NUMBER, descending: false }],
            fields: Some(self.table.all()),
            ..RowQuery::new()
        };
        let mut all = Vec::new();
        let mut keep = |row: &[ValueRef<'_>]| {
            all.push(Done::of(row));
            ControlFlow::Continue(())
        };
        run(&mut Operation::List { table: &self.table, query: &query }, &mut keep)?;
        all.into_iter().collect()
    }

    /// Refuses a replica that lacks migrations, which only its primary executes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    pub(crate) fn check_complete(&self, done: &[Done]) -> Result<()> {
        match self.migrations.get(done.len()) {
            None => Ok(()),
            Some(missing) => refuse(format!(
                "the replica lacks {missing}: start the primary with this program first"
            )),
        }
    }

    /// Refuses a database that does not belong to these migrations, and a target (`to`) that cannot
    /// be reached.
    ///
    /// `done` are the records in order. `to` is the number of the last migration after the call;
    /// `None` for all.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], and [`ErrorKind::Unsupported`] for a migration that cannot be
    /// undone.
    pub(crate) fn check(&self, done: &[Done], to: Option<u32>) -> Result<()> {
        let last = self.migrations.len();
        for (at, (due, record)) in (1..).zip(done).enumerate() {
            let has = Named(record.number, &record.name);
            if record.number != due {
                return refuse(format!(
                    "the database has {has}, but not number {due} before it: the table \
                     `{MIGRATIONS}` was changed; restore a backup, or restore the record"
                ));
            }
            match self.migrations.get(at) {
                None => {
                    let ends = match self.migrations.last() {
                        None => "has none".to_owned(),
                        Some(migration) => format!("ends with {migration}"),
                    };
                    let newest = done.last().unwrap_or(record);
                    let has = Named(newest.number, &newest.name);
                    return refuse(format!(
                        "the database was migrated by a newer program: it has {has}, but this \
                         program {ends}; start the newer program, or use it to migrate back \
                         (`migrate --to {last}`)"
                    ));
                }
                Some(migration) if migration.name != record.name => {
                    return refuse(format!(
                        "{migration} was applied to this database as {has}: an applied migration keeps \
                         its number and name; add yours after the last"
                    ));
                }
                Some(_) => {}
            }
        }
        let to = match to.map(usize::try_from) {
            None => return Ok(()),
            Some(Ok(to)) if to <= last => to,
            Some(_) => {
                return refuse(format!(
                    "there is no migration {}: this program has migrations up to {last}; 0 means \
                     before the first",
                    to.unwrap_or_default()
                ));
            }
        };
        let undone = self.migrations.get(to..done.len()).unwrap_or_default();
        match undone.iter().rev().find(|migration| migration.down.is_none()) {
            None => Ok(()),
            Some(migration) => {
                let message = format!(
                    "{migration} cannot be undone because it has no `down`; nothing was changed: \
                     add one, or restore a backup made before it"
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Adds the migrations that the database lacks, if any, to the refusal of a plan: the database
    /// may have skipped the program version whose models the first of them needs.
    ///
    /// The kind stays the same, and the refusal of the plan becomes the source.
    pub(crate) fn explain(&self, refused: Error, done: &[Done]) -> Error {
        let (Some(first), Some(last)) = (self.migrations.get(done.len()), self.migrations.last())
        else {
            return refused;
        };
        if refused.kind() != ErrorKind::Invalid {
            return refused;
        }
        let pending = match first.number == last.number {
            true => format!("{first} is"),
            false => format!("{first} to {last} are"),
        };
        let message = format!(
            "{}; {pending} pending: if the database skipped a version of the program, start that \
             version first, so that it applies its migrations, or keep its fields in the models \
             (optional, or with a default) until the migrations are applied everywhere",
            refused.message()
        );
        Error::new(refused.kind(), message).with_source(refused)
    }

    /// Returns the program's migrations, and those that only the database has.
    pub(crate) fn status(&self, done: &[Done]) -> Vec<MigrationStatus> {
        let at = |number| done.iter().find(|done| done.number == number).map(|done| done.at);
        let known = self.migrations.iter().map(|migration| MigrationStatus {
            number: migration.number,
            name: migration.name.to_string(),
            done: at(migration.number),
            has_down: migration.down.is_some(),
            is_known: true,
        });
        let is_unknown = |done: &&Done| done.number as usize > self.migrations.len();
        let unknown = done.iter().filter(is_unknown).map(|done| MigrationStatus {
            number: done.number,
            name: done.name.clone(),
            done: Some(done.at),
            has_down: false,
            is_known: false,
        });
        known.chain(unknown).collect()
    }

    /// Executes the pending migrations, or undoes those after `to`. The models' tables already fit
    /// the program; `done` is the result of [`Sequence::read`].
    ///
    /// # Errors
    /// That of a migration, with its name; those before it stay executed.
    pub(crate) fn carry_out(&self, store: &Store, done: &[Done], to: Option<u32>) -> Result<()> {
        let to = to.map_or(self.migrations.len(), |to| to as usize);
        if done.len() == to {
            return Ok(());
        }
        // Each transaction reads the records again: another process may do the same work.
        let step = |transaction: &mut Transaction| {
            let done = self.done(&mut |operation, sink| transaction.run(operation, sink))?;
            self.check(&done, u32::try_from(to).ok())?;
            match done.get(to..) {
                Some([]) => Ok(false),
                Some([.., last]) => self.undo(transaction, last).map(|()| true),
                None => self.go_on(transaction, &self.migrations[done.len()..to]),
            }
        };
        while store.transaction(step)? {}
        Ok(())
    }

    /// Executes the first pending migration. In an empty database all are executed in one
    /// transaction, so that the database is either empty or has those that skip empty databases.
    fn go_on(&self, transaction: &mut Transaction, pending: &[Migration]) -> Result<bool> {
        let skips = pending.iter().any(|migration| migration.skips_empty);
        let is_empty = skips && is_empty(transaction)?;
        let now = if is_empty { pending } else { &pending[..pending.len().min(1)] };
        for migration in now {
            self.record(transaction, migration)?;
            if let Some(up) = &migration.up
                && !(is_empty && migration.skips_empty)
            {
                up(transaction).map_err(|error| failed(migration, "done", error))?;
            }
        }
        Ok(!is_empty)
    }

    /// Inserts the record of a migration.
    fn record(&self, transaction: &Transaction, migration: &Migration) -> Result<()> {
        let row = [
            ValueRef::Absent,
            ValueRef::Int(migration.number.into()),
            ValueRef::Text(&migration.name),
            ValueRef::Timestamp(Timestamp::now()),
        ];
        transaction.run(&mut Operation::insert(&self.table, &row), &mut NoRows).map(drop)
    }

    /// Deletes the record of a migration, and undoes the migration.
    fn undo(&self, transaction: &mut Transaction, done: &Done) -> Result<()> {
        let key = done.key.as_ref();
        let mut forget = Operation::Delete { table: &self.table, key, version: None };
        transaction.run(&mut forget, &mut NoRows)?;
        let Some(migration) = self.migrations.get(done.number as usize - 1) else {
            return Ok(());
        };
        match &migration.down {
            Some(down) => down(transaction).map_err(|error| failed(migration, "undone", error)),
            None => Ok(()),
        }
    }
}

impl Done {
    /// Reads a record.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a row that is not a record.
    fn of(row: &[ValueRef<'_>]) -> Result<Self> {
        let number = match row[NUMBER] {
            ValueRef::Int(number) => u32::try_from(number).ok().filter(|number| *number > 0),
            _ => None,
        };
        match (number, row[NAME], row[DONE]) {
            (Some(number), ValueRef::Text(name), ValueRef::Timestamp(at)) => {
                Ok(Self { key: row[KEY].to_value(), number, name: name.to_owned(), at })
            }
            _ => refuse(format!("the table `{MIGRATIONS}` has a record without a number or time")),
        }
    }
}

/// Returns the schema of the table of records.
fn schema() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("number", Kind::I64).unique(true),
        Field::new("name", Kind::TEXT),
        Field::new("done", Kind::Timestamp),
    ];
    Schema::new(MIGRATIONS, fields)
}

/// Returns true if none of the models has a row.
fn is_empty(transaction: &Transaction) -> Result<bool> {
    let query = RowQuery { limit: Some(1), ..RowQuery::new() };
    for table in transaction.registry().tables() {
        let mut found = false;
        let mut see = |_: &[ValueRef<'_>]| {
            found = true;
            ControlFlow::Break(())
        };
        transaction.run(&mut Operation::List { table, query: &query }, &mut see)?;
        if found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns an error of kind [`ErrorKind::Invalid`].
#[cold]
fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Invalid, message))
}
