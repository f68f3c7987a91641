//! Operations on models, over any engine.
//!
//! A verb ([`Scope::get`], [`Scope::insert`], …) makes an [`Action`](action::Action). When it is
//! executed, it becomes an [`Operation`](operation::Operation), which a session of an
//! [`Engine`](engine::Engine) answers with rows lent to a sink and an outcome. This crate makes
//! rows ready ([`prepare`]), so that engines only store and find them.
//!
//! This crate passes SQL on ([`sql`]) but does not interpret it, and has no sockets.
#![forbid(unsafe_code)]

pub mod action;
pub mod aggregate;
mod audit;
pub mod background;
pub mod backoff;
pub mod backup;
pub mod batch;
mod before;
mod cache;
mod capability;
mod databases;
mod durability;
pub mod engine;
pub mod history;
pub mod in_flight;
mod invalidation_feed;
pub mod key;
pub mod lent;
#[cfg(target_os = "linux")]
mod linger;
pub mod meter;
pub mod migration;
pub mod operation;
mod park;
pub mod plan;
#[cfg(target_os = "linux")]
mod poller;
pub mod predicate;
pub mod prepare;
pub mod private_file;
pub mod read;
pub mod refusal;
pub mod registry;
pub mod rights;
pub mod row_buffer;
mod scope;
pub mod sql;
mod statistics;
mod store;
pub mod tables;
mod tenants;
pub mod thread_pool;
mod transaction;
pub mod transfer;
pub mod wait;
#[cfg(target_os = "linux")]
mod watch;
pub mod write;

pub use cache::CacheStats;
pub use durability::Durability;
pub use history::{History, HistoryAction};
pub use invalidation_feed::{FeedPause, InvalidationFeed};
pub use operation::Idempotency;
pub use scope::{Pending, Progress, Scope};
pub use statistics::{EngineStatistics, Statistics};
pub use store::{Models, Store, StoreBuilder};
pub use tenants::{TenantStatistics, Tenants};
pub use transaction::{Savepoint, Transaction};
