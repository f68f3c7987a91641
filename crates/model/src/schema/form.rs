//! The forms of field values, without their rules. Engines choose the storage of a field by its
//! form.

use crate::{EnumStored, KeyKind, Kind};

/// The form of a field's values.
///
/// Several kinds have the same form: an enum that is stored as an integer, a reference to a row with
/// an automatic key, and every integer are [`ValueForm::Int`].
///
/// ```
/// use marmota_model::{Kind, ValueForm};
/// assert_eq!(Kind::Int { min: 0, max: 10 }.form(), ValueForm::Int);
/// assert_eq!(Kind::TEXT.form(), ValueForm::Text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueForm {
    /// [`crate::ValueRef::Bool`].
    Bool,
    /// [`crate::ValueRef::Int`].
    Int,
    /// [`crate::ValueRef::Float`].
    Float,
    /// [`crate::ValueRef::Currency`].
    Currency,
    /// [`crate::ValueRef::Text`].
    Text,
    /// [`crate::ValueRef::Json`].
    Json,
    /// [`crate::ValueRef::Blob`].
    Blob,
    /// [`crate::ValueRef::Date`].
    Date,
    /// [`crate::ValueRef::Time`].
    Time,
    /// [`crate::ValueRef::Timestamp`].
    Timestamp,
    /// [`crate::ValueRef::Uuid`].
    Uuid,
}

impl Kind {
    /// Returns the form of this kind's values: for a reference that of its target's key, for an
    /// enum a number or a text.
    ///
    /// ```
    /// use marmota_model::{ValueForm, KeyKind, Kind};
    /// let author = Kind::Reference { table: "author".into(), key: KeyKind::Uuid };
    /// assert_eq!(author.form(), ValueForm::Uuid);
    /// ```
    #[must_use]
    pub const fn form(&self) -> ValueForm {
        match self {
            Self::Bool => ValueForm::Bool,
            Self::Int { .. }
            | Self::Enum { stored: EnumStored::Integer, .. }
            | Self::Reference { key: KeyKind::Auto, .. } => ValueForm::Int,
            Self::Float => ValueForm::Float,
            Self::Currency => ValueForm::Currency,
            Self::Text { .. }
            | Self::Enum { stored: EnumStored::Text, .. }
            | Self::Reference { key: KeyKind::Text, .. } => ValueForm::Text,
            Self::Blob => ValueForm::Blob,
            Self::Json => ValueForm::Json,
            Self::Date => ValueForm::Date,
            Self::Time => ValueForm::Time,
            Self::Timestamp => ValueForm::Timestamp,
            Self::Uuid | Self::Reference { key: KeyKind::Uuid, .. } => ValueForm::Uuid,
        }
    }
}
