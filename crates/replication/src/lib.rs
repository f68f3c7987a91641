//! Continuous replication of a database to a folder or a bucket, restore to any time, and read-only
//! replicas.
//!
//! [`Replicator`] copies the log of a database as it is: the pages of SQLite, or the records of the
//! memory engine. So the copy has everything that the database has: tables without a model, blobs,
//! encrypted pages. [`fetch`] makes a file of the copy, and [`Follower`] keeps the file of a running
//! store up to date.
//!
//! ```no_run
//! use std::sync::Arc;
//! use marmota_replication::{ReplicationOptions, Replicator};
//!
//! let replicator = Replicator::new("file:///backups/app", ReplicationOptions::default())?;
//! println!("{} segments", replicator.status().segments);
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

mod follower;
mod log;
mod objects;
mod options;
mod primary;
mod promotion;
mod restore;
mod restoring;
mod state_file;
mod status;

pub use follower::Follower;
pub use options::{ReplicationMode, ReplicationOptions};
pub use primary::replicator::Replicator;
pub use promotion::{PromotedDatabase, is_replica, promote};
pub use restore::{RestorePoint, RestoredReplica, fetch};
pub use status::ReplicationStatus;
