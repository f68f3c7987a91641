//! Writes of one row as calls.
//!
//! A write among several must fail if it finds no row, so that the server itself undoes the others:
//! it divides by the number of rows found.

use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{
    Currency, Error, ErrorKind, Field, FieldSet, Kind, Literal, Result, Rule, Table, ValueRef,
};
use marmota_store::operation::Write;

use super::{Composer, by_key};
use crate::commands::command_batch::{CommandBatch, Role};
use crate::statement::column::{name, oid, put, put_present};
use crate::statement::key::{is_generated, put_key, stored};
use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::statement::{Text, Verb};
use crate::wire::value::{self, PgType};

/// Variants of a statement, as bits.
pub(crate) mod variant {
    /// It returns the new version.
    pub(crate) const GIVES_VERSION: u32 = 1;
    /// It compares the version.
    pub(crate) const COMPARES: u32 = 2;
    /// It fails if it finds no row.
    pub(crate) const STRICT: u32 = 4;
}

impl Composer {
    /// Adds an insert of one row; returns its key if that is automatic.
    pub(crate) fn insert(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        row: &[ValueRef<'_>],
    ) -> Result<()> {
        let fields = stored(table, row);
        self.check_decimals(table, row)?;
        let text = self.insert_text(table, fields)?;
        commands.call(role, text, |out| put_present(out, table, row))?;
        match row[table.key()] {
            ValueRef::Int(key) => self.move_keys(commands, table, key),
            _ => Ok(()),
        }
    }

    /// Refuses values that the server would round.
    pub(super) fn check_decimals(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<()> {
        let number = self.tables.number(table)?;
        let facts = self.facts(number);
        if facts.decimals.is_empty() { Ok(()) } else { facts.check_decimals(table, row) }
    }

    /// Returns the statement that inserts one row.
    pub(crate) fn insert_text(&mut self, table: &Table, fields: FieldSet) -> Result<Arc<Text>> {
        self.text(Verb::Insert, table, fields, 0, |sql, table| {
            let values = match fields.is_empty() {
                true => " DEFAULT VALUES",
                false => " VALUES (",
            };
            insert_sql(sql, table, fields, values, |sql, position| {
                sql.parameter(oid(table, position));
            });
        })
    }

    /// Makes automatic keys continue after one that the caller chose.
    pub(crate) fn move_keys(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        key: i64,
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        let Some(sequence) = self.facts(number).sequence.clone() else { return Ok(()) };
        let text = self.text(Verb::MoveKeys, table, FieldSet::EMPTY, 0, |sql, _| {
            sql.push(&format!("SELECT setval('{}',", sequence.replace('\'', "''")));
            sql.parameter(PgType::Int8.oid());
            sql.push(&format!(
                ") FROM {sequence} WHERE last_value<$1 OR last_value=$1 AND NOT is_called"
            ));
        })?;
        commands.call(Role::Beside, text, |out| {
            put(out, table, table.key(), ValueRef::Int(key)).map(|()| 1)
        })
    }

    /// Adds an update; returns the new version if the table has one and none is compared. If
    /// nothing is written, it looks for the row.
    pub(crate) fn update(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        (key, version): (ValueRef<'_>, Option<i64>),
        row: &[ValueRef<'_>],
        strict: u32,
    ) -> Result<()> {
        let written = written(table, row);
        self.check_decimals(table, row)?;
        let version = version.filter(|_| table.version().is_some());
        let text = self.update_text(table, written, version.is_some(), strict)?;
        commands.call(role, text, |out| {
            for position in written.iter() {
                put(out, table, position, row[position])?;
            }
            let count = written.len() as u16 + put_key(out, table, key)?;
            Ok(count + put_version(out, version))
        })
    }

    /// Returns the statement of an update, or one that looks for the row if nothing is written.
    pub(crate) fn update_text(
        &mut self,
        table: &Table,
        written: FieldSet,
        compares: bool,
        strict: u32,
    ) -> Result<Arc<Text>> {
        if written.is_empty() && table.version().is_none() {
            return self.diagnostic_text(table, None, strict);
        }
        let how = match (table.version(), compares) {
            (None, _) => 0,
            (Some(_), false) => variant::GIVES_VERSION,
            (Some(_), true) => variant::COMPARES,
        };
        self.text(Verb::Update, table, written, how | strict, |sql, table| {
            update_sql(sql, table, written, how, strict);
        })
    }

    pub(crate) fn increment(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        (key, position, by, stamp): (ValueRef<'_>, usize, ValueRef<'_>, ValueRef<'_>),
        strict: u32,
    ) -> Result<()> {
        let field = &table.fields()[position];
        let (min, max, number) = match (&field.kind, by) {
            (Kind::Int { min, max }, ValueRef::Int(by)) => (*min, *max, by),
            (Kind::Currency, ValueRef::Currency(by)) => (i64::MIN, i64::MAX, by.scaled()),
            _ => {
                let message = "only integer and currency fields can be incremented, by a value of \
                               the same kind";
                return Err(Error::invalid(vec![violation(field, by, "type", message)]));
            }
        };
        let mut values = vec![ValueRef::Absent; position];
        values.push(by);
        self.check_decimals(table, &values)?;
        let (min, max) = within_rules(field, min, max)?;
        let fields = FieldSet::EMPTY.with(position);
        let text = self.text(Verb::Increment, table, fields, strict, |sql, table| {
            increment_sql(sql, table, position, strict);
        })?;
        // The sum fits if the old value is between these bounds; this check cannot overflow.
        let (low, high) =
            (i128::from(min) - i128::from(number), i128::from(max) - i128::from(number));
        let (low, high) = match (
            i64::try_from(low.max(i64::MIN.into())),
            i64::try_from(high.min(i64::MAX.into())),
        ) {
            (Ok(low), Ok(high)) => (low, high),
            _ => (1, 0),
        };
        let (pg_type, end): (PgType, fn(i64) -> ValueRef<'static>) = match field.kind {
            Kind::Currency => {
                (PgType::Numeric, |end| ValueRef::Currency(Currency::from_scaled(end)))
            }
            _ => (PgType::Int8, ValueRef::Int),
        };
        commands.call(role, text, |out| {
            let put_number = |out: &mut Vec<u8>, value| {
                value::put(out, pg_type, value).map_err(|value::ValueMismatch| {
                    crate::statement::column::misfit(table, position)
                })
            };
            put_number(out, by)?;
            if let Some(updated_at) = table.updated_at() {
                put(out, table, updated_at, stamp)?;
            }
            let of_key = put_key(out, table, key)?;
            put_number(out, end(low))?;
            put_number(out, end(high))?;
            Ok(3 + of_key + u16::from(table.updated_at().is_some()))
        })
    }

    pub(crate) fn delete(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        key: ValueRef<'_>,
        version: Option<i64>,
        strict: u32,
    ) -> Result<()> {
        let version = version.filter(|_| table.version().is_some());
        let compares = if version.is_some() { variant::COMPARES } else { 0 };
        let text =
            self.text(Verb::Delete, table, FieldSet::EMPTY, compares | strict, |sql, table| {
                begin(sql, strict);
                sql.push("DELETE FROM ").push(&quoted(table.name()));
                by_key(sql, table);
                compare_version(sql, table, compares);
                end(sql, strict, " RETURNING 1 AS v", "max(v)");
            })?;
        commands.call(role, text, |out| Ok(put_key(out, table, key)? + put_version(out, version)))
    }

    /// Adds a query for a row: returns its version (0 if the table has no versions), and the value
    /// of a field, if one is named.
    pub(crate) fn diagnostic(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        key: ValueRef<'_>,
        field: Option<usize>,
        strict: u32,
    ) -> Result<()> {
        let text = self.diagnostic_text(table, field, strict)?;
        commands.call(role, text, |out| put_key(out, table, key))
    }

    fn diagnostic_text(
        &mut self,
        table: &Table,
        field: Option<usize>,
        strict: u32,
    ) -> Result<Arc<Text>> {
        let fields = field.map_or(FieldSet::EMPTY, |field| FieldSet::EMPTY.with(field));
        self.text(Verb::Diagnostic, table, fields, strict, |sql, table| {
            if strict != 0 {
                sql.push("SELECT max(v),1/count(*) FROM (");
            }
            let version = table.version().map(|version| name(table, version));
            sql.push("SELECT ").push(version.as_deref().unwrap_or("0::bigint")).push(" AS v");
            if let Some(field) = field {
                sql.push(",").push(&name(table, field));
            }
            sql.push(" FROM ").push(&quoted(table.name()));
            by_key(sql, table);
            if strict != 0 {
                sql.push(") w");
            }
        })
    }

    /// Adds a write of a batch: it fails if it finds no row.
    pub(crate) fn write(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        write: &Write,
    ) -> Result<()> {
        let strict = variant::STRICT;
        match write {
            Write::Insert { table, row, on_conflict } => {
                let row: Vec<ValueRef<'_>> = row.iter().map(marmota_model::Value::as_ref).collect();
                self.insert_over(commands, role, table, &row, *on_conflict)
            }
            Write::Update { table, key, row, version } => {
                let row: Vec<ValueRef<'_>> = row.iter().map(marmota_model::Value::as_ref).collect();
                self.update(commands, role, table, (key.as_ref(), *version), &row, strict)
            }
            Write::Increment { table, key, field, by, stamp } => {
                let what = (key.as_ref(), *field, by.as_ref(), stamp.as_ref());
                self.increment(commands, role, table, what, strict)
            }
            Write::Delete { table, key, version } => {
                self.delete(commands, role, table, key.as_ref(), *version, strict)
            }
            Write::DeleteWhere { table, filter } => {
                self.delete_where(commands, role, table, filter.as_ref())
            }
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "the PostgreSQL engine does not support \
                                                         this write here",
            )),
        }
    }
}

/// Returns the range of a field that is incremented, including its rules: only the server knows the
/// sum, and it cannot check other rules.
fn within_rules(field: &Field, mut min: i64, mut max: i64) -> Result<(i64, i64)> {
    let number = |literal: &Literal| match (literal, &field.kind) {
        (Literal::Int(number), Kind::Int { .. }) => Some(*number),
        (Literal::Int(whole), _) => whole.checked_mul(Currency::SCALE),
        (Literal::Currency(amount), _) => Some(amount.scaled()),
        (Literal::Text(text), _) => text.parse::<Currency>().ok().map(Currency::scaled),
        _ => None,
    };
    for rule in field.rules.iter() {
        let (least, most) = match rule {
            Rule::Range { min: least, max: most } => (least, most),
            _ => {
                let message = format!(
                    "`{}` has a rule that needs the new value: read the row in a \
                     transaction and write the sum",
                    field.name
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        min = least.as_ref().and_then(number).map_or(min, |least| min.max(least));
        max = most.as_ref().and_then(number).map_or(max, |most| max.min(most));
    }
    Ok((min, max))
}

/// Returns the fields that an update writes: those present except the key and the version.
pub(crate) fn written(table: &Table, row: &[ValueRef<'_>]) -> FieldSet {
    let written = stored(table, row).without(table.key());
    table.version().map_or(written, |version| written.without(version))
}

fn put_version(out: &mut Vec<u8>, version: Option<i64>) -> u16 {
    let Some(version) = version else { return 0 };
    // An integer always fits a bigint.
    let _ = value::put(out, PgType::Int8, ValueRef::Int(version));
    1
}

/// Writes an insert that returns the key if that is automatic: `from` starts the source of the
/// values, a parenthesis in which each field has its parameter.
pub(crate) fn insert_sql(
    sql: &mut Sql,
    table: &Table,
    fields: FieldSet,
    from: &str,
    parameter: impl Fn(&mut Sql, usize),
) {
    sql.push("INSERT INTO ").push(&quoted(table.name()));
    if !fields.is_empty() {
        let names: Vec<String> = fields.iter().map(|position| name(table, position)).collect();
        sql.push(" (").push(&names.join(",")).push(")");
    }
    sql.push(from);
    for (place, position) in fields.iter().enumerate() {
        sql.push(if place == 0 { "" } else { "," });
        parameter(sql, position);
    }
    sql.push(if fields.is_empty() { "" } else { ")" });
    if is_generated(table, fields) {
        sql.push(" RETURNING ").push(&name(table, table.key()));
    }
}

/// Begins a statement that may have to fail if it finds no row.
fn begin(sql: &mut Sql, strict: u32) {
    if strict != 0 {
        sql.push("WITH w AS (");
    }
}

/// Ends it, with its RETURNING clause and the expressions selected from that.
fn end(sql: &mut Sql, strict: u32, returning: &str, made: &str) {
    if strict != 0 {
        sql.push(returning).push(") SELECT ").push(made).push(",1/count(*) FROM w");
    }
}

fn compare_version(sql: &mut Sql, table: &Table, how: u32) {
    if let (Some(version), true) = (table.version(), how & variant::COMPARES != 0) {
        sql.push(" AND ").push(&name(table, version)).push("=").parameter(PgType::Int8.oid());
    }
}

fn update_sql(sql: &mut Sql, table: &Table, written: FieldSet, how: u32, strict: u32) {
    begin(sql, strict);
    sql.push("UPDATE ").push(&quoted(table.name())).push(" SET ");
    let mut comma = "";
    for position in written.iter() {
        sql.push(comma).push(&name(table, position)).push("=").parameter(oid(table, position));
        comma = ",";
    }
    let version = table.version().map(|version| name(table, version));
    if let Some(version) = &version {
        sql.push(comma).push(&format!("{version}={version}+1"));
    }
    by_key(sql, table);
    compare_version(sql, table, how);
    let gives = version.map_or_else(
        || " RETURNING 1::bigint AS v".to_owned(),
        |version| format!(" RETURNING {version} AS v"),
    );
    if strict == 0 && how & variant::GIVES_VERSION != 0 {
        sql.push(&gives);
    }
    end(sql, strict, &gives, "max(v)");
}

fn increment_sql(sql: &mut Sql, table: &Table, position: usize, strict: u32) {
    let number = match table.fields()[position].kind {
        Kind::Currency => PgType::Numeric.oid(),
        _ => PgType::Int8.oid(),
    };
    let sum = name(table, position);
    begin(sql, strict);
    sql.push("UPDATE ").push(&quoted(table.name()));
    sql.push(&format!(" SET {sum}={sum}+")).parameter(number);
    if let Some(updated_at) = table.updated_at() {
        sql.push(&format!(",{}=", name(table, updated_at))).parameter(oid(table, updated_at));
    }
    let version = table.version().map(|version| name(table, version));
    if let Some(version) = &version {
        sql.push(&format!(",{version}={version}+1"));
    }
    by_key(sql, table);
    sql.push(&format!(" AND {sum} BETWEEN ")).parameter(number);
    sql.push(" AND ").parameter(number);
    let version = version.as_deref().unwrap_or("0::bigint");
    let gives = format!(" RETURNING {version} AS v,{sum} AS s");
    if strict == 0 {
        sql.push(&gives);
    }
    end(sql, strict, &gives, "max(v),max(s)");
}
