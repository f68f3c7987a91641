//! Memory for what has to be made while a row is written or a body is read
//! (a JSON column's text, an unescaped string), freed all at once.

use bumpalo::Bump;

/// An arena. An empty one allocates nothing.
#[derive(Default)]
pub struct Scratch(Bump);

impl Scratch {
    /// An empty arena.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a copy of `text` for as long as the arena lives.
    pub fn text(&self, text: &str) -> &str {
        self.0.alloc_str(text)
    }

    /// Keeps a copy of `bytes` for as long as the arena lives.
    pub fn bytes(&self, bytes: &[u8]) -> &[u8] {
        self.0.alloc_slice_copy(bytes)
    }

    /// Forgets everything, keeping the largest block for what comes next.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}
