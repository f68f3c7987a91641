//! Promises about writes that belong together: batches, transactions, background writes, and what
//! survives.

pub mod background;
pub mod batches;
pub mod concurrency;
pub mod durability;
pub mod groups;
pub mod idempotency;
pub mod transactions;
