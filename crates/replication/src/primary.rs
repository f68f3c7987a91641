//! The primary: receives the commits of an engine, writes segments and snapshots, and
//! merges old segments.

pub(crate) mod background;
pub(crate) mod merging;
pub(crate) mod replicator;
pub(crate) mod shipping;
pub(crate) mod snapshots;
