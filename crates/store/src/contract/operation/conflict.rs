//! The conflict action of an insert, the rows that an insert conflicts with, and the effect of the
//! insert. All engines implement the same behaviour.

use marmota_model::{Comparison, FieldSet, FilterExpr, Index, Table, Value};

/// The action of an insert if a row exists: one with the same key, or with the same values in a
/// unique index (NULL values never conflict).
///
/// If there are several such rows, the one with the same key decides, then the one with the same
/// values in the first unique index of the schema, and so on.
///
/// Rules are checked first, with any action. References of written rows, and to removed rows, are
/// checked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Fails with [`marmota_model::ErrorKind::Conflict`].
    #[default]
    Refuse,
    /// Writes nothing; the outcome has the key of the existing row.
    Ignore,
    /// Removes every conflicting row, and inserts this one as new: its version is 1, and an absent
    /// automatic key gets a value that no row had. Fails with a conflict if another row refers to a
    /// removed row, unless the new row has its key.
    Replace,
    /// Writes these fields to the existing row, which keeps its key, and adds one to its version;
    /// no version is compared. Fails with a conflict if the result conflicts with another row.
    Update {
        /// The fields to write: those that the caller gave, and the updated-at
        /// field; never the key, the created-at field or the version.
        fields: FieldSet,
    },
}

impl OnConflict {
    /// [`Self::Update`] without fields, which [`Self::with_given`] sets.
    pub const UPDATE: Self = Self::Update { fields: FieldSet::EMPTY };

    /// Returns the action for a row of which the caller gave these fields: an update leaves the
    /// other fields unchanged, although an insert fills them.
    ///
    /// ```
    /// use marmota_model::{Field, FieldSet, Kind, Role, Schema, Table};
    /// use marmota_store::operation::OnConflict;
    ///
    /// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// let table = Table::new(Schema::new("city", fields))?;
    /// let given = FieldSet::EMPTY.with(0).with(1);
    /// // The key is never written to an existing row.
    /// let update = OnConflict::UPDATE.with_given(&table, given);
    /// assert_eq!(update, OnConflict::Update { fields: FieldSet::EMPTY.with(1) });
    /// assert_eq!(OnConflict::Ignore.with_given(&table, given), OnConflict::Ignore);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn with_given(self, table: &Table, given: FieldSet) -> Self {
        let Self::Update { .. } = self else { return self };
        let owned = [Some(table.key()), table.created_at(), table.version()];
        let fields = owned.into_iter().flatten().fold(given, FieldSet::without);
        Self::Update { fields: table.updated_at().map_or(fields, |at| fields.with(at)) }
    }
}

/// Returns the filter for rows with the key of a new row, or with its values in a unique index.
///
/// A unique index of which the row has a NULL or absent value is left out. If nothing is left, the
/// filter selects no row.
pub(crate) fn conflicting_rows(table: &Table, row: &[Value]) -> FilterExpr {
    let key = Index { fields: vec![table.key()].into(), unique: true };
    let there = |field: &usize| !matches!(row[*field], Value::Absent | Value::Null);
    let equal = |&field: &usize| FilterExpr::Compare {
        field,
        comparison: Comparison::Equal,
        value: row[field].clone(),
    };
    let indexes = table.indexes().into_iter().chain([key]);
    let same = indexes
        .filter(|index| index.unique && index.fields.iter().all(there))
        .map(|index| FilterExpr::And(index.fields.iter().map(equal).collect()));
    FilterExpr::Or(same.collect())
}

/// The effect of the insert of a row.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum UpsertEffect {
    /// A row was inserted.
    #[default]
    Inserted,
    /// A row existed and was not changed.
    Ignored,
    /// A row was inserted and replaced others.
    Replaced,
    /// A row existed and was written to.
    Updated,
}

impl UpsertEffect {
    /// Returns the effect as one word, the same in answers and logs.
    ///
    /// ```
    /// use marmota_store::operation::UpsertEffect;
    /// assert_eq!(UpsertEffect::Ignored.name(), "ignored");
    /// ```
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

/// The row after an insert, and the effect of the insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpsertResult<K> {
    /// The key of the new row or of the existing one.
    pub key: K,
    /// The effect of the insert.
    pub effect: UpsertEffect,
}
