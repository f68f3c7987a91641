//! [`List`]: its items, and the methods of lists of all disciplines.

use std::fmt;
use std::ops::Deref;

use marmota_model::{Error, ErrorKind, Result};

use super::discipline::sealed::Twice;
use super::discipline::{Discipline, Plain};

/// An ordered collection of items, with a discipline.
///
/// | constructor | discipline | an equal item | found in | added in |
/// |---|---|---|---|---|
/// | [`List::new`] | none | is added | O(n) | O(1) |
/// | [`List::sorted`], [`List::sorted_by`] | in the order of a key | is added after its equals | O(log n) | O(log n) and a move of the items that follow |
/// | the same with [`List::unique`] | and each key once | is refused | O(log n) | the same |
/// | [`List::hashed`], [`List::hashed_by`] | each key once, in insertion order | is refused | O(1) | O(1) |
///
/// An insert into a sorted list moves the items that follow, at about 10 GB a second. That is fine
/// up to about 100,000 items, and at any size if items arrive in order or through
/// [`List::add_all`]. For more, use a sorted [`Map`](crate::Map).
///
/// ```
/// use marmota_collections::List;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Person { name: String, born: i32 }
/// let person = |name: &str, born| Person { name: name.to_owned(), born };
///
/// let mut by_birth = List::sorted_by(|person: &Person| &person.born);
/// by_birth.add_all([person("Noether", 1882), person("Galois", 1811), person("Ramanujan", 1887)])?;
/// assert_eq!(by_birth[0].name, "Galois");
/// assert_eq!(by_birth.range(1880..1890).len(), 2);
///
/// let mut by_name = List::hashed_by(|person: &Person| person.name.as_str());
/// by_name.add(person("Noether", 1882))?;
/// let refused = by_name.add(person("Noether", 1)).unwrap_err();
/// assert_eq!(refused.place, Some(0));
/// assert_eq!(by_name.find("Noether").map(|person| person.born), Some(1882));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct List<T, D = Plain> {
    pub(super) items: Vec<T>,
    pub(super) discipline: D,
}

impl<T, D> List<T, D> {
    /// Returns the items in order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    /// Returns the items without their discipline.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }

    /// Returns the item at a place.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the place is past the end.
    pub fn at(&self, place: usize) -> Result<&T> {
        self.items.get(place).ok_or_else(|| past_the_end(place, self.items.len()))
    }

    /// Reserves room for `more` items.
    pub fn reserve(&mut self, more: usize) {
        self.items.reserve(more);
    }
}

impl<T, D: Discipline<T>> List<T, D> {
    /// Removes the item at a place. The following items move up, which takes O(n).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the place is past the end.
    pub fn remove(&mut self, place: usize) -> Result<T> {
        self.at(place)?;
        self.discipline.removing(&self.items, place);
        Ok(self.items.remove(place))
    }

    /// Keeps only the items for which `keep` returns true, in their order. Returns the number of
    /// removed items.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) -> usize {
        // `keep` runs for all items first: if it panics, the list is unchanged.
        let kept: Vec<bool> = self.items.iter().map(keep).collect();
        let before = self.items.len();
        self.discipline.keeping(&kept);
        let mut kept = kept.into_iter();
        self.items.retain(|_| kept.next().unwrap_or(true));
        before - self.items.len()
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.discipline.clearing();
        self.items.clear();
    }

    /// Replaces all items with new ones, which are put in order, and returns the old ones.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if a key occurs twice in a list that does not allow it; the list is
    /// then unchanged.
    pub fn replace_all(&mut self, mut items: Vec<T>) -> Result<Vec<T>> {
        self.discipline.restore(&mut items).map_err(twice)?;
        Ok(std::mem::replace(&mut self.items, items))
    }
}

#[cold]
pub(super) fn past_the_end(place: usize, len: usize) -> Error {
    let message = format!("place {place} is past the end of a list of {len} items");
    Error::new(ErrorKind::NotFound, message)
}

#[cold]
pub(super) fn twice(Twice(first, second): Twice) -> Error {
    let message = format!(
        "items {first} and {second} have the same key, but the keys of this list are unique; \
         remove one"
    );
    Error::new(ErrorKind::Conflict, message)
}

impl<T, D: Default> Default for List<T, D> {
    fn default() -> Self {
        Self { items: Vec::new(), discipline: D::default() }
    }
}

impl<T: fmt::Debug, D> fmt::Debug for List<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}

impl<T, D> Deref for List<T, D> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T, D> IntoIterator for List<T, D> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'l, T, D> IntoIterator for &'l List<T, D> {
    type Item = &'l T;
    type IntoIter = std::slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<T: PartialEq, D> PartialEq for List<T, D> {
    /// Compares the items; the discipline is not compared.
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<T: Eq, D> Eq for List<T, D> {}
