//! A binary form of values and rows: integers of variable length, texts and bytes after their
//! length, values after their kind.
//!
//! It is the format of remote stores and of the change feed. Reading trusts no length, number or
//! text.

mod reader;
mod value;

pub use reader::{BinaryReader, put_bytes, put_int, put_option, put_unsigned};
pub use value::{put_row, put_value, put_values};
