//! The form of a parameter or a result: a value, or one of the two kinds of streams.

use serde::{Serialize, Serializer};

/// The form in which a parameter or a result is transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferForm {
    /// A complete JSON value.
    #[default]
    Value,
    /// Bytes, piece by piece ([`ByteStream`](crate::ByteStream)).
    Bytes,
    /// Items, one after the other ([`ItemStream`](crate::ItemStream)).
    Items,
}

impl TransferForm {
    /// Returns true for a JSON value.
    #[must_use]
    pub const fn is_value(&self) -> bool {
        matches!(self, Self::Value)
    }

    /// Returns the name used in contracts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Bytes => "bytes",
            Self::Items => "items",
        }
    }
}

impl Serialize for TransferForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
