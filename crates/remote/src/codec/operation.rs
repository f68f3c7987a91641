//! Encoding of operations: [`put_operation`] is the client's side, [`ReceivedOperation`] the server's. A
//! decoded operation is well formed and refers to existing tables and fields; the store checks
//! whether it is allowed.

mod batch;
mod parts;
mod received;

use marmota_model::{Error, ErrorKind, Result, RowSource, Table, ValueRef};
use marmota_store::operation::Operation;

use super::bytes::{put_int, put_option, put_unsigned};
use super::query::{put_fields, put_filter_option, put_groups, put_query};
use super::ranked::put_ranked;
pub(crate) use batch::{ReceivedBatch, ReceivedWrite};
use marmota_model::binary::{put_row, put_value};
use parts::{
    BATCH, BEGIN, COMMIT, COUNT, DELETE, DELETE_WHERE, ESTIMATE, GET, GROUP, INCREMENT, INSERT,
    INSERT_MANY, LIST, LIST_EACH, LIST_RANKED, RELEASE, ROLLBACK, ROLLBACK_TO, SAVEPOINT, UPDATE,
    UPDATE_MANY, put_conflict,
};
pub(crate) use parts::{CANCEL, HELLO, Numbers, Terms};
pub(crate) use received::{ReceivedOperation, ReceivedRows};

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
        Operation::ListEach { table, query, by, limit } => {
            about(out, LIST_EACH, table)?;
            put_query(out, query);
            put_unsigned(out, *by as u64);
            put_unsigned(out, *limit);
        }
        Operation::ListRanked { table, query } => {
            about(out, LIST_RANKED, table)?;
            put_ranked(out, query);
        }
        Operation::Group { table, query, .. } => {
            about(out, GROUP, table)?;
            put_groups(out, query);
        }
        Operation::Estimate { table, filter } => {
            about(out, ESTIMATE, table)?;
            put_filter_option(out, *filter);
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
