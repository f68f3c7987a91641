//! Snapshots: copies of a database's file.
//!
//! The file is copied while the database is in use, and checkpoints change it meanwhile. Each page
//! that they write was read from the log before, so it is in a segment: the copy and the segments
//! from the beginning of the log to the end of the copy give the database, as in a base backup of
//! PostgreSQL. The file of a database with a log of records is replaced as a whole, and needs the
//! segments from the beginning of the log that it names. A snapshot therefore has two numbers: the last segment before it, and the segment
//! with which it is complete.
//!
//! A snapshot consists of parts and a manifest, which is written last.

use std::time::Duration;

use marmota_model::{Result, Timestamp};
use marmota_store::log_copy::LogKind;
use serde::{Deserialize, Serialize};

use crate::objects::claim::EPOCHS;
use crate::objects::envelope::{self, Encoding, damaged};
use crate::objects::merged;
use crate::objects::segment::{self, LogKindText, SEGMENTS};
use crate::objects::target::Target;

/// The folder of manifests.
const SNAPSHOTS: &str = "snapshots";
/// The folder of parts.
const PARTS: &str = "parts";

/// The manifest of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// What the segments after it have.
    #[serde(default, with = "LogKindText")]
    pub(crate) kind: LogKind,
    pub(crate) database: String,
    /// The name of its parts' folder.
    pub(crate) id: String,
    /// The segments after this one are applied to it.
    pub(crate) begins_after: u64,
    /// It is complete once this segment was applied.
    pub(crate) ends_with: u64,
    /// The time of that segment's last commit, in microseconds since 1970.
    pub(crate) time_us: i64,
    /// The number of that commit in the change feed; 0 if unknown.
    pub(crate) number: u64,
    /// The length of the file.
    pub(crate) bytes: u64,
    pub(crate) parts: u32,
}

/// The head of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartHead {
    pub(crate) id: String,
    pub(crate) part: u32,
    pub(crate) encoding: Encoding,
    pub(crate) body_bytes: u64,
}

/// Returns the name of a part.
pub(crate) fn part_name(id: &str, part: u32) -> String {
    format!("{PARTS}/{id}/{part:06}")
}

/// Returns the name of a manifest.
pub(crate) fn manifest_name(manifest: &Manifest) -> String {
    format!("{SNAPSHOTS}/{:020}-{:020}", manifest.ends_with, manifest.begins_after)
}

/// Returns the manifests of a target, the oldest first. A damaged one is left out, with a warning:
/// an older snapshot and more segments give the same.
///
/// # Errors
/// Those of the target.
pub(crate) fn manifests(target: &Target) -> Result<Vec<Manifest>> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for listed in target.list(SNAPSHOTS, None)? {
        let name = format!("{SNAPSHOTS}/{}", listed.name);
        let Some(object) = target.get(&name)? else { continue };
        match envelope::open::<Manifest>(&name, &object) {
            Ok((manifest, _)) => manifests.push(manifest),
            Err(error) => log::warn!("{error}"),
        }
    }
    Ok(manifests)
}

/// Returns the latest segment after which a snapshot of this chain begins; `None` without a snapshot
/// of it. No earlier segment may be needed: the retention deletes them.
///
/// # Errors
/// Those of the target.
pub(crate) fn last_begin_of_chain(target: &Target, chain: u64) -> Result<Option<u64>> {
    let begins = manifests(target)?.into_iter().map(|manifest| manifest.begins_after);
    Ok(begins.filter(|begin| begin + 1 >= chain).max())
}

/// Reads a snapshot's parts in order.
///
/// # Errors
/// [`ErrorKind::Engine`] for a missing or damaged part, with its name; those of `write`.
pub(crate) fn read(
    target: &Target,
    manifest: &Manifest,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut bytes = 0;
    for part in 0..manifest.parts {
        let name = part_name(&manifest.id, part);
        let object = target.get(&name)?.ok_or_else(|| damaged(&name, "it is missing"))?;
        let (head, packed): (PartHead, _) = envelope::open(&name, &object)?;
        if head.id != manifest.id || head.part != part {
            return Err(damaged(&name, "it is another part"));
        }
        let unpacked = envelope::unpack(&name, head.encoding, packed, head.body_bytes)?;
        bytes += unpacked.len() as u64;
        write(&unpacked)?;
    }
    match bytes == manifest.bytes {
        true => Ok(()),
        false => Err(damaged(&manifest_name(manifest), "its parts have another length")),
    }
}

/// Deletes snapshots and segments that are not needed to restore the last `retention`. The newest
/// snapshot from before that time stays, and segments that begin an epoch.
///
/// # Errors
/// Those of the target.
pub(crate) fn delete_old(target: &Target, retention: Duration) -> Result<()> {
    let manifests = manifests(target)?;
    let oldest = Timestamp::now()
        .micros()
        .saturating_sub(i64::try_from(retention.as_micros()).unwrap_or(i64::MAX));
    let first = manifests.iter().rposition(|manifest| manifest.time_us <= oldest).unwrap_or(0);
    let Some(kept) = manifests.get(first) else { return Ok(()) };
    for old in &manifests[..first] {
        target.delete(&manifest_name(old))?;
        for part in 0..old.parts {
            target.delete(&part_name(&old.id, part))?;
        }
    }
    // Parts of a snapshot that was not finished.
    let is_known = |name: &str| {
        let id = name.split('/').next().unwrap_or_default();
        manifests.iter().any(|manifest| manifest.id == id)
    };
    for part in target.list(PARTS, None)?.iter().filter(|part| !is_known(&part.name)) {
        target.delete(&format!("{PARTS}/{}", part.name))?;
    }
    let needed_after = manifests[first..].iter().map(|manifest| manifest.begins_after).min();
    let needed_after = needed_after.unwrap_or(kept.begins_after);
    let epochs: Vec<String> = target.list(EPOCHS, None)?.into_iter().map(|o| o.name).collect();
    let is_old = |name: &str| name.parse::<u64>().is_ok_and(|index| index <= needed_after);
    let mut segments = target.list(SEGMENTS, None)?;
    // Without the last one, the next number is unknown.
    segments.pop();
    for old in segments {
        if !is_old(&old.name) {
            break;
        }
        if !epochs.contains(&old.name) {
            target.delete(&segment::object_name(old.name.parse().unwrap_or(0)))?;
        }
    }
    for old in merged::ranges(target)?.iter().filter(|range| range.last <= needed_after) {
        target.delete(&old.object_name())?;
    }
    Ok(())
}
