//! Promotion: a replica, or a restored database, becomes the primary of a target.
//!
//! The new primary writes a segment that begins an epoch. Its number is the one that the old primary
//! would use next, so that one fails at its next upload.

use std::fs::File;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::LogKind;

use crate::objects::claim::{self, Identity};
use crate::objects::segment_reader::{FoundSegment, SegmentReader};
use crate::objects::target::Target;
use crate::restoring::{Restoring, go_back};
use crate::state_file::{ClosedFile, Role, StateFile};

/// The result of a promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotedDatabase {
    /// The number of primaries that the database has had, this one included.
    pub epoch: u64,
    /// The number of segments that were applied to the replica before.
    pub applied: u64,
}

/// Returns true if a database is a replica, or has to be fetched to become one.
///
/// # Errors
/// [`ErrorKind::Engine`] if the file with its state is damaged.
pub fn is_replica(path: &Path) -> Result<bool> {
    Ok(StateFile::read(path)?.is_some_and(|state| state.role == Role::Replica))
}

/// Makes a database the primary of a target. A replica first gets all commits that are in the
/// target; a database that was restored keeps its state, and commits in the target after that are
/// undone.
///
/// The database must not be open. It must have no log, except the log of records of a replica, at
/// whose end no record is incomplete.
///
/// # Errors
/// - [`ErrorKind::NotFound`] if the target has no database.
/// - [`ErrorKind::Conflict`] if the database is the primary already, or belongs to another target, or
///   the target has a database with another kind of log.
/// - [`ErrorKind::Engine`] for a damaged segment, with its name.
/// - [`ErrorKind::Refused`] if the target cannot be reached.
pub fn promote(url: &str, kind: LogKind, path: &Path) -> Result<PromotedDatabase> {
    let target = Target::open(url, false)?;
    let state = StateFile::read(path)?;
    if state.as_ref().is_some_and(|state| state.role == Role::Replica && state.index == 0) {
        let message = format!(
            "{} is incomplete: start it once with `--replica-of {url}`, then promote it",
            path.display()
        );
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    let io = |error: std::io::Error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let file = File::options().read(true).write(true).open(path).map_err(io)?;
    let mut applied = 0;
    let mut replica = state.filter(|state| state.role == Role::Replica);
    let mut segments = SegmentReader::default();
    let mut restoring = Restoring::of_replica(kind, path, &file)?;
    if let Some(replica) = replica.as_mut().filter(|_| kind == LogKind::Records) {
        go_back(&target, &mut segments, restoring.log_end(), replica)?;
    }
    loop {
        let last = claim::last_index(&target)?;
        if last == 0 {
            let message = format!("{url} has no database to take over: check the URL");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let head = claim::head_of(&target, last)?;
        claim::check_kind(url, head.kind, kind)?;
        if let Some(replica) = &mut replica {
            if replica.database != head.database {
                let message = format!("{} is a replica of another target", path.display());
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            while replica.index < last {
                let FoundSegment { head, body, .. } =
                    segments.require(&target, replica.index + 1)?;
                if head.chain != replica.chain {
                    let message = format!(
                        "{} lacks commits that only a new snapshot has: start it once with \
                         `--replica-of {url}`, then promote it",
                        path.display()
                    );
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                restoring.apply(&head, &body, body.commits.len())?;
                replica.index += 1;
                applied += 1;
            }
            restoring.finish()?;
            replica.epoch = head.epoch;
            replica.write(path)?;
        }
        let epoch = head.epoch + 1;
        let identity =
            Identity { database: head.database.clone(), kind, epoch, writer: claim::random()? };
        let index = last + 1;
        let chain = replica.as_ref().map_or(index, |replica| replica.chain);
        let begun = claim::begin_epoch(&target, &identity, index, chain, head.number)?;
        if begun.is_none() {
            // The old primary was faster: its segment is applied as well.
            continue;
        }
        // A log of records is compared to the target at the start.
        let is_closed = kind == LogKind::Pages && replica.is_some();
        let closed = is_closed.then(|| ClosedFile::of(path, index)).flatten();
        let database = identity.database;
        StateFile { role: Role::Primary, database, epoch, index, chain, has_gap: false, closed }
            .write(path)?;
        return Ok(PromotedDatabase { epoch, applied });
    }
}
