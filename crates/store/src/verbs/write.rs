//! The verbs that write one row, or several rows of one table.
//!
//! A write checks the rules of its model first, so no invalid row reaches an engine. It fills in
//! what the store generates: keys, timestamps, versions. Several writes that belong together are a
//! [batch](crate::batch) or a [transaction](crate::Transaction).

mod check;
mod delete;
mod insert;
mod records;
mod row;
mod update;
mod upsert;

pub use check::{check_increment, check_version};
pub use delete::{Delete, DeleteWhere};
pub use insert::{Insert, InsertMany};
pub use records::{DeleteRecord, InsertRecord, UpdateRecord};
pub use update::{Increment, Patch, Update, UpdateMany};
pub use upsert::{InsertManyOver, InsertOver, InsertRecordOver};
