//! The target of a refused write, and the reason for the refusal: the invalid fields, the missing
//! row, or the rows that still refer to it.
//!
//! PostgreSQL does not report most of this. A diagnostic query reads it, in the same
//! state of the database as the write.

use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{Currency, Error, ErrorKind, FieldSet, Kind, Table, Value, ValueRef};
use marmota_store::operation::{OnConflict, Operation, Write};
use marmota_store::prepare::no_target;
use marmota_store::refusal;

use crate::commands::command_batch::{CommandBatch, Role};
use crate::commands::reply::{Mark, Reply};
use crate::composer::Composer;
use crate::fault::{self, Failure, code};
use crate::prepare::table_facts::Facts;
use crate::statement::column::{pg_type, put};
use crate::statement::key::{key_condition, made_condition, put_key, put_made};
use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::statement::{Text, Verb};
use crate::wire::value;

/// The kind of a write.
#[derive(Clone, Debug, PartialEq)]
enum Does {
    Insert,
    Update,
    Increment { field: usize, by: Value },
    Delete,
    DeleteWhere,
}

/// A write with owned values.
#[derive(Clone, Debug)]
pub(crate) struct WriteTarget<'o> {
    pub(crate) table: &'o Table,
    does: Does,
    key: Option<Value>,
    row: Vec<Value>,
    version: Option<i64>,
    on_conflict: OnConflict,
}

impl<'o> WriteTarget<'o> {
    /// Returns the subject of the write at this place of an operation, or `None` if the operation
    /// writes no rows.
    pub(crate) fn of(
        operation: &'o Operation<'_>,
        commands: &CommandBatch,
        at: u32,
    ) -> Option<Self> {
        let values = |row: &[ValueRef<'_>]| row.iter().map(ValueRef::to_value).collect();
        Some(match operation {
            Operation::Insert { table, row, on_conflict } => {
                Self { on_conflict: *on_conflict, ..Self::insert(table, values(row)) }
            }
            Operation::InsertMany { table, on_conflict, .. } => {
                let row = row_of(table, commands, at as usize)?;
                Self { on_conflict: *on_conflict, ..Self::insert(table, row) }
            }
            Operation::Update { table, key, row, version } => {
                Self::update(table, key.to_value(), values(row), *version)
            }
            Operation::UpdateMany { table, .. } => {
                let row = row_of(table, commands, at as usize)?;
                Self::update(table, row[table.key()].clone(), row, None)
            }
            Operation::Increment { table, key, field, by, .. } => {
                Self::increment(table, key.to_value(), *field, by.to_value())
            }
            Operation::Delete { table, key, version } => {
                Self::delete(table, Some(key.to_value()), *version)
            }
            Operation::DeleteWhere { table, .. } => {
                Self { does: Does::DeleteWhere, ..Self::delete(table, None, None) }
            }
            Operation::Batch { writes, .. } => Self::of_write(writes.get(at as usize)?)?,
            _ => return None,
        })
    }

    /// Returns the subject of a write of a batch.
    pub(crate) fn of_write(write: &'o Write) -> Option<Self> {
        Some(match write {
            Write::Insert { table, row, on_conflict } => {
                Self { on_conflict: *on_conflict, ..Self::insert(table, row.clone()) }
            }
            Write::Update { table, key, row, version } => {
                Self::update(table, key.clone(), row.clone(), *version)
            }
            Write::Increment { table, key, field, by, .. } => {
                Self::increment(table, key.clone(), *field, by.clone())
            }
            Write::Delete { table, key, version } => {
                Self::delete(table, Some(key.clone()), *version)
            }
            Write::DeleteWhere { table, .. } => {
                Self { does: Does::DeleteWhere, ..Self::delete(table, None, None) }
            }
            _ => return None,
        })
    }

    fn insert(table: &'o Table, row: Vec<Value>) -> Self {
        let key = row.get(table.key()).filter(|key| **key != Value::Absent).cloned();
        let on_conflict = OnConflict::Refuse;
        Self { table, does: Does::Insert, key, row, version: None, on_conflict }
    }

    fn update(table: &'o Table, key: Value, row: Vec<Value>, version: Option<i64>) -> Self {
        let on_conflict = OnConflict::Refuse;
        Self { table, does: Does::Update, key: Some(key), row, version, on_conflict }
    }

    fn increment(table: &'o Table, key: Value, field: usize, by: Value) -> Self {
        let does = Does::Increment { field, by };
        Self { does, ..Self::delete(table, Some(key), None) }
    }

    fn delete(table: &'o Table, key: Option<Value>, version: Option<i64>) -> Self {
        let on_conflict = OnConflict::Refuse;
        Self { table, does: Does::Delete, key, row: Vec::new(), version, on_conflict }
    }

    /// Returns true if a row that it did not find may be found by another run.
    pub(crate) fn may_find_it(&self) -> bool {
        self.on_conflict != OnConflict::Refuse
    }

    fn values(&self) -> Vec<ValueRef<'_>> {
        self.row.iter().map(Value::as_ref).collect()
    }

    /// Adds the diagnostic query for its refusal. Returns false if none is needed.
    pub(crate) fn diagnostic(
        &self,
        composer: &mut Composer,
        commands: &mut CommandBatch,
        role: Role,
        failure: &Failure,
    ) -> bool {
        let added = match (failure.code(), &self.does, &self.key) {
            (code::NO_ROW, does, Some(key)) => {
                let field = match does {
                    Does::Increment { field, .. } => Some(*field),
                    _ => None,
                };
                composer.diagnostic(commands, role, self.table, key.as_ref(), field, 0)
            }
            (code::REFERENCE, Does::Insert | Does::Update, _) => {
                return self.query_targets(composer, commands, role);
            }
            (code::REFERENCE, Does::Delete, Some(key)) => {
                return self.query_referrers(composer, commands, role, key.as_ref());
            }
            _ => return false,
        };
        added.is_ok()
    }

    /// Queries for each reference whether its row exists.
    fn query_targets(
        &self,
        composer: &mut Composer,
        commands: &mut CommandBatch,
        role: Role,
    ) -> bool {
        let values = self.values();
        composer.tables.learn();
        let targets: Vec<(usize, Arc<Table>, ValueRef<'_>)> = references(self.table, &values)
            .filter_map(|(position, to, value)| {
                Some((position, Arc::clone(composer.tables.named(to)?), value))
            })
            .collect();
        if targets.is_empty() {
            return false;
        }
        let fields: FieldSet = targets.iter().map(|(position, ..)| *position).collect();
        let text = composer.text(Verb::Targets, self.table, fields, 0, |sql, _| {
            for (at, (_, target, _)) in targets.iter().enumerate() {
                sql.push(if at == 0 { "SELECT " } else { "," });
                sql.push("EXISTS(SELECT 1 FROM ").push(&quoted(target.name())).push(" WHERE ");
                key_condition(sql, target);
                sql.push(")");
            }
        });
        let Ok(text) = text else { return false };
        let called = commands.call(role, text, |out| {
            let mut put =
                |(_, target, key): &(usize, Arc<Table>, ValueRef<'_>)| put_key(out, target, *key);
            targets.iter().try_fold(0, |count, target| Ok(count + put(target)?))
        });
        called.is_ok()
    }

    /// Queries for each field that may refer to the row whether one does.
    fn query_referrers(
        &self,
        composer: &mut Composer,
        commands: &mut CommandBatch,
        role: Role,
        key: ValueRef<'_>,
    ) -> bool {
        composer.tables.learn();
        let referrers = composer.tables.references_to(self.table.name());
        let Ok(number) = composer.tables.number(self.table) else { return false };
        if referrers.is_empty() {
            return false;
        }
        // Later tables may add referrers.
        let shape = (referrers.len() as u32).to_le_bytes();
        let fields = FieldSet::EMPTY;
        let text = composer.texts.find(Verb::Referrers, number, fields, 0, &shape, || {
            let mut sql = Sql::default();
            for (at, (other, position)) in referrers.iter().enumerate() {
                sql.push(if at == 0 { "SELECT " } else { "," });
                sql.push("EXISTS(SELECT 1 FROM ").push(&quoted(other.name())).push(" WHERE ");
                made_condition(&mut sql, other, *position);
                sql.push(")");
            }
            Text::new(sql.text, sql.types, Box::default())
        });
        let called = commands.call(role, text, |out| {
            let mut put = |(other, position): &(Arc<Table>, usize)| match other.is_made(*position) {
                true => put_made(out, other, *position, key),
                false => put(out, other, *position, key).map(|()| 1),
            };
            referrers.iter().try_fold(0, |count, referrer| Ok(count + put(referrer)?))
        });
        called.is_ok()
    }

    /// Returns the error for its refusal, from the result of the diagnostic query.
    pub(crate) fn explain(
        &self,
        composer: &mut Composer,
        failure: &Failure,
        reply: &Reply,
        diagnostic: Option<&Mark>,
    ) -> Error {
        match (failure.code(), &self.does) {
            (code::NO_ROW, _) => self.missing(failure, reply, diagnostic),
            (code::UNIQUE, _) => self.taken(composer, failure),
            (code::REFERENCE, Does::Insert | Does::Update) => {
                self.without_target(composer, failure, reply, diagnostic)
            }
            (code::REFERENCE, Does::Delete | Does::DeleteWhere) => {
                let referrers = composer.tables.references_to(self.table.name());
                let found: Vec<(Arc<Table>, usize)> = match diagnostic {
                    None => referrers,
                    Some(diagnostic) => referrers
                        .into_iter()
                        .zip(reply.columns(diagnostic))
                        .filter(|(_, found)| *found == Some(&[1]))
                        .map(|(referrer, _)| referrer)
                        .collect(),
                };
                let key = self.key.as_ref().map(Value::as_ref);
                refusal::still_referred_to(self.table, key, &found)
            }
            (code::TOO_LARGE | code::TOO_LONG, does) => {
                let facts = self.facts(composer);
                let violations = match does {
                    Does::Increment { field, by } => {
                        facts.beyond_by(self.table, *field, by.as_ref()).into_iter().collect()
                    }
                    _ => facts.beyond(self.table, &self.values()),
                };
                match violations.is_empty() {
                    true => fault::of(failure),
                    false => Error::invalid(violations),
                }
            }
            (code::REQUIRED, _) => {
                let column = failure.column.as_deref().unwrap_or_default();
                match self.table.find(column) {
                    Some(field) if field == self.table.key() && self.facts(composer).lacks_keys => {
                        let (on, key) =
                            (quoted(self.table.name()), quoted(&self.table.fields()[field].name));
                        let message = format!(
                            "must have a value because the column has no default in the database; \
                             give each row a key, or ALTER TABLE {on} ALTER COLUMN {key} ADD \
                             GENERATED BY DEFAULT AS IDENTITY"
                        );
                        let row = self.values();
                        let blamed = fault::blame(self.table, &row, field, "required", &message);
                        Error::invalid(vec![blamed])
                    }
                    Some(field) => {
                        let message = "must not be null";
                        let row = self.values();
                        let blamed = fault::blame(self.table, &row, field, "required", message);
                        Error::invalid(vec![blamed])
                    }
                    None => fault::of(failure),
                }
            }
            _ => fault::of(failure),
        }
    }

    fn missing(&self, failure: &Failure, reply: &Reply, diagnostic: Option<&Mark>) -> Error {
        let Some(key) = &self.key else { return fault::of(failure) };
        let found = diagnostic.filter(|diagnostic| Reply::has_row(diagnostic));
        match (found, &self.does, self.version) {
            (None, ..) => refusal::not_found(self.table, key.as_ref()),
            (Some(diagnostic), Does::Increment { field, by }, _) => {
                let old = reply.columns(diagnostic).nth(1).flatten();
                self.not_added(*field, by, old)
            }
            (Some(diagnostic), _, Some(expected)) => {
                let version = reply.integer(diagnostic, 0).unwrap_or_default();
                refusal::stale(self.table, key.as_ref(), version, expected)
            }
            // The row was inserted in the meantime.
            _ => refusal::not_found(self.table, key.as_ref()),
        }
    }

    /// Returns the reason why nothing was added to an existing value.
    fn not_added(&self, field: usize, by: &Value, old: Option<&[u8]>) -> Error {
        let kind = &self.table.fields()[field].kind;
        let old = old.and_then(|bytes| value::read(pg_type(kind), bytes)).unwrap_or(ValueRef::Null);
        let (rule, message) = if old.is_null() {
            ("required", "is null and cannot be incremented; set a value first".to_owned())
        } else {
            let by = match by {
                Value::Currency(by) => by.to_string(),
                Value::Int(by) if *kind == Kind::Currency => Currency::from_scaled(*by).to_string(),
                Value::Int(by) => by.to_string(),
                _ => String::new(),
            };
            ("range", format!("would be out of range after an increment by {by}"))
        };
        Error::invalid(vec![violation(&self.table.fields()[field], old, rule, message)])
    }

    fn taken(&self, composer: &mut Composer, failure: &Failure) -> Error {
        let facts = self.facts(composer);
        let constraint = failure.constraint.as_deref().unwrap_or_default();
        let index = facts.uniques.iter().find(|(name, _)| name == constraint);
        match index {
            Some((_, fields)) => fault::taken(failure, self.table, &self.values(), fields),
            None => fault::of(failure),
        }
    }

    fn without_target(
        &self,
        composer: &mut Composer,
        failure: &Failure,
        reply: &Reply,
        diagnostic: Option<&Mark>,
    ) -> Error {
        let values = self.values();
        let own_key = self.key.as_ref().map(Value::as_ref);
        let mut violations = Vec::new();
        let mut found = diagnostic.map(|diagnostic| reply.columns(diagnostic));
        for (position, to, value) in references(self.table, &values) {
            if composer.tables.named(to).is_none() {
                continue;
            }
            let is_there = found.as_mut().and_then(Iterator::next).flatten() == Some(&[1]);
            let to_itself = to == self.table.name() && Some(value) == own_key;
            if diagnostic.is_some() && !is_there && !to_itself {
                violations.push(no_target(&self.table.fields()[position], value, to));
            }
        }
        if violations.is_empty() && self.on_conflict == OnConflict::Replace {
            let referrers = composer.tables.references_to(self.table.name());
            return refusal::still_referred_to(self.table, None, &referrers);
        }
        if violations.is_empty() {
            // The target was inserted in the meantime: use the server's constraint.
            let facts = self.facts(composer);
            let constraint = failure.constraint.as_deref().unwrap_or_default();
            let known = facts.references.iter().find(|(name, _)| name == constraint);
            let message = "there is no row with this key";
            violations.extend(
                known.map(|(_, field)| {
                    fault::blame(self.table, &values, *field, "reference", message)
                }),
            );
        }
        match violations.len() {
            0 => Error::new(ErrorKind::Invalid, "a reference has no target"),
            _ => Error::invalid(violations),
        }
    }

    fn facts(&self, composer: &mut Composer) -> Arc<Facts> {
        match composer.tables.number(self.table) {
            Ok(number) => composer.facts(number),
            Err(_) => Arc::default(),
        }
    }
}

/// Reads a row of a write of many rows from its parameters.
fn row_of(table: &Table, commands: &CommandBatch, at: usize) -> Option<Vec<Value>> {
    let part = commands.parts.iter().find(|part| part.rows.contains(&at))?;
    let mut rest = &commands.parameters[commands.rows.get(at)?.clone()];
    let mut row = vec![Value::Absent; table.fields().len()];
    // In an update, the key follows the written fields.
    let is_keyless = |field: &&usize| !part.fields.contains(**field);
    let keys = table.key_order().iter().filter(is_keyless).copied();
    for position in part.fields.iter().chain(keys) {
        let Some((length, behind)) = rest.split_first_chunk() else { break };
        let length = i32::from_be_bytes(*length);
        let (bytes, behind) = behind.split_at_checked(usize::try_from(length).unwrap_or(0))?;
        rest = behind;
        let pg_type = pg_type(&table.fields()[position].kind);
        let read = if length < 0 { Some(ValueRef::Null) } else { value::read(pg_type, bytes) };
        row[position] = read.map_or(Value::Null, |value| value.to_value());
    }
    let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    let key = table.key_text_of(&values);
    let mut references = Vec::new();
    table.each_made_reference(&values, |at, text| references.push((at, text)));
    if let Some(key) = key {
        row[table.key()] = Value::Text(key);
    }
    for (at, text) in references {
        row[at] = text.map_or(Value::Absent, Value::Text);
    }
    Some(row)
}

/// Returns the reference fields that have a value, with the referenced table and the value.
fn references<'r>(
    table: &'r Table,
    row: &'r [ValueRef<'r>],
) -> impl Iterator<Item = (usize, &'r str, ValueRef<'r>)> {
    table.fields().iter().zip(row).enumerate().filter_map(|(position, (field, value))| {
        let Kind::Reference { table: to, .. } = &field.kind else { return None };
        (!value.is_null() && !value.is_absent()).then_some((position, &**to, *value))
    })
}
