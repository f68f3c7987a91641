//! Inserts with a conflict action: the insert is tried, and if a row exists, the row decides that
//! [`OnConflict`] names first. `INSERT … ON DUPLICATE KEY UPDATE` would take any of them.

use marmota_model::{Result, Table, Value, ValueRef};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect, UpsertResult};

use super::SqlExecutor;
use super::explain::ways;
use crate::failure;

impl SqlExecutor<'_> {
    pub(super) fn insert_over(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let (placed, version) =
            self.atomically(|executor| executor.put(table, row, on_conflict))?;
        let rows = u64::from(placed.effect != UpsertEffect::Ignored);
        let (effect, keys) = (placed.effect, Keys::One(placed.key));
        Ok(Outcome { keys, version, effect, ..Outcome::rows(rows) })
    }

    /// Inserts a row or executes the conflict action. Also returns its version.
    pub(super) fn put(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<(UpsertResult<Value>, Option<i64>)> {
        let new = |outcome: Outcome, effect| {
            let key = match outcome.keys {
                Keys::One(key) => key,
                _ => row[table.key()].to_value(),
            };
            let version = table.version().and_then(|version| row[version].as_int());
            (UpsertResult { key, effect }, version)
        };
        let mut existing = Vec::new();
        for fields in ways(table, row) {
            if let Some(key) = self.conflicting(table, row, &fields, None)?
                && !existing.contains(&key)
            {
                existing.push(key);
            }
        }
        let Some(first) = existing.first() else {
            return match self.insert(table, row) {
                Ok(outcome) => Ok(new(outcome, UpsertEffect::Inserted)),
                // Another transaction has inserted it meanwhile, unless it is a row with the same
                // value of a generated column, by which rows are not found.
                Err(error)
                    if error.kind() == marmota_model::ErrorKind::Conflict
                        && !names_generated(table, &error) =>
                {
                    Err(failure::lost_race().with_source(error))
                }
                Err(error) => Err(error),
            };
        };
        match on_conflict {
            OnConflict::Refuse => self.insert(table, row).map(|it| new(it, UpsertEffect::Inserted)),
            OnConflict::Ignore => {
                Ok((UpsertResult { key: first.clone(), effect: UpsertEffect::Ignored }, None))
            }
            OnConflict::Update { fields } => {
                let mut written = row.to_vec();
                for at in (0..row.len()).filter(|&at| !fields.contains(at)) {
                    written[at] = ValueRef::Absent;
                }
                let outcome = self.update(table, first.as_ref(), &written, None)?;
                let placed = UpsertResult { key: first.clone(), effect: UpsertEffect::Updated };
                Ok((placed, outcome.version))
            }
            OnConflict::Replace => {
                let own = existing.iter().position(|key| key.as_ref() == row[table.key()]);
                for (_, key) in existing.iter().enumerate().filter(|(at, _)| Some(*at) != own) {
                    self.delete(table, key.as_ref(), None)?;
                }
                let outcome = match own {
                    // Rows that refer to it keep their reference.
                    Some(_) => self.overwrite(table, row)?,
                    None => self.insert(table, row)?,
                };
                Ok(new(outcome, UpsertEffect::Replaced))
            }
        }
    }
}

/// Returns true if an error is about a generated column.
fn names_generated(table: &Table, error: &marmota_model::Error) -> bool {
    let mut names = table.generated_fields().iter().map(|field| &table.fields()[field].name);
    names.any(|name| error.violations().iter().any(|violation| violation.field == **name))
}
