//! The key of an item: a function that borrows it from the item, or a user-defined type. It is not
//! copied: keyed lists have each key once, in its item.

/// A function from an item to its key.
///
/// Implemented for closures and functions `Fn(&T) -> &K`, and for [`Whole`], where the item is its
/// own key. Implement it for a unit type if the list must be `Default` and `Deserialize`, or if its
/// type must have a name:
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
    /// The type by which items are compared.
    type Key: ?Sized;

    /// Returns the key of an item. It must not change while the item is in a list.
    fn key_of<'t>(&self, item: &'t T) -> &'t Self::Key;
}

/// The whole item as its key.
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
