//! SQL text being written, with its parameters.

use marmota_model::{Value, ValueRef};

use crate::dialect::Dialect;

/// A statement and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) dialect: &'static Dialect,
    pub(crate) text: String,
    pub(crate) parameters: Vec<Value>,
}

impl Sql {
    pub(crate) fn new(dialect: &'static Dialect, text: impl Into<String>) -> Self {
        Self { dialect, text: text.into(), parameters: Vec::new() }
    }

    /// Adds text.
    pub(crate) fn add(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds the value of the next placeholder.
    pub(crate) fn bind(&mut self, value: ValueRef<'_>) -> &mut Self {
        self.parameters.push(value.to_value());
        self
    }
}
