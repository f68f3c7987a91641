//! One run: so many threads insert and read their rows, then all are compared
//! together.

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use marmota::Result;
use marmota::store::{Durability, Store};

use super::line::Line;
use super::sample::{FIELDS, Sample, of_run};
use super::stand::{Failed, Stand};

/// Faults that are told in full.
const FAULTS_MAX: usize = 20;

/// What a run is.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) threads: u32,
    pub(super) clients: u32,
    pub(super) rows: u32,
    pub(super) seed: u64,
    pub(super) durability: Durability,
}

/// What was looked at, and what was wrong.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) faults: Vec<String>,
}

impl Tally {
    /// Something is as it should be, or its fault is told.
    pub(super) fn look(&mut self, assertions: u64, fault: Option<String>) {
        match fault {
            None => self.passed += assertions,
            Some(fault) => {
                self.failed += 1;
                if self.faults.len() < FAULTS_MAX {
                    self.faults.push(fault);
                }
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.faults.extend(other.faults);
        self.faults.truncate(FAULTS_MAX);
    }
}

/// What came of a run.
pub(super) struct Ran {
    pub(super) insert: Duration,
    pub(super) read: Duration,
    pub(super) tally: Tally,
}

/// A number that no run before had.
pub(super) fn run_number() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or_default()
}

/// Carries out a run.
pub(super) fn run(stand: &Stand, plan: Plan) -> std::result::Result<Ran, Failed> {
    let run = run_number();
    let line =
        Line::new(format!("{}, {} threads", stand.name, plan.threads), 2 * u64::from(plan.rows));
    // The threads and this one: the clock runs while all work.
    let barrier = Barrier::new(plan.threads as usize + 1);
    let clients = (0..plan.threads)
        .map(|_| (0..plan.clients).map(|_| stand.client()).collect::<Result<Vec<_>>>())
        .collect::<Result<Vec<_>>>()?;
    let (mut tally, mut ids) = (Tally::default(), Vec::new());
    let (insert, read) = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .zip(&clients)
            .map(|(thread, clients)| {
                let worker = Worker { plan, run, thread, clients, line: &line };
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let rows = worker.insert();
                    barrier.wait();
                    barrier.wait();
                    let looked = worker.read(rows);
                    barrier.wait();
                    looked
                })
            })
            .collect();
        let time = || {
            barrier.wait();
            let began = Instant::now();
            barrier.wait();
            began.elapsed()
        };
        let (insert, read) = (time(), time());
        for thread in threads {
            match thread.join() {
                Ok((looked, inserted)) => {
                    tally.add(looked);
                    ids.extend(inserted);
                }
                Err(_) => tally.look(0, Some("a thread has panicked".to_owned())),
            }
        }
        (insert, read)
    });
    look_at_all(&clients[0][0], run, plan.rows, &ids, &mut tally)?;
    Ok(Ran { insert, read, tally })
}

/// All ids of all threads: none twice, none missing, none too many.
fn look_at_all(store: &Store, run: i64, rows: u32, ids: &[i64], tally: &mut Tally) -> Result<()> {
    let distinct: HashSet<i64> = ids.iter().copied().collect();
    let same = |what: &str, wanted: usize, found: usize| {
        (wanted != found).then(|| format!("{found} {what} instead of {wanted}"))
    };
    tally.look(1, same("ids were given", rows as usize, ids.len()));
    tally.look(1, same("of the ids are distinct", ids.len(), distinct.len()));
    let stored = of_run(store, run)?;
    tally.look(1, same("rows are stored", ids.len(), stored.len()));
    for row in stored {
        let known = distinct.contains(&row.id);
        tally.look(1, (!known).then(|| format!("row {} was given to nobody", row.id)));
    }
    Ok(())
}

/// A thread of a run.
struct Worker<'r> {
    plan: Plan,
    run: i64,
    thread: u32,
    clients: &'r [Store],
    line: &'r Line,
}

impl Worker<'_> {
    fn numbers(&self) -> impl Iterator<Item = (u32, &Store)> {
        let Plan { rows, threads, .. } = self.plan;
        let count = rows / threads + u32::from(self.thread < rows % threads);
        (0..count).zip(self.clients.iter().cycle())
    }

    fn insert(&self) -> Vec<Result<i64>> {
        let insert = |(number, client): (u32, &Store)| {
            self.line.step();
            let row = Sample::new(self.plan.seed, self.run, self.thread, number);
            client.insert(&row).durability(self.plan.durability).run()
        };
        self.numbers().map(insert).collect()
    }

    /// Reads the rows back; gives the ids they have.
    fn read(&self, ids: Vec<Result<i64>>) -> (Tally, Vec<i64>) {
        let (mut tally, mut known) = (Tally::default(), Vec::with_capacity(ids.len()));
        for ((number, client), id) in self.numbers().zip(ids) {
            self.line.step();
            let id = match id {
                Ok(id) => id,
                Err(error) => {
                    let fault = format!("thread {}, row {number}: {error:?}", self.thread);
                    tally.look(0, Some(fault));
                    continue;
                }
            };
            known.push(id);
            let row = Sample::new(self.plan.seed, self.run, self.thread, number).with_id(id);
            let fault = match client.get::<Sample>(id).with_blobs().run() {
                Ok(came) => row.fault(&came),
                Err(error) => Some(format!("row {id}: {error:?}")),
            };
            tally.look(FIELDS, fault);
        }
        (tally, known)
    }
}
