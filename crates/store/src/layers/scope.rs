//! Scopes: a [`Scope`] executes operations, either on the store or in one transaction. All verbs
//! are methods of it.
//!
//! The store keeps one engine session for each thread that uses it (a slot; if there are more
//! threads than slots, they share them), made at first use. So a session is found by a thread-local
//! number and an uncontended lock, and a scope is `Send + Sync`: it works on any thread and with
//! any executor.

mod batched;
mod cached;
mod guarded;
mod job;
mod lending;
mod metered;
mod own_transaction;
mod pending;
mod shared;
mod thread_slot;
mod traced;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowSink, Table, Timestamp};
use parking_lot::Mutex;

use self::lending::Lending;
pub use self::pending::{Pending, Progress};
pub(crate) use self::shared::{Background, Shared};
use self::thread_slot::{slot_number, thread_mark};
use crate::contract::durability::Durability;
use crate::contract::engine::{Session, Submitted};
use crate::contract::operation::{Answered, Once, OnceKey, Operation, Outcome};
use crate::layers::cache::{Copying, Writing};
use crate::layers::meter::OfSession;
use crate::rights::Rights;
use crate::rows::prepare::WriteTimestamp;
use crate::rows::registry::Registry;
use crate::runtime::park::{blocking, park_until};

/// The target of operations: a store derefs to one, a transaction to another. The verbs (`get`,
/// `list`, `insert`, …) are its methods.
pub struct Scope {
    // Dropped first: a transaction that outlives its store ends before the
    // engine is closed.
    place: Place,
    pub(crate) shared: Arc<Shared>,
    /// The actor that history entries name.
    pub(crate) actor: Option<Arc<str>>,
    /// The rights; `None` if everything is allowed.
    rights: Option<Arc<Rights>>,
    /// The session for which operations are counted, if there is one.
    session: Option<Arc<OfSession>>,
    /// True if operations go directly to a session: without rights, cache, history, counters and
    /// spans.
    is_plain: bool,
}

enum Place {
    /// The session of the calling thread.
    Threads,
    /// A separate session, until its transaction has ended: a later operation would be executed at
    /// once, and could not be undone.
    Held {
        session: Mutex<Box<dyn Session>>,
        ended: AtomicBool,
        /// The time of its first write, which all its writes have.
        time: OnceLock<Timestamp>,
        /// The tables that it has written to, for the cache.
        written: Mutex<Writing>,
        /// The thread that used it last, while it is open; otherwise 0.
        user: Arc<AtomicUsize>,
    },
}

impl Scope {
    pub(crate) fn of_store(shared: Arc<Shared>) -> Self {
        Self::new(Place::Threads, shared, None, None, None)
    }

    fn new(
        place: Place,
        shared: Arc<Shared>,
        actor: Option<Arc<str>>,
        rights: Option<Arc<Rights>>,
        session: Option<Arc<OfSession>>,
    ) -> Self {
        let is_plain = shared.around.is_none()
            && rights.is_none()
            && shared.meter.is_none()
            && !shared.is_traced;
        Self { place, shared, actor, rights, session, is_plain }
    }

    /// Creates the scope of a transaction with the store's actor and rights.
    pub(crate) fn of_session(&self, session: Box<dyn Session>) -> Self {
        let place = Place::Held {
            session: Mutex::new(session),
            ended: AtomicBool::new(false),
            time: OnceLock::new(),
            written: Mutex::default(),
            user: self.shared.add_transaction(),
        };
        let (actor, rights) = (self.actor.clone(), self.rights.clone());
        Self::new(place, Arc::clone(&self.shared), actor, rights, self.session.clone())
    }

    /// Returns the same scope with another actor.
    pub(crate) fn with_actor(&self, actor: Arc<str>) -> Self {
        let (rights, session) = (self.rights.clone(), self.session.clone());
        Self::new(Place::Threads, Arc::clone(&self.shared), Some(actor), rights, session)
    }

    /// Returns the same scope under these rights.
    pub(crate) fn with_rights(&self, rights: Arc<Rights>) -> Self {
        let actor = rights.caller().map(|caller| Arc::from(&*caller.name));
        let session = self.session.clone();
        Self::new(Place::Threads, Arc::clone(&self.shared), actor, Some(rights), session)
    }

    /// Returns the rights; `None` if everything is allowed.
    #[must_use]
    pub const fn rights(&self) -> Option<&Arc<Rights>> {
        self.rights.as_ref()
    }

    /// Returns the tables.
    #[must_use]
    #[inline]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.shared.registry
    }

    /// Returns the table called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the names of the existing tables.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.registry().table(name).cloned()
    }

    /// Returns the settings with which a batch is executed once. Its answer is made by `answer` and
    /// stored, or is the stored one; it is written to `answered`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store keeps no answers.
    pub fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        answer: &'a mut dyn FnMut(&[Result<Outcome>]) -> Vec<u8>,
        answered: &'a mut Option<Answered>,
    ) -> Result<Once<'a>> {
        let Some((table, limits)) = &self.shared.answers else {
            let message = "the store keeps no answers to requests with an idempotency key; start \
                           the program with `serve --idempotency`, or open the store with \
                           `StoreBuilder::idempotency`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let key = Cow::Borrowed(key);
        Ok(Once { table, limits: *limits, key, answer, answered })
    }

    /// Returns the timestamp of a write, if the table has a field for it: the current time, or in a
    /// transaction that of its first write, as in SQL.
    #[must_use]
    pub fn stamp(&self, table: &Table) -> WriteTimestamp {
        WriteTimestamp::by(table, || self.time())
    }

    fn time(&self) -> Timestamp {
        match &self.place {
            Place::Threads => Timestamp::now(),
            Place::Held { time, .. } => *time.get_or_init(Timestamp::now),
        }
    }

    fn with_session<T>(
        &self,
        slot: usize,
        begins: bool,
        run: impl FnOnce(&mut dyn Session) -> Result<T>,
    ) -> Result<T> {
        let _lending = Lending::begin(&self.shared)?;
        match &self.place {
            // A transaction continues while the store is being closed: the engine waits for its
            // end.
            Place::Held { session, ended, .. } => {
                let mut session = session.lock();
                if ended.load(Ordering::Relaxed) {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        "the transaction has ended; begin another",
                    ));
                }
                run(&mut **session)
            }
            Place::Threads => {
                if begins {
                    self.shared.check_open()?;
                }
                let mut session = self.shared.slots[slot].lock();
                match &mut *session {
                    Some(session) => run(&mut **session),
                    none => run(&mut **none.insert(self.shared.engine.session()?)),
                }
            }
        }
    }

    /// A commit that fails has rolled back the transaction, which ends as well.
    #[inline]
    fn note_end(&self, operation: &Operation<'_>, succeeded: bool) {
        let Place::Held { ended, user, .. } = &self.place else { return };
        match operation {
            Operation::Commit | Operation::Rollback => {
                ended.store(true, Ordering::Relaxed);
                user.store(0, Ordering::Relaxed);
            }
            _ if succeeded => user.store(thread_mark(), Ordering::Relaxed),
            _ => {}
        }
    }

    /// Begins an operation on rows that are ready (see [`crate::prepare`]). The typed verbs do this
    /// and more; this method is for layers that lend rows directly to an answer, such as REST. The
    /// result is written to `outcome`, which has to be a new one. `durability` is set if the
    /// operation has another durability than the store.
    ///
    /// # Errors
    /// Those of the operation.
    #[inline]
    pub fn submit(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        if self.is_plain {
            let submitted = self.submit_to_session(durability, operation, sink, outcome)?;
            return Ok(Progress::of(submitted));
        }
        self.submit_observed(durability, operation, sink, outcome)
    }

    /// [`Scope::submit`] if operations do not go directly to the session.
    fn submit_around(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        match &self.rights {
            Some(rights) => self.submit_guarded(rights, durability, operation, sink, outcome),
            None if self.shared.around.is_none() => {
                self.submit_to_session(durability, operation, sink, outcome).map(Progress::of)
            }
            None => self.submit_as_job(durability, operation, sink, outcome),
        }
    }

    /// Submits an operation to the cache, if there is one, or to the session.
    fn submit_beneath(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        match self.shared.cache() {
            Some(cache) => self.submit_cached(cache, durability, operation, sink, outcome),
            None => self.submit_to_session(durability, operation, sink, outcome).map(Progress::of),
        }
    }

    #[inline]
    fn submit_to_session(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        self.with_session(slot_number(), true, |session| {
            let submitted = session.submit(durability, operation, sink, outcome);
            if !matches!(submitted, Ok(Submitted::Waiting(_))) {
                self.note_end(operation, submitted.is_ok());
            }
            submitted
        })
    }

    /// Continues an operation that waits, from a future.
    pub fn poll(
        &self,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        match pending.span.take() {
            None => self.poll_metered(pending, operation, sink, outcome, context),
            Some(span) => self.poll_traced(span, pending, operation, sink, outcome, context),
        }
    }

    fn poll_metered(
        &self,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(begun) = pending.begun.take() else {
            return self.poll_around(pending, operation, sink, outcome, context);
        };
        let polled = self.poll_around(pending, operation, sink, outcome, context);
        match &polled {
            Poll::Pending => pending.begun = Some(begun),
            Poll::Ready(result) => self.note_metered(begun, operation, result.is_ok(), outcome),
        }
        polled
    }

    fn poll_around(
        &self,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        match &self.rights {
            Some(rights) => self.poll_guarded(rights, pending, operation, sink, outcome, context),
            None => self.poll_job(pending, operation, sink, outcome, context),
        }
    }

    fn poll_session(
        &self,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let keeps = pending.fetch.is_some();
        let mut copying = Copying { sink, copy: None };
        let polled = self.with_session(pending.slot, false, |session| {
            let sink = if keeps { &mut copying as &mut dyn RowSink } else { &mut *copying.sink };
            let polled = session.poll(pending.ticket, operation, sink, outcome, context);
            if let Poll::Ready(done) = &polled {
                self.note_end(operation, done.is_ok());
            }
            Ok(polled)
        });
        let polled = match polled {
            Ok(Poll::Ready(Err(error))) | Err(error) => Poll::Ready(Err(self.explained(error))),
            Ok(polled) => polled,
        };
        if let (Some(cache), Poll::Ready(done)) = (self.shared.cache(), &polled) {
            cache.ended(std::mem::take(&mut pending.writing), done.is_ok());
            if let (Some(fetch), Some(copy)) = (pending.fetch.take(), copying.copy) {
                cache.keep_fetched(*fetch, copy);
            }
        }
        polled
    }

    /// Calls [`Scope::submit`], then [`Scope::poll`] until the operation is done. The thread is
    /// parked in between, and other operations can use the session meanwhile.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn run(&self, operation: &mut Operation<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        self.run_into(None, operation, sink, &mut outcome)?;
        Ok(outcome)
    }

    /// [`Scope::run`] with a caller's outcome.
    pub(crate) fn run_into(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let progress = if self.is_plain {
            match blocking(|| self.submit_to_session(durability, operation, sink, outcome))? {
                // This is the usual case. (A `Progress` takes longer to inspect.)
                Submitted::Done => return Ok(()),
                waiting => Progress::of(waiting),
            }
        } else {
            blocking(|| self.submit_observed(durability, operation, sink, outcome))?
        };
        match progress {
            Progress::Done => Ok(()),
            Progress::Pending(mut pending) => {
                park_until(|context| self.poll(&mut pending, operation, sink, outcome, context))
            }
        }
    }

    /// Cancels an operation that waits; it may still be executed.
    pub fn cancel(&self, pending: Pending) {
        if let Some(span) = &pending.span {
            span.record("error.type", "given up");
        }
        if let (Some(meter), Some(begun)) = (&self.shared.meter, pending.begun) {
            meter.give_up(begun, pending.slot);
        }
        // A closed store has no operations left to cancel.
        let _ = self.with_session(pending.slot, false, |session| {
            session.cancel(pending.ticket);
            Ok(())
        });
        if let Some(cache) = self.shared.cache() {
            cache.abandon(pending.writing);
        }
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match self.place {
            Place::Threads => "store",
            Place::Held { .. } => "transaction",
        };
        write!(f, "{place} on {}", self.shared.engine.capability().name)
    }
}
