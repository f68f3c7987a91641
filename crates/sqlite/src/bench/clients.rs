//! Concurrent inserting clients for benchmarks (feature `bench`): threads that wait for each row,
//! and threads with tasks that await theirs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Field, Kind, NoRows, Result, Role, Schema, Table, ValueRef};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Pending, Progress, Store};
use parking_lot::Mutex;

/// The clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// This number of threads, each inserting one row after the other.
    Threads(usize),
    /// This number of threads, each with this number of tasks, each inserting one row after the
    /// other.
    Tasks(usize, usize),
}

/// The results of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct ClientStatistics {
    /// The number of inserted rows.
    pub rows: u64,
    /// Rows per second.
    pub rows_per_second: f64,
    /// Disk syncs per row.
    pub syncs_per_row: f64,
    /// The median latency of an insert.
    pub p50: Duration,
    /// The 99th percentile of the latency.
    pub p99: Duration,
}

/// Returns the model of the rows: `note(id, name, number)`.
#[must_use]
pub fn schema() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT),
        Field::new("number", Kind::I64),
    ];
    Schema::new("note", fields)
}

/// The text of each row.
pub const NAME: &str = "Bartholomew van den Broek";

/// The equivalent statement for raw SQL, with the number as its parameter.
pub const INSERT: &str = "INSERT INTO note(name,number) VALUES('Bartholomew van den Broek',?)";

const fn row(number: i64) -> [ValueRef<'static>; 3] {
    [ValueRef::Absent, ValueRef::Text(NAME), ValueRef::Int(number)]
}

impl Clients {
    /// Inserts into a store with [`schema`] for `time`, then counts the rows.
    ///
    /// # Errors
    /// The error of an insert; [`ErrorKind::Bug`] if the number of rows differs from the
    /// acknowledged inserts.
    pub fn measure(self, store: &Store, time: Duration) -> Result<ClientStatistics> {
        let table = store.table("note")?;
        let count = || {
            let mut count = Operation::Count { table: &table, filter: None };
            Ok::<_, Error>(store.run(&mut count, &mut NoRows)?.rows)
        };
        let first = row(0);
        store.run(&mut Operation::insert(&table, &first), &mut NoRows)?;
        let (before, syncs) = (count()?, store.statistics().engine.syncs);
        let started = Instant::now();
        let mut took = self.insert(store, &table, started + time)?;
        let elapsed = started.elapsed();
        let syncs = store.statistics().engine.syncs - syncs;
        let rows = took.len() as u64;
        if count()? != before + rows {
            let message = format!("{rows} rows were acknowledged, and others are there");
            return Err(Error::new(ErrorKind::Bug, message));
        }
        took.sort_unstable();
        let at = |share: f64| {
            let place = (took.len().saturating_sub(1)) as f64 * share;
            Duration::from_nanos(took.get(place as usize).copied().unwrap_or(0).into())
        };
        Ok(ClientStatistics {
            rows,
            rows_per_second: rows as f64 / elapsed.as_secs_f64(),
            syncs_per_row: syncs as f64 / rows.max(1) as f64,
            p50: at(0.5),
            p99: at(0.99),
        })
    }

    /// Returns the latency of each insert, in nanoseconds.
    fn insert(self, store: &Store, table: &Table, until: Instant) -> Result<Vec<u32>> {
        let (Self::Threads(threads) | Self::Tasks(threads, _)) = self;
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(move || match self {
                        Self::Threads(_) => run_thread(store, table, until),
                        Self::Tasks(_, tasks) => run_tasks(store, table, tasks, until),
                    })
                })
                .collect();
            let mut took = Vec::new();
            for thread in running {
                let ended = thread.join();
                let panicked = |_| Error::new(ErrorKind::Bug, "a client panicked");
                took.extend(ended.map_err(panicked)??);
            }
            Ok(took)
        })
    }
}

impl std::fmt::Display for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Threads(1) => f.write_str("1 thread"),
            Self::Threads(threads) => write!(f, "{threads} threads"),
            Self::Tasks(1, tasks) => write!(f, "1 thread of {tasks} tasks"),
            Self::Tasks(threads, tasks) => write!(f, "{threads} threads of {tasks} tasks"),
        }
    }
}

/// An insert in progress.
struct Insert<'s> {
    store: &'s Store,
    table: &'s Table,
    number: i64,
    pending: Option<Pending>,
    is_over: bool,
}

impl Future for Insert<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A spurious wake-up.
        if this.is_over {
            return Poll::Pending;
        }
        let mut outcome = Outcome::default();
        let row = row(this.number);
        let mut operation = Operation::insert(this.table, &row);
        if this.pending.is_none() {
            match this.store.submit(None, &mut operation, &mut NoRows, &mut outcome)? {
                Progress::Done => return Poll::Ready(Ok(())),
                Progress::Pending(pending) => this.pending = Some(pending),
            }
        }
        let Some(pending) = &mut this.pending else { return Poll::Pending };
        let polled = this.store.poll(pending, &mut operation, &mut NoRows, &mut outcome, context);
        if polled.is_ready() {
            this.pending = None;
        }
        polled
    }
}

/// The tasks of one thread: the numbers of those that are ready, and the means to wake the thread.
struct Loop {
    ready: Mutex<Vec<usize>>,
    sleeps: AtomicBool,
    thread: Thread,
}

struct Task {
    number: usize,
    of: Arc<Loop>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.of.ready.lock().push(self.number);
        if self.of.sleeps.swap(false, Ordering::SeqCst) {
            self.of.thread.unpark();
        }
    }
}

fn run_tasks(store: &Store, table: &Table, tasks: usize, until: Instant) -> Result<Vec<u32>> {
    let of = Arc::new(Loop {
        ready: Mutex::new((0..tasks).collect()),
        sleeps: AtomicBool::new(false),
        thread: std::thread::current(),
    });
    let waker = |number| Waker::from(Arc::new(Task { number, of: Arc::clone(&of) }));
    let wakers: Vec<Waker> = (0..tasks).map(waker).collect();
    let insert = |number| Insert { store, table, number, pending: None, is_over: false };
    let mut running: Vec<_> =
        (0..tasks).map(|number| (insert(number as i64), Instant::now())).collect();
    let (mut took, mut left, mut batch) = (Vec::new(), tasks, Vec::new());
    while left > 0 {
        of.sleeps.store(true, Ordering::SeqCst);
        std::mem::swap(&mut batch, &mut of.ready.lock());
        if batch.is_empty() {
            std::thread::park();
            continue;
        }
        of.sleeps.store(false, Ordering::SeqCst);
        for number in batch.drain(..) {
            let mut context = Context::from_waker(&wakers[number]);
            let (current, started) = &mut running[number];
            let Poll::Ready(done) = Pin::new(current).poll(&mut context) else { continue };
            done?;
            let now = Instant::now();
            took.push(nanos(now - *started));
            if now >= until {
                left -= 1;
                running[number].0.is_over = true;
                continue;
            }
            running[number] = (insert(number as i64), now);
            wakers[number].wake_by_ref();
        }
    }
    Ok(took)
}

fn run_thread(store: &Store, table: &Table, until: Instant) -> Result<Vec<u32>> {
    let mut took = Vec::new();
    loop {
        let started = Instant::now();
        let row = row(1);
        store.run(&mut Operation::insert(table, &row), &mut NoRows)?;
        let now = Instant::now();
        took.push(nanos(now - started));
        if now >= until {
            return Ok(took);
        }
    }
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}
