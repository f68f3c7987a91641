//! The databases of these tests: a primary with its target, and what a restore gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_model::Result;
use marmota_replication::{Follower, ReplicationOptions, Replicator, RestorePoint, fetch};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::change::ChangeRetention;
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

/// A folder with databases and a target.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().join("target").display());
        Self { folder, url }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opens a database with a change feed as the primary of the target.
    pub(crate) fn primary(&self, name: &str, options: ReplicationOptions) -> Result<Primary> {
        Primary::open(&self.path(name), &self.url, options, &SqliteOptions::default())
    }

    /// Returns the notes of the database at a point.
    pub(crate) fn restored(&self, point: RestorePoint) -> Result<Vec<String>> {
        let path = self.path("restored.db");
        restore_to(&path, &self.url, point, &SqliteOptions::default())?;
        let store = builder(&path, &SqliteOptions::default())?.open()?;
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
    let make = |new: &Path| fetch(url, point, new).map(drop);
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
    follower.prepare(path, |make| {
        Sqlite::install(&location, options, true, make, |_| Ok(())).map(drop)
    })?;
    let builder = builder(path, options)?.changes(ChangeRetention::default());
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
        let replicator = Replicator::new(url, options)?;
        let builder = builder(path, sqlite)?.changes(ChangeRetention::default());
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
