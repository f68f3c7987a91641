//! The file of a database: its options, opening it, its key, its locks and its failures.

pub(crate) mod attachable_file;
pub(crate) mod attached_databases;
pub(crate) mod connect;
pub(crate) mod database_name;
#[cfg(feature = "simulated-disk")]
pub mod disk;
pub(crate) mod encryption;
pub(crate) mod exclusive_file;
pub(crate) mod failed_sync;
pub(crate) mod lock_owner;
pub(crate) mod options;
pub(crate) mod replication_lock;
