//! A client's operations, decoded from their packets.

use std::sync::Arc;

use marmota_model::{
    FieldSet, FilterExpr, GroupQuery, RankedQuery, Result, RowQuery, Table, ValueRef,
};
use marmota_store::operation::OnConflict;

use super::batch::ReceivedBatch;
use super::parts::{
    BATCH, BEGIN, COMMIT, COUNT, DELETE, DELETE_WHERE, ESTIMATE, GET, GROUP, INCREMENT, INSERT,
    INSERT_MANY, LIST, LIST_EACH, LIST_RANKED, RELEASE, ROLLBACK, ROLLBACK_TO, SAVEPOINT, UPDATE,
    UPDATE_MANY, field_of, read_conflict, table_of,
};
use crate::codec::bytes::{Bytes, broken};

/// A client's operation; its strings and bytes are borrowed from the packet.
#[derive(Debug)]
pub(crate) enum ReceivedOperation<'p, 't> {
    Get { table: &'t Table, key: ValueRef<'p>, fields: FieldSet },
    List { table: &'t Table, query: RowQuery },
    ListEach { table: &'t Table, query: RowQuery, by: usize, limit: u64 },
    ListRanked { table: &'t Table, query: Box<RankedQuery> },
    Group { table: &'t Table, query: Box<GroupQuery> },
    Count { table: &'t Table, filter: Option<FilterExpr> },
    Estimate { table: &'t Table, filter: Option<FilterExpr> },
    Insert { table: &'t Table, row: Vec<ValueRef<'p>>, on_conflict: OnConflict },
    InsertMany { table: &'t Table, rows: ReceivedRows<'p>, on_conflict: OnConflict },
    Update { table: &'t Table, key: ValueRef<'p>, row: Vec<ValueRef<'p>>, version: Option<i64> },
    UpdateMany { table: &'t Table, rows: ReceivedRows<'p> },
    Increment { table: &'t Table, key: ValueRef<'p>, field: usize, by: ValueRef<'p> },
    Delete { table: &'t Table, key: ValueRef<'p>, version: Option<i64> },
    DeleteWhere { table: &'t Table, filter: Option<FilterExpr> },
    Batch(Box<ReceivedBatch>),
    Begin,
    Commit,
    Rollback,
    Savepoint(u32),
    Release(u32),
    RollbackTo(u32),
}

/// Rows that are decoded one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedRows<'p> {
    /// The number of rows that the client has declared: a hint.
    pub(crate) count: usize,
    rest: Bytes<'p>,
}

impl<'p> ReceivedRows<'p> {
    fn read(read: &mut Bytes<'p>) -> Result<Self> {
        Ok(Self { count: read.count()?, rest: *read })
    }

    /// Reads the next row; returns false after the last.
    pub(crate) fn next<'a>(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool>
    where
        'p: 'a,
    {
        self.count = self.count.saturating_sub(1);
        if self.rest.bool()? {
            self.rest.checked_row(row)?;
            return Ok(true);
        }
        self.rest.end()?;
        Ok(false)
    }
}

impl<'p, 't> ReceivedOperation<'p, 't> {
    /// Reads the part of a body after its verb and terms.
    pub(crate) fn read(verb: u8, mut read: Bytes<'p>, tables: &'t [Arc<Table>]) -> Result<Self> {
        let read = &mut read;
        let table = |read: &mut Bytes<'p>| table_of(read, tables).map(|table| &**table);
        let asked = match verb {
            GET => {
                let (table, key) = (table(read)?, read.checked_value()?);
                Self::Get { table, key, fields: read.fields(table.fields().len())? }
            }
            LIST => {
                let table = table(read)?;
                Self::List { table, query: read.query(table.fields().len())? }
            }
            LIST_EACH => {
                let table = table(read)?;
                let query = read.query(table.fields().len())?;
                Self::ListEach { table, query, by: field_of(read, table)?, limit: read.unsigned()? }
            }
            LIST_RANKED => {
                let table = table(read)?;
                Self::ListRanked { table, query: Box::new(read.ranked(table.fields().len())?) }
            }
            GROUP => {
                let table = table(read)?;
                Self::Group { table, query: Box::new(read.groups()?) }
            }
            ESTIMATE => Self::Estimate { table: table(read)?, filter: read.filter_option()? },
            COUNT => Self::Count { table: table(read)?, filter: read.filter_option()? },
            INSERT => {
                let table = table(read)?;
                let on_conflict = read_conflict(read, table)?;
                Self::Insert { table, row: row_of(read, table)?, on_conflict }
            }
            INSERT_MANY => {
                let table = table(read)?;
                let on_conflict = read_conflict(read, table)?;
                return Ok(Self::InsertMany {
                    table,
                    rows: ReceivedRows::read(read)?,
                    on_conflict,
                });
            }
            UPDATE => {
                let (table, key) = (table(read)?, read.checked_value()?);
                let version = read.option()?;
                Self::Update { table, key, row: row_of(read, table)?, version }
            }
            UPDATE_MANY => {
                let table = table(read)?;
                return Ok(Self::UpdateMany { table, rows: ReceivedRows::read(read)? });
            }
            INCREMENT => {
                let (table, key) = (table(read)?, read.checked_value()?);
                let field = field_of(read, table)?;
                Self::Increment { table, key, field, by: read.checked_value()? }
            }
            DELETE => {
                let (table, key) = (table(read)?, read.checked_value()?);
                Self::Delete { table, key, version: read.option()? }
            }
            DELETE_WHERE => {
                Self::DeleteWhere { table: table(read)?, filter: read.filter_option()? }
            }
            BATCH => Self::Batch(Box::new(ReceivedBatch::read(read, tables)?)),
            BEGIN => Self::Begin,
            COMMIT => Self::Commit,
            ROLLBACK => Self::Rollback,
            SAVEPOINT => Self::Savepoint(name_of(read)?),
            RELEASE => Self::Release(name_of(read)?),
            ROLLBACK_TO => Self::RollbackTo(name_of(read)?),
            _ => return Err(broken("has an unknown operation")),
        };
        read.end()?;
        Ok(asked)
    }
}

fn row_of<'p>(read: &mut Bytes<'p>, table: &Table) -> Result<Vec<ValueRef<'p>>> {
    let mut row = vec![ValueRef::Absent; table.fields().len()];
    read.checked_row(&mut row)?;
    Ok(row)
}

/// Reads a savepoint's name; the highest one is reserved for engines.
fn name_of(read: &mut Bytes<'_>) -> Result<u32> {
    match u32::try_from(read.unsigned()?) {
        Ok(name) if name != u32::MAX => Ok(name),
        _ => Err(broken("has an invalid savepoint")),
    }
}
