//! Batches: in a transaction if the server supports transactions and the batch needs one, else
//! write by write.

use std::sync::Arc;

use marmota_model::{Kind, NoRows, Result, Value};
use marmota_store::Durability;
use marmota_store::engine;
use marmota_store::operation::{
    BatchMachine, BatchMode, BatchParts, Link, OnConflict, Operation, Outcome, Write,
};

use super::MongoSession;
use crate::database::transaction::Transaction;
use crate::fault;
use crate::refusal::no_transactions;
use crate::shared::Shared;
use crate::shared::waiting::wait_on;
use crate::writer::Writer;
use crate::writer::work::{Tries, Work};

/// The savepoint around a batch in a transaction; no other savepoint has this number.
const SAVEPOINT: u32 = u32::MAX - 1;

/// Returns the reason why a batch needs a transaction, if it does.
pub(crate) fn needs_transaction(writes: &[Write], mode: BatchMode) -> Option<&'static str> {
    if mode == BatchMode::AllOrNothing && writes.len() > 1 {
        return Some("an all-or-nothing batch");
    }
    writes.iter().any(Write::is_audited).then_some("a write to an audited model")
}

/// Returns true for a write that may read rows before it decides.
pub(crate) const fn reads_first(write: &Write) -> bool {
    matches!(write, Write::Guarded { .. } | Write::Compared { .. } | Write::Hooked { .. })
}

/// Executes the steps of a batch in the transaction that is open on `session` and undoes them if
/// they fail; or else in a separate transaction, which is repeated if it conflicts with others.
pub(crate) fn inside(
    mut session: MongoSession,
    shared: &Arc<Shared>,
    number: u64,
    durability: Option<Durability>,
    mut steps: impl FnMut(&mut MongoSession) -> Result<()>,
) -> Result<()> {
    if session.is_in_transaction() {
        control(&mut session, Operation::Savepoint(SAVEPOINT))?;
        let done = steps(&mut session);
        if let Err(error) = done {
            control(&mut session, Operation::RollbackTo(SAVEPOINT))?;
            control(&mut session, Operation::Release(SAVEPOINT))?;
            return Err(error);
        }
        return control(&mut session, Operation::Release(SAVEPOINT));
    }
    let waiting = Arc::clone(shared);
    let _turn = wait_on(&shared.handle, async move {
        waiting.within(async { Ok(waiting.turns.wait(number, true).await) }).await
    })?;
    let mut tries = Tries::begin(shared);
    loop {
        let database = shared.database.clone();
        let begun = async move { Transaction::begin(&database.driver, durability).await };
        session.go_into(wait_on(&shared.handle, begun)?);
        let done = steps(&mut session).and_then(|()| control(&mut session, Operation::Commit));
        match done {
            Ok(()) => return Ok(()),
            Err(error) => {
                if session.is_in_transaction() {
                    // The first error explains more than an error of the rollback.
                    let _ = control(&mut session, Operation::Rollback);
                }
                match tries.pause_after(&error) {
                    Some(pause) => std::thread::sleep(pause),
                    None => return Err(error),
                }
            }
        }
    }
}

fn control(session: &mut MongoSession, mut step: Operation<'_>) -> Result<()> {
    engine::run(session, &mut step, &mut NoRows).map(drop)
}

/// Executes the writes of a batch one after the other, on a session in a transaction.
pub(crate) fn steps(
    session: &mut MongoSession,
    writes: &[Write],
    links: &[Link],
    mode: BatchMode,
    results: &mut Vec<Result<Outcome>>,
) -> Result<()> {
    let parts = BatchParts { writes, links, once: None, mode, results };
    BatchMachine::run(parts, |step, sink| engine::run(session, step, sink))
}

/// Like [`steps`], for an all-or-nothing batch without links: consecutive inserts into one table
/// share commands.
pub(crate) fn steps_together(
    session: &mut MongoSession,
    writes: &[Write],
    results: &mut Vec<Result<Outcome>>,
) -> Result<()> {
    results.clear();
    for part in writes.chunk_by(|a, b| are_inserts(a, b) && has_key(a) == has_key(b)) {
        if let [first, _, ..] = part
            && let Some(done) = session.insert_together(first.table(), part)?
        {
            results.extend(done.into_iter().map(Ok));
            continue;
        }
        let mut done = Vec::with_capacity(part.len());
        let ended = steps(session, part, &[], BatchMode::AllOrNothing, &mut done);
        results.append(&mut done);
        ended?;
    }
    Ok(())
}

/// Returns true for an insert of a row with a key.
fn has_key(write: &Write) -> bool {
    matches!(write, Write::Insert { table, row, .. } if row[table.key()] != Value::Absent)
}

/// Executes a batch whose writes need no common transaction.
pub(crate) fn each(
    writer: &Writer,
    durability: Option<Durability>,
    writes: &[Write],
    links: &[Link],
    mode: BatchMode,
    results: &mut Vec<Result<Outcome>>,
) -> Result<()> {
    let handle = &writer.shared.handle;
    // Links refer to writes by number, so a batch with links is not split.
    let together = |a: &Write, b: &Write| !links.is_empty() || are_inserts(a, b);
    for part in writes.chunk_by(together) {
        match part {
            [_, _, ..] if links.is_empty() => {
                handle.block_on(writer.insert_each(part, results))?;
            }
            part => one_by_one(writer, durability, part, links, mode, results)?,
        }
    }
    Ok(())
}

/// Returns true if both are inserts into the same table that need no look-ups, so that one command
/// can execute them.
fn are_inserts(a: &Write, b: &Write) -> bool {
    let plain = |write: &Write| match write {
        Write::Insert { table, on_conflict: OnConflict::Refuse, .. } => {
            table.fields().iter().all(|field| !matches!(field.kind, Kind::Reference { .. }))
        }
        _ => false,
    };
    plain(a) && plain(b) && a.table().name() == b.table().name()
}

/// Executes the writes of a batch and appends their results.
fn one_by_one(
    writer: &Writer,
    durability: Option<Durability>,
    writes: &[Write],
    links: &[Link],
    mode: BatchMode,
    results: &mut Vec<Result<Outcome>>,
) -> Result<()> {
    let (shared, mut done) = (&writer.shared, Vec::new());
    let parts = BatchParts { writes, links, once: None, mode, results: &mut done };
    let ended = BatchMachine::run(parts, |step, _| {
        let write = match step {
            // A failed write has changed nothing.
            Operation::Savepoint(_) | Operation::Release(_) | Operation::RollbackTo(_) => {
                return Ok(Outcome::default());
            }
            step if !step.is_write() => {
                return Err(no_transactions(
                    "a write that depends on the stored row (a rule of a grant, immutable fields, a hook)",
                ));
            }
            step => {
                let table = step.table().ok_or_else(fault::unexpected)?;
                let table = Arc::clone(&shared.shape(table)?.table);
                Write::of_operation(step, table).ok_or_else(fault::unexpected)?
            }
        };
        let work = Work::One(write);
        shared.handle.block_on(shared.carry_out(writer.number, durability, &work))
    });
    results.append(&mut done);
    ended
}
