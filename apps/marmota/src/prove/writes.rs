//! The scenario `writes`: many clients on one thread, in an order that depends only on a seed, on a
//! disk that fails, with clients that disconnect. Then power cuts are simulated at many places in the
//! record of disk writes.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::ops::Range;
use std::path::Path;

use marmota::remote::{Remote, Service};
use marmota::sqlite::disk::{Disk, DiskEvent, DiskFault, PowerCut, integrity};
use marmota::sqlite::{Location, Sqlite, SqliteOptions};
use marmota::store::change::ChangeRetention;
use marmota::store::{Durability, Store};
use marmota_testkit::feed_difference;
use serde_json::json;

use super::client::{Client, Shared};
use super::history::{ACCOUNTS, Account, BALANCE, COUNTER, Fate, History};
use super::{Failed, Prove, schedule};
use crate::stress::line::{Count, Line};
use crate::stress::sample::{Dice, Sample};
use crate::stress::stand::Folder;
use crate::stress::tally::Tally;

/// How often the database is closed and opened again: after a disk error, the engine is stopped
/// until then.
const ROUNDS: u32 = 8;

/// The result of a seed.
struct Proof {
    history: History,
    tally: Tally,
    cuts: u32,
    digest: u64,
}

/// Runs all seeds, and prints a line for each.
pub(super) fn run(prove: &Prove) -> Result<Tally, Failed> {
    prove.print(format_args!(
        " seed  requests  acknowledged  refused  unknown  power cuts  digest"
    ))?;
    let mut tally = Tally::default();
    for seed in prove.seeds() {
        let line = Line::new(format!("seed {seed}"), u64::from(prove.cuts) + 1);
        let proof = prove.seed(seed, &line)?;
        drop(line);
        let count = |is: fn(&Fate) -> bool| proof.history.count(is);
        let requests = count(|_| true) as u64 + proof.history.read;
        let acknowledged = count(|fate| matches!(fate, Fate::Done(_)));
        let refused = count(|fate| *fate == Fate::Refused);
        let unknown = count(|fate| *fate == Fate::Unknown);
        let (cuts, digest) = (proof.cuts, format!("{:016x}", proof.digest));
        prove.print(format_args!(
            "{seed:>5}  {requests:>8}  {acknowledged:>12}  {refused:>7}  {unknown:>7}  {cuts:>10}  \
             {digest}"
        ))?;
        tally.runs.push(json!({
            "scenario": "writes",
            "seed": seed,
            "requests": requests,
            "acknowledged": acknowledged,
            "refused": refused,
            "unknown": unknown,
            "power_cuts": cuts,
            "digest": digest,
        }));
        let first = seed == prove.seed;
        let mut found = proof.tally;
        if first {
            let again = prove.seed(seed, &Line::new("once more".to_owned(), 1))?.digest;
            let differs = || format!("a second run of the same seed has the digest {again:016x}");
            found.check(1, (again != proof.digest).then(differs));
        }
        prove.name_faults("writes", seed, &mut found);
        tally.add(found);
    }
    Ok(tally)
}

impl Prove {
    fn seed(&self, seed: u64, line: &Line) -> Result<Proof, Failed> {
        let folder = Folder::in_memory()?;
        let place = folder.0.canonicalize()?;
        let disk = Disk::at(&place)?;
        disk.record(true);
        let file = place.join("prove.db");
        let (store, _) = open(&file, self.disk_fault())?;
        store.insert(&Account { id: COUNTER, balance: 0 }).run()?;
        let accounts: Vec<Account> = ACCOUNTS.map(|id| Account { id, balance: BALANCE }).collect();
        store.insert_many(&accounts).run()?;
        store.close()?;

        let (history, digest) = Default::default();
        let mut dice = Dice(seed);
        for round in 0..ROUNDS {
            let (store, sync) = open(&file, self.disk_fault())?;
            let shared =
                Shared { disk: &disk, sync: &sync, seed, history: &history, digest: &digest };
            let steps = self.steps * round / ROUNDS..self.steps * (round + 1) / ROUNDS;
            self.carry_out(&store, &shared, steps, &mut dice)?;
            disk.fail_after(None);
            // An engine that a failed disk has stopped returns an error.
            let _ = store.close();
        }
        let (mut history, digest): (History, DefaultHasher) =
            (history.into_inner(), digest.into_inner());
        let (store, _) = open(&file, self.disk_fault())?;
        let mut tally = history.check(&store, seed, usize::MAX)?;
        tally.check(1, feed_difference(&store)?);
        disk.record(false);
        store.close()?;
        tally.check(history.read, None);
        for fault in std::mem::take(&mut history.faults) {
            tally.check(0, Some(fault));
        }
        line.step();
        let cuts = self.cut(&disk.take_record(), &history, seed, &mut tally, line)?;
        Ok(Proof { history, tally, cuts, digest: digest.finish() })
    }

    /// Runs the clients in the order that the seed determines.
    fn carry_out(
        &self,
        store: &Store,
        shared: &Shared<'_>,
        steps: Range<u32>,
        dice: &mut Dice,
    ) -> Result<(), Failed> {
        let service = Service::new(store);
        let client = |_| {
            let remote = Store::builder(Remote::in_process(&service));
            remote.model::<Sample>().model::<Account>().open()
        };
        let stores = (0..self.clients).map(client).collect::<marmota::Result<Vec<_>>>()?;
        let tasks = (0..self.clients).zip(&stores).map(|(number, store)| {
            let dice = Dice(dice.roll());
            let client = Client { shared, number, store, dice, known: Vec::new() };
            let task: schedule::Task<'_> = Box::pin(client.work(steps.clone()));
            task
        });
        let tasks = tasks.collect();
        schedule::run(tasks, dice);
        Ok(())
    }

    /// Cuts the power at random places: half of the cuts near a sync, half at other writes. Also
    /// kills the process where a sync failed, which keeps everything that was written.
    fn cut(
        &self,
        record: &[DiskEvent],
        history: &History,
        seed: u64,
        tally: &mut Tally,
        line: &Line,
    ) -> Result<u32, Failed> {
        let failed = |event: &DiskEvent| matches!(event, DiskEvent::SyncFailed { .. });
        let is_sync = |event: &DiskEvent| {
            failed(event) || matches!(event, DiskEvent::Sync { .. } | DiskEvent::Synced { .. })
        };
        let syncs = record.iter().filter(|event| is_sync(event)).count() as u64;
        let others = record.len() as u64 - syncs;
        let (mut disk, mut dice, mut cuts) = (PowerCut::new(seed), Dice(!seed), 0);
        for (place, event) in record.iter().enumerate() {
            let of = if is_sync(event) { syncs } else { others };
            if dice.roll() % (2 * of) < self.cuts.into() {
                let left = Folder::in_memory()?;
                disk.leave(&left.0, [0, 3, 7][cuts as usize % 3])?;
                look_after(&left.0, history, seed, place, tally);
                cuts += 1;
                line.step();
            }
            disk.go_on(event);
            if failed(event) && self.cuts > 0 {
                let left = Folder::in_memory()?;
                disk.leave_killed(&left.0)?;
                look_after(&left.0, history, seed, place, tally);
            }
        }
        Ok(cuts)
    }
}

fn look_after(folder: &Path, history: &History, seed: u64, place: usize, tally: &mut Tally) {
    match after_a_cut(folder, history, seed, place) {
        Ok(found) => tally.add(found),
        Err(error) => tally.check(0, Some(format!("cut at {place}: {error}"))),
    }
}

/// Opens the database that a power cut or a kill left, and checks it.
fn after_a_cut(folder: &Path, history: &History, seed: u64, until: usize) -> Result<Tally, Failed> {
    let file = folder.join("prove.db");
    let (store, _) = open(&file, None)?;
    let mut tally = history.check(&store, seed, until)?;
    let difference = feed_difference(&store)?;
    tally.check(1, difference.map(|found| format!("cut at {until}: {found}")));
    store.close()?;
    let found = integrity(&file)?;
    tally.check(
        1,
        (found != "ok").then(|| format!("cut at {until}: the integrity check reports {found}")),
    );
    Ok(tally)
}

/// Opens the database. The returned function syncs relaxed writes to the disk.
fn open(
    file: &Path,
    plant: Option<DiskFault>,
) -> Result<(Store, impl Fn() + Send + Sync + use<>), Failed> {
    // No timeout may abort an operation: the clock does not depend on the seed.
    let options = SqliteOptions {
        durability: Durability::Full,
        busy_timeout_ms: 3_600_000,
        ..SqliteOptions::default()
    };
    let engine = Sqlite::open(Location::File(file.to_owned()), options)?;
    // Frequent checkpoints, so that the database file is synced often too.
    engine.execute("PRAGMA wal_autocheckpoint=12")?;
    let sync = engine.leave_groups_to_callers();
    if let Some(fault) = plant {
        engine.plant(fault)?;
    }
    let store = Store::builder(engine).model::<Sample>().model::<Account>();
    // Nothing is removed from the feed after a time, which does not depend on the seed.
    Ok((store.changes(ChangeRetention::unlimited()).open()?, sync))
}
