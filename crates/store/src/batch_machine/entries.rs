//! The history entries of writes to audited models: each write is executed together with its entry
//! (`rows/history.rs`), in one transaction.
//!
//! An entry is made from the outcome of its write, because the key and the version that an engine
//! assigns are known only then. The keys of rows that a write removes are read before it. Entries
//! of one write are inserted in groups of at most 256.

use std::sync::Arc;

use marmota_model::{FilterExpr, Table, Timestamp, Value, ValueRef, json};

use super::before::RowsBefore;
use super::generated::GeneratedValues;
use crate::contract::audit::Audit;
use crate::contract::operation::conflict::conflicting_rows;
use crate::contract::operation::{Keys, OnConflict, Outcome, UpsertEffect, Write};
use crate::rows::history::{History, HistoryAction, key_text};

/// The number of writes after which expired entries are looked for again.
const WRITES_BETWEEN_CUTS: u32 = 256;

/// The maximum number of entries that one operation writes.
const ENTRIES_MAX: usize = 256;

impl Audit {
    /// Returns the filter of the rows that a write may remove, which are read before it; `None` if
    /// the write's entry needs no read.
    ///
    /// The inner `None` selects all rows.
    #[expect(clippy::option_option, reason = "no filter selects all rows")]
    pub(crate) fn going(&self, write: &Write) -> Option<Option<FilterExpr>> {
        match write {
            Write::DeleteWhere { filter, .. } => Some(filter.clone()),
            Write::Insert { table, row, on_conflict: OnConflict::Replace } => {
                Some(Some(conflicting_rows(table, row)))
            }
            _ => None,
        }
    }

    /// Adds the entries of a write that changed rows, starting after the first `from` entries, and
    /// returns how many have been added in total. Once all are added, it adds none. `gone` has the
    /// keys, and `before` the rows, that were read before the write; `generated` has the values of
    /// generated columns after it.
    ///
    /// An update that changes no field has no entry.
    pub(crate) fn entries(
        &self,
        write: &Write,
        (gone, before, generated): (&[Value], RowsBefore<'_>, &GeneratedValues),
        outcome: &Outcome,
        from: usize,
        entries: &mut Vec<Vec<Value>>,
    ) -> usize {
        let table = &**write.table();
        let key = match (&outcome.keys, write) {
            (Keys::One(key), _) => key.as_ref(),
            (_, Write::Insert { row, .. }) => row[table.key()].as_ref(),
            _ => ValueRef::Absent,
        };
        let until = gone.len().min(from.saturating_add(ENTRIES_MAX));
        // A row that was replaced by one with the same key is not deleted.
        let deleted = gone.get(from..until).unwrap_or_default().iter().map(Value::as_ref);
        entries.extend(deleted.filter(|gone| *gone != key).map(|gone| self.delete(table, gone)));
        if from > gone.len() || until < gone.len() {
            return until.max(from);
        }
        let changed = || before.changed(write, outcome);
        let generated = || generated.changed(table, before.rows(table));
        entries.extend(match write {
            Write::Insert { row, .. } => {
                let (action, fields) = match outcome.effect {
                    UpsertEffect::Updated => (HistoryAction::Update, changed()),
                    _ => (HistoryAction::Insert, table.all()),
                };
                let written = present(row).filter(|(field, _)| fields.contains(*field));
                let written = written.chain(generated());
                (!fields.is_empty()).then(|| self.entry(table, key, action, written, outcome))
            }
            Write::Update { key, row, .. } => {
                let (action, fields) = (HistoryAction::Update, changed());
                let written = present(row).filter(|(field, _)| fields.contains(*field));
                let written = written.chain(generated());
                let key = key.as_ref();
                (!fields.is_empty()).then(|| self.entry(table, key, action, written, outcome))
            }
            Write::Increment { .. } if changed().is_empty() => None,
            Write::Increment { key, field, stamp, .. } => {
                let stamped = table.updated_at().map(|field| (field, stamp.as_ref()));
                let sum = [(*field, outcome.value.as_ref())].into_iter();
                let written = sum.chain(stamped).chain(generated());
                let action = HistoryAction::Increment;
                Some(self.entry(table, key.as_ref(), action, written, outcome))
            }
            Write::Delete { key, .. } => Some(self.delete(table, key.as_ref())),
            Write::DeleteWhere { .. }
            | Write::Cascading { .. }
            | Write::Audited { .. }
            | Write::Compared { .. }
            | Write::Guarded { .. }
            | Write::Hooked { .. } => None,
        });
        gone.len() + 1
    }

    /// Returns the entry of a deleted row.
    fn delete(&self, table: &Table, key: ValueRef<'_>) -> Vec<Value> {
        let nothing = std::iter::empty();
        self.entry(table, key, HistoryAction::Delete, nothing, &Outcome::default())
    }

    /// Returns an entry as a row of the history; `written` has the fields and their values.
    fn entry<'v>(
        &self,
        table: &Table,
        key: ValueRef<'_>,
        action: HistoryAction,
        written: impl Iterator<Item = (usize, ValueRef<'v>)>,
        outcome: &Outcome,
    ) -> Vec<Value> {
        let fields = match action {
            HistoryAction::Delete => Value::Null,
            _ => Value::Json(fields_json(table, written)),
        };
        vec![
            Value::Absent,
            Value::Text(table.name().to_owned()),
            Value::Text(key_text(key)),
            Value::Text(action.name().to_owned()),
            fields,
            Value::Timestamp(self.at),
            outcome.version.map_or(Value::Null, Value::Int),
            self.actor.as_deref().map_or(Value::Null, |actor| Value::Text(actor.to_owned())),
        ]
    }

    /// Returns a write that deletes expired entries, once every [`WRITES_BETWEEN_CUTS`] writes.
    ///
    /// `None` if entries do not expire.
    pub(crate) fn trim(&self) -> Option<Write> {
        let (write, age_max_us) = self.audit_log.count_write()?;
        let oldest = Timestamp::from_micros(self.at.micros().saturating_sub(age_max_us)).ok()?;
        if !write.is_multiple_of(WRITES_BETWEEN_CUTS) {
            return None;
        }
        let filter = Some(History::AT.lt(oldest).into_expr());
        Some(Write::DeleteWhere { table: Arc::clone(self.table()), filter })
    }
}

/// Returns the values of a row with the indexes of their fields.
fn present(row: &[Value]) -> impl Iterator<Item = (usize, ValueRef<'_>)> {
    row.iter().map(Value::as_ref).enumerate()
}

/// Returns the fields that have a value as a JSON object.
///
/// A blob is entered as its number of bytes.
fn fields_json<'v>(table: &Table, written: impl Iterator<Item = (usize, ValueRef<'v>)>) -> String {
    let mut out = vec![b'{'];
    for (position, value) in written.filter(|(_, value)| !value.is_absent()) {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(table.json_key(position));
        match value {
            ValueRef::Blob(bytes) => out.extend_from_slice(bytes.len().to_string().as_bytes()),
            value => json::write_value_as(&mut out, &table.fields()[position].kind, value),
        }
    }
    out.push(b'}');
    // It is UTF-8: it consists of texts and ASCII.
    String::from_utf8(out).unwrap_or_default()
}
