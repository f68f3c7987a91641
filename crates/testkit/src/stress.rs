//! Random operations of many clients on the models of a store, with checks of every result.

pub(crate) mod client;
pub(crate) mod expected;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::{Model, Result, Scratch, Table, Value, ValueRef};
use marmota_store::Store;

use client::Client;
use expected::Expected;

/// The maximum number of faults that a report describes.
const FAULTS_MAX: usize = 20;
/// Tables with this prefix belong to the store.
const INTERNAL: &str = "marmota_";

/// Makes a row from a random number.
pub(crate) type MakeRow = dyn Fn(u64) -> Vec<Value> + Sync;

/// Runs random operations of several clients on the tables of a store.
///
/// Each client is a thread. It inserts, reads, updates and deletes its own rows at random, and
/// compares every result with what it wrote. At the end, all rows of all tables are compared with
/// the clients' records: no acknowledged write may be lost, and every row must come from a client.
///
/// Rows hold random values that fit the kinds and rules of their fields. Use [`Stress::rows`] for
/// models whose rules random values do not pass. Rows that exist already are left alone, and so are
/// the store's own tables (`marmota_…`).
///
/// ```
/// use marmota_derive::Model;
/// use marmota_memory::Memory;
/// use marmota_store::Store;
///
/// #[derive(Debug, Model)]
/// struct Note {
///     id: i64,
///     #[model(max = 200, not_empty)]
///     text: String,
///     #[model(version)]
///     version: i64,
/// }
///
/// let store = Store::builder(Memory::new()).model::<Note>().open()?;
/// let report = marmota_testkit::stress(&store).clients(2).operations(100).run()?;
/// assert!(report.faults().is_empty(), "{report}");
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn stress(store: &Store) -> Stress<'_> {
    Stress { store, clients: 4, operations: 1_000, seed: 1, rows: HashMap::new() }
}

/// The settings of a stress run; see [`stress()`].
#[must_use]
pub struct Stress<'s> {
    store: &'s Store,
    clients: u32,
    operations: u32,
    seed: u64,
    rows: HashMap<&'static str, Box<MakeRow>>,
}

/// The findings of a stress run.
#[derive(Debug, Default)]
pub struct StressReport {
    counts: Counts,
    faults: Vec<String>,
    more_faults: u64,
    duration: Duration,
}

/// The number of operations by result.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    inserts: u64,
    reads: u64,
    updates: u64,
    deletes: u64,
    /// Writes that a rule, a unique field or a reference forbids.
    refused: u64,
    /// Operations that the store refused for lack of capacity.
    busy: u64,
    /// Writes whose result the client does not know.
    unknown: u64,
}

impl Stress<'_> {
    /// Sets the number of clients. Default: 4.
    pub fn clients(mut self, clients: u32) -> Self {
        self.clients = clients.max(1);
        self
    }

    /// Sets the number of operations of each client. Default: 1,000.
    pub fn operations(mut self, operations: u32) -> Self {
        self.operations = operations;
        self
    }

    /// Sets the seed of the rows and operations. Each client repeats its operations for the same
    /// seed, but the order between clients is not determined. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how rows of a model are made for inserts, from a random number. References in these rows
    /// must refer to existing rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// #[derive(Debug, Model)]
    /// struct City {
    ///     id: i64,
    ///     name: String,
    /// }
    ///
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let stress = marmota_testkit::stress(&store).operations(50);
    /// let report = stress.rows(|number| City { id: 0, name: format!("city {number}") }).run()?;
    /// report.check();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn rows<M: Model>(mut self, make: impl Fn(u64) -> M + Sync + 'static) -> Self {
        self.rows.insert(M::TABLE, values_of(make));
        self
    }

    /// Runs the clients and compares all rows.
    ///
    /// # Errors
    /// Those of reading the tables before and after the run. Errors of the clients' operations are in
    /// the report.
    pub fn run(self) -> Result<StressReport> {
        let tables = tables_of(self.store);
        let mut expected = Expected::before(self.store, &tables)?;
        let started = Instant::now();
        let clients: Vec<Client<'_>> = std::thread::scope(|scope| {
            let start = |number| {
                let (stress, tables) = (&self, &tables[..]);
                scope.spawn(move || {
                    let seed = stress.seed.wrapping_add(u64::from(number) << 32);
                    let mut client = Client::new(stress.store, tables, &stress.rows, seed);
                    client.work(stress.operations);
                    client
                })
            };
            let threads: Vec<_> = (0..self.clients).map(start).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect()
        });
        let mut report = StressReport { duration: started.elapsed(), ..StressReport::default() };
        for client in clients {
            report.counts.add(client.counts());
            client.end(&mut expected, &mut report);
        }
        expected.compare(self.store, &tables, &mut report)?;
        Ok(report)
    }
}

/// Returns the tables of a store's models.
pub(crate) fn tables_of(store: &Store) -> Vec<Arc<Table>> {
    let tables = store.registry().tables().iter();
    tables.filter(|table| !table.name().starts_with(INTERNAL)).cloned().collect()
}

/// Converts a function that makes rows of a model to one that makes their values.
pub(crate) fn values_of<M: Model>(make: impl Fn(u64) -> M + Sync + 'static) -> Box<MakeRow> {
    Box::new(move |number| {
        let (model, scratch) = (make(number), Scratch::new());
        let mut row = vec![ValueRef::Absent; M::schema().fields.len()];
        model.write(&mut row, &scratch);
        row.iter().map(ValueRef::to_value).collect()
    })
}

impl StressReport {
    /// Returns descriptions of what was lost or wrong, at most 20.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Returns the number of operations.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.counts.all()
    }

    /// Checks the result of the run.
    ///
    /// # Panics
    /// If there are faults, with their descriptions.
    pub fn check(&self) {
        assert!(self.faults.is_empty(), "{self}");
    }

    fn fault(&mut self, fault: String) {
        match self.faults.len() {
            0..FAULTS_MAX => self.faults.push(fault),
            _ => self.more_faults += 1,
        }
    }
}

impl fmt::Display for StressReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { inserts, reads, updates, deletes, refused, busy, unknown } = self.counts;
        let seconds = self.duration.as_secs_f64();
        write!(
            f,
            "{} operations in {seconds:.1} s: {inserts} inserts, {reads} reads, {updates} updates, \
             {deletes} deletes, {refused} refused, {busy} busy, {unknown} unknown; {} faults",
            self.operations(),
            self.faults.len() as u64 + self.more_faults,
        )?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl Counts {
    const fn all(self) -> u64 {
        let Self { inserts, reads, updates, deletes, refused, busy, unknown } = self;
        inserts + reads + updates + deletes + refused + busy + unknown
    }

    fn add(&mut self, other: Self) {
        self.inserts += other.inserts;
        self.reads += other.reads;
        self.updates += other.updates;
        self.deletes += other.deletes;
        self.refused += other.refused;
        self.busy += other.busy;
        self.unknown += other.unknown;
    }
}
