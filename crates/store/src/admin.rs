//! The administration of databases: backups, transfers to another engine, and a database for each
//! tenant.

pub mod backup;
pub(crate) mod tenants;
pub mod transfer;
