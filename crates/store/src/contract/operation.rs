//! Operations: each operation on rows is data, not a method for each verb and engine.

pub(crate) mod cascade;
pub(crate) mod conflict;
pub(crate) mod link;
pub(crate) mod once;
pub(crate) mod outcome;
pub(crate) mod owned;
pub(crate) mod write;

use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, GroupQuery, RankedQuery, Result, RowQuery, RowSource,
    Table, Value, ValueRef,
};

use crate::contract::sql::{Lender, SqlCall};
pub use cascade::Cascade;
pub use conflict::{OnConflict, UpsertEffect, UpsertResult, conflict_filters, conflicting_indexes};
pub use link::{Link, LinkAt, complete_linked, key_made, report_linked_key, resolve_links};
pub use once::{ANSWERS, Answered, Fingerprint, Idempotency, KEY_BYTES_MAX, Once, OnceKey};
pub use outcome::{Keys, Outcome};
pub use owned::owned_rows;
pub use write::Write;

/// An operation for an engine. Rows have one value for each field of the table, in its order;
/// absent values are not written.
///
/// An engine matches the variants that it supports, and returns [`ErrorKind::Unsupported`] for all
/// others: variants may be added. The result goes to [`Outcome`], of which each variant sets these
/// fields:
///
/// | operation | [`Outcome`] |
/// |---|---|
/// | `Get`, `List`, `ListEach`, `ListRanked`, `Group`, `Count` | `rows`: the number lent or counted |
/// | `Estimate` | `rows`: the estimate |
/// | `Insert` | `rows`: 1, or 0 if it was ignored; `keys`: [`Keys::One`] if the engine made the key or applied a conflict action; `version` if the table has one; `effect` |
/// | `InsertMany` | `rows`; `keys`: [`Keys::Range`] or [`Keys::Each`] if the engine made the keys, [`Keys::Upserted`] with a conflict action |
/// | `Update` | `rows`: 1; `version` |
/// | `UpdateMany`, `DeleteWhere` | `rows` |
/// | `Increment` | `rows`: 1; `value`: the sum; `version` |
/// | `Delete` | `rows`: 1 |
/// | `Batch` | nothing that the store relies on; each write's own outcome is in `results` |
/// | `Sql`, `Aggregate` | `rows`: the number lent or changed |
/// | the steps of a transaction | nothing |
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema, Table, ValueRef};
/// use marmota_store::operation::{OnConflict, Operation};
///
/// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
/// let table = Table::new(Schema::new("city", fields))?;
/// let row = [ValueRef::Absent, ValueRef::Text("Turin")];
/// let insert = Operation::insert(&table, &row);
/// assert!(insert.is_write());
/// assert!(matches!(insert, Operation::Insert { on_conflict: OnConflict::Refuse, .. }));
/// assert_eq!(insert.table().map(Table::name), Some("city"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
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
        query: &'a RowQuery,
    },
    /// Counts rows ([`Outcome::rows`]).
    Count {
        /// The table.
        table: &'a Table,
        /// The filter; `None` for all rows.
        filter: Option<&'a FilterExpr>,
    },
    /// Estimates the number of rows ([`Outcome::rows`]), from the statistics of the database. The
    /// store submits it only to an engine that declares
    /// [`Capability::estimates`](crate::engine::Capability::estimates).
    Estimate {
        /// The table.
        table: &'a Table,
        /// The filter; `None` for all rows.
        filter: Option<&'a FilterExpr>,
    },
    /// Lends the rows that the query selects, but only the first ones for each value of a field:
    /// those with the same value in the order of the query. The order between rows with different
    /// values is the engine's.
    ///
    /// An engine may return [`ErrorKind::Unsupported`] when this is submitted: then the store lists
    /// the rows, and leaves out the others itself.
    ListEach {
        /// The table.
        table: &'a Table,
        /// The query, without a start ([`RowQuery::after`]).
        query: &'a RowQuery,
        /// The field. The query reads it.
        by: usize,
        /// The maximum number of rows for each value.
        limit: u64,
    },
    /// Lends the best rows by a computed order, best first: those that [`RankedQuery::filter`]
    /// selects, by the score of [`Ranker`](marmota_model::Ranker), then by the key, ascending.
    ///
    /// An engine may return [`ErrorKind::Unsupported`] when this is submitted: then the store lists
    /// the rows, and keeps the best ones itself.
    ListRanked {
        /// The table.
        table: &'a Table,
        /// The query.
        query: &'a RankedQuery,
    },
    /// Lends a row for each group of rows, in the order of [`GroupQuery::total_order`].
    ///
    /// An engine may return [`ErrorKind::Unsupported`] when this is submitted: then the store lists
    /// the rows, and groups them itself. An engine that groups returns [`GroupQuery::overflow`] for
    /// a sum beyond the range of its type.
    Group {
        /// The table.
        table: &'a Table,
        /// The query.
        query: &'a GroupQuery,
        /// The table of the rows that are lent ([`GroupQuery::result`]).
        result: &'a Table,
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
    ///
    /// A `Begin` counts as a write, since the transaction may lock what it reads.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match self {
            Self::Get { .. }
            | Self::List { .. }
            | Self::ListEach { .. }
            | Self::ListRanked { .. }
            | Self::Group { .. }
            | Self::Count { .. }
            | Self::Estimate { .. }
            | Self::Aggregate { .. } => false,
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
            | Self::ListEach { table, .. }
            | Self::ListRanked { table, .. }
            | Self::Group { table, .. }
            | Self::Count { table, .. }
            | Self::Estimate { table, .. }
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

    /// Replaces a view by its table ([`Table::original`]).
    pub(crate) fn use_originals(&mut self) {
        match self {
            Self::Get { table, .. }
            | Self::List { table, .. }
            | Self::ListEach { table, .. }
            | Self::ListRanked { table, .. }
            | Self::Group { table, .. }
            | Self::Count { table, .. }
            | Self::Estimate { table, .. }
            | Self::Aggregate { table, .. }
            | Self::Insert { table, .. }
            | Self::InsertMany { table, .. }
            | Self::Update { table, .. }
            | Self::UpdateMany { table, .. }
            | Self::Increment { table, .. }
            | Self::Delete { table, .. }
            | Self::DeleteWhere { table, .. } => *table = table.original(),
            // The writes of a batch own their tables.
            Self::Batch { .. }
            | Self::Sql { .. }
            | Self::Begin
            | Self::Commit
            | Self::Rollback
            | Self::Savepoint(_)
            | Self::Release(_)
            | Self::RollbackTo(_) => {}
        }
    }

    /// Returns the table of the rows that it lends: that of the groups, or [`Operation::table`].
    #[must_use]
    pub const fn lent_table(&self) -> Option<&'a Table> {
        match self {
            Self::Group { result, .. } => Some(*result),
            operation => operation.table(),
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

impl Write {
    /// Calls `run` with the write as a single operation.
    ///
    /// # Errors
    /// Those of `run`; [`ErrorKind::Bug`] for a write that is audited or guarded, which takes
    /// several operations ([`crate::operation::BatchMachine`]).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_model::{Field, Kind, Role, Schema, Table, Value};
    /// use marmota_store::operation::{Operation, Write};
    ///
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let table = Arc::new(Table::new(city)?);
    /// let write = Write::Delete { table, key: Value::Int(7), version: None };
    /// let is_delete = write.with_operation(|it| Ok(matches!(it, Operation::Delete { .. })))?;
    /// assert!(is_delete);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
            Self::Cascading { .. }
            | Self::Audited { .. }
            | Self::Compared { .. }
            | Self::Guarded { .. }
            | Self::Hooked { .. } => Err(of_steps()),
        }
    }
}

/// The error for a write that [`Write::is_of_steps`], which only a batch executes.
#[cold]
fn of_steps() -> Error {
    Error::new(ErrorKind::Bug, "a write of several steps was executed as one operation")
}

/// Borrows the values of a row that owns them.
fn borrow_row(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

/// The behaviour of a batch when one of its writes fails.
///
/// ```
/// use marmota_store::operation::BatchMode;
/// assert_eq!(BatchMode::default(), BatchMode::AllOrNothing);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchMode {
    /// All writes are undone; the results end with the one that failed, and the batch returns a
    /// copy of its error.
    #[default]
    AllOrNothing,
    /// Only that write is undone, by a savepoint around it; every write has a result, and the batch
    /// succeeds.
    Each,
}
