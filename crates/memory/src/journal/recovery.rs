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

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_store::Durability;
use marmota_store::log_copy::log_path;
use marmota_store::private_file;
use parking_lot::{Condvar, Mutex};

use super::changes::{self, Definition, Payload};
use super::log_file::{self, LogFile, fault};
use super::record::{self, HeadFault, Identity, Rest};
use super::{Counts, Journal, Lock, Tail, Waiting, bytes_max};
use crate::catalog::Catalog;
use crate::data_file;
use crate::data_file::binary_section::{BinarySection, Part};
use crate::data_file::contents::{Link, Loaded, Section};
use crate::data_file::replace::{failed, folder_of, remove_leftovers, replace};
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

    /// Reads its data, including its logs.
    ///
    /// # Errors
    /// Those of [`open`].
    pub(in super::super) fn recover(&self, encryption: &FileEncryption) -> Result<Loaded> {
        recover(self.path, encryption).map(|found| found.loaded)
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
}

/// Reads the snapshot and its logs, and cuts off bytes that were never acknowledged as durable. The
/// caller needs exclusive access to the database.
fn recover(path: &Path, encryption: &FileEncryption) -> Result<Recovered> {
    remove_leftovers(path)?;
    let mut state = State::default();
    let mut link = None;
    let mut snapshot_bytes = 0;
    let is_there = path.exists();
    if is_there {
        snapshot_bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let read = data_file::read(path, encryption)?;
        (state.schema, state.tables, link) = (read.schema, read.tables, read.link);
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
        let read = Reading { path: log_path(path, generation), is_last, position, encryption };
        let bytes = read.replay(&mut identity, is_known, &mut state)?;
        log_bytes += bytes;
        end = Some(bytes).filter(|&bytes| bytes > 0);
    }
    let (loaded, logs) = (state.finish(path)?, logs.len());
    Ok(Recovered { loaded, link, identity, end, logs, log_bytes, snapshot_bytes, is_there, schema })
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
) -> Result<Opened> {
    let lock = lock(path)?;
    let found = recover(path, encryption)?;
    if found.is_there && found.link.is_none() {
        adopt(path, encryption, &found.loaded, found.identity)?;
    }
    let log = found.log(path, encryption)?;
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
        lineage: found.identity.lineage,
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
    Ok(Opened { journal, loaded: found.loaded })
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
}

impl Reading<'_> {
    fn refuse(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("{} {what}", self.path.display()))
    }

    /// Applies the records of the log, and cuts off bytes that were never acknowledged as durable.
    /// Returns its length, or 0 if even its head is missing.
    fn replay(&self, identity: &mut Identity, is_known: bool, state: &mut State) -> Result<u64> {
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
            let opened = cipher.as_ref().and_then(|own| log_file::unseal(&mut log, payload, own));
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
            Rest::Torn if self.is_last && !is_short => {
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

/// The state of the snapshot and the logs read so far.
#[derive(Default)]
struct State {
    schema: u32,
    tables: BTreeMap<String, Section>,
    definitions: Vec<Arc<Definition>>,
    changed: BTreeMap<String, Changed>,
}

/// A key as encoded in a row, after its form.
type Key = Box<[u8]>;

/// The rows of a table that logs have changed.
#[derive(Default)]
struct Changed {
    /// The field that is the key.
    key: String,
    rows: HashMap<Key, Option<Image>>,
}

/// A row in a log.
struct Image {
    log: Arc<Vec<u8>>,
    definition: Arc<Definition>,
    range: std::ops::Range<usize>,
}

impl State {
    fn take(&mut self, log: &Arc<Vec<u8>>, payload: std::ops::Range<usize>) -> Option<()> {
        match changes::read(log, payload, &self.definitions)? {
            Payload::Tables { schema, definitions } => {
                (self.schema, self.definitions) = (schema, definitions);
            }
            Payload::Changes(changes) => {
                for change in changes {
                    let definition = self.definitions.get(change.table)?;
                    let (key, form) = &definition.fields[definition.key];
                    let changed = self.changed.entry(definition.name.clone()).or_default();
                    changed.key.clone_from(key);
                    let image = change.row.map(|range| Image {
                        log: Arc::clone(log),
                        definition: Arc::clone(definition),
                        range,
                    });
                    changed.rows.insert(key_of(*form, &log[change.key]), image);
                }
            }
        }
        Some(())
    }

    /// Replaces rows of the snapshot by those of the logs.
    fn finish(mut self, path: &Path) -> Result<Loaded> {
        for (name, changed) in self.changed {
            let section = match self.tables.remove(&name) {
                None => Some(BinarySection { parts: Vec::new() }),
                Some(Section::Binary(section)) => Some(section),
                Some(Section::Json(_)) => None,
            };
            let merged =
                section.and_then(|section| changed.put_into(section)).ok_or_else(|| {
                    let message = format!(
                        "{}: the log has changes to `{name}` that do not match its rows: use the \
                     program that wrote the log",
                        path.display()
                    );
                    Error::new(ErrorKind::Invalid, message)
                })?;
            self.tables.insert(name, Section::Binary(merged));
        }
        Ok(Loaded { path: path.to_owned(), schema: self.schema, tables: self.tables })
    }
}

fn key_of(form: marmota_model::ValueForm, bytes: &[u8]) -> Key {
    [&[crate::data_file::row_codec::form_number(form)], bytes].concat().into()
}

impl Changed {
    /// Returns the rows of a snapshot that no log has changed, and the rows of the logs.
    fn put_into(self, mut section: BinarySection) -> Option<BinarySection> {
        section.retain(&self.key, |form, key| !self.rows.contains_key(&key_of(form, key)))?;
        let mut images: Vec<Image> = self.rows.into_values().flatten().collect();
        // Rows of the same log and shape come together, in the order in which they were written.
        let place = |image: &Image| {
            let log = Arc::as_ptr(&image.log) as usize;
            (log, Arc::as_ptr(&image.definition) as usize, image.range.start)
        };
        images.sort_unstable_by_key(place);
        let same = |a: &Image, b: &Image| {
            Arc::ptr_eq(&a.log, &b.log) && Arc::ptr_eq(&a.definition, &b.definition)
        };
        for run in images.chunk_by(same) {
            section.parts.push(Part {
                content: Arc::clone(&run[0].log),
                fields: run[0].definition.fields.clone(),
                blocks: run.iter().map(|image| (image.range.clone(), 1)).collect(),
            });
        }
        Some(section)
    }
}
