//! Writes whose rights depend on the rows in the database. They are executed in one transaction
//! with checks, in the same way on every engine.
//!
//! A check is a count of rows. The checks before the write are, in this order: of the row that is
//! written, of the rows that it refers to, of the existing rows that an insert conflicts with.
//! After the write the new row is checked. [`Checks`] determines the next check and evaluates its
//! count; [`crate::operation::BatchMachine`] executes them.
//!
//! ```text
//!  update, increment, delete     There ─> (Seen: the error) ─> Reference(0..) ─> Over
//!  insert                        Reference(0..) ─> Meets ─> MayMeet ─> Over
//!  after the write               the new row has to match the rule that permits the write
//! ```
//!
//! A count is used instead of a read, since the rules are filters that the engine evaluates. All of
//! it happens in the transaction of the write, so the rows cannot change in between.

use std::borrow::Cow;
use std::sync::Arc;

use marmota_model::{
    Comparison, Error, FieldSet, FilterExpr, Result, Table, Value, ValueRef, Violation,
};

use crate::contract::operation::conflict::conflicting_rows;
use crate::contract::operation::{OnConflict, Operation, Outcome, UpsertEffect, Write, key_made};
use crate::rights::{Access, Referring, Right, Rights, TableRights, of_caller};
use crate::rows::prepare;
use crate::rows::refusal::no_row;

impl Rights {
    /// Returns true if a write is to be executed with [`Checks`].
    ///
    /// False if the caller's rights on the table have no rules: then the write is executed as it
    /// is.
    pub(crate) fn guard(&self, write: &Write) -> bool {
        let Ok(rights) = self.of(write.table()) else { return true };
        match write {
            Write::Insert { on_conflict, .. } => {
                self.guards_insert(rights, *on_conflict)
                    || !rights.insert.is_all()
                    || !rights.referring.is_empty()
            }
            Write::Update { .. } => guards_update(rights) || !rights.referring.is_empty(),
            Write::Increment { .. } => guards_update(rights) || rights.read_fields.is_some(),
            Write::Delete { .. } => !rights.delete.is_all(),
            // A delete by filter is narrowed when it is made.
            Write::DeleteWhere { .. } => matches!(rights.delete, Access::Denied),
            Write::Cascading { write, .. }
            | Write::Audited { write, .. }
            | Write::Compared { write }
            | Write::Hooked { write, .. } => self.guard(write),
            Write::Guarded { .. } => false,
        }
    }

    /// Returns true if an operation that is not a batch has to become one so that its writes are
    /// guarded.
    pub(crate) fn guards(&self, operation: &Operation<'_>) -> bool {
        let Some(Ok(rights)) = operation.table().map(|table| self.of(table)) else { return false };
        match operation {
            Operation::Insert { on_conflict, .. } | Operation::InsertMany { on_conflict, .. } => {
                self.guards_insert(rights, *on_conflict)
            }
            Operation::Update { .. } | Operation::UpdateMany { .. } => {
                guards_update(rights) || !rights.referring.is_empty()
            }
            Operation::Increment { .. } => guards_update(rights) || rights.read_fields.is_some(),
            Operation::Delete { .. } => !rights.delete.is_all(),
            _ => false,
        }
    }

    /// Returns true if an insert depends on rows in the database: on those that it conflicts with,
    /// or on the key that the engine makes.
    fn guards_insert(&self, rights: &TableRights, on_conflict: OnConflict) -> bool {
        let meets = match on_conflict {
            OnConflict::Refuse => false,
            OnConflict::Ignore => !rights.read.is_all(),
            OnConflict::Replace => !rights.delete.is_all(),
            OnConflict::Update { .. } => guards_update(rights),
        };
        meets || !rights.tells_before || rights.insert_fields.is_some()
    }

    /// Checks the same for an insert.
    ///
    /// A conflict action that changes rows needs the right to do so.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`].
    pub(crate) fn admit_insert(
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
}

/// Returns true if an update depends on rows in the database, or on the fields that it writes.
const fn guards_update(rights: &TableRights) -> bool {
    !rights.update.is_all() || rights.update_fields.is_some()
}

/// A check: the number of rows of a table that a filter selects.
type Count = (Arc<Table>, Option<FilterExpr>);

/// The state of the checks for a write.
///
/// It is used in turns: [`Checks::next`] returns a count to execute, [`Checks::counted`] takes its
/// result.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The current stage.
    stage: Stage,
    /// The references that are not permitted, collected so that the error names all of them.
    violations: Vec<Violation>,
    /// True if the insert conflicts with rows that its caller may not access.
    meets_others: bool,
    /// The fields that the caller gave values to, and those that an upsert writes to an existing
    /// row. Hooks may write others.
    given: FieldSet,
    upserted: FieldSet,
}

/// The current or next check.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// The written row, for the right to write it.
    There,
    /// The same row, for the right to read it, which determines the error.
    Seen,
    /// The row that a reference of the table refers to, by its index.
    Reference(usize),
    /// The existing rows that an insert conflicts with.
    Meets,
    /// Those of these rows, whose number is given, that the caller may access.
    MayMeet(u64),
    /// No check.
    #[default]
    Over,
}

impl Checks {
    /// Begins the checks for a write.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`] if the caller has no right to any row of the table.
    pub(crate) fn begin(write: &Write) -> Result<Self> {
        let begun = Self::begin_changed(write, &Self::default())?;
        let Some(all) = write.rights() else { return Ok(begun) };
        let (rights, bare) = (all.of(write.table())?, write.bare());
        all.check_fields(rights, bare)?;
        let given = match bare {
            Write::Insert { row, .. } => rights.given_of(row),
            Write::Update { row, .. } => rights.updated_of(row),
            Write::Increment { field, .. } => FieldSet::EMPTY.with(*field),
            _ => FieldSet::EMPTY,
        };
        let upserted = match bare {
            Write::Insert { on_conflict: OnConflict::Update { fields }, .. } => {
                of_caller(&rights.table, *fields)
            }
            _ => FieldSet::EMPTY,
        };
        Ok(Self { given, upserted, ..begun })
    }

    /// Begins the checks for a write that hooks have changed, whose earlier checks were `before`.
    ///
    /// # Errors
    /// As [`Checks::begin`].
    pub(crate) fn begin_changed(write: &Write, before: &Self) -> Result<Self> {
        let Some(rights) = write.rights() else { return Ok(Self::default()) };
        let table = &**write.table();
        let (given, upserted) = (before.given, before.upserted);
        let stage = match write.bare() {
            Write::Insert { on_conflict, .. } => {
                rights.admit_insert(table, *on_conflict)?;
                Stage::Reference(0)
            }
            Write::Update { .. } | Write::Increment { .. } => {
                rights.admit(Right::Update, table)?;
                Stage::There
            }
            Write::Delete { .. } => {
                rights.admit(Right::Delete, table)?;
                Stage::There
            }
            Write::DeleteWhere { .. } => {
                rights.admit(Right::Delete, table)?;
                Stage::Over
            }
            Write::Cascading { .. }
            | Write::Audited { .. }
            | Write::Compared { .. }
            | Write::Guarded { .. }
            | Write::Hooked { .. } => Stage::Over,
        };
        Ok(Self { stage, given, upserted, ..Self::default() })
    }

    /// Returns the next check; `None` when the write may be executed.
    ///
    /// # Errors
    /// The result of the checks so far.
    pub(crate) fn next(&mut self, write: &Write) -> Result<Option<Count>> {
        let Some(all) = write.rights() else { return Ok(None) };
        let (rights, bare) = (all.of(write.table())?, write.bare());
        loop {
            match self.stage {
                Stage::There => {
                    let (_, key) = written_row(bare)?;
                    let access = &*self.written_rows(rights, bare)?;
                    // If the caller may write all rows, the engine reports a missing row.
                    if access.is_all() {
                        self.stage = after_there(bare);
                        continue;
                    }
                    match look_for(&rights.table, access, key) {
                        None => self.counted(write, 0)?,
                        look => return Ok(look),
                    }
                }
                Stage::Seen => {
                    let (_, key) = written_row(bare)?;
                    match look_for(&rights.table, &rights.read, key) {
                        None => self.counted(write, 0)?,
                        look => return Ok(look),
                    }
                }
                Stage::Reference(at) => {
                    let Some(referring) = rights.referring.get(at) else {
                        prepare::finish(std::mem::take(&mut self.violations))?;
                        self.stage = match bare {
                            Write::Insert { .. } => Stage::Meets,
                            _ => Stage::Over,
                        };
                        continue;
                    };
                    let Some(key) = referred_to(rights, referring, bare) else {
                        self.stage = Stage::Reference(at + 1);
                        continue;
                    };
                    match look_for(&referring.target, &referring.access, key) {
                        None => self.counted(write, 0)?,
                        look => return Ok(look),
                    }
                }
                Stage::Meets => match self.met(rights, bare).filter(|access| !access.is_all()) {
                    Some(_) => {
                        return Ok(Some((Arc::clone(&rights.table), Some(rows_met(bare)))));
                    }
                    None => self.stage = Stage::Over,
                },
                Stage::MayMeet(_) => {
                    let access = self.met(rights, bare).unwrap_or(Cow::Borrowed(&rights.read));
                    let filter = access.narrow(Some(rows_met(bare)));
                    return Ok(Some((Arc::clone(&rights.table), filter)));
                }
                Stage::Over => return Ok(None),
            }
        }
    }

    /// Evaluates the number of rows that the check has found.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`] or [`marmota_model::ErrorKind::NotFound`] for a row
    /// that the caller may not write to.
    pub(crate) fn counted(&mut self, write: &Write, rows: u64) -> Result<()> {
        let Some(all) = write.rights() else { return Ok(()) };
        let (rights, bare) = (all.of(write.table())?, write.bare());
        self.stage = match self.stage {
            Stage::There if rows > 0 => after_there(bare),
            Stage::There => Stage::Seen,
            Stage::Seen => {
                let (right, key) = written_row(bare)?;
                return Err(match rows > 0 {
                    true => all.denied_row(right, &rights.table, key),
                    false => no_row(&rights.table, key),
                });
            }
            Stage::Reference(at) => {
                if let Some(referring) = rights.referring.get(at).filter(|_| rows == 0)
                    && let Some(key) = referred_to(rights, referring, bare)
                {
                    self.violations.push(referring.violation(&rights.table, key));
                }
                Stage::Reference(at + 1)
            }
            Stage::Meets if rows == 0 => Stage::Over,
            Stage::Meets => Stage::MayMeet(rows),
            Stage::MayMeet(all) => {
                self.meets_others = all != rows;
                Stage::Over
            }
            Stage::Over => Stage::Over,
        };
        Ok(())
    }

    /// Returns true for an insert that has to fail if the row exists: its caller may not access the
    /// existing rows, nor learn of them.
    pub(crate) const fn refuses(&self) -> bool {
        self.meets_others
    }

    /// Returns the check of the written row, if there has to be one.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`] for a row that the caller may not write.
    pub(crate) fn of_written(&self, write: &Write, outcome: &Outcome) -> Result<Option<Count>> {
        let Some(all) = write.rights() else { return Ok(None) };
        let (rights, bare) = (all.of(write.table())?, write.bare());
        let (access, key) = match bare {
            Write::Insert { .. } => {
                let access = match outcome.effect {
                    UpsertEffect::Ignored => return Ok(None),
                    UpsertEffect::Updated => {
                        self.met(rights, bare).unwrap_or(Cow::Borrowed(&rights.update))
                    }
                    UpsertEffect::Inserted | UpsertEffect::Replaced => rights.inserting(self.given),
                };
                match key_made(bare, outcome) {
                    Some(key) => (access, key),
                    None => return Ok(None),
                }
            }
            Write::Update { key, .. } | Write::Increment { key, .. } => {
                (self.written_rows(rights, bare)?, key)
            }
            _ => return Ok(None),
        };
        if access.is_all() {
            return Ok(None);
        }
        match look_for(&rights.table, &access, key.as_ref()) {
            None => self.counted_written(write, 0).map(|()| None),
            look => Ok(look),
        }
    }

    /// Evaluates the number of rows that this check has found.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`] if the caller may not write such a row.
    pub(crate) fn counted_written(&self, write: &Write, rows: u64) -> Result<()> {
        match write.rights() {
            Some(all) if rows == 0 => Err(all.unsuitable(&all.of(write.table())?.table)),
            _ => Ok(()),
        }
    }
}

impl Checks {
    /// Returns the access that the caller needs to the rows that an insert conflicts with.
    fn met<'r>(&self, rights: &'r TableRights, bare: &Write) -> Option<Cow<'r, Access>> {
        let Write::Insert { on_conflict, .. } = bare else { return None };
        match on_conflict {
            OnConflict::Refuse => None,
            OnConflict::Ignore => Some(Cow::Borrowed(&rights.read)),
            OnConflict::Replace => Some(Cow::Borrowed(&rights.delete)),
            OnConflict::Update { .. } => Some(rights.updating(self.upserted)),
        }
    }

    /// Returns the rows to which the caller may apply a write of an existing row.
    ///
    /// # Errors
    /// That of an unknown field, for an increment whose sum the caller may not read.
    fn written_rows<'r>(&self, rights: &'r TableRights, bare: &Write) -> Result<Cow<'r, Access>> {
        Ok(match bare {
            Write::Update { .. } => rights.updating(self.given),
            Write::Increment { .. } => {
                let rows = rights.updating(self.given);
                match &rights.read_fields {
                    None => rows,
                    Some(_) => Cow::Owned(rows.and(&rights.table, &*rights.reading(self.given)?)),
                }
            }
            _ => Cow::Borrowed(&rights.delete),
        })
    }
}

/// Returns the stage after the check of the written row.
const fn after_there(bare: &Write) -> Stage {
    match bare {
        Write::Update { .. } => Stage::Reference(0),
        _ => Stage::Over,
    }
}

/// Returns the right that a write of one row needs, and the row's key.
fn written_row(bare: &Write) -> Result<(Right, ValueRef<'_>)> {
    match bare {
        Write::Update { key, .. } | Write::Increment { key, .. } => {
            Ok((Right::Update, key.as_ref()))
        }
        Write::Delete { key, .. } => Ok((Right::Delete, key.as_ref())),
        _ => {
            let message = "the row of a write without a key was requested";
            Err(Error::new(marmota_model::ErrorKind::Bug, message))
        }
    }
}

/// Returns the key to which a written row refers with a field, unless it is the row's own key.
fn referred_to<'w>(
    rights: &TableRights,
    referring: &Referring,
    bare: &'w Write,
) -> Option<ValueRef<'w>> {
    let (Write::Insert { row, .. } | Write::Update { row, .. }) = bare else { return None };
    let key = row.get(referring.field).map(Value::as_ref)?;
    let own = row.get(rights.table.key()).map(Value::as_ref);
    let to_itself = referring.target.name() == rights.table.name() && Some(key) == own;
    (!key.is_null() && !key.is_absent() && !to_itself).then_some(key)
}

/// Returns the filter of the rows that an insert conflicts with.
fn rows_met(bare: &Write) -> FilterExpr {
    match bare {
        Write::Insert { table, row, .. } => conflicting_rows(table, row),
        _ => FilterExpr::Or(Vec::new()),
    }
}

/// Returns the check for a row with this key to which an access applies; `None` if the access
/// applies to no row.
fn look_for(table: &Arc<Table>, access: &Access, key: ValueRef<'_>) -> Option<Count> {
    if matches!(access, Access::Denied) {
        return None;
    }
    let (field, value) = (table.key(), key.to_value());
    let row = FilterExpr::Compare { field, comparison: Comparison::Equal, value };
    Some((Arc::clone(table), access.narrow(Some(row))))
}
