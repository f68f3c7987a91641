//! Answers of a server, put where the caller of an operation wants them: rows
//! are lent to its sink from the packet itself.

use marmota_model::{Result, RowSink, Table, ValueRef};
use marmota_store::operation::{Answered, Operation, Outcome};

use crate::codec::bytes::{Bytes, broken};
use crate::codec::outcome::{DONE, FAILED};
use crate::server::read_results;

/// Fields that a row has on the stack.
const FIELDS_FEW: usize = 32;

/// Reads the answer to an operation.
///
/// # Errors
/// The operation's, or [`marmota_model::ErrorKind::Protocol`].
pub(super) fn take(
    body: &[u8],
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut read = Bytes::new(body);
    match (read.u8()?, operation) {
        (DONE, Operation::Batch { once, results, .. }) => {
            *outcome = read.outcome()?;
            let (done, repeated) = read_results(&mut read)?;
            if let (Some(once), Some(repeated)) = (once, repeated) {
                let bytes = (once.answer)(&done);
                *once.answered = Some(Answered { bytes, repeated });
            }
            **results = done;
            read.end()
        }
        (FAILED, Operation::Batch { results, .. }) => {
            let error = read.error()?;
            // What was refused before it was tried has no results.
            if !read.rest().is_empty() {
                *outcome = read.outcome()?;
                **results = read_results(&mut read)?.0;
            }
            Err(error)
        }
        (DONE, operation) => {
            let length = u32::from_le_bytes(read.array()?);
            let rows = Bytes::new(read.take(length as usize)?);
            *outcome = read.outcome()?;
            read.end()?;
            if let Some(table) = operation.table() {
                outcome.rows = lend(rows, table, sink)?.unwrap_or(outcome.rows);
            }
            Ok(())
        }
        (FAILED, _) => Err(read.error()?),
        _ => Err(broken("is no answer to an operation")),
    }
}

/// Lends rows; gives how many, if the sink ended it.
fn lend(mut rows: Bytes<'_>, table: &Table, sink: &mut dyn RowSink) -> Result<Option<u64>> {
    if rows.rest().is_empty() {
        return Ok(None);
    }
    let count = table.fields().len();
    let (mut few, mut many) = ([ValueRef::Absent; FIELDS_FEW], Vec::new());
    let row = match few.get_mut(..count) {
        Some(row) => row,
        None => {
            many.resize(count, ValueRef::Absent);
            &mut many[..]
        }
    };
    let mut lent = 0;
    while !rows.rest().is_empty() {
        rows.row(row)?;
        lent += 1;
        if sink.row(row).is_break() {
            return Ok(Some(lent));
        }
    }
    Ok(None)
}
