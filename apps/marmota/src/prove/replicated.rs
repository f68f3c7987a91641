//! The primary, the replica and the target of the scenarios of replication.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota::replication::{
    Follower, ReplicationOptions, Replicator, RestorePoint, prepare_replica, restore_replica,
};
use marmota::sqlite::{Location, Sqlite, SqliteOptions};
use marmota::store::change::{ChangeRetention, Position};
use marmota::store::{Durability, Store, StoreBuilder};
use marmota::{ErrorKind, Model, Result};

use super::Failed;
use super::machine::Machine;
use crate::stress::stand::Folder;

/// The suffix of the file next to a database.
const STATE: &str = "-replication.json";
/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest wait for the rows of a replica that has applied all segments.
const APPLIED_PATIENCE: Duration = Duration::from_secs(5);

/// A row.
#[derive(Clone, Debug, Model)]
#[model(table = "prove_note")]
pub(super) struct Note {
    pub(super) id: i64,
    pub(super) number: i64,
    pub(super) text: String,
}

/// The engine of the databases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite,
    Memory,
}

impl Kind {
    /// Returns the name of each database.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Sqlite => "prove.db",
            Self::Memory => "prove.mem",
        }
    }

    /// Returns the URL of a database.
    pub(super) fn url(self, path: &Path) -> String {
        match self {
            Self::Sqlite => format!("sqlite:{}", path.display()),
            Self::Memory => format!("memory:{}?durability=full", path.display()),
        }
    }

    fn builder(self, path: PathBuf) -> Result<StoreBuilder> {
        let builder = match self {
            Self::Sqlite => {
                let options =
                    SqliteOptions { durability: Durability::Full, ..SqliteOptions::default() };
                Store::builder(Sqlite::open(Location::File(path), options)?)
            }
            Self::Memory => marmota::open(&self.url(&path))?,
        };
        Ok(builder.model::<Note>().changes(ChangeRetention::unlimited()))
    }

    /// Starts a machine with the files of a folder.
    pub(super) fn machine(self, folder: Folder, seed: u64) -> Result<Machine, Failed> {
        match self {
            Self::Sqlite => Machine::with(folder, seed),
            Self::Memory => Machine::with_logs(folder, self.file(), seed),
        }
    }

    /// Cuts the power of a machine, and returns what is left. The state file is not written by an
    /// engine: it is synced whenever it is written, so what is there before the cut is on the disk.
    pub(super) fn cut(self, machine: &mut Machine) -> Result<Folder, Failed> {
        let name = format!("{}{STATE}", self.file());
        let state = fs::read(machine.path(&name)).ok();
        let left = machine.cut()?;
        if let Some(state) = state {
            fs::write(left.0.join(name), state)?;
        }
        Ok(left)
    }

    /// Counts the last segment of a replica up, so that it leaves out the next one.
    pub(super) fn skip_segment(self, folder: &Path) -> Result<(), Failed> {
        let path = folder.join(format!("{}{STATE}", self.file()));
        let mut state: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
        let index = state["index"].as_u64().unwrap_or_default();
        state["index"] = (index + 1).into();
        Ok(fs::write(&path, serde_json::to_vec(&state)?)?)
    }
}

/// A folder with the target, and restored databases.
pub(super) struct Place {
    folder: Folder,
    pub(super) kind: Kind,
}

impl Place {
    pub(super) fn new(kind: Kind) -> Result<Self, Failed> {
        let place = Self { folder: Folder::in_memory()?, kind };
        fs::create_dir(place.target())?;
        Ok(place)
    }

    pub(super) fn target(&self) -> PathBuf {
        self.folder.0.join("target")
    }

    /// Returns the URL of the target.
    pub(super) fn url(&self) -> String {
        format!("file://{}", self.target().display())
    }

    /// Makes the target refuse segments, or accept them again.
    pub(super) fn cut_link(&self, is_cut: bool) -> Result<(), Failed> {
        let (segments, aside) = (self.target().join("segments"), self.target().join("aside"));
        if is_cut && !aside.exists() {
            let file = self.target().join("cut");
            fs::write(&file, "")?;
            fs::rename(&segments, &aside)?;
            // A segment that is written at this moment creates the folder again.
            let began = Instant::now();
            while let Err(error) = fs::rename(&file, &segments) {
                if began.elapsed() > PATIENCE {
                    return Err(error.into());
                }
                for segment in fs::read_dir(&segments).into_iter().flatten().flatten() {
                    // One that is not complete yet may be gone.
                    let _ = fs::rename(segment.path(), aside.join(segment.file_name()));
                }
                let _ = fs::remove_dir(&segments);
            }
        } else if !is_cut && aside.is_dir() {
            fs::remove_file(&segments)?;
            fs::rename(&aside, &segments)?;
        }
        Ok(())
    }

    /// Disconnects the primary from the target for good. What it writes from now on is dropped by
    /// [`Place::reconnect`].
    pub(super) fn disconnect(&self) -> Result<(), Failed> {
        Ok(fs::rename(self.target(), self.folder.0.join("frozen"))?)
    }

    /// Puts the target back, as it was when it was disconnected.
    pub(super) fn reconnect(&self) -> Result<(), Failed> {
        let _ = fs::remove_dir_all(self.target());
        fs::rename(self.folder.0.join("frozen"), self.target())?;
        self.cut_link(false)
    }

    /// Changes a byte of a segment, or of a merged one. Returns false if none exists.
    pub(super) fn damage(&self) -> Result<bool, Failed> {
        for folder in ["segments", "merged"] {
            let mut objects = match fs::read_dir(self.target().join(folder)) {
                Ok(entries) => {
                    entries.map(|entry| Ok(entry?.path())).collect::<Result<_, Failed>>()?
                }
                Err(_) => Vec::new(),
            };
            objects.sort();
            if let Some(path) = objects.last() {
                let mut object = fs::read(path)?;
                let middle = object.len() / 2;
                object[middle] ^= 0x10;
                fs::write(path, object)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Restores the database to a new folder, and returns it with its numbers.
    pub(super) fn restored(&self, point: RestorePoint) -> Result<(Folder, Vec<i64>), Failed> {
        let folder = Folder::in_memory()?;
        let url = self.kind.url(&folder.0.join(self.kind.file()));
        restore_replica(&self.url(), point, &url, false)?;
        let store = marmota::open(&url)?.model::<Note>().open()?;
        let numbers = numbers(&store)?;
        store.close()?;
        Ok((folder, numbers))
    }

    /// Waits until a restore gives these numbers: a primary's snapshot may not be complete. Returns a
    /// fault if it does not.
    pub(super) fn wait_until_restored(&self, wanted: &[i64]) -> Option<String> {
        let began = Instant::now();
        loop {
            let fault = match self.restored(RestorePoint::Latest) {
                Ok((_, numbers)) if numbers == wanted => return None,
                Ok((_, numbers)) => {
                    format!("the target has {} rows instead of {}", numbers.len(), wanted.len())
                }
                Err(error) => error.to_string(),
            };
            if began.elapsed() > PATIENCE {
                return Some(fault);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the numbers of all notes, in order.
pub(super) fn numbers(store: &Store) -> Result<Vec<i64>> {
    let mut numbers: Vec<i64> = store.list::<Note>().column(Note::NUMBER).run()?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// A running primary.
pub(super) struct Primary {
    pub(super) store: Store,
    pub(super) replicator: Replicator,
}

impl Primary {
    pub(super) fn open(
        machine: &Machine,
        place: &Place,
        options_of: ReplicationOptions,
    ) -> Result<Self, Failed> {
        let replicator = Replicator::new(&place.url(), options_of)?;
        let store = place.kind.builder(machine.path(place.kind.file()))?;
        let store = store.commit_sink(Arc::new(replicator.clone())).open()?;
        Ok(Self { store, replicator })
    }

    /// Inserts a note. `None` if its result is unknown, false if it was refused. A relaxed write does
    /// not wait for the disk, so a power cut may undo it although the target has it.
    pub(super) fn insert(&self, number: i64, is_relaxed: bool) -> Result<Option<bool>> {
        let text = format!("{number} {}", "r".repeat(40 + number as usize % 200));
        let durability = if is_relaxed { Durability::Relaxed } else { Durability::Full };
        match self.store.insert(&Note { id: 0, number, text }).durability(durability).run() {
            Ok(_) => Ok((!is_relaxed).then_some(true)),
            Err(error) => match error.kind() {
                ErrorKind::Lost => Ok(None),
                ErrorKind::Busy => Ok(Some(false)),
                _ => Err(error),
            },
        }
    }

    pub(super) fn position(&self) -> Result<Position> {
        self.store.position()
    }

    /// Waits until the target has all commits. Returns a fault if it does not get them.
    pub(super) fn flush(&self) -> Option<String> {
        let is_there = self.replicator.flush(PATIENCE);
        (!is_there).then(|| format!("the target does not get all: {:?}", self.replicator.status()))
    }
}

/// A running replica.
pub(super) struct Replica {
    pub(super) store: Store,
    pub(super) follower: Follower,
    pub(super) machine: Machine,
    kind: Kind,
}

impl Replica {
    /// Starts a replica with the files of a folder.
    pub(super) fn open(folder: Folder, place: &Place, seed: u64) -> Result<Self, Failed> {
        let kind = place.kind;
        let file = folder.0.canonicalize()?.join(kind.file());
        let follower = Follower::new(&place.url(), Duration::from_millis(2))?;
        prepare_replica(&follower, &kind.url(&file))?;
        // What `prepare` has fetched is on the disk.
        let machine = kind.machine(folder, seed)?;
        let store = kind.builder(file)?.commit_sink(Arc::new(follower.clone())).open()?;
        Ok(Self { store, follower, machine, kind })
    }

    /// Waits until it has these rows of the primary. Returns a fault if it does not get them.
    pub(super) fn wait_for(&self, primary: &Primary, wanted: &[i64]) -> Result<Option<String>> {
        let (began, last) = (Instant::now(), primary.replicator.status().index);
        loop {
            let status = self.follower.status();
            let found = numbers(&self.store)?;
            if found == wanted {
                return Ok(None);
            }
            let patience = if status.index < last { PATIENCE } else { APPLIED_PATIENCE };
            if began.elapsed() > patience {
                let (found, wanted) = (found.len(), wanted.len());
                return Ok(Some(format!("the replica has {found} of {wanted} rows: {status:?}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Cuts the power, and returns what is left.
    pub(super) fn cut(mut self) -> Result<Folder, Failed> {
        let left = self.kind.cut(&mut self.machine)?;
        let _ = self.store.close();
        Ok(left)
    }
}
