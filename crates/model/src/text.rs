//! The text form of values: in URLs, filters, defaults, string members of JSON, and error messages;
//! numbers with their nouns.

pub use crate::schema::text::{EnumValue, enum_value, integer, parse};
pub use crate::value::excerpt::{excerpt, excerpt_of};

/// Returns a number with its noun, which forms its plural with `s`: `1 row`, `3 rows`.
///
/// ```
/// use marmota_model::text::counted;
/// assert_eq!(counted(1, "row"), "1 row");
/// assert_eq!(counted(0, "row"), "0 rows");
/// ```
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
