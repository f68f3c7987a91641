//! Counters of a store's operations: for each table and verb, and for each session, the number of
//! calls, rows and errors and the time; and the slow operations.
//!
//! A store counts if it is opened with [`crate::StoreBuilder::metering`]. Each operation of a
//! caller counts once, as what the caller requested: a write that is executed as a batch, because
//! its table is audited, is counted as that write.
//!
//! Each thread counts in a separate slot of memory, made when it first uses a table; if there are
//! more threads than slots, they share them. So no thread waits, and counting costs two reads of
//! the clock and three additions. The values of a slot are added up when [`crate::Store::activity`]
//! is called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::Table;
use parking_lot::Mutex;
use serde::Serialize;

use crate::contract::operation::{Operation, Outcome, Write};
use crate::rows::registry::Registry;

pub use crate::layers::metrics::counts::{CLASS_ENDS_US, CallStatistics, Counts};
use crate::layers::metrics::session_counts::{SessionCounts, Who};
pub use crate::layers::metrics::slow_calls::SlowCall;
use crate::layers::metrics::slow_calls::SlowCalls;

/// The settings of a store's counters, and how much of them is kept.
///
/// ```
/// use std::time::Duration;
/// use marmota_model::{Field, Kind, Role, Schema};
/// use marmota_memory::Memory;
/// use marmota_store::meter::Metering;
/// use marmota_store::Store;
///
/// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let metering = Metering::default().slow_call(Duration::from_millis(100));
/// let store = Store::builder(Memory::new()).schema(city).metering(metering).open()?;
/// let city = store.table("city")?;
/// assert!(store.get_record(&city, 1).run().is_err());
///
/// let done = store.activity().expect("it was opened to count");
/// assert_eq!((&*done.verbs[0].table, done.verbs[0].verb), ("city", "get"));
/// assert_eq!((done.verbs[0].done.count, done.verbs[0].done.rows), (1, 0));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Metering {
    slow: Option<Duration>,
    sessions_max: usize,
}

impl Default for Metering {
    fn default() -> Self {
        Self { slow: None, sessions_max: 10_000 }
    }
}

impl Metering {
    /// Logs calls that take at least this long (target `marmota::slow`, a warning), with the
    /// operation, its time and the caller, but no values. The last of them are kept
    /// ([`Activity::slow`]). Default: none is logged.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::meter::Metering;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// # let bourges = City { id: 0, name: "Bourges".to_owned() };
    /// let metering = Metering::default().slow_call(Duration::ZERO);
    /// let store = Store::builder(Memory::new()).model::<City>().metering(metering).open()?;
    /// store.insert(&bourges).run()?;
    /// let slow = store.activity().expect("it counts").slow;
    /// assert_eq!(slow[0].what, "insert of city");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn slow_call(mut self, from: Duration) -> Self {
        self.slow = Some(from);
        self
    }

    /// Sets how many sessions are counted separately. Default: 10,000. When there are more, the
    /// half that has been silent longest is removed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::meter::Metering;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// # let bourges = City { id: 0, name: "Bourges".to_owned() };
    /// let metering = Metering::default().sessions_max(2);
    /// let store = Store::builder(Memory::new()).model::<City>().metering(metering).open()?;
    /// for session in ["a", "b", "c"] {
    ///     store.in_session(session).count::<City>().run()?;
    /// }
    /// assert!(store.activity().expect("it counts").sessions.len() <= 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }
}

/// The operations of a store since it was opened, as [`crate::Store::activity`] returns them.
///
/// ```
/// # use std::time::Duration;
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # use marmota_store::meter::Metering;
/// # #[derive(Clone, Debug, Model)]
/// # struct City { id: i64, name: String }
/// # let bourges = City { id: 0, name: "Bourges".to_owned() };
/// # let store = Store::builder(Memory::new()).model::<City>().metering(Metering::default()).open()?;
/// store.in_session("session 7").insert(&bourges).run()?;
/// let activity = store.activity().expect("it counts");
/// assert_eq!((activity.verbs.len(), activity.sessions.len(), activity.slow.len()), (1, 1, 0));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Activity {
    /// By table and verb; verbs that were never used are left out.
    pub verbs: Vec<VerbActivity>,
    /// By session ([`crate::Store::in_session`]), by name.
    pub sessions: Vec<SessionActivity>,
    /// The slow calls, the newest last.
    pub slow: Vec<SlowCall>,
}

/// The operations of one verb on one table.
///
/// ```
/// # use std::time::Duration;
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # use marmota_store::meter::Metering;
/// # #[derive(Clone, Debug, Model)]
/// # struct City { id: i64, name: String }
/// # let bourges = City { id: 0, name: "Bourges".to_owned() };
/// # let store = Store::builder(Memory::new()).model::<City>().metering(Metering::default()).open()?;
/// store.insert(&bourges).run()?;
/// let mut batch = store.batch();
/// batch.insert(&bourges).insert(&bourges);
/// batch.all_or_nothing().run()?;
/// let activity = store.activity().expect("it counts");
/// let inserts = activity.verbs.iter().find(|of| of.verb == "insert").expect("one was used");
/// assert_eq!((&*inserts.table, inserts.done.count, inserts.in_batches), ("city", 1, 2));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VerbActivity {
    /// The table; empty for batches, SQL and the steps of transactions.
    pub table: String,
    /// The verb, such as `get`.
    pub verb: &'static str,
    /// Single operations.
    #[serde(flatten)]
    pub done: CallStatistics,
    /// Writes that were part of a batch. The batch as a whole is counted separately.
    pub in_batches: u64,
}

/// The operations of one session.
///
/// ```
/// # use std::time::Duration;
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # use marmota_store::meter::Metering;
/// # #[derive(Clone, Debug, Model)]
/// # struct City { id: i64, name: String }
/// # let bourges = City { id: 0, name: "Bourges".to_owned() };
/// # let store = Store::builder(Memory::new()).model::<City>().metering(Metering::default()).open()?;
/// store.in_session("session 7").insert(&bourges).run()?;
/// let sessions = store.activity().expect("it counts").sessions;
/// assert_eq!((&*sessions[0].session, sessions[0].done.rows), ("session 7", 1));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SessionActivity {
    /// Its name, such as `session 7`.
    pub session: String,
    /// Its operations.
    #[serde(flatten)]
    pub done: CallStatistics,
}

/// The verbs that are counted. A verb is counted by its index here, and reported by its name.
const VERBS: [&str; 19] = [
    "get",
    "list",
    "count",
    "insert",
    "insert_many",
    "update",
    "update_many",
    "increment",
    "delete",
    "delete_where",
    "batch",
    "sql",
    "commit",
    "step",
    "aggregate",
    "list_each",
    "group",
    "estimate",
    "list_ranked",
];

/// The index of an operation's verb in [`VERBS`].
const fn verb_of(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Get { .. } => 0,
        Operation::List { .. } => 1,
        Operation::Count { .. } => 2,
        Operation::Insert { .. } => 3,
        Operation::InsertMany { .. } => 4,
        Operation::Update { .. } => 5,
        Operation::UpdateMany { .. } => 6,
        Operation::Increment { .. } => 7,
        Operation::Delete { .. } => 8,
        Operation::DeleteWhere { .. } => 9,
        Operation::Batch { .. } => 10,
        Operation::Sql { .. } => 11,
        Operation::Commit => 12,
        Operation::Begin
        | Operation::Rollback
        | Operation::Savepoint(_)
        | Operation::Release(_)
        | Operation::RollbackTo(_) => 13,
        Operation::Aggregate { .. } => 14,
        Operation::ListEach { .. } => 15,
        Operation::Group { .. } => 16,
        Operation::Estimate { .. } => 17,
        Operation::ListRanked { .. } => 18,
    }
}

/// Returns the name of an operation's verb in the counters.
pub(crate) const fn verb_name(operation: &Operation<'_>) -> &'static str {
    VERBS[verb_of(operation)]
}

/// Returns the index of the verb of a write in a batch, in [`VERBS`].
const fn verb_of_write(write: &Write) -> usize {
    match write {
        Write::Insert { .. } => 3,
        Write::Update { .. } => 5,
        Write::Increment { .. } => 7,
        Write::Delete { .. } => 8,
        Write::DeleteWhere { .. } => 9,
        // The caller passes the write inside of these instead.
        Write::Cascading { .. }
        | Write::Audited { .. }
        | Write::Compared { .. }
        | Write::Guarded { .. }
        | Write::Hooked { .. } => 13,
    }
}

/// The counts of one thread for one table.
#[derive(Default)]
struct OfTable {
    verbs: [Counts; VERBS.len()],
    in_batches: [AtomicU64; VERBS.len()],
}

/// The counts of one thread: an entry for each table, and a last one for operations without a
/// table.
type Shard = Box<[OnceLock<Box<OfTable>>]>;

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeteredOperation {
    at: Instant,
    table: u32,
    verb: u32,
}

/// The counters of a store.
pub(crate) struct Meter {
    names: Vec<Arc<Table>>,
    /// The number of each table, by its address.
    numbers: HashMap<usize, u32>,
    shards: Box<[Shard]>,
    sessions: Mutex<HashMap<Arc<str>, Arc<SessionCounts>>>,
    sessions_max: usize,
    asked: AtomicU64,
    slow: Option<SlowCalls>,
}

impl Meter {
    /// Creates the counters of a store, with a shard for each slot of threads. The memory of a
    /// shard is made table by table, at first use.
    pub(crate) fn new(metering: Metering, registry: &Registry, slots: usize) -> Self {
        let names = registry.tables().to_vec();
        let numbers = names.iter().enumerate();
        let numbers = numbers.map(|(number, table)| (Arc::as_ptr(table) as usize, number as u32));
        let shard = || (0..=names.len()).map(|_| OnceLock::new()).collect();
        Self {
            numbers: numbers.collect(),
            shards: (0..slots).map(|_| shard()).collect(),
            names,
            sessions: Mutex::default(),
            sessions_max: metering.sessions_max.max(1),
            asked: AtomicU64::new(0),
            slow: metering.slow.map(SlowCalls::new),
        }
    }

    /// Returns the number of a table; that after the last for an operation without a table of this
    /// store.
    fn number(&self, table: Option<&Table>) -> u32 {
        let number = table
            .and_then(|table| self.numbers.get(&(std::ptr::from_ref(table) as usize)).copied());
        number.unwrap_or(self.names.len() as u32)
    }

    /// Returns the counters of a slot for a table.
    fn counts(&self, slot: usize, table: u32) -> &OfTable {
        self.shards[slot][table as usize].get_or_init(Box::default)
    }

    /// Begins to measure an operation: reads the clock, and finds its table and verb.
    pub(crate) fn begin(&self, operation: &Operation<'_>) -> MeteredOperation {
        let (table, verb) = (self.number(operation.table()), verb_of(operation) as u32);
        MeteredOperation { at: Instant::now(), table, verb }
    }

    /// Records that an operation has ended.
    pub(crate) fn end(
        &self,
        begun: MeteredOperation,
        slot: usize,
        who: Who<'_>,
        operation: &Operation<'_>,
        ended: Result<&Outcome, ()>,
    ) {
        let time = begun.at.elapsed();
        let rows = match (ended, operation) {
            // These rows were only counted, not read.
            (Ok(_), Operation::Count { .. }) | (Err(()), _) => 0,
            (Ok(outcome), _) => outcome.rows,
        };
        self.of(begun, slot).note(time, rows, ended.is_err());
        if let Some(session) = who.session {
            session.counts.note(time, rows, ended.is_err());
        }
        if let Operation::Batch { writes, results, .. } = operation {
            for (write, result) in writes.iter().zip(results.iter()) {
                let of = self.counts(slot, self.number(Some(write.table())));
                let verb = verb_of_write(write.bare());
                of.in_batches[verb].fetch_add(1, Ordering::Relaxed);
                match result {
                    Ok(done) => of.verbs[verb].note_rows(done.rows),
                    Err(_) => of.verbs[verb].note_error(),
                }
            }
        }
        if let Some(slow) = &self.slow
            && slow.is_slow(time)
        {
            slow.note_operation(time, rows, who, VERBS[begun.verb as usize], operation);
        }
    }

    /// Records that an operation was cancelled by its caller: it counts as failed.
    pub(crate) fn give_up(&self, begun: MeteredOperation, slot: usize) {
        self.of(begun, slot).note(begun.at.elapsed(), 0, true);
    }

    /// Returns the counters for an operation in progress.
    fn of(&self, begun: MeteredOperation, slot: usize) -> &Counts {
        &self.counts(slot, begun.table).verbs[begun.verb as usize]
    }

    /// Records the time of a call that is not an operation, such as a call of a service.
    pub(crate) fn note_call(&self, time: Duration, who: Who<'_>, what: impl FnOnce() -> String) {
        if let Some(slow) = &self.slow
            && slow.is_slow(time)
        {
            slow.note(time, 0, who, what());
        }
    }

    /// Returns the counts of a session.
    pub(crate) fn session(&self, name: &str) -> Arc<SessionCounts> {
        let last = AtomicU64::new(self.asked.fetch_add(1, Ordering::Relaxed));
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get(name) {
            session.last.store(last.into_inner(), Ordering::Relaxed);
            return Arc::clone(session);
        }
        if sessions.len() >= self.sessions_max {
            let age = |session: &Arc<SessionCounts>| session.last.load(Ordering::Relaxed);
            // The older half is removed, so that not every new session searches all of them.
            let mut ages: Vec<u64> = sessions.values().map(age).collect();
            let middle = ages.len() / 2;
            let bound = *ages.select_nth_unstable(middle).1;
            sessions.retain(|_, session| age(session) > bound);
        }
        let name: Arc<str> = name.into();
        let counts = Counts::default();
        let session = Arc::new(SessionCounts { name: Arc::clone(&name), counts, last });
        sessions.insert(name, Arc::clone(&session));
        session
    }

    /// Returns all counts.
    pub(crate) fn activity(&self) -> Activity {
        let names = self.names.iter().map(|table| table.name()).chain([""]).enumerate();
        let mut verbs = Vec::new();
        for (number, table) in names {
            for (place, &verb) in VERBS.iter().enumerate() {
                let mut done = CallStatistics::default();
                let mut in_batches = 0;
                for counts in self.shards.iter().filter_map(|shard| shard[number].get()) {
                    counts.verbs[place].add_to(&mut done);
                    in_batches += counts.in_batches[place].load(Ordering::Relaxed);
                }
                if done.count > 0 || in_batches > 0 {
                    verbs.push(VerbActivity { table: table.to_owned(), verb, done, in_batches });
                }
            }
        }
        let read = |session: &Arc<SessionCounts>| {
            let mut done = CallStatistics::default();
            session.counts.add_to(&mut done);
            SessionActivity { session: session.name.to_string(), done }
        };
        let mut sessions: Vec<_> = self.sessions.lock().values().map(read).collect();
        sessions.sort_unstable_by(|one, two| one.session.cmp(&two.session));
        let slow = self.slow.as_ref().map_or_else(Vec::new, SlowCalls::kept);
        Activity { verbs, sessions, slow }
    }
}
