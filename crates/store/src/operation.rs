//! The second narrow waist: an operation on rows is data, not a method per
//! verb and engine.
//!
//! By the time an engine sees an operation, the store has checked its rows
//! against the schema, filled in keys, stamps and defaults, and checked its
//! query. The engine's part is to carry it out, atomically.

mod conflict;
mod driver;
mod link;
mod machine;
mod once;
mod trimming;

use std::sync::Arc;

use crate::audit::Audit;
use crate::rights::Rights;
use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, Query, Result, RowSource, Table, Value, ValueRef,
};

use crate::sql::{Lender, SqlCall};
pub use conflict::{Effect, OnConflict, UpsertResult};
pub use driver::BatchDriver;
pub use link::{Link, LinkAt, key_made, resolve_links};
pub use machine::{BatchMachine, BatchParts, BatchStep};
pub(crate) use once::schema as answers_schema;
pub use once::{ANSWERS, Answered, Fingerprint, Idempotency, KEY_BYTES_MAX, Once, OnceKey};

/// What an engine is asked to do. Rows have one value for each field of the
/// table, in its order; absent ones are not written.
#[non_exhaustive]
pub enum Operation<'a> {
    /// Lends the row with this key to the sink; none if there is none.
    Get {
        /// The table.
        table: &'a Table,
        /// The key.
        key: ValueRef<'a>,
        /// The fields to read; the others are lent as absent.
        fields: FieldSet,
    },
    /// Lends each row that the query selects to the sink, in its order.
    List {
        /// The table.
        table: &'a Table,
        /// Which rows; its order gets the key as its last member.
        query: &'a Query,
    },
    /// Counts rows ([`Outcome::rows`]).
    Count {
        /// The table.
        table: &'a Table,
        /// Which rows; none for all.
        filter: Option<&'a FilterExpr>,
    },
    /// Inserts a row. An absent automatic key is given by the engine.
    Insert {
        /// The table.
        table: &'a Table,
        /// The row.
        row: &'a [ValueRef<'a>],
        /// What to do where a row is there already.
        on_conflict: OnConflict,
    },
    /// Inserts rows that all have the same fields present: all or none.
    InsertMany {
        /// The table.
        table: &'a Table,
        /// The rows.
        rows: &'a mut dyn RowSource<'a>,
        /// What to do where a row is there already; one that was written by
        /// the same operation is.
        on_conflict: OnConflict,
    },
    /// Writes the fields of `row` that are present to the row with this key,
    /// and adds one to its version if the table has one.
    Update {
        /// The table.
        table: &'a Table,
        /// The key.
        key: ValueRef<'a>,
        /// The fields to write; never the key or the version.
        row: &'a [ValueRef<'a>],
        /// Refuse with [`marmota_model::ErrorKind::Stale`] unless this is the row's version.
        version: Option<i64>,
    },
    /// Updates rows by the keys they hold, which all have the same fields
    /// present: all or none. Versions are not compared.
    UpdateMany {
        /// The table.
        table: &'a Table,
        /// The rows, their key present.
        rows: &'a mut dyn RowSource<'a>,
    },
    /// Adds to an integer or currency field ([`Outcome::value`] is the sum);
    /// writes `stamp` to the updated-at field and counts the version.
    Increment {
        /// The table.
        table: &'a Table,
        /// The key.
        key: ValueRef<'a>,
        /// The field, of kind integer or currency.
        field: usize,
        /// How much: [`ValueRef::Int`] or [`ValueRef::Currency`], as the field is.
        by: ValueRef<'a>,
        /// The time of the write.
        stamp: ValueRef<'a>,
    },
    /// Deletes the row with this key.
    Delete {
        /// The table.
        table: &'a Table,
        /// The key.
        key: ValueRef<'a>,
        /// Refuse with [`marmota_model::ErrorKind::Stale`] unless this is the row's version.
        version: Option<i64>,
    },
    /// Deletes the rows that a filter selects ([`Outcome::rows`] of them).
    DeleteWhere {
        /// The table.
        table: &'a Table,
        /// Which rows; none for all.
        filter: Option<&'a FilterExpr>,
    },
    /// Several writes in one transaction.
    Batch {
        /// The writes, in order.
        writes: &'a [Write],
        /// The keys that they take from one another, in the order of the
        /// writes that take them; each checked ([`Link::check`]).
        links: &'a [Link],
        /// How it takes place only once, if it does.
        once: Option<Once<'a>>,
        /// Keep those that succeed, or none if one fails.
        mode: BatchMode,
        /// Takes the result of each write that was tried, in order.
        results: &'a mut Vec<Result<Outcome>>,
    },
    /// Runs one statement of SQL, which reads or changes rows as it says
    /// ([`Outcome::rows`] lent or changed): atomically. The rows lent have one
    /// value for each column.
    Sql {
        /// The statement.
        statement: SqlCall<'a>,
        /// Who lends tables of other databases, if there are any.
        lender: Option<&'a mut dyn Lender>,
    },
    /// Lends what an aggregation pipeline makes of the table's documents: rows
    /// of one value, a document as JSON. It reads alone.
    Aggregate {
        /// The table.
        table: &'a Table,
        /// A JSON array of stages, in the engine's own terms.
        pipeline: &'a str,
    },
    /// Begins a transaction on this session.
    Begin,
    /// Commits it.
    Commit,
    /// Undoes it.
    Rollback,
    /// Sets a savepoint in it.
    Savepoint(u32),
    /// Keeps what was done since the savepoint.
    Release(u32),
    /// Undoes what was done since the savepoint, which stays.
    RollbackTo(u32),
}

impl<'a> Operation<'a> {
    /// An insert that refuses what is there already.
    #[must_use]
    pub const fn insert(table: &'a Table, row: &'a [ValueRef<'a>]) -> Self {
        Self::Insert { table, row, on_conflict: OnConflict::Refuse }
    }

    /// An insert of many that refuses what is there already.
    #[must_use]
    pub const fn insert_many(table: &'a Table, rows: &'a mut dyn RowSource<'a>) -> Self {
        Self::InsertMany { table, rows, on_conflict: OnConflict::Refuse }
    }

    /// True for what changes rows or opens a transaction.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match self {
            Self::Get { .. } | Self::List { .. } | Self::Count { .. } | Self::Aggregate { .. } => {
                false
            }
            Self::Sql { statement, .. } => statement.writes,
            _ => true,
        }
    }

    /// The table whose rows it is about; none for a batch and for the steps of
    /// a transaction.
    #[must_use]
    pub const fn table(&self) -> Option<&'a Table> {
        match self {
            Self::Get { table, .. }
            | Self::List { table, .. }
            | Self::Count { table, .. }
            | Self::Aggregate { table, .. }
            | Self::Insert { table, .. }
            | Self::InsertMany { table, .. }
            | Self::Update { table, .. }
            | Self::UpdateMany { table, .. }
            | Self::Increment { table, .. }
            | Self::Delete { table, .. }
            | Self::DeleteWhere { table, .. } => Some(*table),
            // Named, so that no table is left out by mistake.
            Self::Batch { .. }
            | Self::Sql { .. }
            | Self::Begin
            | Self::Commit
            | Self::Rollback
            | Self::Savepoint(_)
            | Self::Release(_)
            | Self::RollbackTo(_) => None,
        }
    }

    /// Calls `with` with each table that it writes to, perhaps more than once.
    pub(crate) fn each_table_written(&self, mut with: impl FnMut(&Table)) {
        match self {
            Self::Batch { writes, .. } => {
                writes.iter().for_each(|write| write.tables().for_each(|table| with(table)));
            }
            operation if operation.is_write() => {
                if let Some(table) = operation.table() {
                    with(table);
                }
            }
            _ => {}
        }
    }
}

/// One write of a batch, which owns its values.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Write {
    /// See [`Operation::Insert`].
    Insert {
        /// The table.
        table: Arc<Table>,
        /// The row.
        row: Vec<Value>,
        /// What to do where a row is there already.
        on_conflict: OnConflict,
    },
    /// See [`Operation::Update`].
    Update {
        /// The table.
        table: Arc<Table>,
        /// The key.
        key: Value,
        /// The fields to write.
        row: Vec<Value>,
        /// The version expected.
        version: Option<i64>,
    },
    /// See [`Operation::Increment`].
    Increment {
        /// The table.
        table: Arc<Table>,
        /// The key.
        key: Value,
        /// The field.
        field: usize,
        /// How much.
        by: Value,
        /// The time of the write.
        stamp: Value,
    },
    /// See [`Operation::Delete`].
    Delete {
        /// The table.
        table: Arc<Table>,
        /// The key.
        key: Value,
        /// The version expected.
        version: Option<i64>,
    },
    /// See [`Operation::DeleteWhere`].
    DeleteWhere {
        /// The table.
        table: Arc<Table>,
        /// Which rows; none for all.
        filter: Option<FilterExpr>,
    },
    /// A write to an audited table, with the entry that tells of it; made by
    /// the store.
    Audited {
        /// The write.
        write: Box<Write>,
        /// Who writes, and where that is entered.
        audit: Audit,
    },
    /// A write that gives values to immutable fields; made by the store.
    Compared {
        /// The write.
        write: Box<Write>,
    },
    /// A write that its caller may not have the right to; made by the store.
    Guarded {
        /// The write.
        write: Box<Write>,
        /// What the caller may do.
        rights: Arc<Rights>,
    },
}

impl Write {
    /// An insert that refuses what is there already.
    #[must_use]
    pub const fn insert(table: Arc<Table>, row: Vec<Value>) -> Self {
        Self::Insert { table, row, on_conflict: OnConflict::Refuse }
    }

    /// Calls `run` with the write as an operation of its own.
    ///
    /// # Errors
    /// Those of `run`; [`ErrorKind::Bug`] for a write that is audited or guarded,
    /// which is several operations ([`BatchMachine`]).
    pub fn with_operation<T>(
        &self,
        run: impl FnOnce(&mut Operation<'_>) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Insert { table, row, on_conflict } => {
                let (row, on_conflict) = (&borrow_row(row)[..], *on_conflict);
                run(&mut Operation::Insert { table, row, on_conflict })
            }
            Self::Update { table, key, row, version } => {
                let (key, row, version) = (key.as_ref(), &borrow_row(row)[..], *version);
                run(&mut Operation::Update { table, key, row, version })
            }
            Self::Increment { table, key, field, by, stamp } => run(&mut Operation::Increment {
                table,
                key: key.as_ref(),
                field: *field,
                by: by.as_ref(),
                stamp: stamp.as_ref(),
            }),
            Self::Delete { table, key, version } => {
                run(&mut Operation::Delete { table, key: key.as_ref(), version: *version })
            }
            Self::DeleteWhere { table, filter } => {
                run(&mut Operation::DeleteWhere { table, filter: filter.as_ref() })
            }
            Self::Audited { .. } | Self::Compared { .. } | Self::Guarded { .. } => Err(of_steps()),
        }
    }

    /// The table written.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        match self {
            Self::Insert { table, .. }
            | Self::Update { table, .. }
            | Self::Increment { table, .. }
            | Self::Delete { table, .. }
            | Self::DeleteWhere { table, .. } => table,
            Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. } => write.table(),
        }
    }

    /// The write itself, without what goes with it.
    pub(crate) fn bare(&self) -> &Self {
        match self {
            Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. } => write.bare(),
            write => write,
        }
    }

    /// The same, refusing what is there already.
    pub(crate) fn refusing(&self) -> Self {
        let mut refusing = self.clone();
        let mut inner = &mut refusing;
        while let Self::Audited { write, .. }
        | Self::Compared { write }
        | Self::Guarded { write, .. } = inner
        {
            inner = write;
        }
        if let Self::Insert { on_conflict, .. } = inner {
            *on_conflict = OnConflict::Refuse;
        }
        refusing
    }

    /// The key that an insert's row holds, unless the engine is to give one.
    pub(crate) fn key(&self) -> Option<Value> {
        match self {
            Self::Insert { table, row, .. } => row.get(table.key()).cloned(),
            Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. } => write.key(),
            _ => None,
        }
        .filter(|key| *key != Value::Absent)
    }

    /// Every table written: its own and, where it is audited, the history's.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        std::iter::once(self.table()).chain(self.audit().map(Audit::table))
    }

    /// True for a write that is more than one operation.
    #[must_use]
    pub const fn is_of_steps(&self) -> bool {
        matches!(self, Self::Audited { .. } | Self::Compared { .. } | Self::Guarded { .. })
    }

    /// What its caller may do, where that is looked at.
    pub(crate) fn rights(&self) -> Option<&Arc<Rights>> {
        match self {
            Self::Guarded { rights, .. } => Some(rights),
            Self::Audited { write, .. } | Self::Compared { write } => write.rights(),
            _ => None,
        }
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        match self {
            Self::Audited { audit, .. } => Some(audit),
            Self::Guarded { write, .. } | Self::Compared { write } => write.audit(),
            _ => None,
        }
    }
}

#[cold]
fn of_steps() -> Error {
    Error::new(ErrorKind::Bug, "a write of several steps was taken for one operation")
}

fn borrow_row(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

/// What a batch does when one of its writes fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchMode {
    /// Undo all; the results end with the one that failed.
    #[default]
    AllOrNothing,
    /// Undo that one only; every write has a result.
    Each,
}

/// What an operation did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Rows lent, counted or changed.
    pub rows: u64,
    /// The keys of rows inserted.
    pub keys: Keys,
    /// The version of the row written, where the table has one and one row was written.
    pub version: Option<i64>,
    /// The sum that an increment made; absent otherwise.
    pub value: Value,
    /// What an insert of one row came to.
    pub effect: Effect,
}

impl Outcome {
    /// So many rows, and nothing else to tell.
    #[must_use]
    pub fn rows(rows: u64) -> Self {
        Self { rows, ..Self::default() }
    }
}

/// The keys of inserted rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Keys {
    /// None inserted, or the rows held their keys already.
    #[default]
    Known,
    /// One row, with this key.
    One(Value),
    /// Rows in the order they came, with automatic keys that follow each other.
    Range {
        /// The first row's.
        first: i64,
    },
    /// Rows in the order they came.
    Each(Vec<Value>),
    /// Rows in the order they came, each with what its insert came to: those
    /// of an [`Operation::InsertMany`] that was told what to do where a row is
    /// there already.
    Upserted(Vec<UpsertResult<Value>>),
}
