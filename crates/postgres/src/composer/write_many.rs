//! Writes of many rows of one table as calls.
//!
//! Rows come one by one from a source that cannot be read twice, so their values are written in
//! PostgreSQL's format, one after the other. The same bytes then serve for statements of many rows,
//! for COPY, and for statements of one row, which find the failed row.

use std::ops::Range;

use marmota_model::{Error, ErrorKind, FieldSet, Result, RowSource, Table, ValueRef};
use marmota_store::refusal::mixed_keys;

use super::Composer;
use super::write::{insert_sql, variant, written};
use crate::commands::command_batch::{Call, CommandBatch, Part, Role};
use crate::statement::Verb;
use crate::statement::column::{name, pg_type, put, put_present};
use crate::statement::key::{is_generated, put_key, stored};
use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::wire::value::{self, PgType};

/// From this number of rows on, COPY is faster, if no keys must be returned.
const COPY_ROWS_MIN: usize = 256;
/// The most rows of a statement.
const STATEMENT_ROWS_MAX: usize = 8_192;
/// The most bytes sent at once, which are in memory.
const BYTES_MAX: usize = 1 << 30;

impl Composer {
    /// Stores the rows of an insert.
    pub(crate) fn take_rows<'a>(
        &mut self,
        commands: &mut CommandBatch,
        table: &'a Table,
        source: &mut dyn RowSource<'a>,
    ) -> Result<()> {
        let key = table.key();
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        commands.rows.reserve(source.remaining());
        while source.next(&mut row)? {
            let (fields, at) = (stored(table, &row), commands.rows.len());
            match commands.parts.last_mut() {
                Some(part) if part.fields == fields => part.rows.end += 1,
                Some(part) if is_generated(table, part.fields) != is_generated(table, fields) => {
                    return Err(mixed_keys(at));
                }
                _ => commands.parts.push(Part { fields, rows: at..at + 1 }),
            }
            self.check_decimals(table, &row)?;
            let start = commands.parameters.len();
            put_present(&mut commands.parameters, table, &row)?;
            commands.rows.push(start..commands.parameters.len());
            if let ValueRef::Int(key) = row[key] {
                commands.key_max = commands.key_max.max(Some(key));
            }
            if commands.parameters.len() > BYTES_MAX {
                let message = format!("the rows of one insert have more than {BYTES_MAX} bytes");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            row.fill(ValueRef::Absent);
        }
        Ok(())
    }

    /// Adds calls that insert the rows, many at once.
    pub(crate) fn insert_rows(&mut self, commands: &mut CommandBatch, table: &Table) -> Result<()> {
        commands.calls.clear();
        for part in commands.parts.clone() {
            let has_key = !is_generated(table, part.fields);
            if has_key && part.rows.len() >= COPY_ROWS_MIN && !self.converts(table)? {
                self.copy_rows(commands, table, &part)?;
                continue;
            }
            let mut at = part.rows.start;
            while at < part.rows.end {
                // A statement without fields uses DEFAULT VALUES: one row.
                let rows = match part.fields.is_empty() {
                    true => 1,
                    false => (part.rows.end - at).min(STATEMENT_ROWS_MAX),
                };
                match rows {
                    1 => self.insert_one(commands, table, part.fields, at)?,
                    rows => self.insert_some(commands, table, part.fields, at..at + rows)?,
                }
                at += rows;
            }
        }
        self.end_insert(commands, table)
    }

    /// Adds calls that insert them one by one.
    pub(crate) fn insert_rows_singly(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
    ) -> Result<()> {
        commands.calls.clear();
        for part in commands.parts.clone() {
            for row in part.rows.clone() {
                self.insert_one(commands, table, part.fields, row)?;
            }
        }
        self.end_insert(commands, table)
    }

    /// Adds a call that inserts this row.
    fn insert_one(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        fields: FieldSet,
        at: usize,
    ) -> Result<()> {
        commands.calls.push(Call {
            text: self.insert_text(table, fields)?,
            role: Role::Main(at as u32),
            count: fields.len() as u16,
            parameters: commands.rows[at].clone(),
            copies: None,
        });
        Ok(())
    }

    /// Adds a call that inserts these rows, with an array for each column: a statement with one
    /// parameter per value costs the server half as much again.
    fn insert_some(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        fields: FieldSet,
        rows: Range<usize>,
    ) -> Result<()> {
        let text = self.text(Verb::InsertMany, table, fields, 0, |sql, table| {
            insert_sql(sql, table, fields, " SELECT * FROM unnest(", |sql, position| {
                sql.parameter(pg_type(&table.fields()[position].kind).array_oid());
            });
        })?;
        let start = commands.parameters.len();
        let mut next: Vec<usize> =
            commands.rows[rows.clone()].iter().map(|row| row.start).collect();
        put_columns(commands, table, fields.iter(), &mut next)?;
        let parameters = start..commands.parameters.len();
        let (role, count) = (Role::Main(rows.start as u32), fields.len() as u16);
        commands.calls.push(Call { text, role, count, parameters, copies: None });
        Ok(())
    }

    /// Returns true if the server converts values of the table's rows.
    fn converts(&mut self, table: &Table) -> Result<bool> {
        let number = self.tables.number(table)?;
        Ok(self.facts(number).converts)
    }

    fn copy_rows(&mut self, commands: &mut CommandBatch, table: &Table, part: &Part) -> Result<()> {
        let fields = part.fields;
        let text = self.text(Verb::Copy, table, fields, 0, |sql, table| {
            let names: Vec<String> = fields.iter().map(|field| name(table, field)).collect();
            sql.push("COPY ").push(&quoted(table.name()));
            sql.push(" (").push(&names.join(",")).push(") FROM STDIN (FORMAT binary)");
        })?;
        let (role, copies) = (Role::Main(part.rows.start as u32), Some(part.rows.clone()));
        commands.calls.push(Call { text, role, count: 0, parameters: 0..0, copies });
        Ok(())
    }

    fn end_insert(&mut self, commands: &mut CommandBatch, table: &Table) -> Result<()> {
        match commands.key_max {
            Some(key) => self.move_keys(commands, table, key),
            None => Ok(()),
        }
    }

    /// Adds updates of rows in the order of their keys, so that two such operations do not wait for
    /// each other. Consecutive rows that write the same fields share one statement. A repeated key
    /// is updated repeatedly, by its last row last.
    pub(crate) fn update_many<'a>(
        &mut self,
        commands: &mut CommandBatch,
        table: &'a Table,
        source: &mut dyn RowSource<'a>,
    ) -> Result<()> {
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        // The start of each row's key, which is after the written values.
        let mut keys: Vec<usize> = Vec::new();
        while source.next(&mut row)? {
            let (fields, at, start) =
                (written(table, &row), commands.rows.len(), commands.parameters.len());
            self.check_decimals(table, &row)?;
            for position in fields.iter() {
                put(&mut commands.parameters, table, position, row[position])?;
            }
            keys.push(commands.parameters.len());
            put_key(&mut commands.parameters, table, row[table.key()])?;
            commands.rows.push(start..commands.parameters.len());
            match commands.parts.last_mut() {
                Some(part) if part.fields == fields => part.rows.end += 1,
                _ => commands.parts.push(Part { fields, rows: at..at + 1 }),
            }
            row.fill(ValueRef::Absent);
        }
        let key = |at: &usize| &commands.parameters[keys[*at]..commands.rows[*at].end];
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|one, other| key(one).cmp(key(other)));
        let fields_of = |at: usize| {
            let part = commands.parts.partition_point(|part| part.rows.end <= at);
            commands.parts.get(part).map_or(FieldSet::EMPTY, |part| part.fields)
        };
        let goes_on = |one: &usize, next: &usize| {
            key(one) != key(next) && fields_of(*one) == fields_of(*next)
        };
        let runs: Vec<(FieldSet, &[usize])> =
            order.chunk_by(goes_on).map(|run| (fields_of(run[0]), run)).collect();
        for (fields, run) in runs {
            for rows in run.chunks(STATEMENT_ROWS_MAX) {
                match rows {
                    [at] => self.update_one(commands, table, fields, *at)?,
                    rows if fields.is_empty() => rows
                        .iter()
                        .try_for_each(|at| self.update_one(commands, table, fields, *at))?,
                    rows => self.update_some(commands, table, fields, rows)?,
                }
            }
        }
        Ok(())
    }

    /// Adds calls that update them one by one, in their original order: the first failed one is
    /// reported.
    pub(crate) fn update_rows_singly(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
    ) -> Result<()> {
        commands.calls.clear();
        commands.is_single = true;
        for part in commands.parts.clone() {
            for at in part.rows {
                self.update_one(commands, table, part.fields, at)?;
            }
        }
        Ok(())
    }

    /// Adds a call that updates this row.
    fn update_one(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        fields: FieldSet,
        at: usize,
    ) -> Result<()> {
        commands.calls.push(Call {
            text: self.update_text(table, fields, false, variant::STRICT)?,
            role: Role::Main(at as u32),
            count: (fields.len() + table.key_order().len()) as u16,
            parameters: commands.rows[at].clone(),
            copies: None,
        });
        Ok(())
    }

    /// Adds a call that updates these rows, with an array for each column.
    fn update_some(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        fields: FieldSet,
        rows: &[usize],
    ) -> Result<()> {
        let text = self.text(Verb::UpdateMany, table, fields, 0, |sql, table| {
            update_many_sql(sql, table, fields);
        })?;
        let positions: Vec<usize> =
            fields.iter().chain(table.key_order().iter().copied()).collect();
        let mut next: Vec<usize> = rows.iter().map(|&row| commands.rows[row].start).collect();
        let start = commands.parameters.len();
        put_columns(commands, table, positions.iter().copied(), &mut next)?;
        // An integer always fits a bigint.
        let count = ValueRef::Int(rows.len() as i64);
        let _ = value::put(&mut commands.parameters, PgType::Int8, count);
        let parameters = start..commands.parameters.len();
        let (role, count) = (Role::Main(rows[0] as u32), positions.len() as u16 + 1);
        commands.calls.push(Call { text, role, count, parameters, copies: None });
        Ok(())
    }
}

/// Appends the columns of rows as arrays. `next` has the start of the next column of each row:
/// values are stored like the elements of an array.
fn put_columns(
    commands: &mut CommandBatch,
    table: &Table,
    positions: impl Iterator<Item = usize>,
    next: &mut [usize],
) -> Result<()> {
    for position in positions {
        let pg_type = pg_type(&table.fields()[position].kind);
        let count = next.len();
        value::put_array(&mut commands.parameters, pg_type, count, |out| {
            for next in &mut *next {
                let length = out[*next..].first_chunk().map_or(-1, |b| i32::from_be_bytes(*b));
                let end = *next + 4 + usize::try_from(length).unwrap_or(0);
                out.extend_from_within(*next..end);
                *next = end;
            }
            Ok::<(), Error>(())
        })?;
    }
    Ok(())
}

/// Writes an update of rows given as arrays. It fails unless it finds the given number of rows.
fn update_many_sql(sql: &mut Sql, table: &Table, fields: FieldSet) {
    let own = quoted(table.name());
    sql.push("WITH w AS (UPDATE ").push(&own).push(" SET ");
    for (place, position) in fields.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        sql.push(&format!("{comma}{}=v.c{place}", name(table, position)));
    }
    if let Some(version) = table.version() {
        let version = name(table, version);
        sql.push(&format!(",{version}={own}.{version}+1"));
    }
    sql.push(" FROM unnest(");
    for position in fields.iter().chain(table.key_order().iter().copied()) {
        sql.push(if sql.types.is_empty() { "" } else { "," });
        sql.parameter(pg_type(&table.fields()[position].kind).array_oid());
    }
    let keys = table.key_order();
    let columns = (0..fields.len()).map(|place| format!("c{place}"));
    let columns: Vec<String> = columns.chain((0..keys.len()).map(|at| format!("k{at}"))).collect();
    let equal = keys.iter().enumerate();
    let equal = equal.map(|(at, &field)| format!("{own}.{}=v.k{at}", name(table, field)));
    let equal: Vec<String> = equal.collect();
    sql.push(&format!(") AS v({}) WHERE {}", columns.join(","), equal.join(" AND ")));
    sql.push(" RETURNING 1) SELECT 1/(count(*)=").parameter(PgType::Int8.oid());
    sql.push(")::int FROM w");
}
