//! Memory for values that are made while a row is written or a body is read (a JSON column's text,
//! an unescaped string), freed all at once.

use bumpalo::Bump;

/// An arena. An empty arena allocates no memory.
///
/// ```
/// use marmota_model::{Scratch, ValueRef};
/// let mut scratch = Scratch::new();
/// for number in 0..3 {
///     let row = [ValueRef::Text(scratch.text(&format!("row {number}")))];
///     assert!(row[0].as_text().is_some());
///     scratch.reset();
/// }
/// ```
#[derive(Default)]
pub struct Scratch(Bump);

impl Scratch {
    /// Creates an empty arena.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a copy of `text`, which lives until the arena is reset or dropped.
    ///
    /// ```
    /// let scratch = marmota_model::Scratch::new();
    /// let (a, b) = (scratch.text("a"), scratch.text("b"));
    /// assert_eq!([a, b].concat(), "ab");
    /// ```
    pub fn text(&self, text: &str) -> &str {
        self.0.alloc_str(text)
    }

    /// Stores a copy of `bytes`, which lives until the arena is reset or dropped.
    ///
    /// ```
    /// let scratch = marmota_model::Scratch::new();
    /// assert_eq!(scratch.bytes(&[1, 2, 3]), [1, 2, 3]);
    /// ```
    pub fn bytes(&self, bytes: &[u8]) -> &[u8] {
        self.0.alloc_slice_copy(bytes)
    }

    /// Removes all content; keeps the largest block for reuse.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}
