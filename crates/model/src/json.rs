//! Rows to JSON and JSON to rows, with no struct in between.
//!
//! Writing is by hand: a row's members are appended to the answer's buffer as
//! the engine lends them (`serde_json` writes an owned tree or a struct, which
//! is what this avoids). Reading is `serde_json`'s parser with a visitor that
//! puts each member straight into its place in the row.

mod read;
mod write;

pub use read::{read_object, read_value};
pub use write::{JsonRows, write_row, write_string, write_value, write_value_as};
