//! The objects of a target: their names, their bytes, and who may write them.

pub(crate) mod claim;
pub(crate) mod envelope;
pub(crate) mod log_position;
pub(crate) mod merged;
pub(crate) mod page_versions;
pub(crate) mod segment;
pub(crate) mod segment_reader;
pub(crate) mod snapshot;
pub(crate) mod target;
