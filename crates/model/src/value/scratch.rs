//! Memory for values that are made while a row is written or a body is read (a JSON column's text,
//! an unescaped string), freed all at once.

use bumpalo::Bump;

/// An arena. An empty arena allocates no memory.
#[derive(Default)]
pub struct Scratch(Bump);

impl Scratch {
    /// Creates an empty arena.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a copy of `text`, which lives until the arena is reset or dropped.
    pub fn text(&self, text: &str) -> &str {
        self.0.alloc_str(text)
    }

    /// Stores a copy of `bytes`, which lives until the arena is reset or dropped.
    pub fn bytes(&self, bytes: &[u8]) -> &[u8] {
        self.0.alloc_slice_copy(bytes)
    }

    /// Removes all content; keeps the largest block for reuse.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}
