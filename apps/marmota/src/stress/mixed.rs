//! `marmota stress --seconds`: each thread inserts, reads, updates, lists and deletes rows of its own
//! for a time, and knows what each answer has to be. A failed request is counted by its kind, and the
//! thread continues. At the end all rows are compared with those that the threads expect.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use marmota::command::report;
use marmota::store::Store;

use super::Stress;
use super::crew::{self, Plan, Step};
use super::line::Count;
use super::load::Load;
use super::owned_rows::OwnedRow;
use super::round::run_number;
use super::sample::{FIELDS, of_run};
use super::stand::{Failed, Stand};
use super::tally::Tally;

/// No progress is printed: the number of requests is not known before.
struct Uncounted;

impl Count for Uncounted {
    fn step(&self) {}
}

/// Executes a mixed load on a server.
pub(super) fn run(stress: &Stress, stand: &Stand, seconds: u32) -> Result<Tally, Failed> {
    stress.check()?;
    let load = Arc::new(Load::new(Duration::from_secs(seconds.into()), stress.rate));
    let plan = Plan {
        run: run_number(),
        load: Some(Arc::clone(&load)),
        ..stress.plan(stress.threads_each())
    };
    if stress.attended {
        let load = Arc::clone(&load);
        thread::spawn(move || {
            // Its end or a read error: the parent process wants the results, or has ended.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            load.end();
        });
    }
    let mut begun = SystemTime::now();
    let results = crew::run(stand, &plan, &Uncounted, |lead| {
        lead.take(Step::Connect)?;
        begun = SystemTime::now();
        load.elapsed();
        if stress.attended {
            // The parent process may begin.
            report("connected")?;
        }
        stress.line(format_args!(
            "{} clients of {} threads are connected; mixed requests for up to {seconds} s",
            plan.clients, plan.threads
        ))?;
        lead.take(Step::Mixed).map(|_| ())
    })?;
    let mut tally = results.tally;
    check(&mut tally, &stand.client(None)?, &plan, &results.rows)?;
    let figures = results.figures;
    stress.line(format_args!(
        "{} requests, {:.0} a second, the longest took {} ms",
        figures.requests(),
        figures.requests() as f64 / load.elapsed().as_secs_f64(),
        figures.longest().as_millis()
    ))?;
    for (kind, count) in figures.failures() {
        let message = figures.messages.get(kind).map(String::as_str).unwrap_or_default();
        stress.line(format_args!("{count} failed: {kind}: {message}"))?;
    }
    tally.runs.push(figures.json(begun));
    Ok(tally)
}

/// Compares all rows of the run with those that the threads expect.
fn check(
    tally: &mut Tally,
    store: &Store,
    plan: &Plan,
    rows: &HashMap<u32, Vec<OwnedRow>>,
) -> Result<(), Failed> {
    let mut expected = HashMap::new();
    for (&thread, rows) in rows {
        expected.extend(rows.iter().map(|row| ((i64::from(thread), i64::from(row.number())), row)));
    }
    for stored in of_run(store, plan.run)? {
        let fault = match expected.remove(&(stored.thread, stored.number)) {
            Some(row) => row.fault(plan.origin(), &stored),
            None => Some(format!("row {} was deleted, or not inserted", stored.id)),
        };
        tally.check(FIELDS, fault);
    }
    for ((thread, number), row) in expected {
        let lost = format!("row {number} of thread {thread} is lost: {row:?}");
        tally.check(1, (!row.may_be_absent()).then_some(lost));
    }
    Ok(())
}
