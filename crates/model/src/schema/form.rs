//! The form of a kind's values, without their rules.

use crate::{EnumStored, KeyKind, Kind, ValueForm};

impl Kind {
    /// Returns the form of this kind's values: for a reference that of its target's key, for an
    /// enum a number or a text.
    ///
    /// ```
    /// use marmota_model::{KeyKind, Kind, ValueForm};
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
            Self::Blob | Self::Vector { .. } => ValueForm::Blob,
            Self::Json | Self::File { .. } => ValueForm::Json,
            Self::Date => ValueForm::Date,
            Self::Time => ValueForm::Time,
            Self::Timestamp => ValueForm::Timestamp,
            Self::Uuid | Self::Reference { key: KeyKind::Uuid, .. } => ValueForm::Uuid,
        }
    }
}
