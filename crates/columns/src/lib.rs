//! Tables that are loaded once and read often: the rows of any model, field by field and interned
//! ([`Columns`]), loaded from CSV ([`csv`]), found by the values of a field ([`ColumnIndex`]), joined
//! ([`Join`]) and written as JSON ([`JsonFields`]) without intermediate structs, copies or locks.
//!
//! For rows that change or outlive the process, use a `Store`.
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
pub use index::{ColumnIndex, Join, MatchingRows};
pub use json::JsonFields;
