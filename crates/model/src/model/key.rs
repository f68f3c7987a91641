//! The Rust types that can be keys.

use std::fmt;
use std::hash::Hash;

use uuid::Uuid;

use crate::{FieldValue, KeyKind, Value, ValueRef};

/// A Rust type that can be a key.
///
/// | type | who assigns it | value before the insert |
/// |---|---|---|
/// | `i64` | the engine | 0 |
/// | `Uuid` | the store (version 7, RFC 9562) | nil |
/// | `String` | the caller | the key |
///
/// ```
/// use marmota_model::{Key, Uuid, ValueRef};
/// assert!(0_i64.is_unset() && Uuid::nil().is_unset());
/// assert_eq!("FR".to_owned().borrow(), ValueRef::Text("FR"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a model",
    note = "a key is `i64` (set by the engine), `Uuid` (set by the store) or `String` (set by the \
            caller)"
)]
pub trait Key:
    FieldValue + Clone + PartialEq + Eq + Hash + fmt::Debug + Send + Sync + 'static
{
    /// The kind of the key.
    const KEY_KIND: KeyKind;

    /// Returns the key from an owned value, as an insert reports it.
    fn from_value(value: &Value) -> Option<Self> {
        Self::from_row(value.as_ref())
    }

    /// Returns the key as it is in a row, borrowed.
    fn borrow(&self) -> ValueRef<'_>;

    /// Returns true for a key that the store has not assigned yet: 0 or the nil UUID.
    fn is_unset(&self) -> bool;
}

impl Key for i64 {
    const KEY_KIND: KeyKind = KeyKind::Auto;

    fn borrow(&self) -> ValueRef<'_> {
        ValueRef::Int(*self)
    }

    fn is_unset(&self) -> bool {
        *self == 0
    }
}

impl Key for Uuid {
    const KEY_KIND: KeyKind = KeyKind::Uuid;

    fn borrow(&self) -> ValueRef<'_> {
        ValueRef::Uuid(*self)
    }

    fn is_unset(&self) -> bool {
        self.is_nil()
    }
}

impl Key for String {
    const KEY_KIND: KeyKind = KeyKind::Text;

    fn borrow(&self) -> ValueRef<'_> {
        ValueRef::Text(self)
    }

    fn is_unset(&self) -> bool {
        false
    }
}
