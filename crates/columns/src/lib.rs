//! Tables that are loaded once and read often: the rows of any model, field by
//! field and interned ([`Columns`]), loaded from CSV ([`csv`]), found by the
//! values of a field ([`Index`]), joined ([`Join`]) and written as JSON
//! ([`JsonFields`]) without a struct, a copy or a lock in between.
//!
//! What they are not: rows that change, or outlive the process, are in a
//! `Store`.
#![forbid(unsafe_code)]

mod cells;
mod columns;
pub mod csv;
mod dictionary;
mod index;
mod json;
mod narrow;
mod steps;

pub use columns::Columns;
pub use index::{Index, Join, Rows};
pub use json::JsonFields;
