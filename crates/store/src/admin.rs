//! The administration of databases: backups, transfers to another engine, also while the store is
//! used, and a database for each tenant.

pub mod backup;
pub mod pair;
pub(crate) mod tenants;
pub mod transfer;
