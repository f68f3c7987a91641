//! Generated columns in writes: the database computes their values, so they are known only after the
//! write. The row is read again, in the transaction of the write, if a caller has given a value to
//! compare, or if the history has an entry of the write.

use marmota_model::rule::violation;
use marmota_model::{
    Comparison, FieldSet, FilterExpr, Result, RowQuery, Table, Value, ValueRef, Violation,
};

use crate::contract::operation::{OnConflict, Outcome, UpsertEffect, Write, key_made};
use crate::rows::prepare;

/// The values of the generated columns of the current write.
#[derive(Debug, Default)]
pub(crate) struct GeneratedValues {
    /// Those that the caller has given, with their fields.
    given: Vec<(usize, Value)>,
    /// The row after the write, if it was read.
    after: Vec<Value>,
}

/// Returns true if a write has a value for a generated column.
pub(super) fn has_given(write: &Write) -> bool {
    let fields = write.table().generated_fields();
    match write.bare() {
        _ if fields.is_empty() => false,
        Write::Insert { row, .. } | Write::Update { row, .. } => {
            fields.iter().any(|field| row[field] != Value::Absent)
        }
        _ => false,
    }
}

/// Returns true if a write may change the generated columns of an existing row.
pub(super) const fn may_change(bare: &Write) -> bool {
    matches!(
        bare,
        Write::Update { .. }
            | Write::Increment { .. }
            | Write::Insert { on_conflict: OnConflict::Update { .. }, .. }
    )
}

impl GeneratedValues {
    /// Takes the values that a caller has given, and returns the write without them; `None` if there
    /// are none.
    pub(super) fn take(&mut self, write: &Write) -> Option<Write> {
        self.given.clear();
        self.after.clear();
        if !has_given(write) {
            return None;
        }
        let mut stripped = write.clone();
        let fields = write.table().generated_fields();
        if let Write::Insert { row, .. } | Write::Update { row, .. } = stripped.bare_mut() {
            let taken = fields.iter().map(|field| (field, std::mem::take(&mut row[field])));
            self.given = taken.filter(|(_, value)| *value != Value::Absent).collect();
        }
        Some(stripped)
    }

    /// Returns the query for the row that was written, if its generated columns are needed.
    pub(super) fn query(&self, write: &Write, outcome: &Outcome) -> Option<RowQuery> {
        let (table, bare) = (&**write.table(), write.bare());
        let fields = table.generated_fields();
        let is_needed = !self.given.is_empty() || write.audit().is_some();
        if fields.is_empty() || !is_needed || outcome.rows == 0 {
            return None;
        }
        let key = match bare {
            Write::Insert { .. } if outcome.effect == UpsertEffect::Ignored => return None,
            Write::Insert { .. } => key_made(bare, outcome)?,
            Write::Update { key, .. } | Write::Increment { key, .. } => key,
            _ => return None,
        };
        let (field, value) = (table.key(), key.clone());
        let filter = FilterExpr::Compare { field, comparison: Comparison::Equal, value };
        let fields = Some(fields.with(table.key()));
        Some(RowQuery { filter: Some(filter), fields, ..RowQuery::new() })
    }

    /// Takes the row that was read after the write, and compares it with the given values.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] with each field that has another value.
    pub(super) fn read(&mut self, write: &Write, row: Vec<Value>) -> Result<()> {
        self.after = row;
        let (table, mut violations) = (write.table(), Vec::<Violation>::new());
        for (field, given) in &self.given {
            let stored = self.after.get(*field).unwrap_or(&Value::Null);
            if !is_same(stored, given.as_ref()) {
                // The value is not in the message: the caller may not be allowed to read it.
                let message = "is computed by the database, to another value; leave it out";
                let field = &table.fields()[*field];
                violations.push(violation(field, given.as_ref(), "computed", message));
            }
        }
        prepare::finish(violations)
    }

    /// Returns the generated columns that the write has changed, with their values. `before` has the
    /// rows that were read before it.
    pub(super) fn changed<'v>(
        &'v self,
        table: &Table,
        mut before: impl Iterator<Item = &'v [Value]>,
    ) -> Vec<(usize, ValueRef<'v>)> {
        let Some(key) = self.after.get(table.key()) else { return Vec::new() };
        let before = before.find(|before| before[table.key()] == *key);
        let is_changed = |field: &usize| {
            before.is_none_or(|before| !is_same(&before[*field], self.after[*field].as_ref()))
        };
        let fields: FieldSet = table.generated_fields();
        fields.iter().filter(is_changed).map(|field| (field, self.after[field].as_ref())).collect()
    }
}

/// Returns true if a stored value equals another one. JSON is compared by value, since an engine may
/// store its text in another form.
pub(super) fn is_same(stored: &Value, other: ValueRef<'_>) -> bool {
    match (stored, other) {
        (Value::Json(stored), ValueRef::Json(other)) if stored != other => {
            let parse = |text| serde_json::from_str::<serde_json::Value>(text).ok();
            parse(stored).is_some_and(|stored| Some(stored) == parse(other))
        }
        (stored, other) => stored.as_ref() == other,
    }
}
