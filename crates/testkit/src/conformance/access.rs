//! Promises about callers: their rights, and the history of their writes.

pub mod field_rights;
pub mod history;
pub mod related_rights;
pub mod rights;
