//! Snapshots: copies of a database's file.
//!
//! The file is copied while the database is in use, and checkpoints change it meanwhile. Each page
//! that they write was read from the log before, so it is in a segment: the copy and the segments
//! from the beginning of the log to the end of the copy give the database, as in a base backup of
//! PostgreSQL. A snapshot therefore has two numbers: the last segment before it, and the segment
//! with which it is complete.
//!
//! A snapshot consists of parts and a manifest, which is written last.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::claim::{self, EPOCHS};
use crate::envelope::{self, Encoding, damaged};
use crate::replicator::Core;
use crate::segment::{self, FORMAT, SEGMENTS};
use crate::target::Target;

/// The folder of manifests.
const SNAPSHOTS: &str = "snapshots";
/// The folder of parts.
const PARTS: &str = "parts";
/// The bytes of the file in one part.
const PART_BYTES: usize = 32 << 20;

/// The manifest of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
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
struct PartHead {
    id: String,
    part: u32,
    encoding: Encoding,
    body_bytes: u64,
}

fn part_name(id: &str, part: u32) -> String {
    format!("{PARTS}/{id}/{part:06}")
}

fn manifest_name(manifest: &Manifest) -> String {
    format!("{SNAPSHOTS}/{:020}-{:020}", manifest.ends_with, manifest.begins_after)
}

/// Copies the database to the target, and deletes what the retention no longer needs.
///
/// # Errors
/// Those of the target and of the file.
pub(crate) fn make(core: &Core) -> Result<()> {
    let Some(open) = core.open.get() else { return Ok(()) };
    let target = Target::open(&core.url, true)?;
    let id = claim::random()?;
    let begins_after = open.tail.lock().copy_begins_after();
    let io = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", open.path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let (mut bytes, mut parts) = (0, 0);
    let mut chunk = vec![0; PART_BYTES];
    loop {
        let mut read = 0;
        while read < chunk.len() {
            match open.file.read_at(&mut chunk[read..], bytes + read as u64).map_err(io)? {
                0 => break,
                more => read += more,
            }
        }
        if read == 0 {
            break;
        }
        let (encoding, packed) = envelope::pack(&chunk[..read])?;
        let head = PartHead { id: id.clone(), part: parts, encoding, body_bytes: read as u64 };
        put_patiently(core, &target, &part_name(&id, parts), &envelope::seal(&head, &packed)?)?;
        bytes += read as u64;
        parts += 1;
        if read < chunk.len() {
            break;
        }
    }
    let ends_with = open.tail.lock().copy_ends_with();
    if !core.wait_for_index(ends_with) {
        return Err(Error::new(ErrorKind::Closed, "the store was closed during a snapshot"));
    }
    let end = claim::head_of(&target, ends_with)?;
    let manifest = Manifest {
        format: FORMAT,
        database: end.database,
        id,
        begins_after,
        ends_with,
        time_us: end.time_us,
        number: end.number,
        bytes,
        parts,
    };
    let name = manifest_name(&manifest);
    put_patiently(core, &target, &name, &envelope::seal(&manifest, &[])?)?;
    core.note_covered(begins_after + 1);
    log::info!("replication: a snapshot of {bytes} bytes is in {}", target.url());
    delete_old(&target, core.options.retention)
}

/// Writes an object, repeatedly while the target cannot be reached.
fn put_patiently(core: &Core, target: &Target, name: &str, object: &[u8]) -> Result<()> {
    loop {
        match target.put(name, object.to_vec()) {
            Ok(()) => return Ok(()),
            Err(error) if core.is_closing() => return Err(error),
            Err(error) => {
                core.note_failure(&error);
                if !core.pause(Duration::from_secs(1)) {
                    return Err(error);
                }
            }
        }
    }
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

/// Returns true if a snapshot of this chain exists.
///
/// # Errors
/// Those of the target.
pub(crate) fn has_one_of_chain(target: &Target, chain: u64) -> Result<bool> {
    Ok(manifests(target)?.iter().any(|manifest| manifest.begins_after + 1 >= chain))
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
fn delete_old(target: &Target, retention: Duration) -> Result<()> {
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
    for old in target.list(SEGMENTS, None)? {
        if !is_old(&old.name) {
            break;
        }
        if !epochs.contains(&old.name) {
            target.delete(&segment::object_name(old.name.parse().unwrap_or(0)))?;
        }
    }
    Ok(())
}
