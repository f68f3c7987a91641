//! The primary: receives the commits of an engine, and writes segments and snapshots.

pub(crate) mod replicator;
pub(crate) mod shipping;
pub(crate) mod snapshots;
