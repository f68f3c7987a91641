//! Helpers for the text of statements, used by engines with SQL and in their errors.
//!
//! The functions look at the first word only. They are no SQL parser: engines let the database
//! parse a statement, and use these for choices that precede it (reads or writes, which session)
//! and for messages.

use marmota_model::{Error, text::excerpt};

/// Returns the first word of a statement, after white space and comments.
///
/// Both kinds of SQL comments are skipped, `-- …` and `/* … */`, as are semicolons. An unterminated
/// comment has no word after it.
///
/// ```
/// use marmota_store::sql::text::first_word;
/// assert_eq!(first_word("-- all\n /* people */ SELECT * FROM person"), "SELECT");
/// assert_eq!(first_word("/* open"), "");
/// ```
#[must_use]
pub fn first_word(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c', ';', '\u{feff}']);
        let behind = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map(|(_, behind)| behind)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map(|(_, behind)| behind)
        } else {
            let end = rest.find(|letter: char| !letter.is_ascii_alphabetic());
            return &rest[..end.unwrap_or(rest.len())];
        };
        rest = behind.unwrap_or_default();
    }
}

/// Returns true if the first word of a statement is one of these.
///
/// ASCII case is ignored.
///
/// ```
/// use marmota_store::sql::text::begins_with;
/// assert!(begins_with("select 1", &["SELECT", "VALUES"]));
/// assert!(!begins_with("selected", &["SELECT"]));
/// ```
#[must_use]
pub fn begins_with(text: &str, words: &[&str]) -> bool {
    let first = first_word(text);
    words.iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// Returns the same error with the statement that caused it.
///
/// Long statements are shortened in the message.
#[cold]
#[must_use]
pub fn at_text(error: &Error, text: &str) -> Error {
    let message = format!("{} (in: {})", error.message(), excerpt(text));
    error
        .violations()
        .iter()
        .cloned()
        .fold(Error::new(error.kind(), message), Error::with_violation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_behind_comments() {
        for (text, word) in [
            ("SELECT 1", "SELECT"),
            ("  -- a\n/* b */ with x as (select 1) select 1", "with"),
            (";;insert into a", "insert"),
            ("/* open", ""),
            ("-- all", ""),
            ("(select 1)", ""),
            ("", ""),
        ] {
            assert_eq!(first_word(text), word, "{text:?}");
        }
        assert!(begins_with(" Select 1", &["SELECT"]));
    }
}
