//! The tokens of a text.

use crate::Comparison;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    End,
    Word(&'a str),
    Number(&'a str),
    Text(String),
    /// A value of the caller.
    OfCaller(String),
    Symbol(&'static str),
}

/// Longer symbols come first, so that `<=` is not read as `<`.
pub(crate) const SYMBOLS: [&str; 16] =
    ["&&", "||", "!=", "<=", ">=", "==", "=", "<", ">", "~", "^", "@", "(", ")", ",", ":"];

pub(crate) fn comparison(token: &Token<'_>) -> Option<Comparison> {
    Some(match token {
        Token::Symbol("=") => Comparison::Equal,
        Token::Symbol("!=") => Comparison::NotEqual,
        Token::Symbol("<") => Comparison::Less,
        Token::Symbol("<=") => Comparison::LessOrEqual,
        Token::Symbol(">") => Comparison::Greater,
        Token::Symbol(">=") => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
