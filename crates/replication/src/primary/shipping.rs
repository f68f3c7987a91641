//! The replicator's thread: claims the target, then writes segments and has snapshots made.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::backoff::Backoff;

use crate::log::log_tail::Taken;
use crate::objects::claim::{self, Identity};
use crate::objects::envelope::Encoding;
use crate::objects::segment::{self, FORMAT, SegmentHead};
use crate::objects::snapshot;
use crate::objects::target::Target;
use crate::primary::background::Task;
use crate::primary::merging::merge_old;
use crate::primary::replicator::{Core, OpenDatabase, ShippedSegment};
use crate::primary::snapshots;
use crate::state_file::{ClosedFile, Role, StateFile};

/// The first pause before a request is repeated, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The pause before the log is read again that has a commit which is not reported yet.
const UNREPORTED_PAUSE: Duration = Duration::from_millis(5);
/// The shortest time between two executions of the merging, and the longest from the start to the
/// first one.
const MERGE_INTERVAL_MIN: Duration = Duration::from_millis(100);
const FIRST_MERGE: Duration = Duration::from_secs(60);

/// Replicates until the store is closed or another primary takes over.
pub(crate) fn run(core: &Arc<Core>) {
    let Some(open) = core.open.get() else { return };
    let Some((target, identity, needs_snapshot)) = begin(core, open) else { return };
    let interval = core.options.snapshot_interval;
    let first = if needs_snapshot { Duration::ZERO } else { interval };
    let mut snapshots = Task::new("marmota-snapshot", with(core, snapshots::make), interval, first);
    let age = core.options.merge_after;
    let interval = age.max(MERGE_INTERVAL_MIN);
    let first = if age == Duration::MAX { age } else { interval.min(FIRST_MERGE) };
    let mut merging = Task::new("marmota-merge", with(core, merge), interval, first);
    while let Some(noted) = core.wait_for_work() {
        if let Err(error) = ship_all(core, open, &target, &identity, noted, &mut snapshots) {
            core.fence(&error);
            break;
        }
        for failure in [snapshots.work(), merging.work()].into_iter().flatten() {
            core.note_failure(&failure);
        }
    }
    snapshots.join();
    merging.join();
}

/// Returns a task with the state of the replicator.
fn with(core: &Arc<Core>, work: fn(&Core) -> Result<()>) -> impl Fn() -> Result<()> + use<> {
    let core = Arc::clone(core);
    move || work(&core)
}

/// Merges the old segments of the target.
fn merge(core: &Core) -> Result<()> {
    let target = Target::open(&core.url, true)?;
    let age = i64::try_from(core.options.merge_after.as_micros()).unwrap_or(i64::MAX);
    let before_us = Timestamp::now().micros().saturating_sub(age);
    let merged = merge_old(&target, core.epoch(), before_us, &mut || core.is_working())?;
    core.note_merged(merged);
    Ok(())
}

/// Claims the target and starts to read the log. Returns `None` if that is refused, or the
/// replicator ends before.
fn begin(core: &Arc<Core>, open: &OpenDatabase) -> Option<(Target, Identity, bool)> {
    let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
    loop {
        match claim_once(core, open) {
            Ok((target, identity, needs_snapshot)) => {
                core.started(Ok(identity.clone()));
                return Some((target, identity, needs_snapshot));
            }
            Err(error) => {
                let is_final = error.kind() != ErrorKind::Refused;
                core.started(Err(error));
                if is_final || !core.pause(backoff.pause()) {
                    return None;
                }
            }
        }
    }
}

fn claim_once(core: &Arc<Core>, open: &OpenDatabase) -> Result<(Target, Identity, bool)> {
    let target = Target::open(&core.url, true)?;
    let state = StateFile::read(&open.path)?;
    let (identity, last) = claim::claim(&target, open.kind, state.as_ref(), &claim::random()?)?;
    let snapshot_begin = snapshot::last_begin_of_chain(&target, last.chain)?;
    let mut tail = open.tail.lock();
    let closed = state.as_ref().and_then(|state| state.closed);
    let is_closed = closed.is_some_and(|closed| {
        closed.index == last.index && ClosedFile::of(&open.path, last.index) == Some(closed)
    });
    let io = |error: std::io::Error| {
        let message = format!("the log of {} cannot be read: {error}", open.path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let has_gap = state.as_ref().is_some_and(|state| state.has_gap);
    let began_after = snapshot_begin.unwrap_or(last.chain.saturating_sub(1));
    let resumed = !has_gap && tail.resume(&last, began_after, is_closed).map_err(io)?;
    if !resumed {
        tail.begin_chain(last.index).map_err(io)?;
    }
    drop(tail);
    let needs_snapshot = !resumed || snapshot_begin.is_none();
    if !needs_snapshot {
        core.note_covered(last.chain);
    }
    let state = StateFile {
        role: Role::Primary,
        database: identity.database.clone(),
        epoch: identity.epoch,
        index: last.index,
        chain: last.chain,
        has_gap: false,
        closed: None,
    };
    // Cleared when the new chain has its first segment.
    let state = StateFile { has_gap: !resumed, ..state };
    state.write(&open.path)?;
    core.note_shipped(0, Some(ShippedSegment::of(&last, 0)));
    Ok((target, identity, needs_snapshot))
}

/// Writes everything that is in the log.
///
/// # Errors
/// That of a primary that was replaced.
fn ship_all(
    core: &Core,
    open: &OpenDatabase,
    target: &Target,
    identity: &Identity,
    noted: u64,
    snapshots: &mut Task,
) -> Result<()> {
    loop {
        let (all, taken) = {
            let mut tail = open.tail.lock();
            if tail.next().is_broken {
                let last = tail.copy_ends_with();
                let begun = tail.begin_chain(last);
                if let Err(error) = begun {
                    core.note_failure(&Error::new(ErrorKind::Io, error.to_string()));
                    return Ok(());
                }
                snapshots.hurry();
                core.note_chain(tail.next().chain);
            }
            let all = tail.capture(&core.notes).unwrap_or_else(|error| {
                tail.give_up(&core.notes, &error.to_string());
                true
            });
            if tail.next().is_broken {
                // What was reported is not in the target: the new chain has it.
                return Ok(());
            }
            core.note_captured(tail.captured());
            (all, tail.take())
        };
        let Some(taken) = taken else {
            if all {
                core.note_shipped(noted, None);
                return Ok(());
            }
            // A commit that is not reported yet comes first: what was reported may be after it.
            match core.pause(UNREPORTED_PAUSE) {
                true => continue,
                false => return Ok(()),
            }
        };
        let Some(shipped) = ship(core, target, identity, taken)? else { return Ok(()) };
        core.note_shipped(if all { noted } else { 0 }, Some(shipped));
        if shipped.index == shipped.chain {
            core.write_state(false);
        }
        if all {
            return Ok(());
        }
    }
}

/// Writes one segment, repeatedly until the target accepts it. Returns `None` if the replicator ends
/// before.
fn ship(
    core: &Core,
    target: &Target,
    identity: &Identity,
    taken: Taken,
) -> Result<Option<ShippedSegment>> {
    let head = SegmentHead {
        format: FORMAT,
        kind: identity.kind,
        database: identity.database.clone(),
        epoch: identity.epoch,
        writer: identity.writer.clone(),
        host: claim::host(),
        index: taken.index,
        chain: taken.chain,
        begins_epoch: false,
        time_us: taken
            .body
            .commits
            .last()
            .map_or_else(|| Timestamp::now().micros(), |commit| commit.time_us),
        number: taken.number,
        page_bytes: taken.page_bytes,
        commits: 0,
        pages: 0,
        log: taken.log,
        encoding: Encoding::None,
        body_bytes: 0,
    };
    let object = segment::encode(head.clone(), &taken.body)?;
    drop(taken);
    let shipped = ShippedSegment::of(&head, object.len() as u64);
    let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
    loop {
        match append(target, &head, &object) {
            Ok(()) => return Ok(Some(shipped)),
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(error),
            Err(error) => {
                core.note_failure(&error);
                if !core.pause(backoff.pause()) {
                    return Ok(None);
                }
            }
        }
    }
}

/// Creates a segment, unless an earlier try has.
///
/// # Errors
/// [`ErrorKind::Conflict`] if another primary has taken the number.
fn append(target: &Target, head: &SegmentHead, object: &[u8]) -> Result<()> {
    if target.put_new(&segment::object_name(head.index), object.to_vec())? {
        return Ok(());
    }
    let there = claim::head_of(target, head.index)?;
    match there.writer == head.writer && there.epoch == head.epoch {
        // The answer to an earlier try was lost.
        true => Ok(()),
        false => Err(claim::fenced(target.url(), &there)),
    }
}

impl ShippedSegment {
    fn of(head: &SegmentHead, bytes: u64) -> Self {
        Self { index: head.index, chain: head.chain, time_us: head.time_us, bytes }
    }
}
