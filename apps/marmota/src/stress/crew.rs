//! The threads of a run and their clients. Somebody leads: they connect, insert
//! and read back when they are told to, and wait in between, so that a step
//! begins in all of them at once, also in those of other processes.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use marmota::Result;
use marmota::store::{Durability, Store};

use super::line::Count;
use super::sample::{FIELDS, Sample};
use super::stand::{Failed, Stand};
use super::tally::Tally;

/// What a run is, or a process' part of one.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The number of the run, which no other has.
    pub(super) run: i64,
    pub(super) threads: u32,
    /// The number of the first of them among those of all processes.
    pub(super) first_thread: u32,
    /// Of all threads, at least as many as those.
    pub(super) clients: u32,
    /// Where they come from, in turn; where the system chooses if there is none.
    pub(super) bind: Vec<IpAddr>,
    /// How long connecting may take.
    pub(super) connect_max: Duration,
    pub(super) rows: u32,
    pub(super) seed: u64,
    pub(super) durability: Durability,
}

/// What all threads do together, and its number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub(super) enum Step {
    Connect,
    Insert,
    Read,
    End,
}

impl Step {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Connect,
            1 => Self::Insert,
            2 => Self::Read,
            _ => Self::End,
        }
    }
}

/// What came of a run.
#[derive(Default)]
pub(super) struct Came {
    pub(super) tally: Tally,
    pub(super) ids: Vec<i64>,
}

/// Tells the threads what to do.
pub(super) struct Lead<'r> {
    barrier: &'r Barrier,
    step: &'r AtomicU8,
    fault: &'r Mutex<Option<String>>,
}

impl Lead<'_> {
    /// Has all threads take a step; gives how long it took them.
    ///
    /// # Errors
    /// What kept one of them from it, such as a server that takes no more clients.
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

/// Starts a run's threads, has `lead` tell them what to do, and gives what came of it.
pub(super) fn run(
    stand: &Stand,
    plan: &Plan,
    count: &dyn Count,
    lead: impl FnOnce(&Lead<'_>) -> std::result::Result<(), Failed>,
) -> std::result::Result<Came, Failed> {
    // The threads and the one that leads.
    let barrier = Barrier::new(plan.threads as usize + 1);
    let (step, fault) = (AtomicU8::new(Step::End as u8), Mutex::new(None));
    let mut came = Came::default();
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
                            return worker.came;
                        }
                        // The others would wait for it without end.
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
                    came.tally.add(part.tally);
                    came.ids.extend(part.ids);
                }
                Err(_) => came.tally.look(0, Some("a thread has panicked".to_owned())),
            }
        }
        led.and(ended)
    });
    led.map(|()| came)
}

/// A thread of a run.
struct Worker<'r> {
    stand: &'r Stand,
    plan: &'r Plan,
    count: &'r dyn Count,
    /// Its number in this process.
    thread: u32,
    clients: Vec<Store>,
    inserted: Vec<Result<i64>>,
    came: Came,
}

/// What one of several gets of so many things.
pub(super) const fn share(all: u32, among: u32, one: u32) -> u32 {
    all / among + (one < all % among) as u32
}

impl<'r> Worker<'r> {
    fn new(stand: &'r Stand, plan: &'r Plan, thread: u32, count: &'r dyn Count) -> Self {
        let (clients, inserted, came) = (Vec::new(), Vec::new(), Came::default());
        Self { stand, plan, count, thread, clients, inserted, came }
    }

    /// Its number among those of all processes.
    const fn number(&self) -> u32 {
        self.plan.first_thread + self.thread
    }

    fn take(&mut self, step: Step) -> std::result::Result<(), String> {
        match step {
            Step::Connect => return self.connect(),
            Step::Insert => self.insert(),
            Step::Read => self.read(),
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
                     {count}; give them more by --connect-seconds",
                    self.plan.connect_max.as_secs()
                );
                return Err(message);
            }
            // As a thread's clients follow each other by the number of threads.
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

    /// Reads the rows back, and keeps the ids they have.
    fn read(&mut self) {
        let mut came = Came::default();
        for ((number, client), id) in self.numbers().zip(&self.inserted) {
            self.count.step();
            let id = match id {
                Ok(id) => *id,
                Err(error) => {
                    let fault = format!("thread {}, row {number}: {error:?}", self.number());
                    came.tally.look(0, Some(fault));
                    continue;
                }
            };
            came.ids.push(id);
            let row = self.row(number).with_id(id);
            let fault = match client.get::<Sample>(id).with_blobs().run() {
                Ok(read) => row.fault(&read),
                Err(error) => Some(format!("row {id}: {error:?}")),
            };
            came.tally.look(FIELDS, fault);
        }
        self.came = came;
    }
}
