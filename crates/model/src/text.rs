//! The text form of values: in URLs, filters, defaults, string members of JSON, and error messages.

pub use crate::schema::text::{EnumValue, enum_value, integer, parse};
pub use crate::value::excerpt::{excerpt, excerpt_of};
