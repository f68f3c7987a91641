//! The hub of the live queries of a store: the queries that have subscribers, and the thread that
//! applies commits to them.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use hashbrown::{DefaultHashBuilder, HashMap};
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::definition::LiveDefinition;
use super::exact_read::ExactRead;
use super::hub_thread::HubThread;
use super::shared_query::{Ended, NewSubscriber, SharedQuery};
use crate::layers::feed::ChangeFeed;
use crate::store::Store;

/// The number of different live queries of a store. Each has a page and its spare rows in memory.
const QUERIES_MAX: usize = 50_000;

/// The live queries of a store.
#[derive(Debug)]
pub(crate) struct LiveHub {
    feed: Arc<ChangeFeed>,
    state: Mutex<LiveHubState>,
    /// The number of the last commit that was applied to all settled queries.
    applied: AtomicU64,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Default)]
struct LiveHubState {
    /// The queries by the hash of their definition.
    known: HashMap<u64, Vec<Arc<SharedQuery>>>,
    /// The number of known queries.
    queries: usize,
    /// Queries that the thread does not have yet.
    incoming: Vec<Arc<SharedQuery>>,
    /// Queries that may have no subscriber any more.
    leaving: Vec<Arc<SharedQuery>>,
    /// The thread, while it runs.
    thread: Option<Thread>,
    is_closed: bool,
}

/// The queries that were added, and those that ended, since the thread has looked.
#[derive(Debug, Default)]
pub(crate) struct QueryChanges {
    pub(crate) added: Vec<Arc<SharedQuery>>,
    pub(crate) ended: Vec<Arc<SharedQuery>>,
}

impl LiveHub {
    /// Returns the hub of a store.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes.
    pub(crate) fn of(store: &Store) -> Result<Arc<Self>> {
        let feed = store.feed()?;
        let hub = store.core.extension(|| {
            Arc::new(Self {
                feed: Arc::clone(feed),
                state: Mutex::default(),
                applied: AtomicU64::new(0),
                hasher: DefaultHashBuilder::default(),
            })
        });
        hub.ok_or_else(|| Error::new(ErrorKind::Bug, "the store has another extension"))
    }

    pub(crate) const fn feed(&self) -> &Arc<ChangeFeed> {
        &self.feed
    }

    /// Subscribes to a query that already has subscribers. `None` if it has none.
    pub(crate) fn attach(
        &self,
        definition: &LiveDefinition,
        with_window: bool,
    ) -> Option<(Arc<SharedQuery>, NewSubscriber)> {
        let state = self.state.lock();
        let known = state.known.get(&self.hash(definition))?;
        let query = known.iter().find(|query| query.definition == *definition)?;
        let subscriber = query.subscribe(self.applied.load(Ordering::Acquire), with_window)?;
        Some((Arc::clone(query), subscriber))
    }

    /// Adds a query with the rows that were read for it, and subscribes to it.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the store was closed, [`ErrorKind::Busy`] if it has too many
    /// queries, [`ErrorKind::Io`] if the thread cannot be started.
    pub(crate) fn register(
        self: &Arc<Self>,
        store: &Store,
        definition: LiveDefinition,
        read: ExactRead,
        with_window: bool,
    ) -> Result<(Arc<SharedQuery>, NewSubscriber)> {
        // Another caller may have added it meanwhile.
        if let Some(attached) = self.attach(&definition, with_window) {
            return Ok(attached);
        }
        let hash = self.hash(&definition);
        let query = Arc::new(SharedQuery::new(definition, self.feed.hub.feed(), read));
        let subscriber = query.subscribe(0, with_window).ok_or_else(closed)?;
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(closed());
        }
        if state.queries >= QUERIES_MAX {
            let message = "the store has too many live queries; try again later";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        match &state.thread {
            Some(thread) => thread.unpark(),
            None => {
                self.applied.store(self.feed.hub.position().number, Ordering::Release);
                state.thread = Some(HubThread::start(store, self)?);
            }
        }
        state.known.entry(hash).or_default().push(Arc::clone(&query));
        state.queries += 1;
        state.incoming.push(Arc::clone(&query));
        Ok((query, subscriber))
    }

    /// Removes a subscriber.
    pub(crate) fn detach(&self, query: &Arc<SharedQuery>, subscriber: u64) {
        if !query.unsubscribe(subscriber) {
            return;
        }
        let mut state = self.state.lock();
        state.leaving.push(Arc::clone(query));
        if let Some(thread) = &state.thread {
            thread.unpark();
        }
    }

    /// Returns the number of the last commit that was applied.
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Sets the number of the last commit that was applied.
    pub(crate) fn set_applied(&self, number: u64) {
        self.applied.store(number, Ordering::Release);
    }

    /// Returns the queries to add and to remove, for the thread.
    pub(crate) fn take_changes(&self) -> QueryChanges {
        let mut state = self.state.lock();
        let added = std::mem::take(&mut state.incoming);
        let mut ended = std::mem::take(&mut state.leaving);
        ended.retain(|query| query.end_if_idle());
        for query in &ended {
            self.forget(&mut state, query);
        }
        QueryChanges { added, ended }
    }

    /// Removes a query that has ended.
    pub(crate) fn remove(&self, query: &Arc<SharedQuery>) {
        self.forget(&mut self.state.lock(), query);
    }

    /// Ends the thread, unless there is a query. Returns true if it has to end.
    pub(crate) fn end_idle_thread(&self) -> bool {
        let mut state = self.state.lock();
        let is_idle = state.known.is_empty();
        if is_idle {
            state.thread = None;
        }
        is_idle
    }

    /// Ends all queries, as the store was closed.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.thread = None;
        state.incoming.clear();
        state.leaving.clear();
        let known = std::mem::take(&mut state.known);
        drop(state);
        known.into_values().flatten().for_each(|query| query.end(Ended::Closed));
    }

    fn forget(&self, state: &mut LiveHubState, query: &Arc<SharedQuery>) {
        let hash = self.hash(&query.definition);
        let Some(known) = state.known.get_mut(&hash) else { return };
        let before = known.len();
        known.retain(|other| !Arc::ptr_eq(other, query));
        let (left, removed) = (known.len(), before - known.len());
        state.queries -= removed;
        if left == 0 {
            state.known.remove(&hash);
        }
    }

    fn hash(&self, definition: &LiveDefinition) -> u64 {
        self.hasher.hash_one(format!("{} {:?}", definition.table.name(), definition.query))
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}
