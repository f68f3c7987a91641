//! Writes whose rights only the database can tell: carried out in one
//! transaction with the reads that they ask for, on every engine alike.

use marmota_model::{Comparison, Error, Filter, NoRows, Result, Table, Value, ValueRef, Violation};

use super::access::{Access, Referring, TableRights};
use super::{Right, Rights};
use crate::audit::{Run, in_the_way};
use crate::operation::{Effect, OnConflict, Operation, Outcome, Write, key_made};
use crate::prepare;
use crate::read::no_row;

impl Rights {
    /// Whether a write is to be carried out by [`Rights::carry_out`].
    pub(crate) fn guard(&self, write: &Write) -> bool {
        let Ok(rights) = self.of(write.table()) else { return true };
        match write {
            Write::Insert { on_conflict, .. } => {
                self.guards_insert(rights, *on_conflict)
                    || !rights.insert.is_all()
                    || !rights.referring.is_empty()
            }
            Write::Update { .. } => !rights.update.is_all() || !rights.referring.is_empty(),
            Write::Increment { .. } => !rights.update.is_all(),
            Write::Delete { .. } => !rights.delete.is_all(),
            // Narrowed where it is made.
            Write::DeleteWhere { .. } => matches!(rights.delete, Access::Denied),
            Write::Audited { write, .. } => self.guard(write),
            Write::Guarded { .. } => false,
        }
    }

    /// Whether an operation that is no batch has to become one for its writes
    /// to be guarded.
    pub(crate) fn guards(&self, operation: &Operation<'_>) -> bool {
        let Some(Ok(rights)) = operation.table().map(|table| self.of(table)) else { return false };
        match operation {
            Operation::Insert { on_conflict, .. } | Operation::InsertMany { on_conflict, .. } => {
                self.guards_insert(rights, *on_conflict)
            }
            Operation::Update { .. } | Operation::UpdateMany { .. } => {
                !rights.update.is_all() || !rights.referring.is_empty()
            }
            Operation::Increment { .. } => !rights.update.is_all(),
            Operation::Delete { .. } => !rights.delete.is_all(),
            _ => false,
        }
    }

    fn guards_insert(&self, rights: &TableRights, on_conflict: OnConflict) -> bool {
        let meets = match on_conflict {
            OnConflict::Refuse => false,
            OnConflict::Ignore => !rights.read.is_all(),
            OnConflict::Replace => !rights.delete.is_all(),
            OnConflict::Update { .. } => !rights.update.is_all(),
        };
        meets || !rights.tells_before
    }

    /// Refuses what the caller may do with no row of the table.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`].
    pub(super) fn admit(&self, right: Right, table: &Table) -> Result<&TableRights> {
        let rights = self.of(table)?;
        match rights.access(right) {
            Access::Denied => Err(self.denied(right, table)),
            Access::All | Access::Where(_) => Ok(rights),
        }
    }

    /// The same for an insert.
    pub(super) fn admit_insert(
        &self,
        table: &Table,
        on_conflict: OnConflict,
    ) -> Result<&TableRights> {
        match on_conflict {
            OnConflict::Refuse | OnConflict::Ignore => {}
            OnConflict::Replace => self.admit(Right::Delete, table).map(drop)?,
            OnConflict::Update { .. } => self.admit(Right::Update, table).map(drop)?,
        }
        self.admit(Right::Insert, table)
    }

    /// Checks a new row before it is inserted, where that can be told by then.
    pub(super) fn check_insert(&self, rights: &TableRights, row: &[ValueRef<'_>]) -> Result<()> {
        if !rights.insert.extends_to(&rights.table, row)? {
            return Err(self.unsuitable(&rights.table));
        }
        let mut key_row = Vec::new();
        let mut violations = Vec::new();
        for referring in &rights.referring {
            let Some(key) = referring.key_in(row) else { continue };
            key_row.clear();
            key_row.resize(referring.target.fields().len(), ValueRef::Absent);
            key_row[referring.target.key()] = key;
            if !referring.access.extends_to(&referring.target, &key_row)? {
                violations.push(referring.violation(&rights.table, key));
            }
        }
        prepare::finish(violations)
    }

    /// Carries out a write inside a transaction, unless the caller may not.
    pub(crate) fn carry_out(&self, write: &Write, run: &mut Run<'_>) -> Result<Outcome> {
        let bare = write.bare();
        let table = &**bare.table();
        match bare {
            Write::Insert { row, on_conflict, .. } => {
                let rights = self.admit_insert(table, *on_conflict)?;
                check_references(rights, row, run)?;
                let meets_others = !self.may_meet(rights, row, *on_conflict, run)?;
                let outcome = match meets_others {
                    // They are not to be touched, nor told of: it is refused as any conflict is.
                    true => write.refusing().with_operation(&mut *run)?,
                    false => write.with_operation(&mut *run)?,
                };
                let access = match outcome.effect {
                    Effect::Ignored => return Ok(outcome),
                    Effect::Updated => &rights.update,
                    Effect::Inserted | Effect::Replaced => &rights.insert,
                };
                if let Some(key) = key_made(bare, &outcome) {
                    self.check_written(rights, access, key.as_ref(), run)?;
                }
                Ok(outcome)
            }
            Write::Update { key, row, .. } => {
                let rights = self.admit(Right::Update, table)?;
                self.check_there(rights, Right::Update, key.as_ref(), run)?;
                check_references(rights, row, run)?;
                let outcome = write.with_operation(&mut *run)?;
                self.check_written(rights, &rights.update, key.as_ref(), run)?;
                Ok(outcome)
            }
            Write::Increment { key, .. } => {
                let rights = self.admit(Right::Update, table)?;
                self.check_there(rights, Right::Update, key.as_ref(), run)?;
                let outcome = write.with_operation(&mut *run)?;
                self.check_written(rights, &rights.update, key.as_ref(), run)?;
                Ok(outcome)
            }
            Write::Delete { key, .. } => {
                let rights = self.admit(Right::Delete, table)?;
                self.check_there(rights, Right::Delete, key.as_ref(), run)?;
                write.with_operation(run)
            }
            Write::DeleteWhere { .. } => {
                self.admit(Right::Delete, table)?;
                write.with_operation(run)
            }
            // Neither is bare.
            Write::Audited { .. } | Write::Guarded { .. } => write.with_operation(run),
        }
    }

    /// Refuses a write to a row that the caller may not write to, or that is
    /// not there for them.
    fn check_there(
        &self,
        rights: &TableRights,
        right: Right,
        key: ValueRef<'_>,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let access = rights.access(right);
        // Where all rows may be written, the engine itself says which there are.
        if access.is_all() || is_there(&rights.table, access, key, run)? {
            return Ok(());
        }
        match is_there(&rights.table, &rights.read, key, run)? {
            true => Err(self.denied_row(right, &rights.table, key)),
            false => Err(no_row(&rights.table, key)),
        }
    }

    #[cold]
    fn denied_row(&self, right: Right, table: &Table, key: ValueRef<'_>) -> Error {
        let (who, what) = (self.caller_name(), right.name());
        let key = marmota_model::text::excerpt_of(key);
        let message = format!("{who} may not {what} the row {key} of `{}`", table.name());
        Error::new(self.refusal(), message)
    }

    /// Refuses what was written, if the caller may not write such a row.
    fn check_written(
        &self,
        rights: &TableRights,
        access: &Access,
        key: ValueRef<'_>,
        run: &mut Run<'_>,
    ) -> Result<()> {
        match access.is_all() || is_there(&rights.table, access, key, run)? {
            true => Ok(()),
            false => Err(self.unsuitable(&rights.table)),
        }
    }

    /// Whether the caller may do to the rows in the way what the insert does.
    fn may_meet(
        &self,
        rights: &TableRights,
        row: &[Value],
        on_conflict: OnConflict,
        run: &mut Run<'_>,
    ) -> Result<bool> {
        let access = match on_conflict {
            OnConflict::Refuse => return Ok(true),
            OnConflict::Ignore => &rights.read,
            OnConflict::Replace => &rights.delete,
            OnConflict::Update { .. } => &rights.update,
        };
        if access.is_all() {
            return Ok(true);
        }
        let there = in_the_way(&rights.table, row);
        let all = count(&rights.table, Some(&there), run)?;
        Ok(all == 0 || all == count(&rights.table, access.narrow(Some(there)).as_ref(), run)?)
    }
}

/// Refuses references to rows that the caller may not refer to, as if those
/// were not there.
fn check_references(rights: &TableRights, row: &[Value], run: &mut Run<'_>) -> Result<()> {
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    let own_key = row[rights.table.key()];
    let mut violations = Vec::new();
    for referring in &rights.referring {
        let Some(key) = referring.key_in(&row) else { continue };
        let to_itself = referring.target.name() == rights.table.name() && key == own_key;
        if !to_itself && !is_there(&referring.target, &referring.access, key, run)? {
            violations.push(referring.violation(&rights.table, key));
        }
    }
    prepare::finish(violations)
}

impl Referring {
    /// The key that a row refers to by the field.
    fn key_in<'v>(&self, row: &[ValueRef<'v>]) -> Option<ValueRef<'v>> {
        row.get(self.field).copied().filter(|key| !key.is_null() && !key.is_absent())
    }

    fn violation(&self, table: &Table, key: ValueRef<'_>) -> Violation {
        prepare::no_target(&table.fields()[self.field], key, self.target.name())
    }
}

/// Whether a row with this key is there for an access.
fn is_there(table: &Table, access: &Access, key: ValueRef<'_>, run: &mut Run<'_>) -> Result<bool> {
    if matches!(access, Access::Denied) {
        return Ok(false);
    }
    let (field, value) = (table.key(), key.to_value());
    let row = Filter::Compare { field, comparison: Comparison::Equal, value };
    Ok(count(table, access.narrow(Some(row)).as_ref(), run)? > 0)
}

fn count(table: &Table, filter: Option<&Filter>, run: &mut Run<'_>) -> Result<u64> {
    run(&mut Operation::Count { table, filter }, &mut NoRows).map(|outcome| outcome.rows)
}
