//! Converts the results of statements to the outcome of an operation.

use marmota_model::{Kind, Table, Value, ValueRef};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect, Write};

use crate::commands::reply::Mark;
use crate::composer::conflict;
use crate::in_flight::InFlightOperation;
use crate::statement::key::is_generated;
use crate::wire::value;

impl InFlightOperation {
    pub(crate) fn inserted(&self, table: &Table) -> Outcome {
        let rows = self.commands.rows.len();
        let has_keys = !self.commands.parts.iter().any(|part| is_generated(table, part.fields));
        let mut outcome = Outcome::rows(rows as u64);
        if has_keys {
            return outcome;
        }
        let columns = self.reply.marks.iter().flat_map(|mark| self.reply.columns(mark));
        let keys: Vec<i64> = columns.flatten().filter_map(value::read_integer).collect();
        let follows = keys.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        outcome.keys = match keys.first() {
            Some(&first) if follows => Keys::Range { first },
            _ => Keys::Each(keys.into_iter().map(Value::Int).collect()),
        };
        outcome
    }

    pub(crate) fn placed(&self, table: &Table) -> Outcome {
        let placed = |mark: &Mark| conflict::placed(table, &self.reply, mark).0;
        let placed: Vec<_> = self.reply.marks.iter().map(placed).collect();
        let rows = placed.iter().filter(|one| one.effect != UpsertEffect::Ignored).count();
        Outcome { keys: Keys::Upserted(placed), ..Outcome::rows(rows as u64) }
    }

    pub(crate) fn outcome_of_write(&self, write: &Write, mark: Option<&Mark>) -> Outcome {
        match write {
            Write::Insert { table, on_conflict, .. } if *on_conflict != OnConflict::Refuse => {
                conflict::outcome(table, &self.reply, mark)
            }
            Write::Insert { table, row, .. } => {
                let mut outcome = self.outcome_of_insert(row[table.key()] == Value::Absent, mark);
                outcome.version =
                    table.version().and_then(|version| row[version].as_ref().as_int());
                outcome
            }
            Write::Update { table, .. } => self.outcome_of_update(table, None, mark),
            Write::Increment { table, field, .. } => self.outcome_of_increment(table, *field, mark),
            Write::DeleteWhere { .. } => Outcome::rows(mark.map_or(0, |mark| mark.rows)),
            _ => Outcome::rows(1),
        }
    }

    pub(crate) fn outcome_of_insert(&self, is_automatic: bool, mark: Option<&Mark>) -> Outcome {
        let mut outcome = Outcome::rows(1);
        if let (true, Some(key)) = (is_automatic, mark.and_then(|mark| self.reply.integer(mark, 0)))
        {
            outcome.keys = Keys::One(Value::Int(key));
        }
        outcome
    }

    pub(crate) fn outcome_of_update(
        &self,
        table: &Table,
        compared: Option<i64>,
        mark: Option<&Mark>,
    ) -> Outcome {
        let mut outcome = Outcome::rows(1);
        if table.version().is_some() {
            outcome.version = match compared {
                Some(version) => version.checked_add(1),
                None => mark.and_then(|mark| self.reply.integer(mark, 0)),
            };
        }
        outcome
    }

    pub(crate) fn outcome_of_increment(
        &self,
        table: &Table,
        field: usize,
        mark: Option<&Mark>,
    ) -> Outcome {
        let mut outcome = Outcome::rows(1);
        let Some(mark) = mark else { return outcome };
        outcome.version = table.version().and_then(|_| self.reply.integer(mark, 0));
        outcome.value = match table.fields()[field].kind {
            Kind::Currency => {
                let bytes = self.reply.columns(mark).nth(1).flatten();
                let sum = bytes.and_then(|bytes| value::read(value::PgType::Numeric, bytes));
                // The row is written, so an unreadable value is not an error.
                sum.unwrap_or(ValueRef::Absent).to_value()
            }
            _ => self.reply.integer(mark, 1).map_or(Value::Absent, Value::Int),
        };
        outcome
    }
}
