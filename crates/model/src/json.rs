//! Conversion of rows to JSON and of JSON to rows, without a struct in between.
//!
//! Writing does not use `serde_json`, which writes an owned tree or a struct: the members of a row
//! are appended to the answer's buffer while the engine lends the row. Reading uses `serde_json`'s
//! parser with a visitor that puts each member directly into its place in the row. A value inside a
//! JSON field is read by path ([`JsonCondition`]); the rest is skipped.
//!
//! | to | use |
//! |---|---|
//! | write one row | [`write_row`] |
//! | write many rows | [`RowWriter`], or [`JsonRows`] as the sink of a read |
//! | write one value | [`write_value`], [`write_value_as`] (enums by name), [`write_string`] |
//! | read an object into a row | [`read_object`] |
//! | read one value | [`read_value`] |
//! | look inside a JSON field | [`JsonPath`], [`JsonCondition`] |
//!
//! ```
//! use marmota_model::{Field, Kind, Role, Schema, Scratch, Table, ValueRef, json};
//!
//! let table = Table::new(Schema::new("city", vec![
//!     Field::new("id", Kind::I64).role(Role::Key),
//!     Field::new("name", Kind::TEXT),
//! ]))?;
//! let (scratch, mut violations) = (Scratch::new(), Vec::new());
//! let mut row = [ValueRef::Absent; 2];
//! json::read_object(&table, br#"{"name":"Bourges"}"#, &scratch, &mut row, &mut violations)?;
//! assert_eq!(row, [ValueRef::Absent, ValueRef::Text("Bourges")]);
//!
//! let mut out = Vec::new();
//! json::write_row(&mut out, &table, table.all(), &row);
//! assert_eq!(out, br#"{"name":"Bourges"}"#);
//! # Ok::<(), marmota_model::Error>(())
//! ```

mod condition;
mod line;
mod path;
mod read;
mod write;

pub use condition::{JsonCondition, JsonTest};
pub use line::{RowWriter, write_value_as};
pub use path::{JSON_PATH_BYTES_MAX, JSON_PATH_STEPS_MAX, JsonPath, JsonStep};
pub use read::{read_object, read_value};
pub use write::{JsonRows, write_row, write_values};

pub use crate::value::json::{write_string, write_value};
