//! Encoding of operations: [`put_operation`] is the client's side, [`Asked`] the server's. A
//! decoded operation is well formed and refers to existing tables and fields; the store checks
//! whether it is allowed.

mod asked;
mod batch;

use std::time::Duration;

use marmota_model::{Error, ErrorKind, FieldSet, Result, RowSource, Table, ValueRef};
use marmota_store::Durability;
use marmota_store::operation::{OnConflict, Operation};

use super::bytes::{Bytes, broken, put_int, put_option, put_unsigned};
use super::query::{put_fields, put_filter_option, put_query};
use super::value::{put_row, put_value};
pub(crate) use asked::{Asked, AskedRows};
pub(crate) use batch::{AskedBatch, AskedWrite};

/// The first byte of each packet of a client.
pub(crate) const HELLO: u8 = 0;
const GET: u8 = 1;
const LIST: u8 = 2;
const COUNT: u8 = 3;
const INSERT: u8 = 4;
const INSERT_MANY: u8 = 5;
const UPDATE: u8 = 6;
const UPDATE_MANY: u8 = 7;
const INCREMENT: u8 = 8;
const DELETE: u8 = 9;
const DELETE_WHERE: u8 = 10;
const BATCH: u8 = 11;
const BEGIN: u8 = 12;
const COMMIT: u8 = 13;
const ROLLBACK: u8 = 14;
const SAVEPOINT: u8 = 15;
const RELEASE: u8 = 16;
const ROLLBACK_TO: u8 = 17;
/// Cancels the operation with a number.
pub(crate) const CANCEL: u8 = 32;

const DURABILITIES: [Option<Durability>; 4] =
    [None, Some(Durability::None), Some(Durability::Relaxed), Some(Durability::Full)];

/// The settings common to all operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// See [`marmota_store::engine::Session::submit`].
    pub(crate) durability: Option<Durability>,
    /// How long the client waits.
    pub(crate) within: Option<Duration>,
}

impl Terms {
    fn put(self, out: &mut Vec<u8>) {
        let place = DURABILITIES.iter().position(|&known| known == self.durability);
        out.push(place.unwrap_or_default() as u8);
        let within = self.within.map_or(0, |within| within.as_millis().max(1));
        put_unsigned(out, u64::try_from(within).unwrap_or(u64::MAX));
    }

    pub(crate) fn read(read: &mut Bytes<'_>) -> Result<Self> {
        let place = usize::from(read.u8()?);
        let durability =
            *DURABILITIES.get(place).ok_or_else(|| broken("has an unknown durability"))?;
        let within = Some(read.unsigned()?).filter(|&ms| ms != 0).map(Duration::from_millis);
        Ok(Self { durability, within })
    }
}

/// The numbers of tables, agreed between client and server.
pub(crate) trait Numbers {
    fn number(&self, table: &Table) -> Result<u32>;
}

/// Appends an operation.
///
/// # Errors
/// The error of a row source; [`ErrorKind::Unsupported`] if the operation cannot be sent.
pub(crate) fn put_operation(
    out: &mut Vec<u8>,
    terms: Terms,
    numbers: &dyn Numbers,
    operation: &mut Operation<'_>,
) -> Result<()> {
    let begin = |out: &mut Vec<u8>, verb: u8| {
        out.push(verb);
        terms.put(out);
    };
    let about = |out: &mut Vec<u8>, verb: u8, table: &Table| {
        begin(out, verb);
        put_unsigned(out, numbers.number(table)?.into());
        Ok::<(), Error>(())
    };
    match operation {
        Operation::Get { table, key, fields } => {
            about(out, GET, table)?;
            put_value(out, *key);
            put_fields(out, *fields);
        }
        Operation::List { table, query } => {
            about(out, LIST, table)?;
            put_query(out, query);
        }
        Operation::Count { table, filter } => {
            about(out, COUNT, table)?;
            put_filter_option(out, *filter);
        }
        Operation::Insert { table, row, on_conflict } => {
            about(out, INSERT, table)?;
            put_conflict(out, *on_conflict);
            put_row(out, row);
        }
        Operation::InsertMany { table, rows, on_conflict } => {
            about(out, INSERT_MANY, table)?;
            put_conflict(out, *on_conflict);
            put_rows(out, table, *rows)?;
        }
        Operation::Update { table, key, row, version } => {
            about(out, UPDATE, table)?;
            put_value(out, *key);
            put_option(out, *version);
            put_row(out, row);
        }
        Operation::UpdateMany { table, rows } => {
            about(out, UPDATE_MANY, table)?;
            put_rows(out, table, *rows)?;
        }
        Operation::Increment { table, key, field, by, .. } => {
            about(out, INCREMENT, table)?;
            put_value(out, *key);
            put_unsigned(out, *field as u64);
            put_value(out, *by);
        }
        Operation::Delete { table, key, version } => {
            about(out, DELETE, table)?;
            put_value(out, *key);
            put_option(out, *version);
        }
        Operation::DeleteWhere { table, filter } => {
            about(out, DELETE_WHERE, table)?;
            put_filter_option(out, *filter);
        }
        Operation::Batch { writes, links, once, mode, .. } => {
            begin(out, BATCH);
            batch::put(out, numbers, writes, links, *mode, once.as_ref())?;
        }
        Operation::Begin => begin(out, BEGIN),
        Operation::Commit => begin(out, COMMIT),
        Operation::Rollback => begin(out, ROLLBACK),
        Operation::Savepoint(name) => put_step(out, begin, SAVEPOINT, *name),
        Operation::Release(name) => put_step(out, begin, RELEASE, *name),
        Operation::RollbackTo(name) => put_step(out, begin, ROLLBACK_TO, *name),
        _ => {
            let message = "raw SQL cannot be sent to a server, because it would bypass the rules \
                           of the models";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    Ok(())
}

fn put_step(out: &mut Vec<u8>, begin: impl Fn(&mut Vec<u8>, u8), verb: u8, name: u32) {
    begin(out, verb);
    put_unsigned(out, name.into());
}

const REFUSE: u8 = 0;
const IGNORE: u8 = 1;
const REPLACE: u8 = 2;
const UPDATE_THERE: u8 = 3;

fn put_conflict(out: &mut Vec<u8>, on_conflict: OnConflict) {
    match on_conflict {
        OnConflict::Refuse => out.push(REFUSE),
        OnConflict::Ignore => out.push(IGNORE),
        OnConflict::Replace => out.push(REPLACE),
        OnConflict::Update { fields } => {
            out.push(UPDATE_THERE);
            put_fields(out, fields);
        }
    }
}

fn read_conflict(read: &mut Bytes<'_>, table: &Table) -> Result<OnConflict> {
    Ok(match read.u8()? {
        REFUSE => OnConflict::Refuse,
        IGNORE => OnConflict::Ignore,
        REPLACE => OnConflict::Replace,
        UPDATE_THERE => {
            let given: FieldSet = read.fields(table.fields().len())?;
            OnConflict::UPDATE.with_given(table, given)
        }
        _ => return Err(broken("has an unknown conflict action")),
    })
}

/// Each row is preceded by a 1; a 0 ends the list.
fn put_rows<'a>(out: &mut Vec<u8>, table: &Table, rows: &mut dyn RowSource<'a>) -> Result<()> {
    put_unsigned(out, rows.remaining() as u64);
    let mut row = vec![ValueRef::Absent; table.fields().len()];
    while rows.next(&mut row)? {
        out.push(1);
        put_row(out, &row);
    }
    out.push(0);
    Ok(())
}

/// Appends the packet that cancels the operation with a number.
pub(crate) fn put_cancel(out: &mut Vec<u8>, number: u32) {
    out.push(CANCEL);
    put_int(out, number.into());
}

#[cfg(test)]
mod tests;
