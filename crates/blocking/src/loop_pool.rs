//! The connections on which an event loop reads: no thread is woken for a read, and none wakes the loop.
//!
//! They belong to a session, so the event loop watches their sockets once. A session has few of them:
//! a read waits for the end of another one. If none ends soon, it is handed over to a thread, as are
//! all reads until a connection was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use marmota_store::engine::{Watch, Watched, wake_at};
use marmota_store::thread_pool::ThreadPool;
use marmota_store::wait::WaitQueue;
use parking_lot::Mutex;

use crate::connection::{LendRow, ReadAs, ReadStep, SteppedConnection};
use crate::dialect::Dialect;
use crate::failure::SqlFailure;
use crate::pool::{ConnectionPool, IDLE, TRUSTED};

/// The most connections of a session.
const CONNECTIONS_MAX: usize = 4;
/// A session with fewer reads needs no connection.
const READS_BEFORE: u32 = 2;
/// If no read has ended for this time, further ones do not wait.
const STALL: Duration = Duration::from_millis(10);
/// The longest time that a read waits for a connection while other reads end.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(250);
/// How often the reads that wait find out whether others end.
const LOOK: Duration = Duration::from_millis(50);
/// The pause after a connection was refused.
const RETRY: Duration = Duration::from_secs(1);

/// Counts a connection until it is dropped.
struct Counted(Vec<Arc<AtomicUsize>>);

impl Counted {
    /// Counts one in each of the counts that has not reached its limit, or in none.
    fn new(counts: [(&Arc<AtomicUsize>, usize); 2]) -> Option<Self> {
        let mut counted = Self(Vec::with_capacity(counts.len()));
        for (count, most) in counts {
            let one_more = |open| (open < most).then_some(open + 1);
            count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
            counted.0.push(Arc::clone(count));
        }
        Some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for count in &self.0 {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A connection, with what watches its socket.
pub(crate) struct LoopConnection {
    pub(crate) steps: Box<dyn SteppedConnection>,
    watch: Arc<Watch>,
    watched: Option<Watched>,
    /// True if everything was read that the watch has reported.
    is_dry: bool,
    used: Instant,
    generation: u64,
    #[expect(dead_code, reason = "counts until it is dropped")]
    counted: Counted,
}

impl LoopConnection {
    /// Passes the rows that have arrived to `take`.
    ///
    /// # Errors
    /// The refusal of the server, or the connection is lost.
    pub(crate) fn receive(
        &mut self,
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<ReadStep, SqlFailure> {
        if self.is_dry
            && !self.watch.has_happened()
            && self.watched.as_ref().is_some_and(Watched::is_here)
        {
            return Ok(ReadStep::Wait);
        }
        self.watch.look();
        let step = self.steps.receive(read, take)?;
        // After the end of an answer nothing follows.
        self.is_dry = !matches!(step, ReadStep::More);
        Ok(step)
    }

    /// Wakes `waker` when more has arrived.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if self.watch.keep(self.steps.source(), &mut self.watched) {
            self.is_dry = false;
        }
        if self.watched.is_none() {
            return waker.wake_by_ref();
        }
        Watch::wake(&self.watch, waker);
    }

    /// Returns true if it is not to be used again.
    fn is_old(&mut self, generation: u64) -> bool {
        let idle = self.used.elapsed();
        let is_uncertain = idle >= TRUSTED || self.watch.has_happened();
        self.generation != generation
            || idle >= IDLE
            || !self.steps.is_idle()
            || is_uncertain && self.steps.has_ended()
    }
}

/// The answer to a request for a connection.
pub(crate) enum Taken {
    Connection(LoopConnection),
    /// One is free soon.
    Wait,
    /// A thread has to execute the read.
    HandOver,
}

struct LoopState {
    idle: Vec<LoopConnection>,
    /// The dialect of the connections, once there is one.
    dialect: Option<&'static Dialect>,
    /// The reads before the first connection.
    reads: u32,
    is_connecting: bool,
    /// No connection is made before.
    retry_at: Option<Instant>,
    /// True if none is made: the driver has no such connections, or the engine is closed.
    is_off: bool,
    /// When a connection was taken or put back last.
    changed: Instant,
    /// When the reads that wait are polled next.
    alarm: Option<Instant>,
}

/// The connections of a session.
pub(crate) struct LoopPool {
    /// Makes the connections.
    connections: Arc<ConnectionPool>,
    threads: Arc<ThreadPool>,
    /// The connections of all sessions, and their limit.
    all: (Arc<AtomicUsize>, usize),
    open: Arc<AtomicUsize>,
    state: Mutex<LoopState>,
    pub(crate) waiting: Arc<WaitQueue>,
}

/// Polls the reads that wait.
struct Alarm(Arc<WaitQueue>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.wake_all();
    }
}

impl LoopPool {
    /// Creates a pool without connections. `connections` and `threads` make them; `all` counts those of
    /// all sessions, with a limit.
    pub(crate) fn new(
        connections: Arc<ConnectionPool>,
        threads: Arc<ThreadPool>,
        all: (Arc<AtomicUsize>, usize),
    ) -> Arc<Self> {
        let state = LoopState {
            idle: Vec::new(),
            dialect: None,
            reads: 0,
            is_connecting: false,
            retry_at: None,
            is_off: false,
            changed: Instant::now(),
            alarm: None,
        };
        let (open, state, waiting) = (Arc::default(), Mutex::new(state), Arc::default());
        Arc::new(Self { connections, threads, all, open, state, waiting })
    }

    /// Returns the dialect of the connections; `None` before the first one.
    pub(crate) fn dialect(&self) -> Option<&'static Dialect> {
        self.state.lock().dialect
    }

    /// Takes a connection. A read that does not wait yet `is_new`: those that wait come first.
    pub(crate) fn take(self: &Arc<Self>, is_new: bool) -> Taken {
        let generation = self.connections.generation();
        loop {
            let mut state = self.state.lock();
            if state.is_off {
                return Taken::HandOver;
            }
            if !is_new || self.waiting.is_empty() {
                let taken = state.idle.pop();
                if let Some(mut connection) = taken {
                    if connection.is_old(generation) {
                        continue;
                    }
                    state.changed = Instant::now();
                    return Taken::Connection(connection);
                }
            }
            return self.none_is_idle(&mut state);
        }
    }

    /// Decides whether a read waits, and makes another connection if there are not enough.
    fn none_is_idle(self: &Arc<Self>, state: &mut LoopState) -> Taken {
        state.reads = state.reads.saturating_add(1);
        let now = Instant::now();
        let wants_one = !state.is_connecting
            && state.reads >= READS_BEFORE
            && state.retry_at.is_none_or(|at| at <= now);
        let limits = [(&self.open, CONNECTIONS_MAX), (&self.all.0, self.all.1)];
        if wants_one && let Some(counted) = Counted::new(limits) {
            let pool = Arc::clone(self);
            state.is_connecting = self.threads.result_of(move || pool.connect(counted)).is_some();
        }
        let has_some = self.open.load(Ordering::SeqCst) > usize::from(state.is_connecting);
        match has_some && now - state.changed < STALL {
            true => Taken::Wait,
            false => Taken::HandOver,
        }
    }

    /// Makes a connection, on a thread that may wait.
    fn connect(&self, counted: Counted) {
        let generation = self.connections.generation();
        let made = self.connections.driver.connect_stepped();
        let mut state = self.state.lock();
        state.is_connecting = false;
        match made {
            Ok(Some(steps)) if !state.is_off => {
                state.dialect = Some(steps.dialect());
                state.idle.push(LoopConnection {
                    steps,
                    watch: Arc::default(),
                    watched: None,
                    is_dry: false,
                    used: Instant::now(),
                    generation,
                    counted,
                });
                drop(state);
                self.waiting.wake_next();
            }
            Ok(Some(_)) => {}
            Ok(None) => state.is_off = true,
            Err(failure) => {
                log::debug!("no connection for an event loop: {}", failure.message);
                state.retry_at = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Puts a connection back, unless its answer has not ended.
    pub(crate) fn put(&self, mut connection: LoopConnection) {
        connection.used = Instant::now();
        let mut state = self.state.lock();
        state.changed = connection.used;
        if connection.steps.is_idle() && !state.is_off {
            state.idle.push(connection);
        }
        drop(state);
        self.waiting.wake_next();
    }

    /// Polls the reads that wait after a while: all connections may be in use for long.
    pub(crate) fn set_alarm(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.alarm.is_none_or(|at| at <= now) {
            let at = now + LOOK;
            let alarm = Arc::new(Alarm(Arc::clone(&self.waiting)));
            state.alarm = wake_at(at, alarm.into()).then_some(at);
        }
    }

    /// Closes the connections, and makes no more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_off = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
        self.waiting.wake_all();
    }
}
