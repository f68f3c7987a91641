//! Restore: a snapshot and the segments after it become the file of a database.

use std::io::Write as _;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::change::Position;
use marmota_store::log_copy::LogKind;
use marmota_store::private_file;

use crate::objects::claim::{check_kind, time_text};
use crate::objects::envelope::damaged;
use crate::objects::segment::{self, SEGMENTS, SegmentBody, SegmentHead};
use crate::objects::segment_reader::{FoundSegment, SegmentReader};
use crate::objects::snapshot::{self, Manifest};
use crate::objects::target::Target;
use crate::restoring::Restoring;

/// The state of a database that is restored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RestorePoint {
    /// The last commit in the target.
    Latest,
    /// The last commit that is not later than this time, by the clock of the primary.
    Time(Timestamp),
    /// This position in the change feed.
    Position(Position),
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredReplica {
    /// The last segment of which commits were applied.
    pub index: u64,
    /// The time of the last commit.
    pub time: Timestamp,
    /// The number of commits that were applied to the snapshot.
    pub commits: u64,
    pub(crate) database: String,
    pub(crate) epoch: u64,
    pub(crate) chain: u64,
}

/// Writes a database as it is in a target to a new file. Everything is verified by checksums; the
/// caller has to check the database (`PRAGMA integrity_check`).
///
/// A database with a log of [records](LogKind::Records) gets its logs next to the file
/// ([`log_path`](marmota_store::log_copy::log_path)); the last one may end in an incomplete record.
///
/// # Errors
/// - [`ErrorKind::Conflict`] if the target has a database with another kind of log.
/// - [`ErrorKind::NotFound`] if the target has no snapshot, or none from before the point.
/// - [`ErrorKind::Invalid`] for a point after the last commit, and a URL of another form.
/// - [`ErrorKind::Engine`] for a damaged or missing object, with its name.
/// - [`ErrorKind::Refused`] if the target cannot be reached, [`ErrorKind::Io`] if the file cannot be
///   written.
pub fn fetch(
    url: &str,
    kind: LogKind,
    point: RestorePoint,
    file: &Path,
) -> Result<RestoredReplica> {
    let target = Target::open(url, false)?;
    let io = |error: std::io::Error| {
        let message = format!("{} cannot be written: {error}", file.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let manifest = choose(&target, point)?;
    check_kind(target.url(), manifest.kind, kind)?;
    let mut new = private_file::create(file).map_err(io)?;
    snapshot::read(&target, &manifest, |bytes| new.write_all(bytes).map_err(io))?;
    let mut restored = RestoredReplica {
        index: manifest.begins_after,
        time: time(manifest.time_us),
        commits: 0,
        database: manifest.database.clone(),
        epoch: 0,
        chain: 0,
    };
    let last = segments_after(&target, manifest.begins_after)?;
    if last < manifest.ends_with {
        return Err(damaged(&segment::object_name(manifest.ends_with), "it is missing"));
    }
    let mut is_reached = false;
    let mut restoring = Restoring::new(kind, file, &new);
    let mut segments = SegmentReader::default();
    for index in manifest.begins_after + 1..=last {
        let FoundSegment { head, body, .. } = segments.require(&target, index)?;
        check(&head, &restored, &manifest)?;
        // Before its end a snapshot is not a state that the database had.
        let commits = match index <= manifest.ends_with {
            true => body.commits.len(),
            false => count(&body, point),
        };
        is_reached = commits < body.commits.len();
        if is_reached && commits == 0 {
            break;
        }
        restoring.apply(&head, &body, commits)?;
        restored.index = index;
        restored.commits += commits as u64;
        (restored.epoch, restored.chain) = (head.epoch, head.chain);
        if let Some(commit) = commits.checked_sub(1).and_then(|at| body.commits.get(at)) {
            restored.time = time(commit.time_us);
        }
        if is_reached {
            break;
        }
    }
    if !is_reached {
        check_reached(&target, point, &restored, last)?;
    }
    restoring.finish()?;
    Ok(restored)
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or_else(|_| Timestamp::now())
}

/// Returns the newest snapshot that is complete before the point.
fn choose(target: &Target, point: RestorePoint) -> Result<Manifest> {
    let mut manifests = snapshot::manifests(target)?;
    if manifests.is_empty() {
        let message = format!(
            "{} has no snapshot of a database: check the URL; a primary makes the first one when \
             it starts",
            target.url()
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let oldest = manifests[0].clone();
    manifests.retain(|manifest| match point {
        RestorePoint::Latest => true,
        RestorePoint::Time(time) => manifest.time_us <= time.micros(),
        RestorePoint::Position(position) => manifest.number <= position.commit_number(),
    });
    manifests.pop().ok_or_else(|| {
        let message = format!(
            "{} does not go back that far: its oldest snapshot is of {}",
            target.url(),
            time_text(oldest.time_us)
        );
        Error::new(ErrorKind::NotFound, message)
    })
}

/// Returns the number of the last segment after this one; the same if it is the last.
fn segments_after(target: &Target, index: u64) -> Result<u64> {
    let after = segment::file_name(index);
    let listed = target.list(SEGMENTS, Some(&after))?;
    Ok(listed.iter().rev().find_map(|object| object.name.parse().ok()).unwrap_or(index))
}

/// Checks that a segment follows what was restored so far.
fn check(head: &SegmentHead, so_far: &RestoredReplica, manifest: &Manifest) -> Result<()> {
    let name = segment::object_name(head.index);
    if head.database != so_far.database {
        return Err(damaged(&name, "it belongs to another database"));
    }
    if head.kind != manifest.kind {
        return Err(damaged(&name, "it has another kind of log than its snapshot"));
    }
    if head.epoch < so_far.epoch {
        return Err(damaged(&name, "it belongs to an earlier epoch than the one before it"));
    }
    // A chain that begins later has a snapshot of its own, which is not there yet or damaged.
    if head.chain > manifest.begins_after + 1 {
        let message = format!(
            "the commits before `{name}` are missing: the primary could not write them, and its \
             next snapshot is not complete. Restore the state at {} or before, or wait for the \
             snapshot",
            time_text(so_far.time.micros())
        );
        return Err(Error::new(ErrorKind::Engine, message));
    }
    Ok(())
}

/// Returns the number of commits of a segment up to the point.
fn count(body: &SegmentBody, point: RestorePoint) -> usize {
    let later = |at: &segment::CommitEntry| match point {
        RestorePoint::Latest => false,
        RestorePoint::Time(time) => at.time_us > time.micros(),
        RestorePoint::Position(position) => at.number > position.commit_number(),
    };
    body.commits.iter().position(later).unwrap_or(body.commits.len())
}

/// Refuses a position that the target does not have yet.
fn check_reached(
    target: &Target,
    point: RestorePoint,
    restored: &RestoredReplica,
    last: u64,
) -> Result<()> {
    let RestorePoint::Position(position) = point else { return Ok(()) };
    let number = if last == 0 { 0 } else { crate::objects::claim::head_of(target, last)?.number };
    if number >= position.commit_number() {
        return Ok(());
    }
    let message = format!(
        "{} does not have the position {position} yet: it ends with commit {number} of {}",
        target.url(),
        restored.time
    );
    Err(Error::new(ErrorKind::Invalid, message))
}
