//! Decoding of a server's answers: rows are passed to the operation's sink directly from the
//! packet, those of a long answer in turns.

use std::ops::Range;
use std::time::{Duration, Instant};

use marmota_model::{Result, RowSink, Table, ValueRef};
use marmota_rpc::PacketBody;
use marmota_store::operation::{Answered, Operation, Outcome};

use crate::codec::bytes::{Bytes, broken};
use crate::codec::outcome::{DONE, FAILED};
use crate::server::ready_batch::read_results;

/// The number of fields of a row for which the stack is used.
const FIELDS_FEW: usize = 32;
/// Answers up to this size are passed in one turn.
const LENT_AT_ONCE_BYTES: usize = 64 << 10;
/// The maximum duration of a turn.
pub(super) const TURN: Duration = Duration::from_millis(2);
const ROWS_BETWEEN_LOOKS: u64 = 256;

/// Reads the answer to an operation.
///
/// # Errors
/// The operation's error, or [`marmota_model::ErrorKind::Protocol`].
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
            // A batch that was refused before its execution has no results.
            if !read.rest().is_empty() {
                *outcome = read.outcome()?;
                **results = read_results(&mut read)?.0;
            }
            Err(error)
        }
        (DONE, operation) => {
            let length = u32::from_le_bytes(read.array()?);
            let mut rows = Bytes::new(read.take(length as usize)?);
            *outcome = read.outcome()?;
            read.end()?;
            if let Some(table) = operation.lent_table()
                && let (lent, true) = lend(&mut rows, table, u64::MAX, sink)?
            {
                outcome.rows = lent;
            }
            Ok(())
        }
        (FAILED, _) => Err(read.error()?),
        _ => Err(broken("is not an answer to an operation")),
    }
}

/// Returns true for an answer with so many rows that they are passed in several turns.
pub(super) fn is_long(body: &[u8], operation: &Operation<'_>) -> bool {
    body.len() > LENT_AT_ONCE_BYTES
        && body.first() == Some(&DONE)
        && !matches!(operation, Operation::Batch { .. })
        && operation.lent_table().is_some()
}

/// The rows of a long answer, passed in turns.
pub(super) struct Lending {
    body: PacketBody,
    /// The range of the rows that were not passed yet.
    rows: Range<usize>,
    lent: u64,
    outcome: Outcome,
}

impl Lending {
    /// # Errors
    /// [`marmota_model::ErrorKind::Protocol`].
    pub(super) fn new(body: PacketBody) -> Result<Self> {
        let mut read = Bytes::new(&body);
        read.u8()?;
        let length = u32::from_le_bytes(read.array()?) as usize;
        let from = body.len() - read.rest().len();
        read.take(length)?;
        let outcome = read.outcome()?;
        read.end()?;
        Ok(Self { body, rows: from..from + length, lent: 0, outcome })
    }

    /// Passes rows for one turn; returns true at the end.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Protocol`].
    pub(super) fn turn(
        &mut self,
        table: &Table,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<bool> {
        let until = Instant::now() + TURN;
        while !self.rows.is_empty() {
            let mut piece = Bytes::new(&self.body[self.rows.clone()]);
            let (lent, ended) = lend(&mut piece, table, ROWS_BETWEEN_LOOKS, sink)?;
            self.rows.start = self.rows.end - piece.rest().len();
            self.lent += lent;
            if ended {
                *outcome = Outcome { rows: self.lent, ..std::mem::take(&mut self.outcome) };
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
        *outcome = std::mem::take(&mut self.outcome);
        Ok(true)
    }
}

/// Passes up to `rows_max` rows; returns their number and whether the sink stopped.
fn lend(
    rows: &mut Bytes<'_>,
    table: &Table,
    rows_max: u64,
    sink: &mut dyn RowSink,
) -> Result<(u64, bool)> {
    let mut lent = 0;
    if rows.rest().is_empty() {
        return Ok((lent, false));
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
    while !rows.rest().is_empty() && lent < rows_max {
        rows.row(row)?;
        lent += 1;
        if sink.row(row).is_break() {
            return Ok((lent, true));
        }
    }
    Ok((lent, false))
}
