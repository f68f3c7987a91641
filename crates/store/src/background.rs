//! Writes that their callers do not wait for: they are collected from any thread and executed
//! together by a separate thread.
//!
//! The thread sleeps until enough writes are queued, or the oldest has waited long enough. Accepted
//! writes are always executed, also when the batch is closed. If one fails, the holder of its
//! [`Accepted`] gets the error, or the error callback.
//!
//! ```
//! use marmota_memory::Memory;
//! use marmota_model::{Field, Kind, Record, Role, Schema};
//! use marmota_store::Store;
//!
//! let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("page", Kind::TEXT)];
//! let store = Store::builder(Memory::new()).schema(Schema::new("visit", fields)).open()?;
//! let table = store.table("visit")?;
//!
//! let background = store.background_batch().flush_writes(100).start()?;
//! let mut visit = Record::new(table.clone());
//! visit.set("page", "/")?;
//! let accepted = background.add(|batch| {
//!     batch.insert_record(&visit);
//! })?;
//! // Other threads add writes meanwhile; `wait` is only for callers who need the outcome.
//! assert_eq!(accepted.wait()?.len(), 1);
//! background.close();
//! assert_eq!(store.list_records(&table).run()?.len(), 1);
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! An accepted write is not durable yet: if the process is killed, writes that were not executed
//! are lost. Await the [`Accepted`] where this matters.

mod accepted;
pub(crate) mod hooks;
mod queue;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, NoRows, Result};
use parking_lot::Mutex;

pub use accepted::Accepted;

use crate::contract::durability::Durability;
use crate::contract::operation::{BatchMode, Link, Operation, Outcome, Write};
use crate::store::{Background, Store};
use crate::verbs::batch::Batch;
use accepted::Answer;
use queue::{Queue, Unit};

/// The pause before a retry when the engine is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// The number of attempts at a close while the engine is busy (each waits for some seconds).
const BUSY_TRIES_AT_CLOSE: u32 = 5;

/// The callback of [`BackgroundBuilder::on_error`].
type OnError = Box<dyn Fn(&Error) + Send + Sync>;

/// The settings of a [`BackgroundBatch`], made by [`Store::background_batch`].
///
/// Whichever limit is reached first flushes.
#[must_use = "it takes writes once it is started"]
pub struct BackgroundBuilder {
    /// The store, with its actor and rights: they apply to all writes of the batch.
    store: Store,
    limits: Limits,
    durability: Option<Durability>,
    on_error: Option<OnError>,
}

/// When to flush, and how much may be queued.
#[derive(Clone, Copy, Debug)]
struct Limits {
    flush_writes: usize,
    flush_bytes: usize,
    flush_after: Duration,
    waiting_writes_max: usize,
    waiting_bytes_max: usize,
}

impl BackgroundBuilder {
    /// Flushes when this many writes are queued. Default: 1,000.
    ///
    /// A larger number means fewer commits, and a longer wait of other writers for each.
    pub const fn flush_writes(mut self, writes: usize) -> Self {
        self.limits.flush_writes = writes;
        self
    }

    /// Flushes when the values of the queued writes take this many bytes. Default: 1 MiB.
    pub const fn flush_bytes(mut self, bytes: usize) -> Self {
        self.limits.flush_bytes = bytes;
        self
    }

    /// Flushes when a write has waited this long. Default: 100 ms.
    ///
    /// It is the maximum delay of a write while the engine is not busy.
    pub const fn flush_after(mut self, time: Duration) -> Self {
        self.limits.flush_after = time;
        self
    }

    /// Sets how many writes may be accepted but not executed yet. Default: 10,000.
    ///
    /// A caller of [`BackgroundBatch::add`] waits while the limit is reached;
    /// [`BackgroundBatch::try_add`] fails.
    pub const fn waiting_writes_max(mut self, writes: usize) -> Self {
        self.limits.waiting_writes_max = writes;
        self
    }

    /// Sets how many bytes the values of these writes may take. Default: 16 MiB.
    ///
    /// A unit that alone exceeds it is accepted when the queue is empty.
    pub const fn waiting_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.waiting_bytes_max = bytes;
        self
    }

    /// Sets a durability other than the store's.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets a callback for errors of writes whose [`Accepted`] was dropped. It is called on the
    /// thread that writes.
    ///
    /// Default: such errors are ignored.
    pub fn on_error(mut self, tell: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(tell));
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the system cannot start a thread; [`ErrorKind::Invalid`] in a
    /// transaction, which may end before the writes.
    pub fn start(self) -> Result<BackgroundBatch> {
        let Self { store, limits, durability, on_error } = self;
        store.check_outside()?;
        let queue = Queue::new(limits);
        let shared = Arc::new(Shared { store, queue, durability, on_error });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("marmota-background".to_owned())
            .spawn(move || worker.work())?;
        let watched: Arc<dyn Background> = Arc::<Shared>::clone(&shared);
        shared.store.watch(&watched);
        Ok(BackgroundBatch { shared, thread: Mutex::new(Some(thread)) })
    }
}

/// A queue that accepts writes from any thread and executes them together, soon.
///
/// When it is dropped, it executes what it has accepted, like [`BackgroundBatch::close`].
///
/// [`Store::background_batch`] makes one. It may be shared by reference between threads.
pub struct BackgroundBatch {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that callers share with the thread.
struct Shared {
    store: Store,
    queue: Queue,
    durability: Option<Durability>,
    on_error: Option<OnError>,
}

impl BackgroundBatch {
    /// Queues the writes that `fill` adds to a batch, which are executed all or none. Waits while
    /// the queue is full.
    ///
    /// Rules are checked by this call, as in a batch; uniqueness, references and rights when the
    /// writes are executed. An empty batch is accepted and done at once.
    ///
    /// # Errors
    /// An error for a write that breaks a rule, at once; [`ErrorKind::Closed`] after
    /// [`BackgroundBatch::close`].
    pub fn add(&self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<Accepted> {
        self.accept(fill, true)
    }

    /// [`BackgroundBatch::add`] that does not wait.
    ///
    /// It is for event loops, and for writes that may be left out.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the queue is full.
    pub fn try_add(&self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<Accepted> {
        self.accept(fill, false)
    }

    /// Queues the writes of `fill`; `waits` is false for a caller who must not wait for room.
    fn accept(&self, fill: impl FnOnce(&mut Batch<'_>), waits: bool) -> Result<Accepted> {
        let mut batch = self.shared.store.batch();
        fill(&mut batch);
        let (writes, links) = batch.into_writes()?;
        let (accepted, answer) = Accepted::new();
        if writes.is_empty() {
            answer.give(Ok(Vec::new()));
            return Ok(accepted);
        }
        self.shared.queue.push(Unit::new(writes, links, answer), waits)?;
        Ok(accepted)
    }

    /// Executes all writes accepted so far without further delay, and waits for them.
    ///
    /// Errors go to the holders of each [`Accepted`], or to the error callback.
    pub fn flush(&self) {
        self.shared.queue.flush();
    }

    /// Returns the number of writes that are accepted but not executed yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue.waiting()
    }

    /// Executes what was accepted, and accepts nothing more.
    ///
    /// It waits for the thread. While the engine is busy, the writes are tried five times; then
    /// they fail. A second call has no effect. On the thread itself, in the error callback, it does
    /// not wait.
    pub fn close(&self) {
        self.shared.queue.close();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread has been reported to the waiting callers.
            let _ = thread.join();
        }
    }
}

impl Drop for BackgroundBatch {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for BackgroundBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "background batch, {} writes waiting", self.waiting())
    }
}

impl Background for Shared {
    fn flush(&self) {
        self.queue.flush();
    }
}

impl Shared {
    /// The loop of the thread: takes units until the queue is closed and empty.
    fn work(&self) {
        // If a callback or an engine panics, no caller waits forever.
        let _end = End(self);
        while let Some(units) = self.queue.take() {
            let (writes, bytes) = units.iter().fold((0, 0), |(writes, bytes), unit| {
                (writes + unit.writes.len(), bytes + unit.bytes)
            });
            self.carry_out(units);
            self.queue.done(writes, bytes);
        }
    }

    /// Executes units, and delivers their results. All of them go into one transaction; if that
    /// fails, each is executed by itself, so that only those with errors fail. While the engine is
    /// busy, they are tried again.
    fn carry_out(&self, units: Vec<Unit>) {
        let mut tries = 0;
        let failed = loop {
            let results = match self.store.capability().transactions {
                false => Ok(self.apart(&units)),
                true => self.together(&units).or_else(|error| match error.kind() {
                    // Executes the units again, one by one, so that only those fail that have
                    // errors.
                    ErrorKind::Busy => Err(error),
                    _ => self.one_by_one(&units),
                }),
            };
            match results {
                Ok(results) => {
                    for (unit, result) in units.into_iter().zip(results) {
                        self.tell(unit.answer, result);
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Busy => {
                    tries += 1;
                    if self.queue.is_closing() && tries >= BUSY_TRIES_AT_CLOSE {
                        break error;
                    }
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(error) => break error,
            }
        };
        for unit in units {
            self.tell(unit.answer, Err(same(&failed)));
        }
    }

    /// Delivers a result: to the holder of the [`Accepted`], otherwise an error to the callback.
    fn tell(&self, answer: Answer, result: Result<Vec<Outcome>>) {
        if let (Some(Err(error)), Some(tell)) = (answer.give(result), &self.on_error) {
            tell(&error);
        }
    }

    /// Executes all units in one batch. Nearly always, this succeeds.
    fn together(&self, units: &[Unit]) -> Result<Vec<Result<Vec<Outcome>>>> {
        let mut writes = Vec::new();
        let mut links = Vec::new();
        for unit in units {
            let before = writes.len();
            writes.extend_from_slice(&unit.writes);
            links.extend(unit.links.iter().map(|link| Link {
                write: link.write + before,
                result: link.result + before,
                ..*link
            }));
        }
        let results = run(&self.store, self.durability, &writes, &links)?;
        let mut results = results.into_iter();
        Ok(units.iter().map(|unit| results.by_ref().take(unit.writes.len()).collect()).collect())
    }

    /// Executes each unit separately, on an engine without transactions. The engine decides which
    /// parts of a unit are atomic.
    fn apart(&self, units: &[Unit]) -> Vec<Result<Vec<Outcome>>> {
        let run = |unit: &Unit| run(&self.store, self.durability, &unit.writes, &unit.links);
        units.iter().map(|unit| run(unit)?.into_iter().collect()).collect()
    }

    /// Executes each unit separately, in one transaction.
    fn one_by_one(&self, units: &[Unit]) -> Result<Vec<Result<Vec<Outcome>>>> {
        let transaction = self.store.begin_run()?;
        let results = units
            .iter()
            .map(|unit| run(&transaction, None, &unit.writes, &unit.links)?.into_iter().collect())
            .collect();
        let mut commit = transaction.commit();
        if let Some(durability) = self.durability {
            commit = commit.durability(durability);
        }
        commit.run()?;
        Ok(results)
    }
}

/// Executes writes, all or none.
fn run(
    store: &Store,
    durability: Option<Durability>,
    writes: &[Write],
    links: &[Link],
) -> Result<Vec<Result<Outcome>>> {
    let (mut results, mode) = (Vec::with_capacity(writes.len()), BatchMode::AllOrNothing);
    let mut outcome = Outcome::default();
    let mut operation = Operation::Batch { writes, links, mode, once: None, results: &mut results };
    store.run_into(durability, &mut operation, &mut NoRows, &mut outcome)?;
    Ok(results)
}

/// Ends the thread when it is dropped: callers that still wait get the error that their writes were
/// not executed.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        for unit in self.0.queue.end() {
            let message = "the thread of the background batch has panicked; see its message";
            self.0.tell(unit.answer, Err(Error::new(ErrorKind::Bug, message)));
        }
    }
}

/// Copies an error, for each caller that it concerns.
fn same(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.message());
    error.violations().iter().cloned().fold(same, Error::with_violation)
}

impl Store {
    /// Returns the settings for a [`BackgroundBatch`]: a queue of writes that their callers do not
    /// wait for.
    ///
    /// [`Store::close`] flushes it first.
    ///
    /// The [module](crate::background) has an example.
    pub fn background_batch(&self) -> BackgroundBuilder {
        let limits = Limits {
            flush_writes: 1_000,
            flush_bytes: 1 << 20,
            flush_after: Duration::from_millis(100),
            waiting_writes_max: 10_000,
            waiting_bytes_max: 16 << 20,
        };
        BackgroundBuilder { store: self.clone(), limits, durability: None, on_error: None }
    }
}

/// The time at which a write that is queued now has waited long enough.
fn due(limits: &Limits) -> Option<Instant> {
    Instant::now().checked_add(limits.flush_after)
}
