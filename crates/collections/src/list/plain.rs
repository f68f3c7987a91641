//! Lists without a discipline: a vector with checked access by place.

use std::ops::DerefMut;

use marmota_model::{Error, ErrorKind, Result};

use super::discipline::Plain;
use super::items::List;

impl<T> List<T> {
    /// Creates an empty list without a discipline.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: Vec::new(), discipline: Plain }
    }

    /// Appends an item and returns its place.
    pub fn add(&mut self, item: T) -> usize {
        self.items.push(item);
        self.items.len() - 1
    }

    /// Inserts an item at a place. The items from there on move back.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the place is past the end.
    pub fn insert(&mut self, place: usize, item: T) -> Result<()> {
        if place > self.items.len() {
            let len = self.items.len();
            let message = format!("cannot insert at place {place} in a list of {len} items");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        self.items.insert(place, item);
        Ok(())
    }

    /// Removes and returns the last item.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop()
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, discipline: Plain }
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<T> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.items.extend(items);
    }
}
