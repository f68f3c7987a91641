//! A transaction on a server that supports them: the driver's session for its commands, and its
//! end.
//!
//! MongoDB aborts a transaction at the first command that fails in it, and has no savepoints. So
//! writes check for everything that would be refused before they write (`writer/lookup.rs`). While
//! a savepoint is set, the changes of each command are recorded, so that they can be undone inside
//! the transaction (`undoing.rs`), where other clients do not see them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_core::Stream as _;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::refusal::{self, copy_of};
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::error::UNKNOWN_TRANSACTION_COMMIT_RESULT;
use mongodb::options::{Acknowledgment, ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::raw_batch_cursor::{RawBatch, SessionRawBatchCursor};
use mongodb::{ClientSession, Database as Driver};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Gate, MutexGuard};
use tokio::time::Instant;

use super::undo_steps::UndoStep;
use crate::fault;

/// The first pause before a commit is repeated, and the longest.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A transaction with the driver's session and its savepoints.
pub(crate) struct Transaction {
    session: Gate<ClientSession>,
    /// Serializes its operations.
    turn: Gate<()>,
    inside: Mutex<Inside>,
    begun: Instant,
    /// Counts it among the transactions that a close waits for.
    _open: Option<Open>,
}

#[derive(Default)]
struct Inside {
    /// The reason why it was aborted.
    broken: Option<Error>,
    savepoints: Vec<(u32, usize)>,
    /// The steps that undo the commands since the first savepoint.
    journal: Vec<(String, UndoStep)>,
    is_undoing: bool,
}

/// The callers' transactions of an engine that have not ended.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions(Arc<AtomicU64>);

impl OpenTransactions {
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    fn enter(&self) -> Open {
        self.0.fetch_add(1, Ordering::SeqCst);
        Open(Arc::clone(&self.0))
    }
}

/// Counts a caller's transaction as open.
struct Open(Arc<AtomicU64>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A savepoint operation.
pub(crate) enum Savepoint {
    Set(u32),
    Release(u32),
    RollBackTo(u32),
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transaction")
    }
}

impl Transaction {
    /// Begins the transaction of one operation.
    ///
    /// # Errors
    /// The driver cannot make a session.
    pub(crate) async fn begin(
        driver: &Driver,
        durability: Option<Durability>,
    ) -> Result<Arc<Self>> {
        Self::new(driver, durability, None).await.map(Arc::new)
    }

    /// Begins a caller's transaction, which a close waits for.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) async fn open(
        driver: &Driver,
        durability: Option<Durability>,
        among: &OpenTransactions,
    ) -> Result<Arc<Self>> {
        Self::new(driver, durability, Some(among.enter())).await.map(Arc::new)
    }

    async fn new(
        driver: &Driver,
        durability: Option<Durability>,
        open: Option<Open>,
    ) -> Result<Self> {
        let refused = |fault: mongodb::error::Error| fault::of(&fault, false);
        let mut concern = driver.write_concern().cloned().unwrap_or_default();
        concern.w.get_or_insert(Acknowledgment::Majority);
        if let Some(durability) = durability {
            concern.journal = Some(durability == Durability::Full);
        }
        let mut session = driver.client().start_session().await.map_err(refused)?;
        let begun = session.start_transaction().read_concern(ReadConcern::snapshot());
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        let begun = begun.write_concern(concern).selection_criteria(primary);
        begun.await.map_err(refused)?;
        Ok(Self {
            session: Gate::new(session),
            turn: Gate::default(),
            inside: Mutex::default(),
            begun: Instant::now(),
            _open: open,
        })
    }

    /// Waits for its previous operations.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// # Errors
    /// The reason why it was aborted, if it was.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.inside.lock().broken {
            Some(error) => Err(copy_of(error)),
            None => Ok(()),
        }
    }

    /// Marks it as aborted because of `error`, which is returned.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut inside = self.inside.lock();
        inside.broken.get_or_insert_with(|| copy_of(&error));
        error
    }

    /// Marks it as aborted if `error` is the end of the time for a command, which was interrupted.
    pub(crate) fn note_interruption(&self, error: &Error) {
        if error.kind() == ErrorKind::Timeout {
            self.fail(copy_of(error));
        }
    }

    fn fault(&self, fault: &mongodb::error::Error) -> Error {
        self.fail(fault::inside(fault, self.begun.elapsed()))
    }

    /// Runs a command in it.
    ///
    /// # Errors
    /// The reason why the transaction was aborted.
    pub(crate) async fn run(&self, driver: &Driver, command: RawDocumentBuf) -> Result<Document> {
        self.check()?;
        let mut session = self.session.lock().await;
        let answer = driver.run_raw_command(command).session(&mut *session).await;
        answer.map_err(|fault| self.fault(&fault))
    }

    /// Runs a command in it that finds documents.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) async fn find(
        &self,
        driver: &Driver,
        command: RawDocumentBuf,
    ) -> Result<SessionRawBatchCursor> {
        self.check()?;
        let mut session = self.session.lock().await;
        let found = driver.run_raw_cursor_command(command).session(&mut *session).batch().await;
        found.map_err(|fault| self.fault(&fault))
    }

    /// Returns the next message of found documents.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) async fn next(&self, found: &mut SessionRawBatchCursor) -> Result<Option<RawBatch>> {
        self.check()?;
        let mut session = self.session.lock().await;
        let mut stream = found.stream(&mut session);
        let next =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut stream).poll_next(context));
        next.await.transpose().map_err(|fault| self.fault(&fault))
    }

    /// Commits it. Repeats the commit while its result is unknown.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the result is still unknown at `end`, or if it is less durable than
    /// requested. After other errors nothing of it was done.
    pub(crate) async fn commit(&self, end: Instant) -> Result<()> {
        self.check()?;
        let mut session = self.session.lock().await;
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            let Err(fault) = session.commit_transaction().await else { return Ok(()) };
            if !fault.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
                return Err(self.fault(&fault));
            }
            let pause = backoff.pause();
            if Instant::now() + pause >= end {
                let message = format!(
                    "MongoDB did not confirm the commit of the transaction in time \
                     (`operation_timeout_ms`): the transaction may or may not have been committed \
                     ({fault})"
                );
                return Err(Error::new(ErrorKind::Lost, message).with_source(fault));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Rolls it back. A server that cannot be reached does so by itself.
    pub(crate) async fn abort(&self) {
        let mut session = self.session.lock().await;
        // The driver does not report why a server was not reached.
        let _ = session.abort_transaction().await;
    }
}

/// Savepoints.
impl Transaction {
    /// Returns true if undo steps must be recorded.
    pub(crate) fn notes(&self) -> bool {
        let inside = self.inside.lock();
        !inside.savepoints.is_empty() && !inside.is_undoing
    }

    /// Records the steps that undo a command.
    pub(crate) fn note(&self, collection: &str, steps: impl IntoIterator<Item = UndoStep>) {
        let steps = steps.into_iter().map(|step| (collection.to_owned(), step));
        self.inside.lock().journal.extend(steps);
    }

    /// Sets a savepoint.
    ///
    /// # Errors
    /// The reason why the transaction was aborted.
    pub(crate) fn savepoint(&self, name: u32) -> Result<()> {
        self.check()?;
        let mut inside = self.inside.lock();
        let at = inside.journal.len();
        inside.savepoints.push((name, at));
        Ok(())
    }

    /// Releases a savepoint and those after it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if no savepoint has this name.
    pub(crate) fn release(&self, name: u32) -> Result<()> {
        self.check()?;
        let mut inside = self.inside.lock();
        let place = inside.place(name)?;
        inside.savepoints.truncate(place);
        if inside.savepoints.is_empty() {
            inside.journal.clear();
        }
        Ok(())
    }

    /// Returns the steps that undo everything since a savepoint, which remains. Until
    /// [`Self::end_undoing`], no further steps are recorded.
    ///
    /// # Errors
    /// As [`Self::release`].
    pub(crate) fn begin_undoing(&self, name: u32) -> Result<Vec<(String, UndoStep)>> {
        self.check()?;
        let mut inside = self.inside.lock();
        let place = inside.place(name)?;
        inside.savepoints.truncate(place + 1);
        let at = inside.savepoints[place].1;
        inside.is_undoing = true;
        Ok(inside.journal.split_off(at))
    }

    /// Ends the undoing of steps.
    ///
    /// # Errors
    /// The error of `undone`, after which the transaction is aborted.
    pub(crate) fn end_undoing(&self, undone: Result<()>) -> Result<()> {
        self.inside.lock().is_undoing = false;
        // A partly undone transaction cannot continue.
        undone.map_err(|error| self.fail(error))
    }
}

impl Inside {
    fn place(&self, name: u32) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|(number, _)| *number == name)
            .ok_or_else(refusal::no_savepoint)
    }
}
