//! Makes snapshots of a primary's file while it is in use.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::LogKind;

use super::replicator::{Core, OpenDatabase};
use crate::objects::segment::FORMAT;
use crate::objects::snapshot::{self, Manifest, PartHead};
use crate::objects::target::Target;
use crate::objects::{claim, envelope};

/// The pause before it is looked again whether the log was read.
const CAPTURE_PAUSE: Duration = Duration::from_millis(10);
/// The bytes of the file in one part.
const PART_BYTES: usize = 32 << 20;

/// Copies the database to the target, and deletes what the retention no longer needs.
///
/// # Errors
/// Those of the target and of the file.
pub(crate) fn make(core: &Core) -> Result<()> {
    let Some(open) = core.open.get() else { return Ok(()) };
    let target = Target::open(&core.url, true)?;
    let id = claim::random()?;
    let (file, begins_after) = begin(open)?;
    let io = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", open.path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let (mut bytes, mut parts) = (0, 0);
    let mut chunk = vec![0; PART_BYTES];
    loop {
        let mut read = 0;
        while read < chunk.len() {
            match file.read_at(&mut chunk[read..], bytes + read as u64).map_err(io)? {
                0 => break,
                more => read += more,
            }
        }
        if read == 0 {
            break;
        }
        let (encoding, packed) = envelope::pack(&chunk[..read])?;
        let head = PartHead { id: id.clone(), part: parts, encoding, body_bytes: read as u64 };
        put_patiently(
            core,
            &target,
            &snapshot::part_name(&id, parts),
            &envelope::seal(&head, &packed)?,
        )?;
        bytes += read as u64;
        parts += 1;
        if read < chunk.len() {
            break;
        }
    }
    wait_until_captured(core, open)?;
    let ends_with = open.tail.lock().copy_ends_with();
    if !core.wait_for_index(ends_with) {
        return Err(Error::new(ErrorKind::Closed, "the store was closed during a snapshot"));
    }
    let end = claim::head_of(&target, ends_with)?;
    let manifest = Manifest {
        format: FORMAT,
        kind: end.kind,
        database: end.database,
        id,
        begins_after,
        ends_with,
        time_us: end.time_us,
        number: end.number,
        bytes,
        parts,
    };
    let name = snapshot::manifest_name(&manifest);
    put_patiently(core, &target, &name, &envelope::seal(&manifest, &[])?)?;
    core.note_covered(begins_after + 1);
    log::info!("replication: a snapshot of {bytes} bytes is in {}", target.url());
    snapshot::delete_old(&target, core.options.retention)
}

/// Returns the file to copy, and the segment after which its log begins.
fn begin(open: &OpenDatabase) -> Result<(Arc<File>, u64)> {
    if let Some(file) = &open.file {
        return Ok((Arc::clone(file), open.tail.lock().copy_begins_after(0)));
    }
    // The file is replaced as a whole, so it stays what it is while it is open. A later one needs
    // only a part of the log.
    let log = open.database.write_snapshot()?;
    let file = File::open(&open.path).map_err(|error| {
        let message = format!("{} cannot be read: {error}", open.path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    })?;
    Ok((Arc::new(file), open.tail.lock().copy_begins_after(log)))
}

/// Waits until the log was read up to its end now: a copy of the file may need it.
fn wait_until_captured(core: &Core, open: &OpenDatabase) -> Result<()> {
    if open.kind == LogKind::Pages {
        // The file changes only after the log was read.
        return Ok(());
    }
    let end = open.database.log_end()?;
    loop {
        let tail = open.tail.lock();
        if tail.next().is_broken {
            let message = "a part of the log is missing, so a snapshot was given up";
            return Err(Error::new(ErrorKind::Io, message));
        }
        if tail.has_captured(end) {
            return Ok(());
        }
        drop(tail);
        core.hurry();
        if !core.pause(CAPTURE_PAUSE) {
            return Err(Error::new(ErrorKind::Closed, "the store was closed during a snapshot"));
        }
    }
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
