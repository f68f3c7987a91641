//! The scenario `feed`: threads write rows, a reader follows the change feed, and the power is cut.
//! After each restart the reader continues after the last commit that it has read. It must get each
//! change once and in order, so that its rows are those of the tables; and each acknowledged write
//! must be there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use marmota::sqlite::disk::integrity;
use marmota::sqlite::{Location, Sqlite, SqliteOptions};
use marmota::store::change::ChangeRetention;
use marmota::store::{Durability, Store};
use marmota::{ErrorKind, Model};
use marmota_testkit::FeedReplay;

use super::machine::Machine;
use super::{Failed, Fault, Found, Prove};
use crate::stress::line::Count;
use crate::stress::sample::Dice;
use crate::stress::stand::Folder;

/// The number of threads that write.
const WRITERS: u64 = 3;
/// The number of rows of each.
const ROWS: u64 = 20;
/// One in this many writes is a delete.
const DELETES: u64 = 4;

/// A row that is inserted, changed and deleted.
#[derive(Clone, Debug, Model)]
#[model(table = "prove_item")]
struct Item {
    #[model(key)]
    name: String,
    number: i64,
}

/// What the writers know.
#[derive(Clone, Default)]
struct Known {
    /// The numbers that a row may have, `None` if it may be missing: one after an acknowledged
    /// write, also that of a later write that was not answered.
    possible: HashMap<String, Vec<Option<i64>>>,
    acknowledged: u64,
    is_over: bool,
    fault: Option<String>,
}

/// Runs a seed.
pub(super) fn prove(prove: &Prove, seed: u64, line: &dyn Count) -> Result<Found, Failed> {
    let (mut found, mut replay) = (Found::default(), FeedReplay::default());
    let (mut known, mut dice) = (Known::default(), Dice(seed));
    let mut machine = Machine::new(dice.roll())?;
    for restart in 0..=prove.cuts {
        let file = machine.path("prove.db");
        let store = open(&file, (restart > 0).then_some(prove.plant).flatten())?;
        let at = |fault: String| format!("after restart {restart}: {fault}");
        found.tally.check(1, replay.read(&store)?.map(at));
        found.tally.check(1, replay.difference(&store)?.map(at));
        found.tally.check(1, known.settle(&store)?.map(at));
        let integrity = integrity(&file)?;
        found.tally.check(1, (integrity != "ok").then(|| at(integrity)));
        if restart == prove.cuts || found.tally.failed > 0 {
            store.close()?;
            break;
        }
        let before = replay.position();
        let target = known.acknowledged + 1 + dice.roll() % u64::from(prove.steps);
        let shared = Mutex::new(known);
        let (left, frozen) = std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (store, shared, dice) = (&store, &shared, Dice(dice.roll()));
                scope.spawn(move || write(store, shared, writer, restart, dice));
            }
            let left = read_and_cut(&store, &shared, target, &mut replay, &mut machine);
            lock(&shared).is_over = true;
            left
        })?;
        known = frozen;
        found.unknown += known.possible.values().filter(|row| row.len() > 1).count() as u64;
        found.tally.check(1, known.fault.take());
        // The store does not know that it has lost its power.
        let _ = store.close();
        if prove.plant == Some(Fault::RepeatedChange) {
            replay.set_position(before);
        }
        machine = Machine::with(left, dice.roll())?;
        found.restarts += 1;
        line.step();
    }
    found.tally.check(replay.changes(), None);
    found.acknowledged = known.acknowledged;
    Ok(found)
}

fn open(file: &std::path::Path, plant: Option<Fault>) -> Result<Store, Failed> {
    let options = SqliteOptions { durability: Durability::Full, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(file.to_owned()), options)?;
    // Frequent checkpoints, so that power is cut during checkpoints too.
    engine.execute("PRAGMA wal_autocheckpoint=12")?;
    if plant == Some(Fault::LostChange) {
        engine.execute(
            "DELETE FROM marmota_commit WHERE id = (SELECT max(id) FROM marmota_commit)",
        )?;
    }
    let store = Store::builder(engine).model::<Item>();
    Ok(store.changes(ChangeRetention::unlimited()).open()?)
}

fn lock(shared: &Mutex<Known>) -> MutexGuard<'_, Known> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the feed until this many writes are acknowledged, then cuts the power. Returns what is left
/// of the files, and what the writers knew at that moment.
fn read_and_cut(
    store: &Store,
    shared: &Mutex<Known>,
    target: u64,
    replay: &mut FeedReplay,
    machine: &mut Machine,
) -> Result<(Folder, Known), Failed> {
    loop {
        let fault = replay.read(store)?;
        let mut known = lock(shared);
        if known.fault.is_none() {
            known.fault = fault;
        }
        if known.acknowledged >= target || known.fault.is_some() {
            // No write begins meanwhile, and none is acknowledged.
            return Ok((machine.cut()?, known.clone()));
        }
        drop(known);
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Writes rows of a writer until the power is cut.
fn write(store: &Store, shared: &Mutex<Known>, writer: u64, restart: u32, mut dice: Dice) {
    for step in 0.. {
        let name = format!("{writer}:{}", dice.roll() % ROWS);
        let is_delete = dice.roll().is_multiple_of(DELETES);
        let number = (!is_delete).then_some(i64::from(restart) * 1_000_000 + step);
        {
            let mut known = lock(shared);
            if known.is_over {
                return;
            }
            known.possible.entry(name.clone()).or_insert_with(|| vec![None]).push(number);
        }
        let written = match number {
            Some(number) => {
                let item = Item { name: name.clone(), number };
                store.upsert(&item).run().map(drop)
            }
            None => store.delete::<Item>(name.clone()).run().map(drop),
        };
        let mut known = lock(shared);
        match written {
            Ok(()) => {
                known.acknowledged += 1;
                known.possible.insert(name, vec![number]);
            }
            // There was no row to delete.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                known.fault = Some(format!("writer {writer}: {error}"));
                return;
            }
        }
    }
}

impl Known {
    /// Compares the rows with those that are possible, and returns the first fault. From now on only
    /// those that are there are possible.
    fn settle(&mut self, store: &Store) -> marmota::Result<Option<String>> {
        let rows = store.list::<Item>().run()?;
        let mut rows: HashMap<String, i64> =
            rows.into_iter().map(|item| (item.name, item.number)).collect();
        let mut fault = None;
        for (name, possible) in &mut self.possible {
            let found = rows.remove(name);
            if !possible.contains(&found) {
                fault = Some(format!("the row {name} has {found:?} instead of {possible:?}"));
            }
            *possible = vec![found];
        }
        Ok(fault.or_else(|| rows.keys().next().map(|name| format!("no writer wrote {name}"))))
    }
}
