//! Compares a share of the callers' reads with those of the secondary.
//!
//! The primary has answered long before. A thread executes the read again on the primary, waits until
//! the secondary has applied the position after it, and executes the read there. Answers that differ
//! count only if the primary still gives the same answer, several times in a row: otherwise a row
//! was changed in between.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowQuery, Table, ValueRef};
use parking_lot::Mutex;

use super::apply::target;
use super::compare::{DIFFERENCES_MAX, RowDifference};
use super::piece::Source;
use crate::admin::transfer::checksum;
use crate::contract::engine::{self, Session};
use crate::contract::operation::Operation;
use crate::layers::session::read_samples::{SampledQuery, SampledRead};
use crate::store::Store;

/// The pause before the next look for a read.
const IDLE: Duration = Duration::from_millis(10);
/// The longest wait for the secondary. If it lags more, reads are skipped.
const LAG_MAX: Duration = Duration::from_secs(5);
/// The pause between two looks at its position.
const PAUSE: Duration = Duration::from_millis(2);
/// The number of times that a read is tried while its rows change.
const TRIES: u32 = 10;
/// The number of times in a row that answers have to differ.
const CONFIRMATIONS: u32 = 3;
/// The rows of an answer that are compared.
const ROWS_MAX: usize = 1_000;

/// The reads that were executed on both databases of a pair
/// ([`PairFollower::compare_reads`](super::PairFollower::compare_reads)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedReads {
    /// The number of reads that were compared.
    pub compared: u64,
    /// The number of those with different answers.
    pub different: u64,
    /// The first 100 of these.
    pub differences: Vec<RowDifference>,
    /// The number of reads that only the primary could execute.
    pub failed: u64,
    /// The number of reads of the share that were not compared: there were too many at a time, the
    /// secondary was too late, or the rows changed all the time.
    pub skipped: u64,
}

/// The thread that compares.
pub(super) struct ReadComparison {
    primary: Store,
    compared: Arc<Mutex<ComparedReads>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The result for one read.
enum Verdict {
    Same,
    Different(RowDifference),
    Failed(Error),
    Skipped,
}

/// An answer: the key and the checksum of each row, or their number.
#[derive(PartialEq)]
enum Answer {
    Rows(Vec<(String, u128)>),
    Count(u64),
}

impl ReadComparison {
    /// Starts the thread for a share of the primary's reads. `applied` returns the number of the
    /// last commit that the secondary has.
    ///
    /// # Errors
    /// Those of the engines; [`ErrorKind::Io`] if the thread cannot be started.
    pub(super) fn start(
        primary: &Store,
        secondary: &Store,
        share: f64,
        applied: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let mut both = Both {
            tables: target(primary, secondary)?.tables,
            source: Source::new(primary)?,
            session: secondary.engine().session()?,
            secondary: secondary.clone(),
            is_stopped: Arc::clone(&is_stopped),
            applied: Box::new(applied),
        };
        let compared = Arc::<Mutex<ComparedReads>>::default();
        let thread = std::thread::Builder::new().name("marmota-pair-reads".to_owned());
        let thread = {
            let compared = Arc::clone(&compared);
            thread.spawn(move || both.run(&compared)).map_err(|error| {
                let message = format!("no thread can be started for the reads of a pair: {error}");
                Error::new(ErrorKind::Io, message).with_source(error)
            })?
        };
        primary.core.layers.sessions().samples.set_share(share);
        Ok(Self { primary: primary.clone(), compared, is_stopped, thread: Some(thread) })
    }

    /// Returns the results.
    pub(super) fn compared(&self) -> ComparedReads {
        let mut compared = self.compared.lock().clone();
        compared.skipped += self.primary.core.layers.sessions().samples.skipped();
        compared
    }
}

impl Drop for ReadComparison {
    fn drop(&mut self) {
        self.primary.core.layers.sessions().samples.set_share(0.0);
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It catches no panics; a panic is reported by its thread.
            let _ = thread.join();
        }
    }
}

/// Both databases, as the thread reads them.
struct Both {
    tables: Vec<(Arc<Table>, Arc<Table>)>,
    source: Source,
    /// The session on the secondary, whose store is kept open by the handle.
    session: Box<dyn Session>,
    secondary: Store,
    is_stopped: Arc<AtomicBool>,
    applied: Box<dyn Fn() -> u64 + Send>,
}

impl Both {
    fn run(&mut self, compared: &Mutex<ComparedReads>) {
        while !self.is_stopped.load(Ordering::Relaxed) && self.secondary.is_open() {
            let Some(read) = self.source.store.core.layers.sessions().samples.take() else {
                sleep(IDLE);
                continue;
            };
            let place = self.tables.iter().position(|(table, _)| table.name() == read.table);
            // Tables that do not move are not compared.
            let Some(place) = place else { continue };
            let (table, own) = self.tables[place].clone();
            let verdict = self.compare(&table, &own, &read);
            let mut compared = compared.lock();
            match verdict.unwrap_or(Verdict::Skipped) {
                Verdict::Same => compared.compared += 1,
                Verdict::Skipped => compared.skipped += 1,
                Verdict::Failed(error) => {
                    compared.failed += 1;
                    log::warn!("a read of `{}` fails on the secondary: {error}", read.table);
                }
                Verdict::Different(row) => {
                    compared.compared += 1;
                    compared.different += 1;
                    log::warn!(
                        "a read of `{}` differs on the secondary, key {}: {}",
                        row.table,
                        row.key,
                        row.what
                    );
                    if compared.differences.len() < DIFFERENCES_MAX {
                        compared.differences.push(row);
                    }
                }
            }
        }
    }

    /// Executes a read on both.
    ///
    /// # Errors
    /// Those of the primary.
    fn compare(&mut self, table: &Table, own: &Table, read: &SampledRead) -> Result<Verdict> {
        let mut confirmed = 0;
        for _ in 0..TRIES {
            let before = answer(&mut *self.source.session, table, &read.query)?;
            let last = self.source.last_position()?;
            if !self.wait_for(last.number) {
                return Ok(Verdict::Skipped);
            }
            let theirs = match answer(&mut *self.session, own, &read.query) {
                Ok(theirs) => theirs,
                Err(error) if error.is_retryable() => return Ok(Verdict::Skipped),
                Err(error) => return Ok(Verdict::Failed(error)),
            };
            let Some((key, what)) = difference(&before, &theirs) else {
                return Ok(Verdict::Same);
            };
            let is_unchanged = before == answer(&mut *self.source.session, table, &read.query)?;
            confirmed = if is_unchanged { confirmed + 1 } else { 0 };
            if confirmed == CONFIRMATIONS {
                let table = read.table.clone();
                return Ok(Verdict::Different(RowDifference { table, key, what }));
            }
        }
        Ok(Verdict::Skipped)
    }

    /// Waits until the secondary has applied a commit. Returns false if that takes too long.
    fn wait_for(&self, number: u64) -> bool {
        let until = Instant::now() + LAG_MAX;
        while (self.applied)() < number {
            if Instant::now() >= until || self.is_stopped.load(Ordering::Relaxed) {
                return false;
            }
            sleep(PAUSE);
        }
        true
    }
}

/// Executes a query.
///
/// # Errors
/// Those of the engine.
fn answer(session: &mut dyn Session, table: &Table, query: &SampledQuery) -> Result<Answer> {
    let mut rows = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        let key = format!("{:?}", row[table.key()]);
        rows.push((key, checksum(&row.iter().map(ValueRef::to_value).collect())));
        if rows.len() < ROWS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let fields = |fields: marmota_model::FieldSet| fields.with(table.key());
    match query {
        SampledQuery::Get(key, read) => {
            let mut get = Operation::Get { table, key: key.as_ref(), fields: fields(*read) };
            engine::run(session, &mut get, &mut keep)?;
        }
        SampledQuery::List(query) => {
            let read = query.fields.map(fields);
            let query = RowQuery { fields: read, ..query.clone() };
            let mut list = Operation::List { table, query: &query };
            engine::run(session, &mut list, &mut keep)?;
        }
        SampledQuery::Count(filter) => {
            let mut count = Operation::Count { table, filter: filter.as_ref() };
            let outcome = engine::run(session, &mut count, &mut marmota_model::NoRows)?;
            return Ok(Answer::Count(outcome.rows));
        }
    }
    Ok(Answer::Rows(rows))
}

/// Returns the key of the first row that differs, and what differs.
fn difference(ours: &Answer, theirs: &Answer) -> Option<(String, &'static str)> {
    let (Answer::Rows(ours), Answer::Rows(theirs)) = (ours, theirs) else {
        return (ours != theirs).then(|| ("of all".to_owned(), "the numbers of rows differ"));
    };
    let place = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
    let place = place.unwrap_or_else(|| ours.len().min(theirs.len()));
    let has = |rows: &[(String, u128)], key: &str| rows.iter().any(|(other, _)| other == key);
    match (ours.get(place), theirs.get(place)) {
        (None, None) => None,
        (Some((key, _)), Some((other, _))) if key == other => {
            Some((key.clone(), "the values differ"))
        }
        (Some((key, _)), _) if !has(theirs, key) => {
            Some((key.clone(), "the secondary does not have the row"))
        }
        (_, Some((key, _))) if !has(ours, key) => {
            Some((key.clone(), "only the secondary has the row"))
        }
        (Some((key, _)), _) | (None, Some((key, _))) => {
            Some((key.clone(), "the rows have another order"))
        }
    }
}
