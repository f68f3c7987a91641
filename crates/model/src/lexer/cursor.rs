//! Reads the tokens of a text one after the other, and reports errors with their place.

use super::caller::Caller;
use super::token::{SYMBOLS, Token, is_word};
use crate::value::excerpt::{excerpt, unquote};
use crate::{Error, ErrorKind, Result, Value};

/// A place in the text of a filter or an expression.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a, 't> {
    /// What the text is, for errors.
    what: &'static str,
    text: &'a str,
    at: usize,
    /// `None` if values of a caller are not allowed.
    caller: Option<&'t Caller>,
}

impl<'a, 't> Cursor<'a, 't> {
    /// Creates a cursor at the start of a text; `what` is the text's name in errors.
    pub(crate) const fn new(what: &'static str, text: &'a str, caller: Option<&'t Caller>) -> Self {
        Self { what, text, at: 0, caller }
    }

    /// Continues where another cursor on the same text is.
    pub(crate) const fn move_to(&mut self, place: usize) {
        self.at = place;
    }

    /// Returns the place, for [`Self::move_to`].
    pub(crate) const fn place(&self) -> usize {
        self.at
    }

    /// Skips bytes that were parsed elsewhere.
    pub(crate) const fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(crate) fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    pub(crate) fn take(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let found = rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest[word.len()..].starts_with(is_word);
        if found {
            self.at += word.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, symbol: &'static str) -> Result<()> {
        if self.take(symbol) {
            return Ok(());
        }
        let found = self.token()?;
        Err(self.expected(&format!("`{symbol}`"), &found))
    }

    pub(crate) fn token(&mut self) -> Result<Token<'a>> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if first == '\'' || first == '"' {
            let (text, taken) =
                unquote(rest).ok_or_else(|| self.error("has a text without its closing quote"))?;
            self.at += taken;
            return Ok(Token::Text(text));
        }
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            self.at += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        let number = first.is_ascii_digit() || first == '-' || first == '+';
        let part = |c: char| is_word(c) || (number && matches!(c, '.' | '-' | '+' | ':'));
        let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error(&format!("has the unexpected character {first:?}")));
        }
        self.at += length;
        let word = &rest[..length];
        Ok(if number { Token::Number(word) } else { Token::Word(word) })
    }

    #[cold]
    pub(crate) fn expected(&self, what: &str, found: &Token<'_>) -> Error {
        let found = match found {
            Token::End => "the end".to_owned(),
            Token::Word(text) | Token::Number(text) => format!("`{text}`"),
            Token::Text(text) | Token::OfCaller(text) => format!("{text:?}"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
        };
        self.error(&format!("has {found}, expected {what}"))
    }

    #[cold]
    pub(crate) fn error(&self, what: &str) -> Error {
        let at = self.text[..self.at].chars().count();
        let text = excerpt(self.text);
        let message = format!("the {} {text:?} {what}, before character {}", self.what, at + 1);
        Error::new(ErrorKind::Invalid, message)
    }

    /// Returns the caller's groups if the next token names them.
    pub(crate) fn groups(&mut self) -> Option<Vec<String>> {
        let caller = self.caller?;
        self.take("@user.groups").then(|| caller.groups.clone())
    }

    /// Returns the next token, or the caller's value for which it stands.
    pub(crate) fn value_token(&mut self) -> Result<Token<'a>> {
        if let Some(caller) = self.caller {
            for (name, value) in [("@user.id", &caller.id), ("@user.name", &caller.name)] {
                if self.take(name) {
                    return Ok(Token::OfCaller(value.clone()));
                }
            }
        }
        self.token()
    }

    pub(crate) fn values(
        &mut self,
        mut value: impl FnMut(&mut Self) -> Result<Value>,
    ) -> Result<Vec<Value>> {
        self.expect("(")?;
        let mut values = Vec::new();
        loop {
            match value(self)? {
                Value::Null => return Err(self.error("a list cannot contain null; use `= null`")),
                value => values.push(value),
            }
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(values)
    }
}
