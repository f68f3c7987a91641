//! Replicas of a database: restore from a target, read-only replicas, promotion.
//!
//! A [`Replicator`] copies a database of SQLite or of the memory engine continuously to a folder or a
//! bucket:
//!
//! ```no_run
//! use std::sync::Arc;
//! use marmota::replication::{ReplicationMode, ReplicationOptions, Replicator};
//!
//! let options = ReplicationOptions::default().mode(ReplicationMode::Sync);
//! let replicator = Replicator::new("s3://backups/app", options)?;
//! let store = marmota::open("sqlite:app.db")?.commit_sink(Arc::new(replicator.clone())).open()?;
//! println!("{} ms old", replicator.status().lag_ms);
//! # Ok::<(), marmota::Error>(())
//! ```
//!
//! See the guide, `28-replication.md`, for what can be lost, replicas and promotion.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind, Result, text};
pub use marmota_replication::{
    Follower, PromotedDatabase, ReplicationMode, ReplicationOptions, ReplicationStatus, Replicator,
    RestorePoint, RestoredReplica,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::change::renew_feed;
use marmota_store::engine::Engine;
use marmota_store::log_copy::LogKind;

/// The result of [`restore_replica`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredDatabase {
    /// The commits of the restored state.
    pub replica: RestoredReplica,
    /// The number of tables.
    pub tables: usize,
    /// The number of rows of all tables.
    pub rows: u64,
}

/// Restores a database of SQLite or of the memory engine from a replica target (`file:///folder` or
/// `s3://bucket/prefix`), and checks all of it. An existing database is replaced only if `replaces` is
/// true. If the restore is interrupted, the database is either the old one or the new one, complete.
///
/// The change feed of the restored database has a new identity, as after [`restore`](crate::restore).
///
/// # Errors
/// Those of [`marmota_replication::fetch`]; [`ErrorKind::Conflict`] if the database exists and
/// `replaces` is false, [`ErrorKind::Busy`] if it is open elsewhere, [`ErrorKind::Invalid`] for a
/// database of another engine.
///
/// ```no_run
/// use marmota::replication::{RestorePoint, restore_replica};
/// restore_replica("file:///backups/app", RestorePoint::Latest, "sqlite:app.db", false)?;
/// # Ok::<(), marmota::Error>(())
/// ```
pub fn restore_replica(
    target: &str,
    point: RestorePoint,
    url: &str,
    replaces: bool,
) -> Result<RestoredDatabase> {
    let fetched = OnceCell::new();
    let make = |kind: LogKind, new: &Path| {
        let replica = marmota_replication::fetch(target, kind, point, new)?;
        let _ = fetched.set(replica);
        Ok(())
    };
    let found = match database(url)? {
        FileDatabase::Sqlite(location, options) => {
            let make = |new: &Path| make(LogKind::Pages, new);
            let found = Sqlite::install(&location, &options, replaces, make, |_| Ok(()))?;
            let engine = Sqlite::open(location, options)?;
            renew_feed(&engine).and_then(|()| engine.close())?;
            found
        }
        FileDatabase::Memory => {
            let found = Memory::install(url, replaces, |new| make(LogKind::Records, new))?;
            let engine = Memory::from_url(url)?;
            renew_feed(&engine).and_then(|()| engine.close())?;
            found
        }
    };
    let Some(replica) = fetched.into_inner() else {
        return Err(Error::new(ErrorKind::Bug, "the replica was not fetched"));
    };
    Ok(RestoredDatabase { replica, tables: found.len(), rows: found.values().sum() })
}

/// Makes or updates the file of a read-only replica, which a store with this follower then opens
/// and keeps up to date.
///
/// # Errors
/// Those of [`Follower::prepare`]; [`ErrorKind::Unsupported`] for a file of the memory engine that has
/// no log, [`ErrorKind::Invalid`] for a database of another engine.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use marmota::replication::{Follower, prepare_replica};
/// let follower = Follower::new("file:///backups/app", Duration::from_millis(500))?;
/// prepare_replica(&follower, "sqlite:replica.db")?;
/// let store = marmota::open("sqlite:replica.db")?.commit_sink(Arc::new(follower)).open()?;
/// # Ok::<(), marmota::Error>(())
/// ```
pub fn prepare_replica(follower: &Follower, url: &str) -> Result<()> {
    match database(url)? {
        FileDatabase::Sqlite(location, options) => {
            follower.prepare(LogKind::Pages, &file(&location)?, |make| {
                Sqlite::install(&location, &options, true, make, |_| Ok(())).map(drop)
            })
        }
        FileDatabase::Memory => follower.prepare(LogKind::Records, &Memory::file(url)?, |make| {
            Memory::install_replica(url, make)
        }),
    }
}

/// Makes a database the primary of a replica target: a replica, which first gets the last commits,
/// or one that was restored. The old primary accepts no writes once it learns that.
///
/// The database must not be open.
///
/// ```no_run
/// let promoted = marmota::replication::promote("s3://backups/app", "sqlite:replica.db")?;
/// println!("epoch {}", promoted.epoch);
/// # Ok::<(), marmota::Error>(())
/// ```
///
/// # Errors
/// Those of [`marmota_replication::promote`]; [`ErrorKind::Busy`] if the database is open elsewhere.
pub fn promote(target: &str, url: &str) -> Result<PromotedDatabase> {
    match database(url)? {
        FileDatabase::Sqlite(location, options) => {
            Sqlite::settle(&location, &options, "promote the database")?;
            marmota_replication::promote(target, LogKind::Pages, &file(&location)?)
        }
        FileDatabase::Memory => {
            let is_replica = marmota_replication::is_replica(&Memory::file(url)?)?;
            let path = Memory::settled_file(url, is_replica)?;
            marmota_replication::promote(target, LogKind::Records, &path)
        }
    }
}

/// A database whose log can be copied.
enum FileDatabase {
    Sqlite(Location, SqliteOptions),
    Memory,
}

fn database(url: &str) -> Result<FileDatabase> {
    if url.starts_with("sqlite:") {
        let (location, options) = Sqlite::parse_url(url)?;
        return Ok(FileDatabase::Sqlite(location, options));
    }
    if url.starts_with("memory:") {
        return Ok(FileDatabase::Memory);
    }
    let message = format!(
        "only databases of SQLite and of the memory engine are replicated, not `{}`: write \
         sqlite:FILE or memory:FILE",
        text::excerpt(url.split('?').next().unwrap_or_default())
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

fn file(location: &Location) -> Result<PathBuf> {
    match location {
        Location::File(path) => Ok(path.clone()),
        Location::Memory => {
            let message = "a database in memory has no replicas: name a file, as in sqlite:app.db";
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}
