//! Batches that take what their steps before gave: one that takes place once
//! looks for the answer that an earlier one left, and leaves one beside its
//! writes; an audited write is entered with what it came to, and one whose
//! caller may not have the right to it looks at the row. They are run by
//! [`run_batch`], in one transaction, and block the thread meanwhile.

use marmota_model::{Error, ErrorKind, NoRows, Result, RowSink};
use marmota_store::engine;
use marmota_store::operation::{BatchFailure, Operation, Outcome, Write, run_batch};
use marmota_store::refusal;

use crate::session::PostgresSession;

/// How often one that lost against another transaction is run again.
const TRIES_MAX: u32 = 20;
/// The savepoint around one in a transaction; no other is called so.
const SAVEPOINT: u32 = u32::MAX - 1;

/// True for a batch that is run here.
pub(crate) fn takes_steps(operation: &Operation<'_>) -> bool {
    let is_of_steps =
        |write: &Write| matches!(write, Write::Audited { .. } | Write::Guarded { .. });
    match operation {
        Operation::Batch { once, writes, .. } => once.is_some() || writes.iter().any(is_of_steps),
        _ => false,
    }
}

/// Runs a batch on a session that may have a transaction open; `own` makes
/// another session otherwise.
pub(crate) fn run(
    session: &mut PostgresSession,
    own: impl Fn() -> PostgresSession,
    operation: &mut Operation<'_>,
) -> Result<()> {
    if session.is_in_transaction() {
        control(session, &mut Operation::Savepoint(SAVEPOINT))?;
        let done = steps(session, operation);
        if done.is_err() {
            control(session, &mut Operation::RollbackTo(SAVEPOINT))?;
        }
        control(session, &mut Operation::Release(SAVEPOINT))?;
        return done;
    }
    for tries in 1.. {
        let mut own = own();
        control(&mut own, &mut Operation::Begin)?;
        // Undone, if it is dropped.
        let done = steps(&mut own, operation)
            .and_then(|()| control(&mut own, &mut Operation::Commit).map(drop));
        match done {
            Err(error) if error.is_repeatable() && tries < TRIES_MAX => {}
            done => return done,
        }
    }
    Ok(())
}

fn control(session: &mut PostgresSession, step: &mut Operation<'_>) -> Result<Outcome> {
    engine::run(session, step, &mut NoRows)
}

fn steps(session: &mut PostgresSession, operation: &mut Operation<'_>) -> Result<()> {
    let Operation::Batch { writes, links, once, mode, results } = operation else {
        return Ok(());
    };
    let run = |step: &mut Operation<'_>, sink: &mut dyn RowSink| engine::run(session, step, sink);
    run_batch(writes, links, *mode, once.as_mut(), results, run).map_err(|failure| match failure {
        BatchFailure::Write => failed(results),
        BatchFailure::Engine(error) => error,
    })
}

/// The error of the write that failed.
fn failed(results: &[Result<Outcome>]) -> Error {
    match results.last() {
        Some(Err(error)) => refusal::copy_of(error),
        _ => Error::new(ErrorKind::Bug, "a batch failed without a write that did"),
    }
}
