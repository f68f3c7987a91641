//! A field with the key of a row of another model.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use crate::schema::row_name::text_of_key;
use crate::{FieldValue, Key, Kind, Model, Scratch, Uuid, ValueRef};

/// The key of a row of another model.
///
/// The store refuses a reference to a row that does not exist, and the delete of a row that is
/// referred to.
///
/// ```no_run
/// # use marmota_model::{Model, Ref};
/// # fn example<Author: Model<Key = i64>>() {
/// let author: Ref<Author> = Ref::new(7);
/// assert_eq!(*author.key(), 7);
/// # }
/// ```
pub struct Ref<M: Model>(M::Key, PhantomData<fn() -> M>);

impl<M: Model> Ref<M> {
    /// Creates a reference to the row with this key.
    #[must_use]
    pub const fn new(key: M::Key) -> Self {
        Self(key, PhantomData)
    }

    /// Returns the key of the referenced row.
    #[must_use]
    pub const fn key(&self) -> &M::Key {
        &self.0
    }
}

/// References from keys, for functions such as the `key_of` of a composite key.
macro_rules! from_key {
    ($($key:ty => $from:ty),*) => {$(
        impl<M: Model<Key = $key>> From<$from> for Ref<M> {
            fn from(key: $from) -> Self {
                Self::new(key.into())
            }
        }
    )*};
}

from_key!(i64 => i64, Uuid => Uuid, String => String, String => &str);

impl<M: Model> Clone for Ref<M> {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl<M: Model> PartialEq for Ref<M> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<M: Model> Eq for Ref<M> {}

/// The table and the key, `issue/17`: the text for [`key_in`](crate::Field::computed), and the end of the
/// row's URL in REST.
///
/// ```no_run
/// # use marmota_model::{Model, Ref};
/// # fn example<Issue: Model<Key = i64>>() {
/// // "issue/17" for the table `issue`.
/// let subject: String = Ref::<Issue>::new(17).to_string();
/// # }
/// ```
impl<M: Model> fmt::Display for Ref<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", M::TABLE, text_of_key(self.0.borrow()))
    }
}

impl<M: Model> fmt::Debug for Ref<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:?}", M::TABLE, self.0)
    }
}

impl<M: Model> FieldValue for Ref<M> {
    const KIND: Kind = Kind::Reference { table: Cow::Borrowed(M::TABLE), key: M::KEY_KIND };

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        self.0.borrow()
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        M::Key::from_row(value).map(Self::new)
    }
}
