//! Violations of rules, for code that checks rows itself: engines, importers, REST.

pub use crate::schema::{same_text, violation};
