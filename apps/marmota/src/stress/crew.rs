//! The threads of a run and their clients. A leader sends them the steps: connect, insert and read
//! back. They wait in between, so that a step begins in all threads at once, including those of
//! other processes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use marmota::Result;
use marmota::store::{Durability, Store};

use super::line::Count;
use super::load::{Load, LoadFigures};
use super::owned_rows::{OwnedRow, OwnedRows, RowOrigin};
use super::sample::{FIELDS, Sample};
use super::stand::{Failed, Stand};
use super::tally::Tally;

/// The parameters of a run, or of a process' part of one.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The unique number of the run.
    pub(super) run: i64,
    pub(super) threads: u32,
    /// The number of its first thread among the threads of all processes.
    pub(super) first_thread: u32,
    /// Clients of all threads, at least one per thread.
    pub(super) clients: u32,
    /// Local addresses of the clients, in turn; empty if the system chooses.
    pub(super) bind: Vec<IpAddr>,
    /// Time limit for connecting.
    pub(super) connect_max: Duration,
    pub(super) rows: u32,
    pub(super) seed: u64,
    pub(super) durability: Durability,
    /// The load of [`Step::Mixed`].
    pub(super) load: Option<Arc<Load>>,
}

impl Plan {
    /// Returns what the rows of a mixed load are made of.
    pub(super) const fn origin(&self) -> RowOrigin {
        RowOrigin { seed: self.seed, run: self.run, durability: self.durability }
    }
}

/// A step of all threads, with its number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub(super) enum Step {
    Connect,
    Insert,
    Read,
    Mixed,
    End,
}

impl Step {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Connect,
            1 => Self::Insert,
            2 => Self::Read,
            3 => Self::Mixed,
            _ => Self::End,
        }
    }
}

/// The results of a run.
#[derive(Default)]
pub(super) struct RunResults {
    pub(super) tally: Tally,
    pub(super) ids: Vec<i64>,
    /// The rows of [`Step::Mixed`], by thread.
    pub(super) rows: HashMap<u32, Vec<OwnedRow>>,
    pub(super) figures: LoadFigures,
}

/// The leader's handle to the threads.
pub(super) struct Lead<'r> {
    barrier: &'r Barrier,
    step: &'r AtomicU8,
    fault: &'r Mutex<Option<String>>,
}

impl Lead<'_> {
    /// Runs a step in all threads. Returns how long it took.
    ///
    /// # Errors
    /// The fault that prevented the step in a thread, for example a server that accepts no more
    /// clients.
    pub(super) fn take(&self, step: Step) -> std::result::Result<Duration, Failed> {
        self.step.store(step as u8, Ordering::SeqCst);
        self.barrier.wait();
        let began = Instant::now();
        if step != Step::End {
            self.barrier.wait();
        }
        match self.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(fault) => Err(fault.into()),
            None => Ok(began.elapsed()),
        }
    }
}

/// Starts the threads of a run, calls `lead` with their handle, and returns the results.
pub(super) fn run(
    stand: &Stand,
    plan: &Plan,
    count: &dyn Count,
    lead: impl FnOnce(&Lead<'_>) -> std::result::Result<(), Failed>,
) -> std::result::Result<RunResults, Failed> {
    // The threads and their leader.
    let barrier = Barrier::new(plan.threads as usize + 1);
    let (step, fault) = (AtomicU8::new(Step::End as u8), Mutex::new(None));
    let mut results = RunResults::default();
    let led = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let (barrier, step, fault) = (&barrier, &step, &fault);
                scope.spawn(move || {
                    let mut worker = Worker::new(stand, plan, thread, count);
                    loop {
                        barrier.wait();
                        let step = Step::of(step.load(Ordering::SeqCst));
                        if step == Step::End {
                            return worker.results;
                        }
                        // After a panic, the other threads would wait for this one forever.
                        let taken = catch_unwind(AssertUnwindSafe(|| worker.take(step)));
                        let taken = taken.unwrap_or_else(|_| Err("a thread has panicked".into()));
                        if let Err(error) = taken {
                            let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
                            fault.get_or_insert(error);
                        }
                        barrier.wait();
                    }
                })
            })
            .collect();
        let leads = Lead { barrier: &barrier, step: &step, fault: &fault };
        let led = lead(&leads);
        let ended = leads.take(Step::End).map(|_| ());
        for thread in threads {
            match thread.join() {
                Ok(part) => {
                    results.tally.add(part.tally);
                    results.ids.extend(part.ids);
                    results.rows.extend(part.rows);
                    results.figures.add(part.figures);
                }
                Err(_) => results.tally.check(0, Some("a thread has panicked".to_owned())),
            }
        }
        led.and(ended)
    });
    led.map(|()| results)
}

/// A thread of a run.
struct Worker<'r> {
    stand: &'r Stand,
    plan: &'r Plan,
    count: &'r dyn Count,
    /// Its number within this process.
    thread: u32,
    clients: Vec<Store>,
    inserted: Vec<Result<i64>>,
    results: RunResults,
}

/// Returns the share of one among several parts of a total.
pub(super) const fn share(all: u32, among: u32, one: u32) -> u32 {
    all / among + (one < all % among) as u32
}

impl<'r> Worker<'r> {
    fn new(stand: &'r Stand, plan: &'r Plan, thread: u32, count: &'r dyn Count) -> Self {
        let (clients, inserted, results) = (Vec::new(), Vec::new(), RunResults::default());
        Self { stand, plan, count, thread, clients, inserted, results }
    }

    /// Returns its number among the threads of all processes.
    const fn number(&self) -> u32 {
        self.plan.first_thread + self.thread
    }

    fn take(&mut self, step: Step) -> std::result::Result<(), String> {
        match step {
            Step::Connect => return self.connect(),
            Step::Insert => self.insert(),
            Step::Read => self.read(),
            Step::Mixed => self.mixed(),
            Step::End => {}
        }
        Ok(())
    }

    fn connect(&mut self) -> std::result::Result<(), String> {
        let until = Instant::now() + self.plan.connect_max;
        let count = share(self.plan.clients, self.plan.threads, self.thread);
        for one in 0..count {
            if Instant::now() > until {
                let message = format!(
                    "not all clients were connected within {} s, a thread has {one} of its \
                     {count}; allow more time with --connect-seconds",
                    self.plan.connect_max.as_secs()
                );
                return Err(message);
            }
            // The clients of a thread are numbered in steps of the number of threads.
            let place = (one * self.plan.threads + self.thread) as usize;
            let local = match self.plan.bind.len() {
                0 => None,
                addresses => self.plan.bind.get(place % addresses).copied(),
            };
            let client = self.stand.client(local).map_err(|error| error.to_string())?;
            self.clients.push(client);
            self.count.step();
        }
        Ok(())
    }

    fn numbers(&self) -> impl Iterator<Item = (u32, &Store)> {
        let rows = share(self.plan.rows, self.plan.threads, self.thread);
        (0..rows).zip(self.clients.iter().cycle())
    }

    fn row(&self, number: u32) -> Sample {
        Sample::new(self.plan.seed, self.plan.run, self.number(), number)
    }

    fn insert(&mut self) {
        let insert = |(number, client): (u32, &Store)| {
            self.count.step();
            client.insert(&self.row(number)).durability(self.plan.durability).run()
        };
        self.inserted = self.numbers().map(insert).collect();
    }

    fn mixed(&mut self) {
        let Some(load) = &self.plan.load else { return };
        let mut rows = OwnedRows::new(self.plan.origin(), self.number());
        let place = (self.plan.threads, self.thread);
        self.results.figures = load.drive(&mut rows, place, &self.clients, self.count);
        self.results.tally = std::mem::take(&mut rows.tally);
        self.results.rows = HashMap::from([(self.number(), rows.into_rows())]);
    }

    /// Reads the rows back, and stores their ids.
    fn read(&mut self) {
        let mut results = RunResults::default();
        for ((number, client), id) in self.numbers().zip(&self.inserted) {
            self.count.step();
            let id = match id {
                Ok(id) => *id,
                Err(error) => {
                    let fault = format!("thread {}, row {number}: {error:?}", self.number());
                    results.tally.check(0, Some(fault));
                    continue;
                }
            };
            results.ids.push(id);
            let row = self.row(number).with_id(id);
            let fault = match client.get::<Sample>(id).with_blobs().run() {
                Ok(read) => row.fault(&read),
                Err(error) => Some(format!("row {id}: {error:?}")),
            };
            results.tally.check(FIELDS, fault);
        }
        self.results = results;
    }
}
