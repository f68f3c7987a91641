//! A live query with its subscribers. Equal queries of all callers are one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hashbrown::HashMap;
use marmota_model::{Error, Result};
use parking_lot::Mutex;

use super::definition::LiveDefinition;
use super::exact_read::ExactRead;
use super::update::{LiveContent, LiveRow, LiveUpdate, PageEnd};
use super::window::{ChangedRow, LiveWindow, WindowEffect};
use crate::contract::change::{Change, Position};

/// The bytes of updates that wait for a subscriber. If there are more, it gets a new snapshot.
const QUEUE_BYTES_MAX: usize = 256 << 10;

/// A live query with its subscribers.
///
/// Only the thread of the hub changes its window. It does not read the store while the state is
/// locked, so subscribers never wait for the store.
#[derive(Debug)]
pub(crate) struct SharedQuery {
    pub(crate) definition: LiveDefinition,
    /// The identity of the feed.
    feed: u64,
    state: Mutex<QueryState>,
}

#[derive(Debug)]
struct QueryState {
    /// The number of the last commit that is in the window.
    number: u64,
    window: LiveWindow,
    /// The page that subscribers have after all updates.
    page: Vec<LiveRow>,
    end: PageEnd,
    /// The number of the commit that the page is at.
    page_number: u64,
    /// True if the page is that of the last commit that the hub has applied, without a commit that
    /// waits for a read.
    is_settled: bool,
    /// True if the rows have to be read again: the window is not used until then.
    needs_read: bool,
    /// A snapshot of the page, made for the first subscriber that needs it.
    snapshot: Option<Arc<LiveUpdate>>,
    subscribers: HashMap<u64, UpdateQueue>,
    next_subscriber: u64,
    ended: Option<Ended>,
}

/// The end of a query.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The store was closed, or the last subscriber has left.
    Closed,
    /// The rows could not be read again.
    Failed(Arc<Error>),
}

/// The updates that wait for one subscriber.
#[derive(Debug, Default)]
struct UpdateQueue {
    updates: VecDeque<Arc<LiveUpdate>>,
    bytes: usize,
    /// True if there were too many updates: the next event is a snapshot.
    is_overflown: bool,
    waker: Option<Waker>,
}

/// A new subscriber of a query.
pub(crate) struct NewSubscriber {
    pub(crate) number: u64,
    /// The page at the moment since which its updates are queued.
    pub(crate) snapshot: Arc<LiveUpdate>,
    /// The window with this page, if it was requested and is known.
    pub(crate) window: Option<LiveWindow>,
}

/// What remains to be done after changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterChanges {
    Done,
    /// The rows have to be read again.
    Read,
}

impl SharedQuery {
    /// Creates a query of rows that were read. `feed` is the identity of the feed.
    pub(crate) fn new(definition: LiveDefinition, feed: u64, read: ExactRead) -> Self {
        let ExactRead { number, window } = read;
        let state = QueryState {
            number,
            page: window.page(&definition).to_vec(),
            end: window.end(&definition),
            page_number: number,
            is_settled: false,
            needs_read: false,
            snapshot: None,
            subscribers: HashMap::new(),
            next_subscriber: 0,
            ended: None,
            window,
        };
        Self { definition, feed, state: Mutex::new(state) }
    }

    /// Adds a subscriber; `None` if the query has ended. `applied` is the number of the last commit
    /// that the hub has applied to all settled queries.
    pub(crate) fn subscribe(&self, applied: u64, with_window: bool) -> Option<NewSubscriber> {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return None;
        }
        if state.is_settled && applied > state.page_number {
            state.page_number = applied;
            state.snapshot = None;
        }
        let snapshot = state.snapshot(self.feed);
        let number = state.next_subscriber;
        state.next_subscriber += 1;
        state.subscribers.insert(number, UpdateQueue::default());
        let is_known = state.is_settled || state.number == state.page_number;
        let window = (with_window && is_known).then(|| state.window.clone());
        Some(NewSubscriber { number, snapshot, window })
    }

    /// Removes a subscriber. Returns true if it was the last one.
    pub(crate) fn unsubscribe(&self, subscriber: u64) -> bool {
        let mut state = self.state.lock();
        state.subscribers.remove(&subscriber);
        state.subscribers.is_empty() && state.ended.is_none()
    }

    /// Returns the next update of a subscriber, or `None` at the end of the query.
    ///
    /// # Errors
    /// That of a query whose rows could not be read again.
    pub(crate) fn poll(
        &self,
        subscriber: u64,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Arc<LiveUpdate>>>> {
        let mut state = self.state.lock();
        let snapshot = match state.subscribers.get_mut(&subscriber) {
            Some(queue) if queue.is_overflown => {
                queue.is_overflown = false;
                true
            }
            Some(queue) => {
                if let Some(update) = queue.updates.pop_front() {
                    queue.bytes -= update.bytes();
                    return Poll::Ready(Ok(Some(update)));
                }
                false
            }
            None => return Poll::Ready(Ok(None)),
        };
        if snapshot {
            return Poll::Ready(Ok(Some(state.snapshot(self.feed))));
        }
        match &state.ended {
            Some(Ended::Closed) => return Poll::Ready(Ok(None)),
            Some(Ended::Failed(error)) => {
                return Poll::Ready(Err(error.at("the rows of a live query")));
            }
            None => {}
        }
        if let Some(queue) = state.subscribers.get_mut(&subscriber) {
            match &mut queue.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => queue.waker = Some(context.waker().clone()),
            }
        }
        Poll::Pending
    }

    /// Returns the number of the last commit that is in the window.
    pub(crate) fn number(&self) -> u64 {
        self.state.lock().number
    }

    /// Marks the query as one to which all commits are applied that the hub has applied.
    pub(crate) fn settle(&self) {
        self.state.lock().is_settled = true;
    }

    /// Applies the changes of a commit, and queues the update for the subscribers.
    pub(crate) fn apply<'c>(
        &self,
        number: u64,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> AfterChanges {
        let definition = &self.definition;
        let Ok(selector) = definition.selector() else { return AfterChanges::Done };
        let mut state = self.state.lock();
        if number <= state.number {
            return AfterChanges::Done;
        }
        if state.needs_read {
            return AfterChanges::Read;
        }
        if definition.is_related() {
            return state.read_again();
        }
        state.number = number;
        let mut is_changed = false;
        for change in changes {
            let of = |row: &'c Option<Vec<_>>| row.as_deref().map(ChangedRow::new);
            let (before, after) = (of(&change.before), of(&change.after));
            let effect = state.window.apply(&selector, definition, before.as_ref(), after.as_ref());
            match effect {
                WindowEffect::Unchanged => {}
                WindowEffect::Changed => is_changed = true,
                WindowEffect::Conflict => return state.read_again(),
            }
        }
        if !state.window.is_sufficient(definition) {
            return state.read_again();
        }
        if is_changed {
            let wakers = state.publish(definition, self.feed, false);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        } else {
            state.page_number = state.page_number.max(number);
            state.snapshot = None;
        }
        AfterChanges::Done
    }

    /// Replaces the window by rows that were read again. Subscribers get a patch, or a snapshot if
    /// they have missed commits.
    pub(crate) fn replace(&self, read: ExactRead, as_snapshot: bool) {
        let mut state = self.state.lock();
        (state.number, state.window) = (read.number, read.window);
        (state.is_settled, state.needs_read) = (true, false);
        let wakers = state.publish(&self.definition, self.feed, as_snapshot);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Marks the query as one whose rows have to be read again, as it misses commits.
    pub(crate) fn miss_commits(&self) {
        self.state.lock().read_again();
    }

    /// Returns true if the query has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    /// Ends the query.
    pub(crate) fn end(&self, ended: Ended) {
        let mut state = self.state.lock();
        state.ended.get_or_insert(ended);
        let wakers = state.wakers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the query if it has no subscriber. Returns true if it has ended.
    pub(crate) fn end_if_idle(&self) -> bool {
        let mut state = self.state.lock();
        if state.subscribers.is_empty() {
            state.ended.get_or_insert(Ended::Closed);
        }
        state.ended.is_some()
    }
}

impl QueryState {
    const fn read_again(&mut self) -> AfterChanges {
        (self.is_settled, self.needs_read) = (false, true);
        AfterChanges::Read
    }

    /// Returns a snapshot of the page.
    fn snapshot(&mut self, feed: u64) -> Arc<LiveUpdate> {
        let (position, page, end) =
            (Position { feed, number: self.page_number }, &self.page, &self.end);
        let made = self.snapshot.get_or_insert_with(|| {
            let content = LiveContent::Snapshot(page.clone());
            Arc::new(LiveUpdate::new(position, content, end.clone()))
        });
        Arc::clone(made)
    }

    /// Queues an update from the page that subscribers have to that of the window. Returns the
    /// subscribers to wake.
    fn publish(&mut self, definition: &LiveDefinition, feed: u64, as_snapshot: bool) -> Vec<Waker> {
        let page = self.window.page(definition);
        let patches = definition.shape().diff(&self.page, page);
        let end = self.window.end(definition);
        let is_changed = !patches.is_empty() || is_changed_end(definition, &self.end, &end);
        if is_changed || as_snapshot {
            self.page = page.to_vec();
        }
        let before = std::mem::replace(&mut self.end, end);
        self.page_number = self.number;
        self.snapshot = None;
        if !is_changed && !as_snapshot {
            return Vec::new();
        }
        let update = match as_snapshot {
            true => self.snapshot(feed),
            false => {
                let position = Position { feed, number: self.number };
                let content = LiveContent::Patch { patches, before };
                Arc::new(LiveUpdate::new(position, content, self.end.clone()))
            }
        };
        let bytes = update.bytes();
        for queue in self.subscribers.values_mut().filter(|queue| !queue.is_overflown) {
            queue.push(&update, bytes);
        }
        self.wakers()
    }

    fn wakers(&mut self) -> Vec<Waker> {
        self.subscribers.values_mut().filter_map(|queue| queue.waker.take()).collect()
    }
}

impl UpdateQueue {
    fn push(&mut self, update: &Arc<LiveUpdate>, bytes: usize) {
        if self.bytes + bytes > QUEUE_BYTES_MAX && !self.updates.is_empty() {
            *self = Self { is_overflown: true, waker: self.waker.take(), ..Self::default() };
            return;
        }
        self.bytes += bytes;
        self.updates.push_back(Arc::clone(update));
    }
}

/// Returns true if subscribers can see the difference of two ends of a page: the count, whether
/// rows follow, and the place after which they do.
pub(crate) fn is_changed_end(definition: &LiveDefinition, old: &PageEnd, new: &PageEnd) -> bool {
    let is_other_place = || match (&old.last, &new.last) {
        (Some(old), Some(new)) => !definition.order.has_same_values(old, new),
        (old, new) => old.is_some() != new.is_some(),
    };
    (old.count, old.has_more) != (new.count, new.has_more) || new.has_more && is_other_place()
}

#[cfg(test)]
mod tests {
    use marmota_model::{Field, FieldSet, Kind, Role, RowQuery, Schema, Table, Value};

    use super::*;
    use crate::contract::change::ChangeKind;

    fn read(definition: &LiveDefinition, number: u64, keys: std::ops::Range<i64>) -> ExactRead {
        let count = keys.end - keys.start;
        let rows = keys.map(|key| [Value::Int(key), Value::Null].into()).collect();
        ExactRead { number, window: LiveWindow::new(definition, rows, Some(count as u64)) }
    }

    fn query() -> SharedQuery {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("text", Kind::TEXT).nullable(true),
        ];
        let table = Arc::new(Table::new(Schema::new("note", fields)).unwrap());
        let query = RowQuery { limit: Some(2), ..RowQuery::new() };
        let definition = LiveDefinition::of_query(table, query, true);
        let first = read(&definition, 5, 0..3);
        let query = SharedQuery::new(definition, 1, first);
        query.settle();
        query
    }

    fn insert(query: &SharedQuery, number: u64, key: i64, text: &str) -> AfterChanges {
        let change = Change {
            table: Arc::clone(&query.definition.table),
            kind: ChangeKind::Insert,
            before: None,
            after: Some(vec![Value::Int(key), Value::Text(text.to_owned())]),
            changed: FieldSet::first(2),
            actor: None,
        };
        query.apply(number, [&change])
    }

    fn next(query: &SharedQuery, subscriber: u64) -> Option<Arc<LiveUpdate>> {
        match query.poll(subscriber, &Context::from_waker(Waker::noop())) {
            Poll::Ready(update) => update.unwrap(),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_query_that_misses_commits_gets_a_snapshot_of_rows_read_again() {
        let query = query();
        let subscriber = query.subscribe(7, true).unwrap();
        assert_eq!(subscriber.snapshot.position.number, 7, "no commit up to 7 concerned it");
        assert!(subscriber.window.is_some());
        query.miss_commits();
        // The page is not that of later commits, and changes are not applied to it.
        let other = query.subscribe(9, true).unwrap();
        assert_eq!(other.snapshot.position.number, 7);
        assert!(other.window.is_none());
        assert_eq!(insert(&query, 10, -1, "x"), AfterChanges::Read);
        assert!(next(&query, subscriber.number).is_none());
        query.replace(read(&query.definition, 12, 1..3), true);
        let update = next(&query, subscriber.number).unwrap();
        let LiveContent::Snapshot(rows) = &update.content else { panic!("{update:?}") };
        assert_eq!((rows.len(), update.end.count, update.end.has_more), (2, Some(2), false));
        assert_eq!(update.position.number, 12);
        // A commit that the read has already seen.
        assert_eq!(insert(&query, 11, -1, "x"), AfterChanges::Done);
        assert!(next(&query, subscriber.number).is_none());
        assert_eq!(insert(&query, 13, -1, "x"), AfterChanges::Done);
        let update = next(&query, subscriber.number).unwrap();
        assert!(matches!(update.content, LiveContent::Patch { .. }), "{update:?}");
        assert_eq!(update.end.count, Some(3));
    }

    #[test]
    fn updates_of_a_slow_subscriber_are_replaced_by_one_snapshot() {
        let query = query();
        let slow = query.subscribe(5, false).unwrap().number;
        let text = "x".repeat(QUEUE_BYTES_MAX / 3);
        for key in 1..5 {
            insert(&query, 5 + key, -(key as i64), &text);
        }
        let update = next(&query, slow).unwrap();
        assert!(matches!(update.content, LiveContent::Snapshot(_)));
        assert_eq!((update.position.number, update.end.count), (9, Some(7)));
        assert!(next(&query, slow).is_none());
        assert!(query.unsubscribe(slow) && query.end_if_idle());
        assert!(query.subscribe(9, false).is_none());
    }
}
