//! The scenario `jobs`: jobs are enqueued, alone and in transactions, while a worker executes them,
//! and the power is cut. In the end each acknowledged job must have had its effect exactly once, and
//! a job of a transaction that was rolled back none.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use marmota::jobs::{self, EnqueueJobs, JobAdmin, JobContext, Jobs, Worker, WorkerOptions, job};
use marmota::jobs::{JobQuery, JobState};
use marmota::model::Timestamp;
use marmota::sqlite::disk::integrity;
use marmota::sqlite::{Location, Sqlite, SqliteOptions};
use marmota::store::{Durability, Store};
use marmota::{Model, Result};

use super::machine::Machine;
use super::{Failed, Fault, Found, Prove};
use crate::stress::line::Count;
use crate::stress::sample::Dice;

/// The longest time for the jobs that are left at the end.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// The effect of a job.
#[derive(Clone, Debug, Model)]
#[model(table = "prove_effect")]
struct Effect {
    id: i64,
    number: i64,
}

/// A row that is written together with the enqueue of its job.
#[derive(Clone, Debug, Model)]
#[model(table = "prove_order")]
struct Order {
    id: i64,
    number: i64,
}

/// Writes the effect in the transaction of the job's end; with a planted fault in one of its own.
#[job(retries = 1000)]
async fn prove_effect(number: i64, is_apart: bool, context: JobContext) -> Result<()> {
    let transaction = context.store().begin().await?;
    transaction.insert(&Effect { id: 0, number }).await?;
    if !is_apart {
        context.finish_in(&transaction).await?;
    }
    transaction.commit().await
}

/// The jobs so far.
#[derive(Default)]
struct Jobbed {
    acknowledged: Vec<i64>,
    /// Those of transactions that were rolled back.
    refused: HashSet<i64>,
    /// Those that were enqueued together with an [`Order`].
    ordered: HashSet<i64>,
    next: i64,
    is_apart: bool,
}

/// Runs a seed.
pub(super) fn prove(prove: &Prove, seed: u64, line: &dyn Count) -> Result<Found, Failed> {
    let mut jobs =
        Jobbed { is_apart: prove.plant == Some(Fault::RepeatedEffect), ..Jobbed::default() };
    let (mut found, mut dice) = (Found::default(), Dice(seed));
    let mut machine = Machine::new(dice.roll())?;
    let durability = match prove.plant {
        Some(Fault::EarlyJob) => Durability::Relaxed,
        _ => Durability::Full,
    };
    for restart in 0..=prove.cuts {
        let file = machine.path("prove.db");
        let store = open(&file, durability)?;
        let at = |fault: String| format!("after restart {restart}: {fault}");
        let integrity = integrity(&file)?;
        found.tally.check(1, (integrity != "ok").then(|| at(integrity)));
        let worker = start(&store, restart)?;
        if restart == prove.cuts {
            found.tally.check(1, drain(&store)?);
            worker.stop()?;
            jobs.check(&store, &mut found)?;
            store.close()?;
            break;
        }
        for _ in 0..1 + dice.roll() % u64::from(prove.steps) {
            jobs.enqueue(&store, &mut dice)?;
        }
        let left = machine.cut()?;
        worker.stop()?;
        store.close()?;
        machine = Machine::with(left, dice.roll())?;
        found.restarts += 1;
        line.step();
    }
    found.acknowledged = jobs.acknowledged.len() as u64;
    Ok(found)
}

fn open(file: &Path, durability: Durability) -> Result<Store> {
    let options = SqliteOptions { durability, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(file.to_owned()), options)?;
    // Frequent checkpoints, so that power is cut during checkpoints too.
    engine.execute("PRAGMA wal_autocheckpoint=12")?;
    jobs::models(Store::builder(engine)).model::<Effect>().model::<Order>().open()
}

/// Starts a worker at a time when the leases of the ones before have ended.
fn start(store: &Store, restart: u32) -> Result<Worker> {
    let later = i64::from(restart) * 3_600_000_000;
    let clock = move || {
        let now = Timestamp::now();
        Timestamp::from_micros(now.micros() + later).unwrap_or(now)
    };
    let options = WorkerOptions::new().queue("default", 8).clock(clock);
    Jobs::new(store).register::<ProveEffect>()?.start(options)
}

/// Waits until no job is left. Returns a fault if jobs do not end, or have failed.
fn drain(store: &Store) -> Result<Option<String>> {
    let count = |state| {
        let query = JobQuery::new().state(state).limit(10_000);
        JobAdmin::new(store).list(&query).run().map(|jobs| jobs.len())
    };
    let began = Instant::now();
    loop {
        let mut left = 0;
        for state in
            [JobState::Scheduled, JobState::Pending, JobState::Running, JobState::Cancelling]
        {
            left += count(state)?;
        }
        if left == 0 {
            let failed = count(JobState::Failed)?;
            return Ok((failed > 0).then(|| format!("{failed} jobs have failed")));
        }
        if began.elapsed() > DRAIN_MAX {
            return Ok(Some(format!("{left} jobs do not end")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Jobbed {
    fn job(&mut self) -> ProveEffect {
        self.next += 1;
        ProveEffect { number: self.next, is_apart: self.is_apart }
    }

    /// Enqueues one or several jobs.
    fn enqueue(&mut self, store: &Store, dice: &mut Dice) -> Result<()> {
        let job = self.job();
        match dice.roll() % 10 {
            0..=4 => drop(store.enqueue(&job).run()?),
            5 => drop(store.enqueue(&job).delay(Duration::from_millis(5)).run()?),
            6 => {
                let more = [self.job(), self.job()];
                store.enqueue_many(&more).run()?;
                self.acknowledged.extend(more.iter().map(|job| job.number));
                self.refused.insert(job.number);
                return Ok(());
            }
            kind => {
                let transaction = store.begin_run()?;
                transaction.insert(&Order { id: 0, number: job.number }).run()?;
                transaction.enqueue(&job).run()?;
                if kind == 7 {
                    transaction.rollback().run()?;
                    self.refused.insert(job.number);
                    return Ok(());
                }
                transaction.commit().run()?;
                self.ordered.insert(job.number);
            }
        }
        self.acknowledged.push(job.number);
        Ok(())
    }

    /// Checks the effects after all jobs have ended.
    fn check(&self, store: &Store, found: &mut Found) -> Result<()> {
        let mut effects: HashMap<i64, u32> = HashMap::new();
        for effect in store.list::<Effect>().run()? {
            *effects.entry(effect.number).or_default() += 1;
        }
        let orders: HashSet<i64> =
            store.list::<Order>().run()?.into_iter().map(|order| order.number).collect();
        for number in &self.acknowledged {
            let times = effects.remove(number).unwrap_or(0);
            let fault = || format!("the effect of job {number} is there {times} times");
            found.tally.check(1, (times != 1).then(fault));
            let is_ordered = self.ordered.contains(number);
            let fault = || format!("job {number} and its order are not there together");
            found.tally.check(1, (orders.contains(number) != is_ordered).then(fault));
        }
        for number in &self.refused {
            let is_there = effects.contains_key(number) || orders.contains(number);
            let fault = || format!("job {number} was rolled back, but has an effect");
            found.tally.check(1, is_there.then(fault));
        }
        Ok(())
    }
}
