//! SQL text being written, with its parameters.

use crate::connection::Cell;

/// A statement and its parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) parameters: Vec<Cell>,
}

impl Sql {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), parameters: Vec::new() }
    }

    /// Adds text.
    pub(crate) fn add(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds the value of the next placeholder.
    pub(crate) fn bind(&mut self, cell: Cell) -> &mut Self {
        self.parameters.push(cell);
        self
    }
}
