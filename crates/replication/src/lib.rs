//! Continuous replication of a database to a folder or a bucket, restore to any time, and read-only
//! replicas.
//!
//! [`Replicator`] copies the log of a database, page by page, so the copy has everything that the
//! database has: tables without a model, blobs, encrypted pages. [`fetch`] makes a file of the copy,
//! and [`Follower`] keeps the file of a running store up to date.
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

mod claim;
mod envelope;
mod follower;
mod log_position;
mod log_reader;
mod options;
mod promotion;
mod replicator;
mod restore;
mod segment;
mod shipping;
mod snapshot;
mod state_file;
mod status;
mod tail;
mod target;

pub use follower::Follower;
pub use options::{ReplicationMode, ReplicationOptions};
pub use promotion::{PromotedDatabase, promote};
pub use replicator::Replicator;
pub use restore::{RestorePoint, RestoredReplica, fetch};
pub use status::ReplicationStatus;
