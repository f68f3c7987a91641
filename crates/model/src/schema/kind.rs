//! The kinds of a field's values.

use std::borrow::Cow;

use crate::Collation;

/// The kind of a field's values.
///
/// | kind | Rust type | value | JSON |
/// |---|---|---|---|
/// | `Bool` | `bool` | [`ValueRef::Bool`] | `true` |
/// | `Int` | `i8` to `i64`, `u8` to `u64` | [`ValueRef::Int`] | `7` |
/// | `Float` | `f32`, `f64` | [`ValueRef::Float`] | `2.5` |
/// | `Currency` | [`Currency`] | [`ValueRef::Currency`] | `12.5` |
/// | `Text` | `String` | [`ValueRef::Text`] | `"Curie"` |
/// | `Blob` | [`Blob`] | [`ValueRef::Blob`] | `"AQID"` (base64url) |
/// | `Vector` | [`Vector<N>`] | [`ValueRef::Blob`] | `[0.5,-1]` |
/// | `Json` | [`Json<T>`] | [`ValueRef::Json`] | any |
/// | `File` | [`File`] | [`ValueRef::Json`] | `{"id":"0198…","name":"a.png",…}` |
/// | `Date`, `Time`, `Timestamp` | [`Date`], [`Time`], [`Timestamp`] | of the same name | `"2026-11-21"` |
/// | `Uuid` | [`Uuid`] | [`ValueRef::Uuid`] | `"0198…"` |
/// | `Enum` | `#[derive(ModelEnum)]` | text or integer | `"open"` |
/// | `Reference` | [`Ref<M>`] | that of the key | that of the key |
///
/// [`Blob`]: crate::Blob
/// [`Currency`]: crate::Currency
/// [`Date`]: crate::Date
/// [`File`]: crate::File
/// [`Json<T>`]: crate::Json
/// [`Ref<M>`]: crate::Ref
/// [`Time`]: crate::Time
/// [`Timestamp`]: crate::Timestamp
/// [`Uuid`]: crate::Uuid
/// [`Vector<N>`]: crate::Vector
/// [`ValueRef::Blob`]: crate::ValueRef::Blob
/// [`ValueRef::Bool`]: crate::ValueRef::Bool
/// [`ValueRef::Currency`]: crate::ValueRef::Currency
/// [`ValueRef::Float`]: crate::ValueRef::Float
/// [`ValueRef::Int`]: crate::ValueRef::Int
/// [`ValueRef::Json`]: crate::ValueRef::Json
/// [`ValueRef::Text`]: crate::ValueRef::Text
/// [`ValueRef::Uuid`]: crate::ValueRef::Uuid
///
/// ```
/// use marmota_model::{FieldValue, Kind};
/// assert_eq!(<u8 as FieldValue>::KIND, Kind::Int { min: 0, max: 255 });
/// assert_eq!(<Option<String> as FieldValue>::KIND, Kind::TEXT);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// True or false.
    Bool,
    /// An integer between the two ends, both included.
    Int {
        /// The lowest value.
        min: i64,
        /// The highest value.
        max: i64,
    },
    /// A 64-bit float; NaN and the infinities are refused.
    Float,
    /// An exact amount with four decimals.
    Currency,
    /// UTF-8 text without NUL characters.
    Text {
        /// The maximum number of characters (Unicode scalar values), or 0 for no limit.
        chars_max: u32,
        /// How texts compare and sort.
        collation: Collation,
    },
    /// Bytes; read only if the caller names the field.
    Blob,
    /// Any JSON value, stored as its text.
    Json,
    /// A calendar day.
    Date,
    /// A time of day.
    Time,
    /// A point in time, UTC, to the microsecond.
    Timestamp,
    /// A UUID.
    Uuid,
    /// One of a list of names.
    Enum {
        /// The names, with the number of each.
        variants: Cow<'static, [Variant]>,
        /// The form in which the engine stores it; JSON always contains the name.
        stored: EnumStored,
    },
    /// The key of a row of another model.
    Reference {
        /// The other model's table.
        table: Cow<'static, str>,
        /// The kind of its key.
        key: KeyKind,
    },
    /// A file, whose bytes are in a storage of files; the row has its description as JSON.
    File {
        /// The maximum size in bytes.
        bytes_max: u64,
        /// The media types that are accepted, such as `image/png` or `image/*`; empty for all.
        types: Cow<'static, [Cow<'static, str>]>,
    },
    /// A vector of finite 32-bit floats, stored as their bytes in little-endian order.
    Vector {
        /// The number of floats, from 1 to [`VECTOR_DIMENSIONS_MAX`](crate::VECTOR_DIMENSIONS_MAX).
        dimensions: u32,
    },
}

/// One of the names of an enum.
///
/// ```
/// use marmota_model::{EnumStored, Kind, Variant};
/// let variant = |name: &'static str, number| Variant { name: name.into(), number };
/// let state = Kind::Enum {
///     variants: vec![variant("open", 1), variant("closed", 2)].into(),
///     stored: EnumStored::Integer,
/// };
/// assert_eq!(state.name(), "enum");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in JSON, and in the engine if stored as text.
    pub name: Cow<'static, str>,
    /// Its number in the engine, if stored as an integer.
    pub number: i64,
}

/// The form in which an engine stores an enum.
///
/// Names may be added later; a stored name or number must keep its meaning.
///
/// ```
/// assert_eq!(marmota_model::EnumStored::default(), marmota_model::EnumStored::Text);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EnumStored {
    /// As its name.
    #[default]
    Text,
    /// As its number.
    Integer,
}

/// The kinds of key.
///
/// ```
/// use marmota_model::{Key, KeyKind};
/// assert_eq!(<i64 as Key>::KEY_KIND, KeyKind::Auto);
/// assert_eq!(<String as Key>::KEY_KIND, KeyKind::Text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// A positive 64-bit integer that the engine assigns.
    Auto,
    /// A UUID, version 7 (RFC 9562), that the store assigns.
    Uuid,
    /// A text that the caller assigns.
    Text,
}

impl Kind {
    /// Any 64-bit integer.
    ///
    /// ```
    /// use marmota_model::{FieldValue, Kind};
    /// assert_eq!(<i64 as FieldValue>::KIND, Kind::I64);
    /// ```
    pub const I64: Self = Self::Int { min: i64::MIN, max: i64::MAX };
    /// Text of any length, compared byte by byte.
    pub const TEXT: Self = Self::Text { chars_max: 0, collation: Collation::Binary };

    /// Returns the kind in one word, for errors and tools.
    ///
    /// ```
    /// use marmota_model::Kind;
    /// assert_eq!(Kind::I64.name(), "integer");
    /// assert_eq!(Kind::TEXT.name(), "text");
    /// ```
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int { .. } => "integer",
            Self::Float => "float",
            Self::Currency => "currency",
            Self::Text { .. } => "text",
            Self::Blob => "blob",
            Self::Json => "json",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Uuid => "uuid",
            Self::Enum { .. } => "enum",
            Self::Reference { .. } => "reference",
            Self::File { .. } => "file",
            Self::Vector { .. } => "vector",
        }
    }

    /// Returns the collation of its texts; [`Collation::Binary`] for other kinds.
    ///
    /// ```
    /// use marmota_model::{Collation, Kind};
    /// let name = Kind::Text { chars_max: 0, collation: Collation::NoCase };
    /// assert_eq!(name.collation(), Collation::NoCase);
    /// assert_eq!(Kind::Date.collation(), Collation::Binary);
    /// ```
    #[must_use]
    pub const fn collation(&self) -> Collation {
        match self {
            Self::Text { collation, .. } => *collation,
            _ => Collation::Binary,
        }
    }

    /// Returns this text kind with a maximum number of characters and a collation; for code
    /// generated by `#[derive(Model)]`.
    ///
    /// ```
    /// use marmota_model::{Collation, Kind};
    /// const NAME: Kind = Kind::TEXT.text_with(40, Collation::NoCase);
    /// assert_eq!(NAME, Kind::Text { chars_max: 40, collation: Collation::NoCase });
    /// ```
    ///
    /// # Panics
    /// If the kind is not text: at compile time, in a constant.
    #[must_use]
    pub const fn text_with(self, chars_max: u32, collation: Collation) -> Self {
        let is_text = matches!(self, Self::Text { .. });
        // A constant expression must not run a destructor; a text kind owns no memory.
        std::mem::forget(self);
        assert!(is_text, "`max` and `collate` are only for text fields");
        Self::Text { chars_max, collation }
    }

    /// Returns this file kind with a maximum size in bytes and the accepted media types; for code
    /// generated by `#[derive(Model)]`.
    ///
    /// ```
    /// use std::borrow::Cow;
    /// use marmota_model::{FieldValue, File, Kind};
    /// const PHOTO: Kind = <File as FieldValue>::KIND.file_with(1_000, &[Cow::Borrowed("image/*")]);
    /// assert!(matches!(PHOTO, Kind::File { bytes_max: 1_000, .. }));
    /// ```
    ///
    /// # Panics
    /// If the kind is not a file: at compile time, in a constant.
    #[must_use]
    pub const fn file_with(self, bytes_max: u64, types: &'static [Cow<'static, str>]) -> Self {
        let is_file = matches!(self, Self::File { .. });
        // A constant expression must not run a destructor; a constant kind owns no memory.
        std::mem::forget(self);
        assert!(is_file, "`bytes_max` and `types` are only for file fields");
        Self::File { bytes_max, types: Cow::Borrowed(types) }
    }

    /// Returns true if a file of this media type is accepted; for kinds other than
    /// [`Kind::File`], false.
    ///
    /// ```
    /// use marmota_model::Kind;
    /// let images = Kind::File { bytes_max: 1_000, types: vec!["image/*".into()].into() };
    /// assert!(images.accepts_type("image/png") && !images.accepts_type("application/pdf"));
    /// ```
    #[must_use]
    pub fn accepts_type(&self, media_type: &str) -> bool {
        let Self::File { types, .. } = self else { return false };
        types.is_empty()
            || types.iter().any(|accepted| match accepted.strip_suffix('*') {
                Some(prefix) if prefix.ends_with('/') => media_type.starts_with(prefix),
                _ => accepted == media_type || accepted == "*/*",
            })
    }
}

impl KeyKind {
    /// Returns the kind of a field that contains such a key.
    ///
    /// ```
    /// use marmota_model::{KeyKind, Kind};
    /// assert_eq!(KeyKind::Auto.kind(), Kind::I64);
    /// ```
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Auto => Kind::I64,
            Self::Uuid => Kind::Uuid,
            Self::Text => Kind::TEXT,
        }
    }
}
