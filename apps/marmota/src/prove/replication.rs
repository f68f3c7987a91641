//! The scenarios `replication` and `memory-replication`: a primary writes to a target whose link fails, a replica follows, and
//! the power of both is cut. Then the primary is started again, or is lost, and a restored database
//! takes over.
//!
//! After each cut the target must have what was acknowledged: in sync mode everything, in async mode
//! everything that is older than the lag that the primary reported. What is restored is a state that
//! the primary had, and a restore to a position gives exactly its rows. After each start the target
//! and the replica get the rows of the primary.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use marmota::replication::{ReplicationMode, ReplicationOptions, RestorePoint, promote};
use marmota::sqlite::disk::integrity;
use marmota::store::change::Position;

use super::machine::Machine;
use super::replicated::{Kind, Place, Primary, Replica, numbers};
use super::{Failed, Fault, Found, Prove};
use crate::stress::line::Count;
use crate::stress::sample::Dice;
use crate::stress::stand::Folder;

/// One in this many steps cuts the link to the target, and one in `MENDS` mends it.
const CUTS: u64 = 15;
const MENDS: u64 = 5;
/// One in this many steps waits until the target has everything.
const FLUSHES: u64 = 10;
/// One in this many writes does not wait for the disk.
const RELAXED: u64 = 8;
/// One in this many restarts, the primary is lost, and a restored database takes over.
const LOSSES: u64 = 3;

/// What the client of the primary knows.
#[derive(Default)]
struct Notes {
    next: i64,
    /// Those that were acknowledged in this run of the primary, with the time and the position after
    /// each.
    acknowledged: Vec<(i64, Instant, Position)>,
    /// Those that were there when this run began.
    settled: HashSet<i64>,
    unknown: HashSet<i64>,
}

/// A run of the scenario.
struct Run<'p> {
    prove: &'p Prove,
    is_sync: bool,
    place: Place,
    notes: Notes,
    dice: Dice,
    found: Found,
}

/// Returns the scenario with databases of this kind.
pub(super) fn of(kind: Kind) -> impl Fn(&Prove, u64, &dyn Count) -> Result<Found, Failed> {
    move |of, seed, line| prove(of, kind, seed, line)
}

/// Runs a seed. Odd seeds replicate synchronously.
fn prove(prove: &Prove, kind: Kind, seed: u64, line: &dyn Count) -> Result<Found, Failed> {
    let (notes, dice, found) = (Notes::default(), Dice(seed), Found::default());
    let is_sync = !seed.is_multiple_of(2);
    let mut run = Run { prove, is_sync, place: Place::new(kind)?, notes, dice, found };
    let mut machine = kind.machine(Folder::in_memory()?, run.dice.roll())?;
    let mut of_replica = Folder::in_memory()?;
    for restart in 0..=prove.cuts {
        let at = |fault: String| format!("after restart {restart}: {fault}");
        let primary = Primary::open(&machine, &run.place, run.options())?;
        let there = numbers(&primary.store)?;
        run.check_start(&there, restart);
        let fault = primary.flush();
        run.found.tally.check(1, fault.map(at));
        let fault = run.place.wait_until_restored(&there);
        run.found.tally.check(1, fault.map(at));
        let replica = Replica::open(of_replica, &run.place, run.dice.roll())?;
        let fault = replica.wait_for(&primary, &there)?;
        run.found.tally.check(1, fault.map(at));
        if restart == prove.cuts || run.found.tally.failed > 0 {
            replica.store.close()?;
            primary.store.close()?;
            break;
        }
        replica.machine.note_synced();
        run.write(&primary, &machine)?;
        of_replica = replica.cut()?;
        if prove.plant == Some(Fault::SkippedSegment) {
            kind.skip_segment(&of_replica.0)?;
        }
        let left = run.cut(&primary, &mut machine)?;
        let _ = primary.store.close();
        run.place.reconnect()?;
        machine = run.restart(left, restart)?;
        if run.found.tally.failed > 0 {
            break;
        }
        run.found.restarts += 1;
        line.step();
    }
    Ok(run.found)
}

impl Run<'_> {
    fn options(&self) -> ReplicationOptions {
        let is_early = self.prove.plant == Some(Fault::EarlyAnswer);
        let mode = match self.is_sync && !is_early {
            true => ReplicationMode::Sync,
            false => ReplicationMode::Async,
        };
        let window = Duration::from_millis(if is_early { 2_000 } else { 20 });
        ReplicationOptions::default()
            .mode(mode)
            .window(window)
            .sync_deadline(Duration::from_millis(300))
            .merge_after(Duration::ZERO)
    }

    fn check(&mut self, is_right: bool, fault: impl FnOnce() -> String) {
        self.found.tally.check(1, (!is_right).then(fault));
    }

    /// Checks the rows of a primary that was started, which are the known ones from now on.
    fn check_start(&mut self, there: &[i64], restart: u32) {
        let there: HashSet<i64> = there.iter().copied().collect();
        let Notes { acknowledged, settled, unknown, .. } = &mut self.notes;
        let known = acknowledged.iter().map(|(number, ..)| *number).chain(settled.iter().copied());
        let known: HashSet<i64> = known.collect();
        let lost = known.difference(&there).min();
        let lost = lost.map(|number| format!("after restart {restart}: row {number} is lost"));
        let new = there.iter().find(|number| !known.contains(number) && !unknown.contains(number));
        let new =
            new.map(|number| format!("after restart {restart}: row {number} was never written"));
        *settled = there;
        acknowledged.clear();
        unknown.clear();
        self.found.tally.check(1, lost);
        self.found.tally.check(1, new);
    }

    /// Writes rows, while the link to the target fails and is mended.
    fn write(&mut self, primary: &Primary, machine: &Machine) -> Result<(), Failed> {
        for _ in 0..1 + self.dice.roll() % u64::from(self.prove.steps) {
            if self.dice.roll().is_multiple_of(CUTS) {
                self.place.cut_link(true)?;
            } else if self.dice.roll().is_multiple_of(MENDS) {
                self.place.cut_link(false)?;
            }
            if self.dice.roll().is_multiple_of(FLUSHES) {
                self.place.cut_link(false)?;
                let fault = primary.flush();
                self.found.tally.check(1, fault);
            }
            self.notes.next += 1;
            let number = self.notes.next;
            let is_relaxed = self.dice.roll().is_multiple_of(RELAXED);
            match primary.insert(number, is_relaxed)? {
                Some(true) => {
                    machine.note_synced();
                    let note = (number, Instant::now(), primary.position()?);
                    self.notes.acknowledged.push(note);
                    self.found.acknowledged += 1;
                }
                Some(false) => {}
                None => {
                    self.notes.unknown.insert(number);
                    self.found.unknown += 1;
                }
            }
        }
        Ok(())
    }

    /// Cuts the power of the primary, and its link to the target. Returns what is left of its files.
    fn cut(&mut self, primary: &Primary, machine: &mut Machine) -> Result<Folder, Failed> {
        let now = Instant::now();
        let lag = Duration::from_millis(primary.replicator.status().lag_ms + 1);
        self.place.disconnect()?;
        let left = self.place.kind.cut(machine)?;
        // In async mode, what was acknowledged before that must be in the target.
        let since = if self.is_sync { now } else { now.checked_sub(lag).unwrap_or(now) };
        for (number, at, _) in &self.notes.acknowledged {
            if *at <= since {
                self.notes.settled.insert(*number);
            }
        }
        Ok(left)
    }

    /// Checks what the target has, and returns the machine on which the primary starts again.
    fn restart(&mut self, left: Folder, restart: u32) -> Result<Machine, Failed> {
        let at = |fault: &str| format!("cut {restart}: {fault}");
        if self.prove.plant == Some(Fault::DamagedSegment) {
            self.place.damage()?;
        }
        let (folder, restored) = match self.place.restored(RestorePoint::Latest) {
            Ok(restored) => restored,
            Err(error) => {
                self.found.tally.check(1, Some(at(&format!("the restore fails: {error}"))));
                return self.place.kind.machine(left, self.dice.roll());
            }
        };
        let there: HashSet<i64> = restored.iter().copied().collect();
        let lost = self.notes.settled.difference(&there).count();
        self.check(lost == 0, || at(&format!("the target lacks {lost} acknowledged rows")));
        let Notes { acknowledged, settled, unknown, .. } = &self.notes;
        let acknowledged = acknowledged.clone();
        let is_known = |number: &&i64| {
            settled.contains(number)
                || unknown.contains(number)
                || acknowledged.iter().any(|(one, ..)| one == *number)
        };
        let foreign = there.iter().find(|number| !is_known(number)).copied();
        self.check(foreign.is_none(), || at(&format!("the target has {foreign:?}, never written")));
        // A state that the primary had: no row is missing before the last one.
        let last = restored.last().copied().unwrap_or(0);
        let missing = acknowledged.iter().find(|(one, ..)| *one < last && !there.contains(one));
        self.check(missing.is_none(), || {
            at(&format!("the target has {last}, but not {missing:?}"))
        });
        let kind = self.place.kind;
        if kind == Kind::Sqlite {
            // A restore of the other engine has read all rows.
            let found = integrity(&folder.0.join(kind.file()))?;
            self.check(found == "ok", || at(&found));
        }
        let points: Vec<_> = acknowledged.iter().filter(|(one, ..)| there.contains(one)).collect();
        if !points.is_empty() {
            let (number, _, position) = points[self.dice.roll() as usize % points.len()];
            let (_, found) = self.place.restored(RestorePoint::Position(*position))?;
            let wanted: Vec<i64> = restored.iter().copied().filter(|one| one <= number).collect();
            self.check(found == wanted, || at(&format!("{position} does not have its rows")));
        }
        if !self.dice.roll().is_multiple_of(LOSSES) {
            return self.place.kind.machine(left, self.dice.roll());
        }
        // The primary is lost with what the target does not have.
        promote(&self.place.url(), &kind.url(&folder.0.join(kind.file())))?;
        self.notes.settled = there;
        self.notes.acknowledged.clear();
        self.notes.unknown.clear();
        kind.machine(folder, self.dice.roll())
    }
}
