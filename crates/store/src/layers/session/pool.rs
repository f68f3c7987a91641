//! The sessions of an engine.
//!
//! The store keeps one session for each thread that uses it (a slot; if there are more threads than
//! slots, they share them), made at first use. So a session is found by a thread-local number and
//! an uncontended lock, and a store is `Send + Sync`: it works on any thread and with any executor.
//! A transaction has a separate session.

use std::sync::atomic::{AtomicU8, Ordering};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use parking_lot::Mutex;

use super::lending::Lending;
use super::open_transactions::OpenTransactions;
use super::read_samples::ReadSamples;
use crate::contract::change::ReplicaRead;
use crate::contract::durability::Durability;
use crate::contract::engine::{Engine, Session, Submitted};
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::{HandleContext, Place, TransactionState};
use crate::layers::thread_slot::{SLOTS, slot_number, thread_mark};

/// A thread's session, opened at its first operation.
type Slot = Mutex<Option<Box<dyn Session>>>;

/// Operations are executed.
const OPEN: u8 = 0;
/// New operations are refused, and the engine is open.
const SEALED: u8 = 1;
/// The engine is closed.
const CLOSED: u8 = 2;

/// An engine with its open sessions.
///
/// Sessions are kept until the store is dropped, also after it was closed: operations that wait in
/// them then get a result.
pub(crate) struct Sessions {
    pub(crate) engine: Box<dyn Engine>,
    slots: Box<[Slot]>,
    /// Whether operations are executed: one of the constants above.
    state: AtomicU8,
    open_transactions: OpenTransactions,
    /// True if the engine records changes, with the actor of each.
    pub(super) records_changes: bool,
    /// The reads that are compared with another database, of a store that records changes.
    pub(crate) samples: ReadSamples,
}

impl Sessions {
    /// Creates an engine's sessions; none is opened yet.
    pub(crate) fn new(engine: Box<dyn Engine>, records_changes: bool) -> Self {
        Self {
            engine,
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
            state: AtomicU8::new(OPEN),
            open_transactions: OpenTransactions::default(),
            records_changes,
            samples: ReadSamples::default(),
        }
    }

    /// Identifies the store among those that are open.
    #[inline]
    fn number(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Checks that the store executes operations.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] after it was closed, [`ErrorKind::Busy`] while it is sealed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            OPEN => Ok(()),
            state => Err(not_open(state)),
        }
    }

    /// Refuses new operations; those of open transactions continue. The engine stays open.
    pub(crate) fn seal(&self) {
        let _ = self.state.compare_exchange(OPEN, SEALED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Executes operations again after [`Sessions::seal`].
    pub(crate) fn unseal(&self) {
        let _ = self.state.compare_exchange(SEALED, OPEN, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Closes the engine. A second call does nothing.
    ///
    /// # Errors
    /// That of the engine; [`ErrorKind::Busy`] while a transaction is open, and then the store
    /// stays open.
    pub(crate) fn close(&self) -> Result<()> {
        let before = self.state.swap(CLOSED, Ordering::SeqCst);
        if before == CLOSED {
            return Ok(());
        }
        let closed = self.engine.close();
        if closed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy) {
            // A transaction is still open; the store can be closed after it has ended.
            self.state.store(before, Ordering::SeqCst);
        }
        closed
    }

    /// Opens a session for a transaction, which has not begun yet.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]; that of the engine.
    pub(crate) fn transaction(&self) -> Result<TransactionState> {
        self.check_open()?;
        Ok(TransactionState::new(self.engine.session()?, self.open_transactions.add()))
    }

    /// Ends a transaction whose owner was dropped: its session rolls back what was not committed.
    pub(crate) fn end(&self, transaction: &TransactionState) {
        transaction.ended.store(true, Ordering::Relaxed);
        transaction.user.store(0, Ordering::Relaxed);
        // Another handle of the transaction may be executing an operation. If this thread is within
        // a row callback of it, the session is dropped with the last handle.
        let session = match transaction.session.try_lock() {
            Some(mut session) => session.take(),
            None if Lending::is_active(self.number()) => None,
            None => transaction.session.lock().take(),
        };
        drop(session);
    }

    /// Begins to lend rows on this thread, for a layer that answers an operation itself.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] within a row callback of this store, [`ErrorKind::Closed`] after
    /// it was closed.
    #[inline]
    pub(in crate::layers) fn begin_lending(&self) -> Result<Lending> {
        let lending = Lending::begin(self.number())?;
        self.check_open()?;
        Ok(lending)
    }

    /// Calls `run` with the session of a place: the session of the transaction, or the one in this
    /// slot, which is opened at first use. `begins` is true for a new operation, which is refused
    /// after the store was closed; others may still end.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a transaction that has ended, [`ErrorKind::Unsupported`] within a
    /// row callback of the same store; that of `run`.
    #[inline]
    pub(super) fn with_session<T>(
        &self,
        place: &Place,
        slot: usize,
        begins: bool,
        run: impl FnOnce(&mut dyn Session) -> Result<T>,
    ) -> Result<T> {
        let _lending = Lending::begin(self.number())?;
        match place {
            // A transaction continues while the store is being closed: the engine waits for its
            // end.
            Place::Transaction(transaction) => match &mut *transaction.session.lock() {
                Some(session) if !transaction.ended.load(Ordering::Relaxed) => run(&mut **session),
                _ => Err(Error::new(
                    ErrorKind::Invalid,
                    "the transaction has ended; begin a new one",
                )),
            },
            Place::Thread => {
                if begins {
                    self.check_open()?;
                }
                match &mut *self.slots[slot].lock() {
                    Some(session) => run(&mut **session),
                    none => run(&mut **none.insert(self.engine.session()?)),
                }
            }
        }
    }

    /// Submits an operation to the session of a place. A store without other layers calls this
    /// directly: it is the path of most operations.
    ///
    /// # Errors
    /// Those of [`Sessions::with_session`] and the operation.
    #[inline]
    pub(crate) fn submit_to(
        &self,
        place: &Place,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        self.with_session(place, slot_number(), true, |session| {
            submit(session, place, durability, operation, sink, outcome)
        })
    }

    /// Lets the reads by key of this thread share a snapshot, until the result is dropped. Returns
    /// `None` in a transaction, and if the store executes nothing.
    pub(crate) fn share_snapshot(&self, place: &Place) -> Option<SharedSnapshot<'_>> {
        if matches!(place, Place::Transaction(_)) {
            return None;
        }
        let slot = slot_number();
        self.set_shared(slot, true).ok().map(|()| SharedSnapshot { sessions: self, slot })
    }

    fn set_shared(&self, slot: usize, is_shared: bool) -> Result<()> {
        self.with_session(&Place::Thread, slot, is_shared, |session| {
            session.share_snapshot(is_shared);
            Ok(())
        })
    }

    /// Like [`Self::submit_to`], with the actor that the change feed names.
    pub(super) fn submit_as(
        &self,
        handle: &HandleContext,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if self.samples.is_on() && matches!(handle.place, Place::Thread) {
            self.samples.offer(operation);
        }
        self.with_session(&handle.place, slot_number(), true, |session| {
            session.set_actor(handle.actor.as_ref());
            submit(session, &handle.place, durability, operation, sink, outcome)
        })
    }

    /// Submits a read that a replica may execute. A transaction has no replicas.
    #[cold]
    pub(super) fn submit_read(
        &self,
        handle: &HandleContext,
        replica: ReplicaRead,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        match handle.place {
            Place::Transaction(_) => self.submit_as(handle, None, operation, sink, outcome),
            Place::Thread => self.with_session(&handle.place, slot_number(), true, |session| {
                session.submit_read(replica, operation, sink, outcome)
            }),
        }
    }

    /// Returns the error of an operation that waited too long, with an explanation if it waited for
    /// its own thread.
    #[cold]
    pub(super) fn explained(&self, place: &Place, error: Error) -> Error {
        let waited = error.kind() == ErrorKind::Busy && matches!(place, Place::Thread);
        if !waited || !self.open_transactions.has_one_here() {
            return error;
        }
        let message = format!(
            "{}. This thread has an open transaction of this store: inside the transaction, call \
             the verbs on it (`transaction.insert(…)`), not on the store",
            error.message()
        );
        Error::new(ErrorKind::Busy, message).with_source(error)
    }
}

/// Reads by key that share a snapshot, until it is dropped.
pub(crate) struct SharedSnapshot<'s> {
    sessions: &'s Sessions,
    slot: usize,
}

impl Drop for SharedSnapshot<'_> {
    fn drop(&mut self) {
        // Within a row callback of the store nothing was shared.
        let _ = self.sessions.set_shared(self.slot, false);
    }
}

#[cold]
fn not_open(state: u8) -> Error {
    match state {
        SEALED => Error::new(ErrorKind::Busy, "the store is moving to another database; try again"),
        _ => Error::new(ErrorKind::Closed, "the store is closed"),
    }
}

#[inline]
fn submit(
    session: &mut dyn Session,
    place: &Place,
    durability: Option<Durability>,
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
    outcome: &mut Outcome,
) -> Result<Submitted> {
    let submitted = session.submit(durability, operation, sink, outcome);
    if !matches!(submitted, Ok(Submitted::Waiting(_))) {
        note_end(place, operation, submitted.is_ok());
    }
    submitted
}

/// Records the end of an operation for its transaction. A commit that fails has rolled back the
/// transaction, which ends as well.
#[inline]
pub(super) fn note_end(place: &Place, operation: &Operation<'_>, succeeded: bool) {
    let Place::Transaction(transaction) = place else { return };
    match operation {
        Operation::Commit | Operation::Rollback => {
            transaction.ended.store(true, Ordering::Relaxed);
            transaction.user.store(0, Ordering::Relaxed);
        }
        _ if succeeded => transaction.user.store(thread_mark(), Ordering::Relaxed),
        _ => {}
    }
}
