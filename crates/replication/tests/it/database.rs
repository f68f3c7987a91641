//! The databases of these tests: a primary with its target, and what a restore gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::Result;
use marmota_replication::{
    Follower, PromotedDatabase, ReplicationOptions, Replicator, RestorePoint, fetch, promote,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::change::ChangeRetention;
use marmota_store::log_copy::LogKind;
use marmota_store::{Store, StoreBuilder};

/// The longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq, Model)]
pub(crate) struct Note {
    pub(crate) id: i64,
    pub(crate) body: String,
}

pub(crate) fn note(body: impl Into<String>) -> Note {
    Note { id: 0, body: body.into() }
}

/// Makes tests of functions that get the engine of the database.
macro_rules! for_each_engine {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name($crate::database::Kind::Sqlite); })*
        }
        mod memory {
            $(#[test] fn $name() { super::$name($crate::database::Kind::Memory); })*
        }
    };
}
pub(crate) use for_each_engine;

/// An engine whose log can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Memory,
}

impl Kind {
    pub(crate) fn builder(self, path: &Path) -> Result<StoreBuilder> {
        match self {
            Self::Sqlite => builder(path, &SqliteOptions::default()),
            Self::Memory => {
                Ok(Store::builder(Memory::from_url(&memory_url(path))?).model::<Note>())
            }
        }
    }

    /// Restores a database, with all checks.
    pub(crate) fn restore_to(self, path: &Path, url: &str, point: RestorePoint) -> Result<()> {
        match self {
            Self::Sqlite => restore_to(path, url, point, &SqliteOptions::default()),
            Self::Memory => {
                let make = |new: &Path| fetch(url, LogKind::Records, point, new).map(drop);
                Memory::install(&memory_url(path), true, make).map(drop)
            }
        }
    }

    /// Opens a database as a replica of a target.
    pub(crate) fn replica(self, path: &Path, url: &str) -> Result<(Store, Follower)> {
        match self {
            Self::Sqlite => replica(path, url, &SqliteOptions::default()),
            Self::Memory => {
                let follower = Follower::new(url, Duration::from_millis(10))?;
                follower.prepare(LogKind::Records, path, |make| {
                    Memory::install_replica(&memory_url(path), make)
                })?;
                following(self.builder(path)?, follower)
            }
        }
    }

    /// Makes a replica the primary of a target.
    pub(crate) fn promote(self, path: &Path, url: &str) -> Result<PromotedDatabase> {
        let kind = match self {
            Self::Sqlite => {
                let location = Location::File(path.to_owned());
                Sqlite::settle(&location, &SqliteOptions::default(), "promote it")?;
                LogKind::Pages
            }
            Self::Memory => {
                Memory::settled_file(&memory_url(path), true)?;
                LogKind::Records
            }
        };
        promote(url, kind, path)
    }

    /// Returns the bytes of the database's logs.
    pub(crate) fn log_bytes(self, path: &Path) -> u64 {
        let name = path.file_name().unwrap().to_str().unwrap();
        let begin = match self {
            Self::Sqlite => format!("{name}-wal"),
            Self::Memory => format!("{name}.log."),
        };
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap());
        let logs = files.filter(|file| file.file_name().to_str().unwrap().starts_with(&begin));
        logs.map(|log| log.metadata().unwrap().len()).sum()
    }
}

pub(crate) fn memory_url(path: &Path) -> String {
    format!("memory:{}?durability=full", path.display())
}

/// A folder with databases and a target.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) kind: Kind,
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::of(Kind::Sqlite)
    }

    pub(crate) fn of(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().join("target").display());
        Self { folder, kind, url }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opens a database with a change feed as the primary of the target.
    pub(crate) fn primary(&self, name: &str, options: ReplicationOptions) -> Result<Primary> {
        Primary::of(self.kind.builder(&self.path(name))?, &self.url, options)
    }

    /// Opens a database as a replica of the target.
    pub(crate) fn replica(&self, name: &str) -> Result<(Store, Follower)> {
        self.kind.replica(&self.path(name), &self.url)
    }

    /// Returns the notes of the database at a point.
    pub(crate) fn restored(&self, point: RestorePoint) -> Result<Vec<String>> {
        let path = self.path("restored.db");
        self.kind.restore_to(&path, &self.url, point)?;
        let store = self.kind.builder(&path)?.open()?;
        let bodies = bodies(&store);
        store.close()?;
        std::fs::remove_file(&path).unwrap();
        Ok(bodies)
    }
}

/// Restores a database, with all checks.
pub(crate) fn restore_to(
    path: &Path,
    url: &str,
    point: RestorePoint,
    options: &SqliteOptions,
) -> Result<()> {
    let location = Location::File(path.to_owned());
    let make = |new: &Path| fetch(url, LogKind::Pages, point, new).map(drop);
    Sqlite::install(&location, options, true, make, |_| Ok(())).map(drop)
}

/// Opens a database as a replica of a target.
pub(crate) fn replica(
    path: &Path,
    url: &str,
    options: &SqliteOptions,
) -> Result<(Store, Follower)> {
    let follower = Follower::new(url, Duration::from_millis(10))?;
    let location = Location::File(path.to_owned());
    follower.prepare(LogKind::Pages, path, |make| {
        Sqlite::install(&location, options, true, make, |_| Ok(())).map(drop)
    })?;
    following(builder(path, options)?, follower)
}

fn following(builder: StoreBuilder, follower: Follower) -> Result<(Store, Follower)> {
    let builder = builder.changes(ChangeRetention::default());
    let store = builder.commit_sink(Arc::new(follower.clone())).open()?;
    Ok((store, follower))
}

/// An open primary.
pub(crate) struct Primary {
    pub(crate) store: Store,
    pub(crate) replicator: Replicator,
}

impl Primary {
    pub(crate) fn open(
        path: &Path,
        url: &str,
        options: ReplicationOptions,
        sqlite: &SqliteOptions,
    ) -> Result<Self> {
        Self::of(builder(path, sqlite)?, url, options)
    }

    /// Opens a database with a change feed as the primary of the target.
    pub(crate) fn of(
        builder: StoreBuilder,
        url: &str,
        options: ReplicationOptions,
    ) -> Result<Self> {
        let replicator = Replicator::new(url, options)?;
        let builder = builder.changes(ChangeRetention::default());
        let store = builder.commit_sink(Arc::new(replicator.clone())).open()?;
        Ok(Self { store, replicator })
    }

    pub(crate) fn insert(&self, body: impl Into<String>) {
        self.store.insert(&note(body)).run().unwrap();
    }

    /// Waits until all commits are in the target, and a snapshot is.
    pub(crate) fn settle(&self, place: &Place) {
        assert!(self.replicator.flush(PATIENCE), "{:?}", self.replicator.status());
        wait_for("a snapshot", || has_snapshot(&place.url));
    }
}

pub(crate) fn has_snapshot(url: &str) -> bool {
    snapshots(url) > 0
}

/// Returns the number of snapshots in a folder. A file that is being written has a `#` in its name.
pub(crate) fn snapshots(url: &str) -> usize {
    let folder = Path::new(url.strip_prefix("file://").unwrap()).join("snapshots");
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    files.filter(|file| !file.as_ref().unwrap().path().to_string_lossy().contains('#')).count()
}

pub(crate) fn builder(path: &Path, options: &SqliteOptions) -> Result<StoreBuilder> {
    let engine = Sqlite::open(Location::File(path.to_owned()), options.clone())?;
    Ok(Store::builder(engine).model::<Note>())
}

/// Returns the bodies of all notes, in order.
pub(crate) fn bodies(store: &Store) -> Vec<String> {
    let mut notes: Vec<Note> = store.list::<Note>().run().unwrap();
    notes.sort_by_key(|note| note.id);
    notes.into_iter().map(|note| note.body).collect()
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
