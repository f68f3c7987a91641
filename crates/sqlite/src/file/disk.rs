//! A simulated disk for tests and measurements (feature `simulated-disk`): it counts SQLite's
//! syncs, can delay them or make them fail, and can record all writes and syncs, from which a test
//! reconstructs the state after a loss of power.

mod power;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use marmota_model::Result;
use parking_lot::{Mutex, RwLock};

use crate::fault;
use crate::ffi::Connection;
use crate::ffi::disk::{VfsCall, observe};
pub use power::PowerCut;

static DISKS: RwLock<Vec<Weak<Inner>>> = RwLock::new(Vec::new());

/// A folder whose databases are observed if they are opened after this was created.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    sync_micros: AtomicU64,
    syncs: AtomicU64,
    /// The number of syncs that still succeed; unlimited if negative.
    syncs_left: AtomicI64,
    /// True if syncs of the folder fail.
    folder_fails: AtomicBool,
    is_recording: AtomicBool,
    record: Mutex<Vec<DiskEvent>>,
}

/// A fault that a test injects into an engine ([`crate::Sqlite::plant`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// A failed sync is retried, and the retry is trusted.
    RetriesSync,
    /// A failed commit is reported as not written, though its outcome is unknown.
    DeniesWrite,
}

/// An operation on a file, which is identified by its name in the folder.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum DiskEvent {
    Write { file: String, offset: u64, bytes: Vec<u8> },
    Truncate { file: String, bytes: u64 },
    Sync { file: String },
    Synced { file: String },
    SyncFailed { file: String },
    FolderSynced { file: String },
    Delete { file: String },
}

impl DiskEvent {
    /// Returns the file's name.
    #[must_use]
    pub fn file(&self) -> &str {
        let (Self::Write { file, .. }
        | Self::Truncate { file, .. }
        | Self::Sync { file }
        | Self::Synced { file }
        | Self::SyncFailed { file }
        | Self::FolderSynced { file }
        | Self::Delete { file }) = self;
        file
    }
}

impl Disk {
    /// Observes a folder.
    ///
    /// # Errors
    /// If SQLite refuses the additional file system.
    pub fn at(folder: &Path) -> Result<Self> {
        observe(intercept).map_err(|failure| fault::of(&failure))?;
        let inner = Arc::new(Inner {
            folder: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
            sync_micros: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            syncs_left: AtomicI64::new(-1),
            folder_fails: AtomicBool::new(false),
            is_recording: AtomicBool::new(false),
            record: Mutex::default(),
        });
        let mut disks = DISKS.write();
        disks.retain(|disk| disk.strong_count() > 0);
        disks.push(Arc::downgrade(&inner));
        Ok(Self(inner))
    }

    /// Delays each sync by this time.
    pub fn slow_down(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.sync_micros.store(micros, Ordering::Relaxed);
    }

    /// Makes all syncs fail after the next `syncs`; `None` for no failures.
    pub fn fail_after(&self, syncs: Option<u32>) {
        self.0.syncs_left.store(syncs.map_or(-1, i64::from), Ordering::Relaxed);
    }

    /// Makes the syncs of the folder fail. They follow the first sync of a new log.
    pub fn fail_folder(&self, fails: bool) {
        self.0.folder_fails.store(fails, Ordering::Relaxed);
    }

    /// Returns the number of syncs.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.0.syncs.load(Ordering::Relaxed)
    }

    /// Starts or stops recording.
    pub fn record(&self, on: bool) {
        self.0.is_recording.store(on, Ordering::SeqCst);
    }

    /// Returns the length of the record. Later events have higher indexes.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.0.record.lock().len()
    }

    /// Returns the record and clears it.
    #[must_use]
    pub fn take_record(&self) -> Vec<DiskEvent> {
        std::mem::take(&mut self.0.record.lock())
    }
}

pub(crate) fn intercept(path: &Path, act: &VfsCall<'_>) -> bool {
    let disks = DISKS.read();
    let disk =
        disks.iter().find_map(|disk| disk.upgrade().filter(|disk| path.starts_with(&disk.folder)));
    drop(disks);
    disk.is_none_or(|disk| disk.handle(path, act))
}

impl Inner {
    fn handle(&self, path: &Path, act: &VfsCall<'_>) -> bool {
        let fails = match act {
            VfsCall::Sync => !self.syncs(),
            VfsCall::SyncFolder => self.folder_fails.load(Ordering::Relaxed),
            _ => false,
        };
        if self.is_recording.load(Ordering::SeqCst) {
            self.keep(path, act, fails);
        }
        !fails
    }

    /// Waits for the duration of a sync. Returns false if it fails.
    fn syncs(&self) -> bool {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let micros = self.sync_micros.load(Ordering::Relaxed);
        if micros > 0 {
            std::thread::sleep(Duration::from_micros(micros));
        }
        match self.syncs_left.load(Ordering::Relaxed) {
            0 => false,
            left => {
                self.syncs_left.store(left - i64::from(left > 0), Ordering::Relaxed);
                true
            }
        }
    }

    fn keep(&self, path: &Path, act: &VfsCall<'_>, fails: bool) {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.record.lock().push(match act {
            VfsCall::SyncFolder if fails => return,
            VfsCall::SyncFolder => DiskEvent::FolderSynced { file },
            VfsCall::Sync if fails => DiskEvent::SyncFailed { file },
            VfsCall::Write { offset, bytes } => {
                DiskEvent::Write { file, offset: *offset, bytes: bytes.to_vec() }
            }
            VfsCall::Truncate { bytes } => DiskEvent::Truncate { file, bytes: *bytes },
            VfsCall::Sync => DiskEvent::Sync { file },
            VfsCall::Synced => DiskEvent::Synced { file },
            VfsCall::Delete => DiskEvent::Delete { file },
        });
    }
}

/// Runs SQLite's integrity check over a whole database. Returns `ok`, or what is wrong.
///
/// # Errors
/// The error of SQLite.
pub fn integrity(path: &Path) -> Result<String> {
    let mut said = String::new();
    let looked = Connection::open_file(path).and_then(|mut connection| {
        connection.query("PRAGMA integrity_check; PRAGMA foreign_key_check", |row| {
            said.push_str(&String::from_utf8_lossy(row.at(0).bytes()));
        })
    });
    looked.map(|()| said).map_err(|failure| fault::of(&failure))
}
