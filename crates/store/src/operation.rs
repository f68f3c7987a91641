//! Operations: each operation on rows is data, not a method for each verb and engine.
//!
//! Before an engine gets an operation, the store has checked its rows against the schema, filled in
//! keys, timestamps and defaults, and checked its query. The engine executes it atomically.

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

/// An operation for an engine. Rows have one value for each field of the table, in its order;
/// absent values are not written.
#[non_exhaustive]
pub enum Operation<'a> {
    /// Lends the row with this key to the sink; no row if it is missing.
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
        /// The query; the key is added to its order as the last member.
        query: &'a Query,
    },
    /// Counts rows ([`Outcome::rows`]).
    Count {
        /// The table.
        table: &'a Table,
        /// The filter; `None` for all rows.
        filter: Option<&'a FilterExpr>,
    },
    /// Inserts a row. The engine generates an absent automatic key.
    Insert {
        /// The table.
        table: &'a Table,
        /// The row.
        row: &'a [ValueRef<'a>],
        /// The action if a row exists.
        on_conflict: OnConflict,
    },
    /// Inserts rows that all have the same fields present: all or none.
    InsertMany {
        /// The table.
        table: &'a Table,
        /// The rows.
        rows: &'a mut dyn RowSource<'a>,
        /// The action if a row exists, which includes rows that this operation has inserted.
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
        /// Makes the write fail with [`marmota_model::ErrorKind::Stale`] unless this is the row's
        /// version.
        version: Option<i64>,
    },
    /// Updates rows by the keys in them, which all have the same fields present: all or none.
    /// Versions are not compared.
    UpdateMany {
        /// The table.
        table: &'a Table,
        /// The rows, their key present.
        rows: &'a mut dyn RowSource<'a>,
    },
    /// Adds to an integer or currency field ([`Outcome::value`] is the sum), writes `stamp` to the
    /// updated-at field and adds one to the version.
    Increment {
        /// The table.
        table: &'a Table,
        /// The key.
        key: ValueRef<'a>,
        /// The field, of kind integer or currency.
        field: usize,
        /// The amount: [`ValueRef::Int`] or [`ValueRef::Currency`], depending on the field.
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
        /// Makes the write fail with [`marmota_model::ErrorKind::Stale`] unless this is the row's
        /// version.
        version: Option<i64>,
    },
    /// Deletes the rows that a filter selects ([`Outcome::rows`] is their number).
    DeleteWhere {
        /// The table.
        table: &'a Table,
        /// The filter; `None` for all rows.
        filter: Option<&'a FilterExpr>,
    },
    /// Several writes in one transaction.
    Batch {
        /// The writes, in order.
        writes: &'a [Write],
        /// The keys that writes take from earlier ones, in the order of the writes that take them;
        /// each is checked ([`Link::check`]).
        links: &'a [Link],
        /// The idempotency key and its answer, if the batch is to be executed only once.
        once: Option<Once<'a>>,
        /// Whether to keep the writes that succeed, or none if one fails.
        mode: BatchMode,
        /// Receives the result of each write that was tried, in order.
        results: &'a mut Vec<Result<Outcome>>,
    },
    /// Runs one SQL statement, which reads or changes rows ([`Outcome::rows`] is the number lent or
    /// changed), atomically. The rows lent have one value for each column.
    Sql {
        /// The statement.
        statement: SqlCall<'a>,
        /// Lends tables of other databases, if there are any.
        lender: Option<&'a mut dyn Lender>,
    },
    /// Runs an aggregation pipeline over the table's documents. Each row lent has one value, a
    /// document as JSON. A pipeline only reads.
    Aggregate {
        /// The table.
        table: &'a Table,
        /// A JSON array of stages, in the engine's own syntax.
        pipeline: &'a str,
    },
    /// Begins a transaction on this session.
    Begin,
    /// Commits the transaction.
    Commit,
    /// Rolls back the transaction.
    Rollback,
    /// Sets a savepoint in the transaction.
    Savepoint(u32),
    /// Keeps the changes since the savepoint.
    Release(u32),
    /// Undoes the changes since the savepoint, which stays.
    RollbackTo(u32),
}

impl<'a> Operation<'a> {
    /// An insert that fails if the row exists.
    #[must_use]
    pub const fn insert(table: &'a Table, row: &'a [ValueRef<'a>]) -> Self {
        Self::Insert { table, row, on_conflict: OnConflict::Refuse }
    }

    /// An insert of several rows that fails if one of them exists.
    #[must_use]
    pub const fn insert_many(table: &'a Table, rows: &'a mut dyn RowSource<'a>) -> Self {
        Self::InsertMany { table, rows, on_conflict: OnConflict::Refuse }
    }

    /// Returns true for an operation that changes rows or opens a transaction.
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

    /// Returns the table of its rows; `None` for a batch, SQL and the steps of a transaction.
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
            // All variants are named, so that none with a table is left out by mistake.
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

    /// Calls `with` for each table that it writes to, possibly more than once.
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
        /// The action if a row exists.
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
        /// The expected version.
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
        /// The amount.
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
        /// The expected version.
        version: Option<i64>,
    },
    /// See [`Operation::DeleteWhere`].
    DeleteWhere {
        /// The table.
        table: Arc<Table>,
        /// The filter; `None` for all rows.
        filter: Option<FilterExpr>,
    },
    /// A write to an audited table, with its history entry; made by the store.
    Audited {
        /// The write.
        write: Box<Write>,
        /// The actor, and the table of the entries.
        audit: Audit,
    },
    /// A write that gives values to immutable fields; made by the store.
    Compared {
        /// The write.
        write: Box<Write>,
    },
    /// A write that is checked against the rights of its caller; made by the store.
    Guarded {
        /// The write.
        write: Box<Write>,
        /// The rights of the caller.
        rights: Arc<Rights>,
    },
}

impl Write {
    /// An insert that fails if the row exists.
    #[must_use]
    pub const fn insert(table: Arc<Table>, row: Vec<Value>) -> Self {
        Self::Insert { table, row, on_conflict: OnConflict::Refuse }
    }

    /// Calls `run` with the write as a single operation.
    ///
    /// # Errors
    /// Those of `run`; [`ErrorKind::Bug`] for a write that is audited or guarded, which takes
    /// several operations ([`BatchMachine`]).
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

    /// Returns the table that it writes to.
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

    /// Returns the write itself, without the steps that the store adds.
    pub(crate) fn bare(&self) -> &Self {
        match self {
            Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. } => write.bare(),
            write => write,
        }
    }

    /// Returns the same write, which fails if the row exists.
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

    /// Returns the key in an insert's row, unless the engine is to generate one.
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

    /// Returns every table that it writes to: its own and, if it is audited, the history's.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        std::iter::once(self.table()).chain(self.audit().map(Audit::table))
    }

    /// Returns true for a write that takes more than one operation.
    #[must_use]
    pub const fn is_of_steps(&self) -> bool {
        matches!(self, Self::Audited { .. } | Self::Compared { .. } | Self::Guarded { .. })
    }

    /// Returns the rights of its caller, if they are checked.
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

/// The behaviour of a batch when one of its writes fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchMode {
    /// All writes are undone; the results end with the one that failed.
    #[default]
    AllOrNothing,
    /// Only that write is undone; every write has a result.
    Each,
}

/// The result of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The number of rows lent, counted or changed.
    pub rows: u64,
    /// The keys of the inserted rows.
    pub keys: Keys,
    /// The version of the written row, if the table has one and one row was written.
    pub version: Option<i64>,
    /// The sum after an increment; absent otherwise.
    pub value: Value,
    /// The effect of an insert of one row.
    pub effect: Effect,
}

impl Outcome {
    /// An outcome with only this number of rows.
    #[must_use]
    pub fn rows(rows: u64) -> Self {
        Self { rows, ..Self::default() }
    }
}

/// The keys of inserted rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Keys {
    /// No row was inserted, or the rows had their keys already.
    #[default]
    Known,
    /// One row, with this key.
    One(Value),
    /// Rows in the order of the insert, with consecutive automatic keys.
    Range {
        /// The key of the first row.
        first: i64,
    },
    /// Rows in the order of the insert.
    Each(Vec<Value>),
    /// Rows in the order of the insert, each with its effect: for an [`Operation::InsertMany`] with
    /// a conflict action.
    Upserted(Vec<UpsertResult<Value>>),
}
