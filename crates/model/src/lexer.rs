//! The tokens of filters and expressions, with the place of errors in the text.

mod caller;
mod cursor;
mod token;

pub use caller::Caller;
pub(crate) use cursor::Cursor;
pub(crate) use token::{Token, comparison, is_word};
