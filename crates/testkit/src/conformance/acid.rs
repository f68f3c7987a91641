//! Promises about batches, transactions, background writes, concurrency and durability.

pub mod background;
pub mod batches;
pub mod before_hooks;
pub mod changes;
pub mod composite_links;
pub mod concurrency;
pub mod durability;
pub mod file_fields;
pub mod groups;
pub mod hooks;
pub mod idempotency;
pub mod jobs;
pub mod live;
pub mod transactions;
