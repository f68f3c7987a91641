//! The connections on which an event loop reads: no thread is woken for a read, and none wakes the loop.
//!
//! They belong to a session, so the event loop watches their sockets once. A session has few of them.
//! The reads of a turn are sent together, and the server executes those of a connection one after the
//! other. If the first one takes long, the others are handed over to threads, as are all reads until a
//! connection was made; what the server returns for them is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Value};
use marmota_store::engine::{Watch, Watched, wake_at};
use marmota_store::thread_pool::ThreadPool;
use marmota_store::wait::WaitQueue;
use parking_lot::Mutex;

use crate::connection::{LendRow, ReadAs, ReadStep, SteppedConnection};
use crate::dialect::Dialect;
use crate::failure::{FailureCause, SqlFailure};
use crate::pool::{ConnectionPool, IDLE, TRUSTED};

/// The most connections of a session.
const CONNECTIONS_MAX: usize = 4;
/// A session with fewer reads needs no connection.
const READS_BEFORE: u32 = 2;
/// The most reads on a connection: the requests that are on the way, of at most 1 KB each.
const READS_MAX: usize = 16;
/// With so many reads on each connection, another one is made.
const READS_FEW: usize = 4;
/// If the first read of a connection takes as long, others do not wait for it.
const STALL: Duration = Duration::from_millis(50);
/// The longest time that a read waits for a connection while other reads end.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(250);
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

/// A read on a connection.
struct Entry {
    number: u64,
    waker: Option<Waker>,
    /// True if its rows are not wanted any more.
    is_abandoned: bool,
}

/// A connection with the reads on it, and with what watches its socket.
pub(crate) struct LoopConnection {
    steps: Box<dyn SteppedConnection>,
    /// In the order of their answers.
    reads: VecDeque<Entry>,
    next_number: u64,
    /// When the first read became the first.
    first_since: Instant,
    /// Why the connection must not be used any more.
    pub(crate) lost: Option<SqlFailure>,
    watch: Arc<Watch>,
    watched: Option<Watched>,
    /// True if everything was read that the watch has reported.
    is_dry: bool,
    generation: u64,
    #[expect(dead_code, reason = "counts until it is dropped")]
    counted: Counted,
}

/// A connection of a session, on which several reads wait.
pub(crate) type SharedConnection = Arc<Mutex<LoopConnection>>;

/// Whose turn it is on a connection.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Turn {
    /// The read is the first.
    Own,
    /// Another read is the first.
    Other,
    /// The connection is lost.
    Lost,
}

impl LoopConnection {
    /// Adds a read. Returns its number, or `None` if its request is too long.
    ///
    /// # Errors
    /// The connection is lost, or the number of parameters is wrong.
    pub(crate) fn add(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<Option<u64>, SqlFailure> {
        match self.steps.add(sql, parameters) {
            Ok(false) => Ok(None),
            Ok(true) => {
                if self.reads.is_empty() {
                    self.first_since = Instant::now();
                }
                let number = self.next_number;
                self.next_number += 1;
                self.reads.push_back(Entry { number, waker: None, is_abandoned: false });
                Ok(Some(number))
            }
            Err(failure) => {
                self.note(&failure);
                Err(failure)
            }
        }
    }

    /// Sends what was added, and returns whose turn it is. `waker` is woken when the read may
    /// continue, if it is not its turn.
    pub(crate) fn turn(&mut self, number: u64, waker: &Waker) -> Turn {
        if let Err(failure) = self.steps.send() {
            self.lose(failure);
        }
        loop {
            if self.lost.is_some() {
                return Turn::Lost;
            }
            let Some(first) = self.reads.front() else { return Turn::Lost };
            if first.number == number {
                return Turn::Own;
            }
            self.keep(number, waker);
            if !self.reads.front().is_some_and(|first| first.is_abandoned) {
                return Turn::Other;
            }
            // Its rows are dropped.
            match self.receive(ReadAs::Forms(&[]), &mut |_| true) {
                Ok(ReadStep::Wait) => {
                    self.watch(waker);
                    return Turn::Other;
                }
                Ok(ReadStep::More) => {
                    waker.wake_by_ref();
                    return Turn::Other;
                }
                _ => {}
            }
        }
    }

    /// Passes the rows of the first read that have arrived to `take`. After the end of the read, or
    /// an error, another one is the first.
    ///
    /// # Errors
    /// The refusal of the server, or the connection is lost.
    pub(crate) fn receive(
        &mut self,
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<ReadStep, SqlFailure> {
        let is_here = self.watched.as_ref().is_some_and(Watched::is_here);
        let may_read = !self.is_dry || self.watch.has_happened() || !is_here;
        if may_read {
            self.watch.look();
        }
        let step = self.steps.receive(read, take, may_read);
        match &step {
            // Without a wait, the socket was perhaps not read to its end.
            Ok(ReadStep::Wait) => self.is_dry = true,
            Ok(ReadStep::More) => self.is_dry = false,
            Ok(ReadStep::Unwanted) => {}
            Ok(ReadStep::Done(_)) => {
                // A single answer was read to its end; others may follow it.
                self.is_dry = self.reads.len() == 1;
                self.next_read();
            }
            Ok(ReadStep::Last) => {
                self.is_dry = false;
                self.reads.rotate_left(1);
                self.first_changed();
            }
            Err(failure) => {
                self.is_dry = false;
                self.note(failure);
                self.next_read();
            }
        }
        step
    }

    /// Removes the first read.
    fn next_read(&mut self) {
        self.reads.pop_front();
        self.first_changed();
    }

    /// Wakes the read that continues: the first one, or the next after those that are abandoned.
    fn first_changed(&mut self) {
        self.first_since = Instant::now();
        self.wake_one();
    }

    fn wake_one(&mut self) {
        let wanted = self.reads.iter_mut().find(|read| !read.is_abandoned);
        if let Some(waker) = wanted.and_then(|read| read.waker.take()) {
            waker.wake();
        }
    }

    fn note(&mut self, failure: &SqlFailure) {
        if failure.breaks_connection {
            self.lose(failure.clone());
        }
    }

    /// Gives the connection up. Its reads are woken.
    fn lose(&mut self, failure: SqlFailure) {
        self.lost.get_or_insert(failure);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        self.reads.iter_mut().filter_map(|read| read.waker.take()).for_each(Waker::wake);
    }

    /// Keeps the waker of a read.
    fn keep(&mut self, number: u64, waker: &Waker) {
        if let Some(read) = self.reads.iter_mut().find(|read| read.number == number) {
            read.waker = Some(waker.clone());
        }
    }

    /// Wakes `waker` when more has arrived, or it is the turn of the read.
    pub(crate) fn wait(&mut self, number: u64, waker: &Waker) {
        self.keep(number, waker);
        self.watch(waker);
    }

    fn watch(&mut self, waker: &Waker) {
        if self.watch.keep(self.steps.source(), &mut self.watched) {
            self.is_dry = false;
            waker.wake_by_ref();
        }
        if self.watched.is_none() {
            return waker.wake_by_ref();
        }
        Watch::wake(&self.watch, waker);
    }

    /// Returns true if the first read takes long, or others were handed over because it did.
    pub(crate) fn stalls(&self) -> bool {
        let is_long = |first: &Entry| first.is_abandoned || self.first_since.elapsed() >= STALL;
        self.reads.front().is_some_and(is_long)
    }

    /// Abandons a read. Returns the statement that ends the connection at the server, if all of its
    /// reads are abandoned.
    fn abandon(&mut self, number: u64) -> Option<String> {
        if let Some(read) = self.reads.iter_mut().find(|read| read.number == number) {
            (read.is_abandoned, read.waker) = (true, None);
        }
        if self.reads.is_empty() || self.reads.iter().any(|read| !read.is_abandoned) {
            self.wake_one();
            return None;
        }
        let closed = (ErrorKind::Lost, "the connection was closed".to_owned());
        self.lose(SqlFailure::new(FailureCause::Other, closed, ""));
        Some(self.steps.kill())
    }

    /// Returns true if it is not to be used again.
    fn is_old(&mut self, generation: u64) -> bool {
        if self.lost.is_some() {
            return true;
        }
        if !self.reads.is_empty() {
            return false;
        }
        let idle = self.first_since.elapsed();
        self.generation != generation
            || idle >= IDLE
            || (idle >= TRUSTED || self.watch.has_happened()) && self.steps.has_ended()
    }
}

/// The answer to a request for a connection.
pub(crate) enum Taken {
    Connection(SharedConnection),
    /// One has room soon.
    Wait,
    /// A thread has to execute the read.
    HandOver,
}

struct LoopState {
    connections: Vec<SharedConnection>,
    /// The dialect of the connections, once there is one.
    dialect: Option<&'static Dialect>,
    /// The reads that found no connection.
    reads: u32,
    is_connecting: bool,
    /// No connection is made before.
    retry_at: Option<Instant>,
    /// True if none is made: the driver has no such connections, or the engine is closed.
    is_off: bool,
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
struct Alarm(Weak<LoopPool>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let Some(pool) = self.0.upgrade() else { return };
        let connections = pool.state.lock().connections.clone();
        for connection in connections {
            connection.lock().wake_all();
        }
        pool.waiting.wake_all();
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
            connections: Vec::new(),
            dialect: None,
            reads: 0,
            is_connecting: false,
            retry_at: None,
            is_off: false,
            alarm: None,
        };
        let (open, state, waiting) = (Arc::default(), Mutex::new(state), Arc::default());
        Arc::new(Self { connections, threads, all, open, state, waiting })
    }

    /// Returns the dialect of the connections; `None` before the first one.
    pub(crate) fn dialect(&self) -> Option<&'static Dialect> {
        self.state.lock().dialect
    }

    /// Returns the connection with the fewest reads. A read that does not wait yet `is_new`: those
    /// that wait come first.
    pub(crate) fn take(self: &Arc<Self>, is_new: bool) -> Taken {
        let generation = self.connections.generation();
        let mut state = self.state.lock();
        if state.is_off {
            return Taken::HandOver;
        }
        state.connections.retain(|connection| !connection.lock().is_old(generation));
        let (mut best, mut fewest, mut moves) = (None, READS_MAX, false);
        for connection in &state.connections {
            let inside = connection.lock();
            if inside.generation != generation || inside.stalls() {
                continue;
            }
            moves = true;
            if inside.reads.len() < fewest {
                (best, fewest) = (Some(Arc::clone(connection)), inside.reads.len());
            }
        }
        if best.is_none() || fewest >= READS_FEW {
            self.want_another(&mut state);
        }
        match best {
            Some(best) if !is_new || self.waiting.is_empty() => Taken::Connection(best),
            _ if moves => Taken::Wait,
            _ => Taken::HandOver,
        }
    }

    /// Makes another connection, if there may be more.
    fn want_another(self: &Arc<Self>, state: &mut LoopState) {
        state.reads = state.reads.saturating_add(1);
        let wants_one = !state.is_connecting
            && state.reads >= READS_BEFORE
            && state.retry_at.is_none_or(|at| at <= Instant::now());
        let limits = [(&self.open, CONNECTIONS_MAX), (&self.all.0, self.all.1)];
        if wants_one && let Some(counted) = Counted::new(limits) {
            let pool = Arc::clone(self);
            state.is_connecting = self.threads.result_of(move || pool.connect(counted)).is_some();
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
                state.connections.push(Arc::new(Mutex::new(LoopConnection {
                    steps,
                    reads: VecDeque::new(),
                    next_number: 0,
                    first_since: Instant::now(),
                    lost: None,
                    watch: Arc::default(),
                    watched: None,
                    is_dry: false,
                    generation,
                    counted,
                })));
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

    /// Abandons a read. Returns the statement that ends the connection at the server, if all of its
    /// reads are abandoned.
    pub(crate) fn abandon(&self, connection: &SharedConnection, number: u64) -> Option<String> {
        let kill = connection.lock().abandon(number);
        if kill.is_some() {
            self.state.lock().connections.retain(|other| !Arc::ptr_eq(other, connection));
        }
        self.waiting.wake_next();
        kill
    }

    /// Polls the reads that wait after a while: the first read of a connection may take long.
    pub(crate) fn set_alarm(self: &Arc<Self>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.alarm.is_none_or(|at| at <= now) {
            let at = now + STALL;
            let alarm = Arc::new(Alarm(Arc::downgrade(self)));
            state.alarm = wake_at(at, alarm.into()).then_some(at);
        }
    }

    /// Closes the connections, and makes no more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_off = true;
        let connections = std::mem::take(&mut state.connections);
        drop(state);
        for connection in connections {
            let mut inside = connection.lock();
            let closed = (ErrorKind::Closed, "the engine is closed".to_owned());
            inside.lose(SqlFailure::new(FailureCause::Other, closed, ""));
        }
        self.waiting.wake_all();
    }
}
