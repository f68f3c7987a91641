//! Rows to JSON and JSON to rows, with no struct in between.
//!
//! Writing is by hand: a row's members are appended to the answer's buffer as
//! the engine lends them (`serde_json` writes an owned tree or a struct, which
//! is what this avoids). Reading is `serde_json`'s parser with a visitor that
//! puts each member straight into its place in the row. What lies inside a
//! JSON field is asked for by path ([`JsonCondition`]), skipping the rest.

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
