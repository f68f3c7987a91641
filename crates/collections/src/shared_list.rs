//! [`SharedList`]: a list behind one lock, which many threads read at a time
//! and one changes. Places are numbers of the whole list, so there is nothing
//! to divide; where threads write much, a [`SharedMap`](crate::SharedMap) is.

use std::fmt;

use parking_lot::RwLock;

use crate::inside::{self, Inside};
use crate::{List, Plain};

/// A [`List`] for many threads.
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
    /// An empty list without a discipline. Others are made from a [`List`].
    #[must_use]
    pub const fn new() -> Self {
        Self(RwLock::new(List::new()))
    }
}

impl<T, D> SharedList<T, D> {
    /// Runs `read` while nobody changes the list.
    ///
    /// # Panics
    /// If a closure under this list's lock calls it. So do all methods here.
    pub fn read<R>(&self, read: impl FnOnce(&List<T, D>) -> R) -> R {
        inside::check(self);
        let list = self.0.read();
        let _inside = Inside::enter(self);
        read(&list)
    }

    /// Runs `write` while nobody else sees the list. Should it panic, the list
    /// stays as it is then.
    ///
    /// # Panics
    /// As [`SharedList::read`].
    pub fn write<R>(&self, write: impl FnOnce(&mut List<T, D>) -> R) -> R {
        inside::check(self);
        let mut list = self.0.write();
        let _inside = Inside::enter(self);
        write(&mut list)
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(|list| list.as_slice().len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the list at one moment.
    #[must_use]
    pub fn snapshot(&self) -> List<T, D>
    where
        T: Clone,
        D: Clone,
    {
        self.read(List::clone)
    }

    /// The list alone.
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
