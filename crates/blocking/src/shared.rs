//! The state that an engine shares with its sessions: connections, threads, tables, and closing.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::FeedPause;
use marmota_store::engine::caller_blocks;
use marmota_store::refusal;
use marmota_store::tables::{KnownTables, Tables};
use marmota_store::thread_pool::ThreadPool;
use marmota_store::wait::{OwnedPlace, WaitQueue};
use parking_lot::{Condvar, Mutex};

use crate::changes::BlockingFeed;
use crate::connection::{BlockingDriver, SqlConnection, Transacting};
use crate::failure::{self, SqlFailure};
use crate::loop_pool::LoopPool;
use crate::pool::ConnectionPool;

/// The longest time that a close waits for open transactions.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// The most operations that wait for a thread.
const WAITING_MAX: usize = 100_000;
/// Threads of callers use this part of the permitted connections, and the threads of pools as many as
/// are permitted.
const HERE_PART: usize = 4;
/// Event loops use this part of the permitted connections for reads.
const LOOP_PART: usize = 2;
/// The threads for reads, which never wait for locks.
const READS_MAX: usize = 16;

/// The state that an engine shares with its sessions.
pub(crate) struct BlockingShared {
    pub(crate) pool: Arc<ConnectionPool>,
    pub(crate) tables: Arc<Tables>,
    /// Writes may wait for a lock that a transaction holds, and transactions continue meanwhile: so
    /// each kind of work has its own threads.
    pub(crate) reads: Arc<ThreadPool>,
    pub(crate) writes: Arc<ThreadPool>,
    pub(crate) transactions: Arc<ThreadPool>,
    /// Ends cancelled statements.
    pub(crate) control: Arc<ThreadPool>,
    /// At most as many transactions are open as `transactions` has threads: otherwise all threads
    /// could wait for a lock of one that gets none.
    open_transactions: AtomicUsize,
    /// Transactions that wait for the end of another one.
    waiting: Arc<WaitQueue>,
    /// The number of jobs that have not ended.
    in_progress: AtomicU64,
    /// The number of jobs on threads of callers.
    here: AtomicUsize,
    /// The number of connections of event loops, and the pools that have them.
    loop_connections: Arc<AtomicUsize>,
    loops: Mutex<Vec<Weak<LoopPool>>>,
    abandoned: Mutex<usize>,
    settled: Condvar,
    is_closed: AtomicBool,
    /// Keeps a store from caching rows.
    cache_pause: Mutex<Option<FeedPause>>,
}

/// Counts a job as in progress until it is dropped.
pub(crate) struct InProgress(Arc<BlockingShared>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Permits a job on the caller's thread until it is dropped.
pub(crate) struct Here(Arc<BlockingShared>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.here.fetch_sub(1, Ordering::SeqCst);
        self.0.in_progress.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BlockingShared {
    /// Connects to the server.
    pub(crate) fn connect(driver: Box<dyn BlockingDriver>) -> Result<Self> {
        let threads = driver.connections_max();
        let pool =
            |name, threads| Arc::new(ThreadPool::new(name, threads).waiting_max(WAITING_MAX));
        let shared = Self {
            pool: Arc::new(ConnectionPool::new(driver)),
            tables: Arc::default(),
            reads: pool("sql-read", threads.min(READS_MAX)),
            writes: pool("sql-write", threads),
            transactions: pool("sql-tx", threads),
            control: pool("sql-control", 1),
            open_transactions: AtomicUsize::new(0),
            waiting: Arc::default(),
            in_progress: AtomicU64::new(0),
            here: AtomicUsize::new(0),
            loop_connections: Arc::default(),
            loops: Mutex::default(),
            abandoned: Mutex::new(0),
            settled: Condvar::new(),
            is_closed: AtomicBool::new(false),
            cache_pause: Mutex::default(),
        };
        let connection = shared.pool.take().map_err(|failure| shared.cannot_connect(&failure))?;
        shared.pool.put(connection);
        Ok(shared)
    }

    /// Returns the error of an operation that gets no connection.
    pub(crate) fn cannot_connect(&self, failure: &SqlFailure) -> Error {
        let error = failure.error();
        let message = format!("{}: {}", self.driver().place(), error.message());
        Error::new(error.kind(), message).with_source(error)
    }

    /// Returns the feed, if changes are recorded.
    pub(crate) fn feed(&self) -> Option<&BlockingFeed> {
        self.pool.feed()
    }

    /// Ends a transaction. Returns the number of its commit, if changes were recorded.
    ///
    /// # Errors
    /// Those of the database. Then the transaction is rolled back, or its result is unknown.
    pub(crate) fn end(
        &self,
        connection: &mut dyn SqlConnection,
        how: Transacting,
        commits: bool,
    ) -> Result<Option<NonZeroU64>> {
        let Some(feed) = self.feed().filter(|_| commits && how != Transacting::ReadOnly) else {
            return connection.end(commits).map(|()| None).map_err(|failure| failure.error());
        };
        if how == Transacting::Serializable {
            // A close waits for the transaction, so this does not check whether one began.
            let collected = self.take().and_then(|mut other| {
                let done = feed.collect(&mut *other);
                self.pool.put(other);
                done
            });
            if let Err(error) = collected {
                // The first error explains more than one of the rollback.
                let _ = connection.end(false);
                return Err(error);
            }
        }
        feed.commit(connection, how)
    }

    /// Returns the driver.
    pub(crate) fn driver(&self) -> &dyn BlockingDriver {
        &*self.pool.driver
    }

    /// Keeps a pause of a cache until the engine is dropped.
    pub(crate) fn keep_pause(&self, pause: FeedPause) {
        *self.cache_pause.lock() = Some(pause);
    }

    /// Returns a view of the tables.
    pub(crate) fn known(&self) -> KnownTables {
        KnownTables::new(Arc::clone(&self.tables))
    }

    /// Runs `work` on a connection, on the caller's thread, which may block.
    pub(crate) fn with_connection<T>(
        &self,
        work: impl FnOnce(&mut dyn SqlConnection) -> Result<T>,
    ) -> Result<T> {
        self.check_open()?;
        let mut connection = self.take()?;
        let done = work(&mut *connection);
        self.pool.put(connection);
        done
    }

    /// Returns a connection that works: an idle one that the server has closed is replaced.
    pub(crate) fn take(&self) -> Result<Box<dyn SqlConnection>> {
        self.pool.take().map_err(|failure| self.cannot_connect(&failure))
    }

    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::SeqCst) {
            true => Err(failure::closed()),
            false => Ok(()),
        }
    }

    /// Counts a job.
    pub(crate) fn enter(self: &Arc<Self>) -> InProgress {
        self.in_progress.fetch_add(1, Ordering::SeqCst);
        InProgress(Arc::clone(self))
    }

    /// Permits a job on this thread if its caller waits for the end anyway, unless many threads do that
    /// already. So nothing is handed over to another thread.
    pub(crate) fn enter_here(self: &Arc<Self>) -> Option<Here> {
        if !caller_blocks() {
            return None;
        }
        let most = self.driver().connections_max().div_ceil(HERE_PART);
        let one_more = |here| (here < most).then_some(here + 1);
        self.here.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        self.in_progress.fetch_add(1, Ordering::SeqCst);
        Some(Here(Arc::clone(self)))
    }

    /// Returns the connections for an event loop of a session, which are closed with the engine.
    pub(crate) fn loop_pool(&self) -> Arc<LoopPool> {
        let most = self.driver().connections_max().div_ceil(LOOP_PART);
        let all = (Arc::clone(&self.loop_connections), most);
        let pool = LoopPool::new(Arc::clone(&self.pool), Arc::clone(&self.reads), all);
        let mut loops = self.loops.lock();
        loops.retain(|pool| pool.strong_count() > 0);
        loops.push(Arc::downgrade(&pool));
        pool
    }

    /// Counts a transaction as open, unless as many as permitted are. Then it returns false, and
    /// `waker` is woken when one ends, or at `until`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if that takes too long, [`ErrorKind::Closed`].
    pub(crate) fn open_transaction(
        &self,
        until: Instant,
        place: &mut OwnedPlace,
        waker: &Waker,
    ) -> Result<bool> {
        self.check_open()?;
        let most = self.driver().connections_max();
        let open = || {
            let one_more = |open| (open < most).then_some(open + 1);
            let before =
                self.open_transactions.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
            before.is_ok()
        };
        let mut is_open = open();
        if !is_open {
            place.wait_until(&self.waiting, waker, until);
            // One may have ended before.
            is_open = open();
        }
        if is_open {
            place.leave();
        } else if Instant::now() >= until {
            return Err(refusal::no_connection_for_transaction(most));
        }
        Ok(is_open)
    }

    /// Ends a transaction that was counted as open.
    pub(crate) fn end_transaction(&self) {
        self.open_transactions.fetch_sub(1, Ordering::SeqCst);
        self.waiting.wake_next();
    }

    /// Counts a write that its caller has abandoned: later writes wait for its end.
    pub(crate) fn abandon(&self) {
        *self.abandoned.lock() += 1;
    }

    /// Ends an abandoned write.
    pub(crate) fn settle(&self) {
        *self.abandoned.lock() -= 1;
        self.settled.notify_all();
    }

    /// Waits until no abandoned write is in progress.
    pub(crate) fn wait_for_abandoned(&self) {
        let until = Instant::now() + self.driver().lock_timeout();
        let mut abandoned = self.abandoned.lock();
        while *abandoned > 0 && !self.settled.wait_until(&mut abandoned, until).timed_out() {}
    }

    /// Closes the engine when no transaction of a caller is open.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if a transaction does not end in time.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let until = Instant::now() + CLOSE_WAIT;
        while self.open_transactions.load(Ordering::SeqCst) > 0 {
            if Instant::now() >= until {
                self.is_closed.store(false, Ordering::SeqCst);
                let message = "a transaction is still open and did not end in time; end it, then \
                               close the store again";
                return Err(Error::new(ErrorKind::Busy, message));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Writes in progress finish first.
        let until = Instant::now() + CLOSE_WAIT;
        while self.in_progress.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.waiting.wake_all();
        for pool in [&self.reads, &self.writes, &self.transactions, &self.control] {
            pool.dismiss();
        }
        self.pool.clear();
        for pool in self.loops.lock().iter().filter_map(Weak::upgrade) {
            pool.close();
        }
        Ok(())
    }
}
