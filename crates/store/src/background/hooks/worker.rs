//! The thread of a hook: takes the lease, reads the feed, calls the hook, and saves the cursor.

use std::future::Future as _;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use parking_lot::{Condvar, Mutex};

use super::HookOptions;
use super::cursor::{Cursor, LEASE};
use super::dead_letter;
use crate::contract::change::{Change, Commit, Position};
use crate::runtime::backoff::Backoff;
use crate::runtime::block_on::block_on;
use crate::store::Store;
use crate::verbs::changes::{ChangeStream, FeedEvent};

/// The lease is renewed this often, even if nothing happens.
const RENEWAL: Duration = LEASE.checked_div(3).unwrap();
/// The interval in which a process looks for a lease that another one has.
const STANDBY: Duration = Duration::from_secs(1);
/// The cursor is saved after this time, or after this number of commits. A hook gets the commits
/// since then again after a crash.
const SAVE_AFTER: Duration = Duration::from_millis(200);
const SAVE_COMMITS: u32 = 1_000;
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Ends a worker.
#[derive(Default)]
pub(super) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    is_stopped: bool,
    waker: Option<Waker>,
}

impl Signal {
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        waker.inspect(Waker::wake_by_ref);
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    /// Sleeps; returns true if the worker was stopped.
    fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.is_stopped && !self.changed.wait_until(&mut state, until).timed_out() {}
        state.is_stopped
    }

    /// Returns true if the worker was stopped; otherwise the waker is woken when it is.
    fn poll(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if !state.is_stopped {
            state.waker = Some(waker.clone());
        }
        state.is_stopped
    }
}

pub(super) struct Worker {
    store: Store,
    name: String,
    /// `None`: the hook is called for each commit, with the changes of all tables.
    table: Option<Arc<Table>>,
    options: HookOptions,
    signal: Arc<Signal>,
    cursor: Cursor,
}

/// The reason why a worker ends.
struct Ended;

/// The next event of a feed.
enum Awaited {
    Event(FeedEvent),
    /// The time is over.
    Idle,
    /// The worker was stopped, or the store closed.
    Ended,
}

impl Worker {
    /// # Errors
    /// Those of [`Store::changes`], and of the cursor.
    pub(super) fn new(
        store: &Store,
        name: &str,
        table: Option<Arc<Table>>,
        options: HookOptions,
        signal: Arc<Signal>,
    ) -> Result<Self> {
        let start = store.changes()?.position();
        let store = store.outside();
        let cursor = Cursor::open(&store, name, start)?;
        Ok(Self { store, name: name.to_owned(), table, options, signal, cursor })
    }

    /// Calls the hook until it is stopped or the store is closed.
    pub(super) fn run(mut self, mut call: impl FnMut(&Commit, Option<&Change>) -> Result<()>) {
        loop {
            match self.take_and_call(&mut call) {
                Ok(()) if !self.signal.is_stopped() => {}
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => log::warn!("the hook `{}` waits: {error}", self.name),
            }
            if self.signal.sleep(STANDBY) {
                return;
            }
        }
    }

    /// Calls the hook as long as this process has the lease.
    fn take_and_call(
        &mut self,
        call: &mut impl FnMut(&Commit, Option<&Change>) -> Result<()>,
    ) -> Result<()> {
        if !self.cursor.take(&self.store)? {
            return Ok(());
        }
        let mut stream = self.stream()?;
        let (mut unsaved, mut saved_at) = (0, Instant::now());
        loop {
            let wait = if unsaved > 0 { SAVE_AFTER } else { RENEWAL };
            match self.next(&mut stream, saved_at + wait)? {
                Awaited::Event(FeedEvent::Commit(commit)) => {
                    if self.handle(&commit, call).is_err() {
                        // The rest of the commit is repeated by the process that continues.
                        return self.cursor.release(&self.store).map(drop);
                    }
                    self.cursor.position = commit.position;
                    unsaved += 1;
                }
                Awaited::Event(FeedEvent::Gap(position)) => {
                    self.miss(position, "the commits before it were removed from the feed")?;
                    unsaved += 1;
                }
                Awaited::Idle => {}
                Awaited::Ended => {
                    if unsaved > 0 || self.store.is_open() {
                        self.cursor.release(&self.store)?;
                    }
                    return Ok(());
                }
            }
            if unsaved >= SAVE_COMMITS || saved_at.elapsed() >= wait {
                if !self.cursor.save(&self.store)? {
                    return Ok(());
                }
                (unsaved, saved_at) = (0, Instant::now());
            }
        }
    }

    /// Reads the feed from the cursor on.
    fn stream(&mut self) -> Result<ChangeStream> {
        let stream = self.store.changes()?;
        if self.cursor.position.feed == stream.position().feed {
            return stream.from(self.cursor.position);
        }
        // The database was restored: its feed has another identity.
        let position = stream.position();
        self.miss(position, "the database was restored, and its feed began anew")?;
        Ok(stream)
    }

    /// Keeps a dead letter for changes that the hook cannot get.
    fn miss(&mut self, position: Position, why: &str) -> Result<()> {
        log::error!("the hook `{}` has missed changes before {position}: {why}", self.name);
        dead_letter::keep(&self.store, &self.name, position, None, why)?;
        self.cursor.position = position;
        Ok(())
    }

    /// Waits for the next event, until the worker is stopped or the time is over.
    fn next(&self, stream: &mut ChangeStream, until: Instant) -> Result<Awaited> {
        let mut next = pin!(stream.next());
        let mut is_timed = false;
        block_on(poll_fn(|context| {
            if self.signal.poll(context.waker()) {
                return Poll::Ready(Ok(Awaited::Ended));
            }
            match next.as_mut().poll(context) {
                Poll::Ready(Ok(Some(event))) => return Poll::Ready(Ok(Awaited::Event(event))),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(Awaited::Ended)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            if Instant::now() >= until {
                return Poll::Ready(Ok(Awaited::Idle));
            }
            #[cfg(target_os = "linux")]
            if !std::mem::replace(&mut is_timed, true) {
                let _ = crate::contract::engine::wake_at(until, context.waker().clone());
            }
            Poll::Pending
        }))
    }

    /// Calls the hook for the changes of a commit.
    ///
    /// # Errors
    /// The worker was stopped before the commit was handled.
    fn handle(
        &self,
        commit: &Commit,
        call: &mut impl FnMut(&Commit, Option<&Change>) -> Result<()>,
    ) -> std::result::Result<(), Ended> {
        let Some(table) = &self.table else { return self.attempt(commit, None, call) };
        let mut changes = commit.changes.iter().filter(|change| Arc::ptr_eq(&change.table, table));
        changes.try_for_each(|change| self.attempt(commit, Some(change), call))
    }

    /// Calls the hook for a commit or one change of it, as often as it may fail.
    ///
    /// # Errors
    /// The worker was stopped before the change was handled.
    fn attempt(
        &self,
        commit: &Commit,
        change: Option<&Change>,
        call: &mut impl FnMut(&Commit, Option<&Change>) -> Result<()>,
    ) -> std::result::Result<(), Ended> {
        let mut backoff = Backoff::new(self.options.pause, PAUSE_MAX);
        for attempt in 1..=self.options.attempts {
            if self.signal.is_stopped() {
                return Err(Ended);
            }
            let called = catch_unwind(AssertUnwindSafe(|| call(commit, change)));
            let error = match called {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_) => Error::new(ErrorKind::Bug, "the hook panicked"),
            };
            log::warn!("the hook `{}` failed, attempt {attempt}: {error}", self.name);
            if attempt == self.options.attempts {
                let message = error.to_string();
                let kept =
                    dead_letter::keep(&self.store, &self.name, commit.position, change, &message);
                return kept.map_err(|error| {
                    log::error!("the hook `{}`: no dead letter can be kept: {error}", self.name);
                    Ended
                });
            }
            if self.signal.sleep(backoff.pause()) {
                return Err(Ended);
            }
        }
        Ok(())
    }
}
