//! Recovers a database from its files: the snapshot, and the logs after it.
//!
//! Logs are numbered; the number is the generation. A snapshot names the first log that it does not
//! include. Older logs are left from a program that was killed after it had renamed the snapshot
//! and before it had removed them; they are removed. A snapshot may have several logs, if a later
//! snapshot could not be written, or the program ended while it was being written. All except the
//! last are complete: a log is only written to after the previous one is on the disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_store::Durability;
use marmota_store::log_copy::log_path;
use marmota_store::private_file::{self, folder_of, sync_folder_of};
use parking_lot::{Condvar, Mutex};

use super::log_file::{self, LogFile, fault};
use super::received::ReceivedLog;
use super::record::{self, HeadFault, Identity, Rest};
use super::replay::Replay;
use super::{Counts, Journal, Lock, Tail, Waiting, bytes_max};
use crate::catalog::Catalog;
use crate::data_file;
use crate::data_file::contents::{Link, Loaded, Section};
use crate::data_file::replace::{failed, remove_leftovers, replace};
use crate::data_file::snapshot::Snapshot;
use crate::encryption::file_encryption::FileEncryption;
use crate::encryption::seal::Use;
use crate::journal::log_copy::LogCopy;
use crate::lock::transaction_gate::TransactionGate;

/// The number of logs, left by killed processes, from which on a snapshot is due.
const LOGS_MAX: usize = 16;

/// A database that was opened.
pub(in super::super) struct Opened {
    pub(in super::super) journal: Arc<Journal>,
    pub(in super::super) loaded: Loaded,
    /// What a replica has received.
    pub(in super::super) received: Option<ReceivedLog>,
}

/// The part of a database in a replication, as far as its logs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Part {
    /// It writes its logs.
    Own,
    /// It gets them from its primary, which has also what is damaged here.
    Replica,
}

/// Returns the name of a file with a suffix.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the generations of the logs in a file's folder.
fn logs(path: &Path) -> Result<Vec<u64>> {
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let begin = format!("{}.log.", name.display());
    let entries = match std::fs::read_dir(folder_of(path)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read the folder of", path, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed("read the folder of", path, error))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&*begin));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the first log of a file, if there is one.
///
/// # Errors
/// [`ErrorKind::Io`] if the folder cannot be read.
pub(in super::super) fn first_log(path: &Path) -> Result<Option<PathBuf>> {
    Ok(logs(path)?.first().map(|&first| log_path(path, first)))
}

/// Removes logs. A log that cannot be removed has no effect: it is recognized as older than the
/// snapshot.
pub(super) fn remove_logs(path: &Path, goes: impl Fn(u64) -> bool) {
    for generation in logs(path).unwrap_or_default() {
        if goes(generation)
            && let Err(error) = std::fs::remove_file(log_path(path, generation))
        {
            log::warn!("{} stays: {error}", log_path(path, generation).display());
        }
    }
}

/// Locks the database, so that other processes cannot open it.
fn lock(path: &Path) -> Result<Lock> {
    let path = with_suffix(path, ".lock");
    let cannot = |error| failed("lock", &path, error);
    let mut options = private_file::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = (&file).take(100).read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                holder => holder.to_owned(),
            };
            let message = format!(
                "{} is locked by {holder}: only one memory engine can use a log; end that process, \
                 or access the data through it",
                path.display()
            );
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(cannot(error)),
    }
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name).unwrap_or_default();
    file.set_len(0).map_err(cannot)?;
    writeln!(file, "process {} ({})", std::process::id(), program.display()).map_err(cannot)?;
    Ok(Lock(file))
}

/// A database that no process has open, to be replaced by another one.
pub(in super::super) struct ExclusiveFile<'p> {
    path: &'p Path,
    _lock: Lock,
}

impl<'p> ExclusiveFile<'p> {
    /// Locks the database.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another process has it open.
    pub(in super::super) fn with(path: &'p Path) -> Result<Self> {
        Ok(Self { path, _lock: lock(path)? })
    }

    /// Cuts off what is incomplete at the end of a replica's log.
    ///
    /// # Errors
    /// Those of [`open`].
    pub(in super::super) fn cut_replica(&self, encryption: &FileEncryption) -> Result<()> {
        recover(self.path, encryption, Part::Replica)?.check_replica(self.path)
    }

    /// Reads its data, including its logs.
    ///
    /// # Errors
    /// Those of [`open`].
    pub(in super::super) fn recover(&self, encryption: &FileEncryption) -> Result<Loaded> {
        let Recovered { mut loaded, replay, .. } = recover(self.path, encryption, Part::Own)?;
        // Of the tables that never had rows, only the log has the definitions.
        replay.add_empty(&mut loaded.tables, |_| false);
        Ok(loaded)
    }

    /// Returns a generation after those of all existing logs.
    pub(in super::super) fn generation_after_all(&self) -> Result<u64> {
        Ok(logs(self.path)?.last().map_or(1, |last| last + 1))
    }

    /// Removes older logs; those that cannot be removed are recognized as older.
    pub(in super::super) fn remove_logs_before(&self, generation: u64) {
        remove_logs(self.path, |log| log < generation);
    }
}

/// The recovered data of a database.
struct Recovered {
    loaded: Loaded,
    link: Option<Link>,
    /// The identity of the last log, or of the first one that is to begin.
    identity: Identity,
    /// The length of the last log, if there is one with a head.
    end: Option<u64>,
    logs: usize,
    log_bytes: u64,
    snapshot_bytes: u64,
    is_there: bool,
    /// The schema version of the snapshot.
    schema: u32,
    /// The state after the last record.
    replay: Replay,
}

/// Reads the snapshot and its logs, and cuts off bytes that were never acknowledged as durable. The
/// caller needs exclusive access to the database.
fn recover(path: &Path, encryption: &FileEncryption, part: Part) -> Result<Recovered> {
    remove_leftovers(path)?;
    let mut state = Replay::default();
    let mut tables = BTreeMap::new();
    let mut link = None;
    let mut snapshot_bytes = 0;
    let is_there = path.exists();
    if is_there {
        snapshot_bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let read = data_file::read(path, encryption)?;
        (state.schema, tables, link) = (read.schema, read.tables, read.link);
    }
    let schema = state.schema;
    let logs = belonging(path, is_there, link.as_ref(), logs(path)?)?;
    let mut identity = Identity {
        lineage: link.map_or_else(Uuid::now_v7, |link| link.lineage),
        generation: link.map_or(1, |link| link.generation),
    };
    let mut end = None;
    let mut log_bytes = 0;
    for (at, &generation) in logs.iter().enumerate() {
        let is_known = link.is_some() || at > 0;
        identity.generation = generation;
        let position =
            link.filter(|link| link.generation == generation).map_or(0, |link| link.position);
        let is_last = at + 1 == logs.len();
        let path = log_path(path, generation);
        let read = Reading { path, is_last, position, encryption, part };
        let bytes = read.replay(&mut identity, is_known, &mut state)?;
        log_bytes += bytes;
        end = Some(bytes).filter(|&bytes| bytes > 0);
    }
    state.put_into(&mut tables, path)?;
    if part == Part::Replica {
        // Tables are created by the primary only.
        state.add_empty(&mut tables, |_| false);
    }
    let loaded = Loaded { path: path.to_owned(), schema: state.schema, tables };
    let logs = logs.len();
    Ok(Recovered {
        loaded,
        link,
        identity,
        end,
        logs,
        log_bytes,
        snapshot_bytes,
        is_there,
        schema,
        replay: state,
    })
}

/// Opens a database, or creates it.
///
/// # Errors
/// [`ErrorKind::Busy`] if another process has it open, [`ErrorKind::Io`] if it cannot be read or
/// written, [`ErrorKind::Denied`] if the key is wrong, [`ErrorKind::Invalid`] if it is damaged or
/// parts of it belong to another database; all messages have the position and an instruction.
pub(in super::super) fn open(
    path: &Path,
    encryption: &Arc<FileEncryption>,
    durability: Durability,
    closed: &Arc<AtomicBool>,
    part: Part,
) -> Result<Opened> {
    let lock = lock(path)?;
    let mut found = recover(path, encryption, part)?;
    if part == Part::Replica {
        found.check_replica(path)?;
    } else if found.is_there && found.link.is_none() {
        adopt(path, encryption, &found.loaded, found.identity)?;
    }
    let (log, received) = match part {
        Part::Own => (found.log(path, encryption)?, None),
        Part::Replica => found.copied_log(path, encryption).map(|(log, at)| (log, Some(at)))?,
    };
    let bytes_max = bytes_max(found.snapshot_bytes);
    let tail = Tail {
        position: log.bytes,
        tables: Vec::new(),
        since_snapshot: match found.logs {
            0..LOGS_MAX => (found.log_bytes + found.bytes_begun(&log)).max(log.bytes),
            // The next commit makes a snapshot.
            _ => bytes_max,
        },
        bytes_max,
        whole: found.link.filter(|link| link.position == 0).map(|_| found.schema),
        log,
    };
    let journal = Arc::new(Journal {
        path: path.to_owned(),
        durability,
        encryption: Arc::clone(encryption),
        synced: AtomicU64::new(tail.position),
        answered: AtomicU64::new(tail.position),
        copy: LogCopy::default(),
        tail: Mutex::new(tail),
        syncing: Mutex::default(),
        waiting: Mutex::new(Waiting::default()),
        work: Condvar::new(),
        thread: Mutex::default(),
        snapshots: Mutex::default(),
        snapshot_wanted: AtomicBool::new(false),
        closed: Arc::clone(closed),
        failure: Mutex::default(),
        lock: Mutex::new(Some(lock)),
        counts: Counts::default(),
    });
    if durability != Durability::None {
        journal.start()?;
    }
    Ok(Opened { journal, loaded: found.loaded, received })
}

/// A replica's data that was read from other files, which are then moved.
pub(in super::super) struct Fetched {
    pub(in super::super) loaded: Loaded,
    pub(in super::super) received: ReceivedLog,
    pub(in super::super) log: FetchedLog,
}

/// The log of such files.
pub(in super::super) struct FetchedLog {
    pub(super) file: LogFile,
    pub(super) snapshot_bytes: u64,
}

/// Reads the files of a replica, next to which no other process works, and moves them to the place of
/// another database, which has no log then.
///
/// # Errors
/// Those of [`open`].
pub(in super::super) fn fetched(
    new: &Path,
    path: &Path,
    encryption: &FileEncryption,
) -> Result<Fetched> {
    let mut found = recover(new, encryption, Part::Replica)?;
    found.check_replica(new)?;
    let (log, received) = found.copied_log(new, encryption)?;
    found.loaded.path = path.to_owned();
    let log = FetchedLog { file: log, snapshot_bytes: found.snapshot_bytes };
    Ok(Fetched { loaded: found.loaded, received, log })
}

/// Moves a file and its logs to the place of another one, whose logs are removed.
///
/// # Errors
/// [`ErrorKind::Io`]; the files may be incomplete.
pub(in super::super) fn move_files(new: &Path, path: &Path) -> Result<()> {
    let cannot = |error| failed("write", path, error);
    for log in logs(path)? {
        std::fs::remove_file(log_path(path, log)).map_err(cannot)?;
    }
    std::fs::rename(new, path).map_err(cannot)?;
    for log in logs(new)? {
        std::fs::rename(log_path(new, log), log_path(path, log)).map_err(cannot)?;
    }
    sync_folder_of(path).map_err(cannot)
}

impl Recovered {
    /// Returns the log to write to. A sealed log is never continued: bytes that were cut off its
    /// end had numbers that would be used again.
    fn log(&self, path: &Path, encryption: &FileEncryption) -> Result<LogFile> {
        let Identity { lineage, generation } = self.identity;
        let own = log_path(path, generation);
        let Some(bytes) = self.end else { return LogFile::begin(&own, self.identity, encryption) };
        let file = append_to(&own).map_err(fault)?;
        if !encryption.has_key() {
            return Ok(LogFile::go_on(file, self.identity, bytes));
        }
        let next = Identity { lineage, generation: generation + 1 };
        LogFile::begin(&log_path(path, next.generation), next, encryption)
    }

    /// Checks that these are the files of a replica.
    fn check_replica(&self, path: &Path) -> Result<()> {
        if self.link.is_some() && self.logs > 0 {
            return Ok(());
        }
        let message = format!(
            "{} is not a replica: it has no log of a primary; delete it, and start the replica again, \
             which fetches it",
            path.display()
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Returns the log that continues with the bytes of the primary, and what was received of it.
    fn copied_log(
        &mut self,
        path: &Path,
        encryption: &FileEncryption,
    ) -> Result<(LogFile, ReceivedLog)> {
        let path = log_path(path, self.identity.generation);
        let replay = std::mem::take(&mut self.replay);
        let Some(bytes) = self.end else {
            let log = LogFile::begin_copy(&path, self.identity)?;
            return Ok((log, ReceivedLog::new(self.identity, replay)));
        };
        let file = append_to(&path).map_err(fault)?;
        let log = LogFile::go_on(file, self.identity, bytes);
        let received = ReceivedLog::after(&path, self.identity, bytes, replay, encryption)?;
        Ok((log, received))
    }

    /// Returns the length of a log that was not among those read.
    fn bytes_begun(&self, log: &LogFile) -> u64 {
        if log.identity == self.identity { 0 } else { log.bytes }
    }
}

/// Makes a file without a log the snapshot before a log that is still to begin.
fn adopt(
    path: &Path,
    encryption: &FileEncryption,
    loaded: &Loaded,
    identity: Identity,
) -> Result<()> {
    if loaded.tables.values().any(|section| matches!(section, Section::Json(_))) {
        let message = format!(
            "{} is JSON, which has no log: open the file without a durability, or first convert it \
             to a binary file (load, then save)",
            path.display()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let snapshot = Snapshot {
        schema: loaded.schema,
        lineage: identity.lineage,
        generation: identity.generation,
        catalog: &Catalog::default(),
        sections: &loaded.tables,
        gate: &TransactionGate::default(),
        settle: None,
    };
    replace(path, encryption, |mut out| snapshot.write(&mut out))
}

/// Opens a log to continue it. The bytes that were read of it are then on the disk: a killed
/// process may have left them in the system's cache.
fn append_to(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).open(path)?;
    file.sync_all()?;
    Ok(file)
}

/// Returns the logs that belong to the snapshot.
fn belonging(path: &Path, is_there: bool, link: Option<&Link>, logs: Vec<u64>) -> Result<Vec<u64>> {
    let refuse = |what: String| Err(Error::new(ErrorKind::Invalid, what));
    let named = |generation| log_path(path, generation).display().to_string();
    let Some(link) = link else {
        return match logs.first() {
            None => Ok(logs),
            Some(&first) if is_there => refuse(format!(
                "{} belongs to another snapshot than {}: move away the one that you do not need",
                named(first),
                path.display()
            )),
            Some(1) => consecutive(path, logs),
            Some(&first) => refuse(format!(
                "{} is the log of a snapshot, but {} is missing: restore the snapshot, or move the \
                 log away to start empty",
                named(first),
                path.display()
            )),
        };
    };
    let logs: Vec<u64> = logs.into_iter().filter(|&other| other >= link.generation).collect();
    match logs.first() {
        None if link.position == 0 => Ok(logs),
        Some(&first) if first == link.generation => consecutive(path, logs),
        _ => refuse(format!(
            "{} is missing, the log of {}: restore the log",
            named(link.generation),
            path.display()
        )),
    }
}

fn consecutive(path: &Path, logs: Vec<u64>) -> Result<Vec<u64>> {
    match logs.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        None => Ok(logs),
        Some(pair) => {
            let message = format!(
                "{} is missing, but a later log exists: restore the missing log",
                log_path(path, pair[0] + 1).display()
            );
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// A log that is being read.
struct Reading<'v> {
    encryption: &'v FileEncryption,
    path: PathBuf,
    is_last: bool,
    /// The minimum length of the log.
    position: u64,
    part: Part,
}

impl Reading<'_> {
    fn refuse(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("{} {what}", self.path.display()))
    }

    /// Applies the records of the log, and cuts off bytes that were never acknowledged as durable.
    /// Returns its length, or 0 if even its head is missing.
    fn replay(&self, identity: &mut Identity, is_known: bool, state: &mut Replay) -> Result<u64> {
        let mut log =
            std::fs::read(&self.path).map_err(|error| failed("read", &self.path, error))?;
        let head = match record::read_head(&log) {
            Ok(head) => head,
            Err(HeadFault::Torn) if self.is_last && self.position == 0 => return Ok(0),
            Err(HeadFault::Torn | HeadFault::Foreign) => {
                return Err(self.refuse(
                    "is not a log of the memory engine, or its header is damaged: restore a copy",
                ));
            }
            Err(HeadFault::Version(version)) => {
                return Err(self.refuse(&format!(
                    "has the log version {version}, which this program does not support: use the \
                     program that wrote the log, or a newer one"
                )));
            }
        };
        let cipher = match head.is_sealed {
            true => {
                Some(self.encryption.open(&self.path, Use::Log, &log[..head.sealed_bytes()])?)
            }
            false => self.encryption.check_plain(&self.path).map(|()| None)?,
        };
        if !is_known {
            identity.lineage = head.identity.lineage;
        }
        if head.identity != *identity {
            return Err(self.refuse(
                "belongs to another snapshot than the one in its folder: move away the one that \
                 you do not need",
            ));
        }
        let mut scan = record::scan(&log, head);
        for payload in scan.payloads.iter_mut().filter(|_| cipher.is_some()) {
            let opened =
                cipher.as_ref().and_then(|own| log_file::unseal(&mut log, 0, payload, own));
            *payload = opened.ok_or_else(|| {
                let at = payload.start;
                self.refuse(&format!("has a record at byte {at} that was changed: restore a copy"))
            })?;
        }
        self.check_rest(&scan, log.len())?;
        let log = Arc::new(log);
        for payload in scan.payloads {
            let at = payload.start;
            if state.take(&log, payload).is_none() {
                return Err(self.refuse(&format!(
                    "has a record at byte {at} that this program cannot read: use the program that \
                     wrote the log"
                )));
            }
        }
        Ok(scan.end as u64)
    }

    fn check_rest(&self, scan: &record::Scan, bytes: usize) -> Result<()> {
        let end = scan.end;
        let is_short = (end as u64) < self.position;
        match scan.rest {
            Rest::Nothing if !is_short => Ok(()),
            // The primary has what is damaged in a replica: it may not have been synced yet.
            Rest::Torn | Rest::Damaged(_)
                if self.is_last
                    && !is_short
                    && (scan.rest == Rest::Torn || self.part == Part::Replica) =>
            {
                log::warn!(
                    "{}: the last {} bytes, from byte {end} on, are an incomplete write and were \
                     removed; the {} records before them are kept",
                    self.path.display(),
                    bytes - end,
                    scan.payloads.len()
                );
                let file = OpenOptions::new().write(true).open(&self.path);
                file.and_then(|file| {
                    file.set_len(end as u64)?;
                    file.sync_all()
                })
                .map_err(|error| failed("cut", &self.path, error))
            }
            Rest::Damaged(next) => Err(self.refuse(&format!(
                "is damaged at byte {end}, and has valid records after that, from byte {next} on: \
                 restore a copy, or give those records up and truncate the log (truncate -s {end})"
            ))),
            _ => Err(self.refuse(&format!(
                "ends at byte {end}, but more had been written to the disk: restore a copy"
            ))),
        }
    }
}
