//! The typed side of a schema: what `#[derive(Model)]` implements.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use uuid::Uuid;

use crate::{Error, ErrorKind, KeyKind, Kind, Result, Schema, Scratch, Value, ValueRef};

/// A Rust struct that is a row of a table. Derive it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model",
    note = "add `#[derive(Model)]` to the struct"
)]
pub trait Model: Sized + 'static {
    /// The table's name.
    const TABLE: &'static str;
    /// The kind of its key.
    const KEY_KIND: KeyKind;
    /// The type of its key: `i64`, `Uuid` or `String`.
    type Key: Key;

    /// The schema, as data.
    fn schema() -> &'static Schema;

    /// The row's key.
    fn key(&self) -> &Self::Key;

    /// Sets the row's key, as an insert does with one that the engine gave.
    fn set_key(&mut self, key: Self::Key);

    /// Writes every field into `row`, in the schema's order. What has to be
    /// made on the way is kept in `scratch`.
    fn write<'a>(&'a self, row: &mut [ValueRef<'a>], scratch: &'a Scratch);

    /// Makes the struct from a row, which has a value for every field of the
    /// schema. Of those only blobs may be absent.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] naming the field whose stored value does not fit.
    fn read(row: &[ValueRef<'_>]) -> Result<Self>;
}

/// A Rust type that can be a field of a model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a model",
    note = "fields are bool, i8 to i64, u8 to u64, f32, f64, String, Currency, Date, Time, \
            Timestamp, Uuid, Blob, Json<T>, Ref<Model>, enums with #[derive(ModelEnum)], \
            and Option of these"
)]
pub trait FieldValue: Sized {
    /// What values it holds.
    const KIND: Kind;
    /// True if it may be NULL.
    const NULLABLE: bool = false;

    /// The value as it stands in a row.
    fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a>;

    /// The value from a row; `None` if that one is of another kind or out of
    /// range. [`ValueRef::Absent`], for a field that was not read, is of
    /// another kind too, but for types that can say so, as [`crate::Blob`] can.
    fn from_row(value: ValueRef<'_>) -> Option<Self>;
}

/// Reads one field of a row.
///
/// # Errors
/// [`ErrorKind::Engine`] naming the table and field.
pub fn read_field<T: FieldValue>(
    row: &[ValueRef<'_>],
    position: usize,
    schema: &Schema,
) -> Result<T> {
    let value = row.get(position).copied().unwrap_or_default();
    T::from_row(value).ok_or_else(|| misfit(row, position, schema))
}

/// The error of a row whose value at `position` does not fit its field, or
/// that ends before it; for the code that `#[derive(Model)]` writes.
#[cold]
#[must_use]
pub fn misfit(row: &[ValueRef<'_>], position: usize, schema: &Schema) -> Error {
    let value = row.get(position).copied().unwrap_or_default();
    let field = schema.fields.get(position).map_or("?", |field| &field.name);
    let what = if value.is_absent() {
        "was not read, and its type has no empty value; read the whole row".to_owned()
    } else {
        format!("holds {}, which does not fit its type", crate::text::excerpt_of(value))
    };
    Error::new(ErrorKind::Engine, format!("field `{field}` of `{}` {what}", schema.name))
}

/// A Rust type that can be a key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a model",
    note = "a key is `i64` (the engine gives it), `Uuid` (the store gives it) or `String` \
            (the caller gives it)"
)]
pub trait Key:
    FieldValue + Clone + PartialEq + Eq + Hash + fmt::Debug + Send + Sync + 'static
{
    /// The kind of key it is.
    const KEY_KIND: KeyKind;

    /// The key from an owned value, as an insert reports it.
    fn from_value(value: &Value) -> Option<Self> {
        Self::from_row(value.as_ref())
    }

    /// The key as it stands in a row, borrowed.
    fn borrow(&self) -> ValueRef<'_>;

    /// True for a key that the store is still to give: 0 or the nil UUID.
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

/// One field of a model, typed: `Person::LAST_NAME`, made by the derive.
/// Its methods make filters and orders; see [`crate::Filter`].
pub struct Column<M, T> {
    position: usize,
    name: &'static str,
    types: PhantomData<fn() -> (M, T)>,
}

impl<M, T> Clone for Column<M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, T> Copy for Column<M, T> {}

impl<M, T> fmt::Debug for Column<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column `{}`", self.name)
    }
}

impl<M, T> Column<M, T> {
    /// The field at `position`; for the code that the derive writes.
    #[must_use]
    pub const fn new(position: usize, name: &'static str) -> Self {
        Self { position, name, types: PhantomData }
    }

    /// Its position in the schema.
    #[must_use]
    pub const fn position(self) -> usize {
        self.position
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Something that can be compared with a field of type `T`.
pub trait Comparable<T> {
    /// The value to compare with.
    fn into_value(self) -> Value;
}

impl<T: FieldValue> Comparable<T> for T {
    fn into_value(self) -> Value {
        self.to_row(&Scratch::new()).to_value()
    }
}

impl<T: FieldValue> Comparable<Option<T>> for T {
    fn into_value(self) -> Value {
        self.to_row(&Scratch::new()).to_value()
    }
}

impl Comparable<String> for &str {
    fn into_value(self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl Comparable<Option<String>> for &str {
    fn into_value(self) -> Value {
        Value::Text(self.to_owned())
    }
}
