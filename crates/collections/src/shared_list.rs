//! [`SharedList`]: a list with one lock, for many concurrent readers or one writer. Places are
//! numbers within the whole list, so it is not divided into parts; for frequent writes from many
//! threads use a [`SharedMap`](crate::SharedMap), which is.

use std::fmt;

use parking_lot::RwLock;

use crate::inside::{self, Inside};
use crate::{List, Plain};

/// A [`List`] shared by threads.
///
/// ```
/// use marmota_collections::{List, SharedList};
///
/// let words = SharedList::from(List::hashed());
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| words.write(|list| list.add("once".to_owned()).is_ok()));
///     }
/// });
/// assert_eq!(words.read(|list| list.find("once").cloned()).as_deref(), Some("once"));
/// assert_eq!(words.len(), 1);
/// ```
pub struct SharedList<T, D = Plain>(RwLock<List<T, D>>);

impl<T> SharedList<T> {
    /// Creates an empty list without a discipline. Other lists are converted from a [`List`].
    #[must_use]
    pub const fn new() -> Self {
        Self(RwLock::new(List::new()))
    }
}

impl<T, D> SharedList<T, D> {
    /// Runs `read` under the read lock.
    ///
    /// # Panics
    /// If it is called inside a closure that runs under this list's lock. This applies to all
    /// methods.
    pub fn read<R>(&self, read: impl FnOnce(&List<T, D>) -> R) -> R {
        inside::check(self);
        let list = self.0.read();
        let _inside = Inside::enter(self);
        read(&list)
    }

    /// Runs `write` under the write lock. If it panics, the list keeps the changes made so far.
    ///
    /// # Panics
    /// As [`SharedList::read`].
    pub fn write<R>(&self, write: impl FnOnce(&mut List<T, D>) -> R) -> R {
        inside::check(self);
        let mut list = self.0.write();
        let _inside = Inside::enter(self);
        write(&mut list)
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(|list| list.as_slice().len())
    }

    /// Returns true if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a consistent copy of the list.
    #[must_use]
    pub fn snapshot(&self) -> List<T, D>
    where
        T: Clone,
        D: Clone,
    {
        self.read(List::clone)
    }

    /// Returns the list without its lock.
    #[must_use]
    pub fn into_inner(self) -> List<T, D> {
        self.0.into_inner()
    }
}

impl<T, D: Default> Default for SharedList<T, D> {
    fn default() -> Self {
        Self::from(List::default())
    }
}

impl<T, D> From<List<T, D>> for SharedList<T, D> {
    fn from(list: List<T, D>) -> Self {
        Self(RwLock::new(list))
    }
}

impl<T, D> fmt::Debug for SharedList<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedList").finish_non_exhaustive()
    }
}
