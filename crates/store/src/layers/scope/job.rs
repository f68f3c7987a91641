//! A write that is executed as a batch, and its result, which is taken from the batch.

use marmota_model::{Error, ErrorKind, Result};

use crate::contract::operation::{
    BatchMode, Keys, Link, OnConflict, Once, Operation, Outcome, UpsertResult, Write,
};

/// A write that is executed as a batch.
#[derive(Debug)]
pub(super) struct Job {
    writes: Vec<Write>,
    links: Vec<Link>,
    mode: BatchMode,
    results: Vec<Result<Outcome>>,
    /// True if the operation has several rows.
    of_many: bool,
}

impl Job {
    /// The batch of an operation on one row.
    pub(super) fn of_one(write: Write) -> Self {
        Self::of_batch(vec![write], Vec::new(), BatchMode::AllOrNothing)
    }

    /// The batch of an operation on several rows.
    pub(super) fn of_many(writes: Vec<Write>) -> Self {
        Self { of_many: true, ..Self::of_batch(writes, Vec::new(), BatchMode::AllOrNothing) }
    }

    /// The batch that replaces another.
    pub(super) fn of_batch(writes: Vec<Write>, links: Vec<Link>, mode: BatchMode) -> Self {
        Self { writes, links, mode, results: Vec::new(), of_many: false }
    }

    /// Calls `run` with the batch that replaces an operation.
    pub(super) fn with<T>(
        &mut self,
        operation: &mut Operation<'_>,
        run: impl FnOnce(&mut Operation<'_>) -> T,
    ) -> T {
        let Self { writes, links, mode, results, .. } = self;
        let once = match operation {
            Operation::Batch { once, .. } => once.as_mut().map(Once::lend),
            _ => None,
        };
        run(&mut Operation::Batch { writes, links, mode: *mode, once, results })
    }

    /// Returns the result of the operation that the batch replaces.
    pub(super) fn finish(
        mut self,
        called: Result<()>,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if let Operation::Batch { results, .. } = operation {
            **results = self.results;
            outcome.rows = results.iter().flatten().map(|done| done.rows).sum();
            return called;
        }
        if let Err(error) = called {
            let place = self.results.len().saturating_sub(1);
            return Err(match self.results.pop() {
                Some(Err(failed)) if self.of_many => at_row(place, &failed),
                Some(Err(failed)) => failed,
                _ => error,
            });
        }
        if !self.of_many {
            let lost = || Error::new(ErrorKind::Bug, "the engine gave no result for a write");
            *outcome = self.results.pop().ok_or_else(lost)??;
            return Ok(());
        }
        let places = matches!(operation, Operation::InsertMany { on_conflict, .. }
            if *on_conflict != OnConflict::Refuse);
        let mut rows = Vec::new();
        for (done, write) in self.results.into_iter().zip(&self.writes) {
            let done = done?;
            outcome.rows += done.rows;
            match done.keys {
                Keys::One(key) => rows.push(UpsertResult { key, effect: done.effect }),
                _ if places => {
                    rows.extend(write.key().map(|key| UpsertResult { key, effect: done.effect }));
                }
                _ => {}
            }
        }
        outcome.keys = match rows.is_empty() {
            true => Keys::Known,
            false if places => Keys::Upserted(rows),
            false => Keys::Each(rows.into_iter().map(|row| row.key).collect()),
        };
        Ok(())
    }
}

/// Returns the same error with the index of the row.
#[cold]
fn at_row(place: usize, error: &Error) -> Error {
    let named = Error::new(error.kind(), format!("row {place}: {}", error.message()));
    error.violations().iter().cloned().fold(named, Error::with_violation)
}
