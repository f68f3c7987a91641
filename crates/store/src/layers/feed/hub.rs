//! The hub of a change feed: the recent commits in memory, in order, and the readers that wait.
//!
//! Threads report commits in any order, and another process may have made some in between. A commit
//! is published once all commits before it are: [`ChangeHub::last`] is the number of the last one
//! published. Without readers, only the number is kept; a later reader reads the table of commits.
//!
//! If the database numbers the commits of several programs
//! ([`Capability::shared_commits`](crate::engine::Capability::shared_commits)), this process knows
//! only the numbers of its own commits, and some numbers belong to no commit. The keeper reads the
//! table of commits and publishes them ([`ChangeHub::publish_read`]). The next own commit is
//! published at once; its changes are read if there are readers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::stored_commit::StoredCommit;
use crate::contract::change::Position;
use crate::contract::change::recorder::CommitReceiver;

/// The memory that recent commits take. Readers that are later read the table of commits.
const RECENT_BYTES_MAX: usize = 16 << 20;

/// The recent commits of a feed.
pub(crate) struct ChangeHub {
    /// The identity of the feed.
    feed: u64,
    locked: Mutex<HubState>,
    /// True if there are readers. It changes with the state.
    has_readers: AtomicBool,
    /// The number up to which commits were reported in order. [`Self::state`] publishes them.
    in_order: AtomicU64,
    /// Wakes the keeper.
    work: Condvar,
    /// True if the database numbers the commits of several programs.
    is_shared: bool,
}

struct HubState {
    /// The number of the last published commit.
    last: u64,
    /// The number of the last commit that was removed from the feed; 0 if none was.
    removed: u64,
    /// The published commits after `recent_after` and up to `filled`.
    recent: VecDeque<Arc<StoredCommit>>,
    recent_after: u64,
    /// The number up to which the changes of commits were read. It is `last` unless the database
    /// numbers the commits of several programs.
    filled: u64,
    /// The bytes of `recent`.
    bytes: usize,
    /// Reported commits after one that was not reported yet. `None` if the changes are only in the
    /// table.
    early: BTreeMap<u64, Option<Arc<StoredCommit>>>,
    /// Own commits after one that was not published yet, if only their numbers are known.
    acknowledged: BTreeSet<u64>,
    /// True while the keeper waits, and is to be woken if a commit is missing.
    wakes_for_missing: bool,
    /// True if the table may have commits that are not known here.
    is_changed: bool,
    /// True if other processes were not notified of own commits.
    is_unannounced: bool,
    /// The readers that wait for the next commit.
    wakers: Vec<(u64, Waker)>,
    next_reader: u64,
    readers: usize,
    is_closed: bool,
}

/// The result of looking for the commit after a number.
pub(crate) enum Next {
    /// The commit.
    Commit(Arc<StoredCommit>),
    /// It is no longer in memory: the commits up to this number are in the table.
    Stored(u64),
    /// It was removed; the first commit that is still there comes after this number.
    Removed(u64),
    /// It does not exist yet.
    Nothing,
    /// The store was closed, and there will be none.
    Closed,
}

/// The work for the keeper.
pub(crate) enum KeeperWork {
    /// Read the commits after this number from the table.
    Fetch(u64),
    /// Publish commits of a table that several programs write to.
    Publish {
        /// True if other processes have to be notified of own commits.
        announces: bool,
        /// True if the table has to be read.
        reads: bool,
    },
    /// Remove old commits: the time is over.
    Idle,
    Closed,
}

impl ChangeHub {
    /// Creates the hub of a feed whose last commit has this number.
    pub(crate) fn new(feed: u64, last: u64, removed: u64, is_shared: bool) -> Self {
        let state = HubState {
            last,
            removed,
            recent: VecDeque::new(),
            recent_after: last,
            filled: last,
            bytes: 0,
            early: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            wakes_for_missing: false,
            is_changed: false,
            is_unannounced: false,
            wakers: Vec::new(),
            next_reader: 0,
            readers: 0,
            is_closed: false,
        };
        Self {
            feed,
            locked: Mutex::new(state),
            has_readers: AtomicBool::new(false),
            in_order: AtomicU64::new(0),
            work: Condvar::new(),
            is_shared,
        }
    }

    /// Returns true if the database numbers the commits of several programs.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Locks the state, which has all commits that were reported in order.
    fn state(&self) -> MutexGuard<'_, HubState> {
        let mut state = self.locked.lock();
        state.publish_in_order(self.in_order.load(Ordering::SeqCst));
        state
    }

    /// Returns the identity of the feed.
    pub(crate) const fn feed(&self) -> u64 {
        self.feed
    }

    /// Returns the position of the last published commit.
    pub(crate) fn position(&self) -> Position {
        Position { feed: self.feed, number: self.state().last }
    }

    /// Adds commits that were read from the table, in order. Those that are known are ignored.
    pub(crate) fn fetched(&self, commits: impl IntoIterator<Item = StoredCommit>) {
        let mut state = self.state();
        for commit in commits {
            if commit.number > state.last {
                state.early.remove(&commit.number);
                state.publish(commit.number, Some(Arc::new(commit)));
            }
        }
        state.publish_early();
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Registers a reader, and returns its number.
    pub(crate) fn add_reader(&self) -> u64 {
        let mut state = self.state();
        if state.readers == 0 && state.filled < state.last {
            // Commits before the first reader are read only if a reader begins there.
            state.skip_to_last();
        }
        state.readers += 1;
        state.next_reader += 1;
        // A commit that is reported now either is found here, or finds the reader.
        self.has_readers.store(true, Ordering::SeqCst);
        state.publish_in_order(self.in_order.load(Ordering::SeqCst));
        self.work.notify_one();
        state.next_reader
    }

    pub(crate) fn remove_reader(&self, reader: u64) {
        let mut state = self.state();
        state.readers -= 1;
        self.has_readers.store(state.readers > 0, Ordering::Relaxed);
        state.wakers.retain(|(other, _)| *other != reader);
    }

    /// Returns the commit after this number. If it does not exist yet, the waker is woken when it
    /// does.
    pub(crate) fn next(&self, number: u64, reader: u64, waker: Option<&Waker>) -> Next {
        let mut state = self.state();
        if number < state.removed {
            return Next::Removed(state.removed);
        }
        if number < state.recent_after.min(state.last) {
            return Next::Stored(state.recent_after.min(state.last));
        }
        let at = state.recent.partition_point(|commit| commit.number <= number);
        if let Some(commit) = state.recent.get(at) {
            return Next::Commit(Arc::clone(commit));
        }
        if state.filled < state.last {
            self.work.notify_one();
        }
        if state.is_closed {
            return Next::Closed;
        }
        if let Some(waker) = waker {
            match state.wakers.iter_mut().find(|(other, _)| *other == reader) {
                Some((_, known)) => known.clone_from(waker),
                None => state.wakers.push((reader, waker.clone())),
            }
        }
        Next::Nothing
    }

    /// Records that the commits up to this number were removed.
    pub(crate) fn removed(&self, number: u64) {
        let mut state = self.state();
        state.removed = state.removed.max(number);
        while state.recent.front().is_some_and(|commit| commit.number <= number) {
            state.forget_first();
        }
    }

    /// Waits until there is work for the keeper, at most until `until`. `polls` is the interval in
    /// which the table is read while there are readers, for commits of other processes.
    pub(crate) fn wait(&self, polls: Option<Duration>, until: Instant) -> KeeperWork {
        /// The time for another thread of this process to report a commit.
        const EARLY: Duration = Duration::from_millis(5);
        let mut state = self.state();
        // Commits of busy threads are missing for some microseconds, thousands of times a second. So
        // the keeper is woken at most once in this time.
        let mut is_missing = !state.early.is_empty();
        loop {
            if state.is_closed {
                return KeeperWork::Closed;
            }
            let now = Instant::now();
            if now >= until {
                return KeeperWork::Idle;
            }
            let pause = match (polls, state.readers) {
                (Some(_), _) if is_missing => Some(EARLY),
                (Some(interval), 1..) => Some(interval),
                _ => None,
            };
            state.wakes_for_missing = polls.is_some() && !is_missing;
            let end = pause.map_or(until, |pause| until.min(now + pause));
            let timed_out = self.work.wait_until(&mut state, end).timed_out();
            let was_woken_for_missing = polls.is_some() && !state.wakes_for_missing;
            let is_due = state.readers > 0 || !state.early.is_empty();
            if timed_out && pause.is_some() && is_due && !state.is_closed && end < until {
                return KeeperWork::Fetch(state.last);
            }
            is_missing = !state.early.is_empty() || !timed_out && was_woken_for_missing;
        }
    }

    /// Like [`Self::wait`], if the database numbers the commits of several programs. `polls` is the
    /// interval in which the table is read while there are readers, `gap` the pause after which a
    /// commit that was missing is looked for again, `announced` the last time when other processes
    /// were notified.
    pub(crate) fn wait_shared(
        &self,
        polls: Duration,
        gap: Option<Duration>,
        announced: Instant,
        until: Instant,
    ) -> KeeperWork {
        /// The time for a transaction to end that has taken an earlier number.
        const GAP: Duration = Duration::from_millis(1);
        /// The interval of notifications.
        const ANNOUNCE: Duration = Duration::from_millis(5);
        let start = Instant::now();
        let mut state = self.state();
        loop {
            if state.is_closed {
                return KeeperWork::Closed;
            }
            let now = Instant::now();
            let announces = state.is_unannounced && now >= announced + ANNOUNCE;
            let mut next_read = gap.map(|gap| start + gap);
            if next_read.is_none() && !state.acknowledged.is_empty() {
                next_read = Some(start + GAP);
            }
            if next_read.is_none() && state.readers > 0 {
                next_read = Some(start + polls);
            }
            let reads = state.is_changed
                || state.readers > 0 && state.filled < state.last
                || next_read.is_some_and(|at| now >= at);
            if announces || reads {
                state.is_unannounced &= !announces;
                state.is_changed &= !reads;
                return KeeperWork::Publish { announces, reads };
            }
            if now >= until {
                return KeeperWork::Idle;
            }
            let announce = state.is_unannounced.then(|| announced + ANNOUNCE);
            let end = next_read.into_iter().chain(announce).fold(until, Instant::min);
            self.work.wait_until(&mut state, end);
        }
    }

    /// Ends the waits of readers and of the keeper. Readers still get the published commits.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.work.notify_all();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl CommitReceiver for ChangeHub {
    fn has_readers(&self) -> bool {
        self.has_readers.load(Ordering::Relaxed)
    }

    fn committed(&self, number: u64, at: Timestamp, changes: Option<Vec<u8>>) {
        let commit = changes.map(|changes| Arc::new(StoredCommit::new(number, at, changes)));
        let mut state = self.state();
        if number > state.last + 1 {
            if std::mem::take(&mut state.wakes_for_missing) {
                self.work.notify_one();
            }
            state.early.insert(number, commit);
            return;
        }
        if number <= state.last {
            // The keeper has read it from the table.
            return;
        }
        state.publish(number, commit);
        state.publish_early();
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn acknowledged(&self, number: u64) {
        let mut state = self.state();
        if number <= state.last {
            // The keeper has read it from the table.
            return;
        }
        state.is_unannounced = true;
        state.acknowledged.insert(number);
        state.publish_acknowledged();
        let wakers = match state.last >= number {
            true => std::mem::take(&mut state.wakers),
            false => Vec::new(),
        };
        drop(state);
        self.work.notify_one();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn committed_in_order(&self, number: u64) {
        self.in_order.store(number, Ordering::SeqCst);
        if self.has_readers.load(Ordering::SeqCst) {
            let wakers = std::mem::take(&mut self.state().wakers);
            wakers.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    fn changed(&self) {
        self.state().is_changed = true;
        self.work.notify_one();
    }
}

impl ChangeHub {
    /// Returns the number of the last published commit and, if there are readers, the number after
    /// which the changes of commits have to be read.
    pub(crate) fn unread(&self) -> (u64, Option<u64>) {
        let state = self.state();
        (state.last, (state.readers > 0).then_some(state.filled))
    }

    /// Publishes the commits up to a number, which are in the table of commits. `read` are those
    /// after the number that [`Self::unread`] has returned, if it has returned one.
    pub(crate) fn publish_read(&self, last: u64, read: impl IntoIterator<Item = StoredCommit>) {
        let mut state = self.state();
        let mut filled = state.filled;
        for commit in read {
            if commit.number > state.filled && commit.number <= last {
                filled = commit.number;
                state.keep(Arc::new(commit));
            }
        }
        state.last = state.last.max(last);
        state.filled = filled;
        self.end_publishing(state);
    }

    /// Records that the changes of all commits up to a number were read.
    pub(crate) fn read_up_to(&self, number: u64) {
        let mut state = self.state();
        state.filled = state.filled.max(number.min(state.last));
    }

    fn end_publishing(&self, mut state: MutexGuard<'_, HubState>) {
        let last = state.last;
        state.acknowledged = state.acknowledged.split_off(&(last + 1));
        state.publish_acknowledged();
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl HubState {
    /// Publishes a commit; `None` if its changes are only in the table.
    fn publish(&mut self, number: u64, commit: Option<Arc<StoredCommit>>) {
        let Some(commit) = commit else {
            self.last = number;
            self.skip_to_last();
            return;
        };
        // Commits that were left out are in the table; `recent` has consecutive ones only.
        if number != self.last + 1 {
            self.last = number - 1;
            self.skip_to_last();
        }
        (self.last, self.filled) = (number, number);
        self.keep(commit);
    }

    /// Publishes the commits up to a number, whose changes are only in the table.
    fn publish_in_order(&mut self, number: u64) {
        if number > self.last {
            self.publish(number, None);
            self.early = self.early.split_off(&(number + 1));
            self.publish_early();
        }
    }

    /// Adds the last commit to the recent ones.
    fn keep(&mut self, commit: Arc<StoredCommit>) {
        self.bytes += commit.bytes();
        self.recent.push_back(commit);
        while self.bytes > RECENT_BYTES_MAX && self.recent.len() > 1 {
            self.forget_first();
        }
    }

    /// Forgets the recent commits: those up to the last one have to be read from the table.
    fn skip_to_last(&mut self) {
        self.recent.clear();
        self.bytes = 0;
        (self.recent_after, self.filled) = (self.last, self.last);
    }

    /// Publishes the own commits that follow the last one.
    fn publish_acknowledged(&mut self) {
        while let Some(&first) = self.acknowledged.first() {
            if first > self.last + 1 {
                return;
            }
            self.acknowledged.pop_first();
            self.last = self.last.max(first);
        }
    }

    fn publish_early(&mut self) {
        while let Some(first) = self.early.first_entry() {
            if *first.key() > self.last + 1 {
                return;
            }
            let (number, commit) = first.remove_entry();
            if number > self.last {
                self.publish(number, commit);
            }
        }
    }

    fn forget_first(&mut self) {
        if let Some(commit) = self.recent.pop_front() {
            self.bytes -= commit.bytes();
            self.recent_after = self.recent_after.max(commit.number);
        }
    }
}

impl std::fmt::Debug for ChangeHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeHub").field("position", &self.position()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> ChangeHub {
        ChangeHub::new(7, 2, 0, false)
    }

    fn commit(hub: &ChangeHub, number: u64) {
        hub.committed(number, Timestamp::now(), Some(vec![number as u8]));
    }

    /// Reads the numbers that are published after `number`.
    fn published(hub: &ChangeHub, mut number: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Next::Commit(commit) = hub.next(number, 0, None) {
            number = commit.number;
            numbers.push(number);
        }
        numbers
    }

    #[test]
    fn commits_are_published_in_order() {
        let hub = hub();
        for number in [4, 6, 3, 5] {
            commit(&hub, number);
        }
        assert_eq!(published(&hub, 2), [3, 4, 5, 6]);
        assert_eq!(published(&hub, 4), [5, 6]);
        assert_eq!(hub.position().number, 6);
        // Reported again, as after it was read from the table.
        commit(&hub, 5);
        assert_eq!(published(&hub, 2), [3, 4, 5, 6]);
    }

    #[test]
    fn commits_of_another_process_are_filled_in() {
        let hub = hub();
        commit(&hub, 4);
        assert!(matches!(hub.next(2, 0, None), Next::Nothing));
        let until = Instant::now() + Duration::from_secs(10);
        let KeeperWork::Fetch(last) = hub.wait(Some(Duration::from_secs(5)), until) else {
            panic!("the keeper reads the missing commit");
        };
        assert_eq!(last, 2);
        hub.fetched([3, 4].map(|number| StoredCommit::new(number, Timestamp::now(), Vec::new())));
        assert_eq!(published(&hub, 2), [3, 4]);
        commit(&hub, 5);
        assert_eq!(published(&hub, 2), [3, 4, 5]);
    }

    #[test]
    fn a_late_reader_reads_the_table_or_gets_a_gap() {
        let hub = hub();
        commit(&hub, 3);
        assert!(matches!(hub.next(0, 0, None), Next::Stored(2)));
        hub.removed(1);
        assert!(matches!(hub.next(0, 0, None), Next::Removed(1)));
        assert!(matches!(hub.next(1, 0, None), Next::Stored(2)));
        hub.close();
        assert!(matches!(hub.next(3, 0, None), Next::Closed));
        assert!(matches!(hub.next(2, 0, None), Next::Commit(_)));
    }

    #[test]
    fn commits_without_their_changes_are_read_from_the_table() {
        let hub = hub();
        commit(&hub, 3);
        assert!(!hub.has_readers());
        for number in [5, 4, 6] {
            hub.committed(number, Timestamp::now(), None);
        }
        assert_eq!(hub.position().number, 6);
        let reader = hub.add_reader();
        assert!(hub.has_readers());
        assert!(matches!(hub.next(2, reader, None), Next::Stored(6)));
        assert!(matches!(hub.next(6, reader, None), Next::Nothing));
        commit(&hub, 8);
        // It was made before the engine knew of the reader.
        hub.committed(7, Timestamp::now(), None);
        assert!(matches!(hub.next(6, reader, None), Next::Stored(7)));
        assert_eq!(published(&hub, 7), [8]);
        hub.remove_reader(reader);
        assert!(!hub.has_readers());
    }

    #[test]
    fn commits_in_order_are_published_and_wake_readers() {
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let hub = hub();
        hub.committed_in_order(4);
        assert_eq!(hub.position().number, 4);
        let reader = hub.add_reader();
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        assert!(matches!(hub.next(4, reader, Some(&waker)), Next::Nothing));
        // The thread of 5 did not know of the reader yet; that of 6 did.
        commit(&hub, 6);
        hub.committed_in_order(5);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(matches!(hub.next(4, reader, None), Next::Stored(5)));
        assert_eq!(published(&hub, 5), [6]);
        // 7 was made for a reader, and is reported after a later commit.
        hub.remove_reader(reader);
        hub.committed_in_order(8);
        commit(&hub, 7);
        assert_eq!(hub.position().number, 8);
        assert!(matches!(hub.next(6, reader, None), Next::Stored(8)));
    }

    #[test]
    fn a_missing_commit_wakes_the_keeper() {
        let (hub, start) = (&hub(), Instant::now());
        std::thread::scope(|scope| {
            let until = Instant::now() + Duration::from_secs(60);
            let keeper = scope.spawn(move || hub.wait(Some(Duration::from_secs(60)), until));
            while !hub.locked.lock().wakes_for_missing {
                std::thread::yield_now();
            }
            commit(hub, 4);
            assert!(matches!(keeper.join(), Ok(KeeperWork::Fetch(2))));
        });
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn commits_of_a_shared_table_are_published_by_number_and_read_for_readers() {
        let stored = |number| StoredCommit::new(number, Timestamp::now(), Vec::new());
        let hub = ChangeHub::new(7, 2, 0, true);
        let reader = hub.add_reader();
        hub.acknowledged(4);
        assert_eq!(hub.position().number, 2, "3 may become visible");
        hub.acknowledged(3);
        assert_eq!(hub.position().number, 4);
        assert!(matches!(hub.next(2, reader, None), Next::Nothing), "its changes are not read");
        assert_eq!(hub.unread(), (4, Some(2)));
        // 5 belongs to no commit.
        hub.publish_read(6, [3, 4, 6].map(stored));
        assert_eq!(published(&hub, 2), [3, 4, 6]);
        assert!(matches!(hub.next(1, reader, None), Next::Stored(2)));
        hub.remove_reader(reader);
        hub.acknowledged(7);
        assert_eq!(hub.unread(), (7, None));
        hub.add_reader();
        assert!(matches!(hub.next(6, reader, None), Next::Stored(7)));
    }

    #[test]
    fn memory_is_bounded() {
        let hub = hub();
        for number in 3..40 {
            hub.committed(number, Timestamp::now(), Some(vec![0; 1 << 20]));
        }
        let state = hub.state();
        assert!(state.bytes <= RECENT_BYTES_MAX && state.recent.len() > 10, "{}", state.bytes);
        assert_eq!(state.recent.back().map(|commit| commit.number), Some(39));
    }
}
