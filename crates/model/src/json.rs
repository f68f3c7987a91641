//! Conversion of rows to JSON and of JSON to rows, without a struct in between.
//!
//! Writing does not use `serde_json`, which writes an owned tree or a struct: the members of a row
//! are appended to the answer's buffer while the engine lends the row. Reading uses `serde_json`'s
//! parser with a visitor that puts each member directly into its place in the row. A value inside a
//! JSON field is read by path ([`JsonCondition`]); the rest is skipped.

mod condition;
mod line;
mod path;
mod read;
mod write;

pub use condition::{JsonCondition, JsonTest};
pub use line::{RowWriter, write_value_as};
pub use path::{JSON_PATH_BYTES_MAX, JSON_PATH_STEPS_MAX, JsonPath, JsonStep};
pub use read::{read_object, read_value};
pub use write::{JsonRows, write_row};

pub use crate::value::json::{write_string, write_value};
