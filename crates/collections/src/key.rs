//! Which part of an item is its key: a function that borrows it, or a type of
//! the user's own. Not a copy of it: keyed lists keep each key once, in its
//! item.

/// Finds the key within an item.
///
/// Closures and functions `Fn(&T) -> &K` are such; so is [`Whole`], whose key
/// is the item itself. Implement it for a unit type where the list has to be
/// `Default` and `Deserialize`, or its type has to be named:
///
/// ```
/// use marmota_collections::{KeyOf, List, SortedBy};
///
/// struct City { name: String, inhabitants: u32 }
///
/// #[derive(Clone, Default)]
/// struct ByName;
/// impl KeyOf<City> for ByName {
///     type Key = str;
///     fn key_of<'t>(&self, city: &'t City) -> &'t str { &city.name }
/// }
///
/// let mut cities: List<City, SortedBy<ByName>> = List::default();
/// cities.add(City { name: "Bourges".to_owned(), inhabitants: 64_000 })?;
/// assert_eq!(cities.find("Bourges").map(|city| city.inhabitants), Some(64_000));
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub trait KeyOf<T> {
    /// What items are compared by.
    type Key: ?Sized;

    /// The key of an item. It must not change while the item is in a list.
    fn key_of<'t>(&self, item: &'t T) -> &'t Self::Key;
}

/// An item is its own key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole;

impl<T> KeyOf<T> for Whole {
    type Key = T;

    fn key_of<'t>(&self, item: &'t T) -> &'t T {
        item
    }
}

impl<T, K: ?Sized, F> KeyOf<T> for F
where
    F: for<'t> Fn(&'t T) -> &'t K,
{
    type Key = K;

    fn key_of<'t>(&self, item: &'t T) -> &'t K {
        self(item)
    }
}
