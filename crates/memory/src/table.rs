//! A table in memory: its rows in pages, its key and its indexes.

pub(crate) mod hash_index;
pub(crate) mod key_index;
pub(crate) mod layout;
pub(crate) mod ordered_index;
pub(crate) mod pages;
pub(crate) mod row_index;
pub(crate) mod scan_copies;
pub(crate) mod sort_prefix;
pub(crate) mod table_rows;
