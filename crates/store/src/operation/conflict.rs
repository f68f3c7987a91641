//! What an insert does where a row is there already, and what came of it: the
//! meaning that every engine keeps to.

use marmota_model::{FieldSet, Table};

/// What an insert does where a row is there already: one with the same key, or
/// with the same values in a unique index (a NULL is the same as nothing).
///
/// Where several rows are, the one with the same key decides, then the one that
/// agrees in the first unique index of the schema, and so on.
///
/// Rules are checked first, whatever comes of the insert; references of what is
/// written, and to what is removed, last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse with [`marmota_model::ErrorKind::Conflict`].
    #[default]
    Refuse,
    /// Write nothing; the outcome has the key of the row that is there.
    Ignore,
    /// Remove every row that is in the way, and insert this one as new: its
    /// version is 1, an absent automatic key is one that no row had. Refused
    /// with a conflict if a removed row is referred to, unless the new row has
    /// its key.
    Replace,
    /// Write these fields to the row that is there, which keeps its key, and
    /// count its version; no version is compared. Refused with a conflict if
    /// another row is in the way of that.
    Update {
        /// The fields to write: those that the caller gave, and the updated-at
        /// field; never the key, the created-at field or the version.
        fields: FieldSet,
    },
}

impl OnConflict {
    /// [`Self::Update`] of fields that [`Self::with_given`] is to name.
    pub const UPDATE: Self = Self::Update { fields: FieldSet::EMPTY };

    /// The same for a row that the caller gave these fields of: an update
    /// leaves the others alone, though an insert fills them.
    #[must_use]
    pub fn with_given(self, table: &Table, given: FieldSet) -> Self {
        let Self::Update { .. } = self else { return self };
        let owned = [Some(table.key()), table.created_at(), table.version()];
        let fields = owned.into_iter().flatten().fold(given, FieldSet::without);
        Self::Update { fields: table.updated_at().map_or(fields, |at| fields.with(at)) }
    }
}

/// What the insert of a row came to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// A new row.
    #[default]
    Inserted,
    /// Nothing: a row was there, and stays as it is.
    Ignored,
    /// A new row in the place of others.
    Replaced,
    /// A row was there, and was written to.
    Updated,
}

impl Effect {
    /// The effect in one word, the same in answers and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Ignored => "ignored",
            Self::Replaced => "replaced",
            Self::Updated => "updated",
        }
    }
}

/// The row that is there after an insert, and what that came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpsertResult<K> {
    /// Its key: of the new row, or of the one that was there.
    pub key: K,
    /// What came of the insert.
    pub effect: Effect,
}
