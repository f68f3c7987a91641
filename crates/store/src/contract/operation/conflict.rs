//! The conflict action of an insert, the rows that an insert conflicts with, and the effect of the
//! insert. All engines implement the same behaviour.

use std::borrow::Cow;

use marmota_model::{Comparison, FieldSet, FilterExpr, Index, Table, Value, ValueRef};

use crate::predicate::Condition;

/// The action of an insert if a row exists: one with the same key, or with the same values in a
/// unique index (NULL values never conflict). In a partial index, rows that its filter does not select
/// never conflict.
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
        /// field; never the key, the created-at field, the version or a generated column.
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
        let owned = owned.into_iter().flatten().chain(table.key_fields().iter().copied());
        let owned = owned.chain(table.generated_fields().iter());
        let fields = owned.fold(given, FieldSet::without);
        Self::Update { fields: table.updated_at().map_or(fields, |at| fields.with(at)) }
    }
}

/// Returns the filter for the rows that a new row conflicts with by the key, and then by each unique
/// index, in their order.
///
/// An index of which the row has a NULL or absent value is left out, and so is a partial index whose
/// filter does not select the row.
///
/// ```
/// use marmota_model::{Field, Index, Kind, Role, Schema, Table, ValueRef};
/// use marmota_store::operation::conflict_filters;
/// let fields = vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("email", Kind::TEXT),
///     Field::new("deleted", Kind::Bool),
/// ];
/// let index = Index::unique(vec![1]).filter("deleted = false");
/// let table = Table::new(Schema::new("person", fields).indexes(vec![index]))?;
/// let row = |deleted| [ValueRef::Absent, ValueRef::Text("a@b.org"), ValueRef::Bool(deleted)];
/// assert_eq!(conflict_filters(&table, &row(false)).len(), 1);
/// assert!(conflict_filters(&table, &row(true)).is_empty());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn conflict_filters(table: &Table, row: &[ValueRef<'_>]) -> Vec<FilterExpr> {
    conflicting_indexes(table, row)
        .into_iter()
        .map(|(fields, filter)| {
            let equal = |&field: &usize| FilterExpr::Compare {
                field,
                comparison: Comparison::Equal,
                value: row[field].to_value(),
            };
            FilterExpr::And(fields.iter().map(equal).chain(filter).collect())
        })
        .collect()
}

/// Returns the filter for the rows that a new row conflicts with. If the row can conflict with none,
/// the filter selects no row.
pub(crate) fn conflicting_rows(table: &Table, row: &[Value]) -> FilterExpr {
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    FilterExpr::Or(conflict_filters(table, &row))
}

/// Returns the fields of the key, and then of each unique index, by which another row can conflict
/// with a new row, with the filters of partial indexes: those of [`conflict_filters`].
#[must_use]
pub fn conflicting_indexes(
    table: &Table,
    row: &[ValueRef<'_>],
) -> Vec<(Cow<'static, [usize]>, Option<FilterExpr>)> {
    let has_value = |field: &usize| !row[*field].is_null() && !row[*field].is_absent();
    let indexes = table.indexes().into_iter().filter(|index| index.unique);
    // The fields of a composite key have an index of their own.
    let key = (!table.has_composite_key()).then(|| Index::unique(vec![table.key()]));
    key.into_iter()
        .chain(indexes)
        .filter(|index| index.fields.iter().all(has_value))
        .map(|index| (table.index_filter(&index), index.fields))
        .filter(|(filter, _)| filter.as_ref().is_none_or(|filter| selects(table, filter, row)))
        .map(|(filter, fields)| (fields, filter))
        .collect()
}

/// Returns true if a filter selects a row, in which fields are absent that get their default.
pub(crate) fn selects(table: &Table, filter: &FilterExpr, row: &[ValueRef<'_>]) -> bool {
    let or_default = |(field, value): (usize, &ValueRef<'_>)| match value {
        ValueRef::Absent => table.default(field).map_or(Value::Null, |value| value.to_value()),
        value => value.to_value(),
    };
    let row: Vec<Value> = row.iter().enumerate().map(or_default).collect();
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    let condition = Condition::new(filter.clone(), table);
    // It fails only for fields that the table does not have.
    condition.asked(table).is_ok_and(|condition| condition.selects(&row))
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
