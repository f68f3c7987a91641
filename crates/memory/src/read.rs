//! Reads: plans, scans in one or several turns, and tables that another engine reads.

pub(crate) mod borrowed_table;
pub(crate) mod long_related;
pub(crate) mod long_scan;
pub(crate) mod read_plan;
pub(crate) mod related;
pub(crate) mod row_set;
pub(crate) mod scan;
