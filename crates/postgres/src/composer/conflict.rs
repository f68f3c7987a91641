//! Inserts with a conflict action, as one statement each: the key of the conflicting row is looked
//! up in the order that [`OnConflict`] promises, which PostgreSQL's ON CONFLICT does not keep.
//!
//! Only the unique index detects a conflicting row that was committed after the statement began.
//! Then the statement finds no row, fails like a strict write, and is run again.

use std::borrow::Cow;

use marmota_model::{FieldSet, FilterExpr, Result, RowSource, Table, Value, ValueRef};
use marmota_store::operation::{
    Keys, OnConflict, Outcome, UpsertEffect, UpsertResult, conflicting_indexes,
};

use super::Composer;
use crate::commands::command_batch::{CommandBatch, Part, Role};
use crate::commands::reply::{Mark, Reply};
use crate::statement::column::{is_folded, name, oid, pg_type, put_present};
use crate::statement::index_filter::index_filter;
use crate::statement::key::stored;
use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::statement::{Text, Verb};
use crate::wire::value;

/// The fields by which another row may conflict, and the filter if they are those of a partial
/// index.
type Way = (Cow<'static, [usize]>, Option<FilterExpr>);

impl Composer {
    /// Adds an insert of one row with a conflict action.
    pub(crate) fn insert_over(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<()> {
        self.check_decimals(table, row)?;
        let (number, fields) = (self.tables.number(table)?, stored(table, row));
        // The shape includes the keys without NULLs and the updated fields.
        let ways = conflicting_indexes(table, row);
        let (kind, updated) = match on_conflict {
            OnConflict::Refuse => return self.insert(commands, role, table, row),
            OnConflict::Ignore => (1, FieldSet::EMPTY),
            OnConflict::Replace => (2, FieldSet::EMPTY),
            OnConflict::Update { fields: updated } => {
                (3, updated.iter().filter(|&field| fields.contains(field)).collect())
            }
        };
        self.shape.clear();
        self.shape.extend(updated.iter().map(|field| field as u8));
        for (way, filter) in &ways {
            // The filter of a partial index differs from that of another one over these fields.
            self.shape.extend([u8::MAX, u8::from(filter.is_some())]);
            self.shape.extend(way.iter().map(|&field| field as u8));
            if let Some(filter) = filter {
                let collated = self.catalog.collated(number);
                self.shape.extend(index_filter(table, filter, collated).into_bytes());
            }
        }
        let text = self.texts.find(Verb::InsertOver, number, fields, kind, &self.shape, || {
            let types = fields.iter().map(|field| oid(table, field)).collect();
            let mut sql = Sql::on(self.catalog.collated(number));
            sql.types = types;
            over_sql(&mut sql, table, fields, &ways, on_conflict, updated);
            Text::new(sql.text, sql.types, Box::default())
        });
        commands.call(role, text, |out| put_present(out, table, row))?;
        match row[table.key()] {
            ValueRef::Int(key) => self.move_keys(commands, table, key),
            _ => Ok(()),
        }
    }

    /// Adds inserts of rows, one by one.
    pub(crate) fn insert_many_over<'a>(
        &mut self,
        commands: &mut CommandBatch,
        table: &'a Table,
        source: &mut dyn RowSource<'a>,
        on_conflict: OnConflict,
    ) -> Result<()> {
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        commands.is_single = true;
        while source.next(&mut row)? {
            let (at, call) = (commands.rows.len(), commands.calls.len());
            self.insert_over(commands, Role::Main(at as u32), table, &row, on_conflict)?;
            commands.rows.push(commands.calls[call].parameters.clone());
            commands.parts.push(Part { fields: stored(table, &row), rows: at..at + 1 });
            row.fill(ValueRef::Absent);
        }
        Ok(())
    }
}

/// Returns the number of the parameter with a field's value.
fn parameter(fields: FieldSet, field: usize) -> usize {
    1 + fields.iter().take_while(|&other| other < field).count()
}

/// Returns SQL for the `key` of the row that conflicts in these fields.
fn key_in(sql: &Sql, table: &Table, key: &str, fields: FieldSet, (way, filter): &Way) -> String {
    let mut equal: Vec<String> = way
        .iter()
        .map(|&position| {
            let (field, number) = (&table.fields()[position], parameter(fields, position));
            let value = match is_folded(field) {
                true => format!("lower(${number} COLLATE \"C\")"),
                false => format!("${number}"),
            };
            format!("{}={value}", sql.compared(table, position))
        })
        .collect();
    let filter = filter.as_ref().map(|filter| index_filter(table, filter, sql.collated()));
    equal.extend(filter.map(|filter| format!("({filter})")));
    let from = quoted(table.name());
    format!("(SELECT {key} FROM {from} WHERE {})", equal.join(" AND "))
}

fn over_sql(
    sql: &mut Sql,
    table: &Table,
    fields: FieldSet,
    ways: &[Way],
    on_conflict: OnConflict,
    updated: FieldSet,
) {
    let (key, into) = (name(table, table.key()), quoted(table.name()));
    // By its place, a row with a composite key is found without a look at all rows.
    let is_placed = table.has_composite_key() && on_conflict != OnConflict::Ignore;
    let by = if is_placed { "ctid" } else { &key };
    let keys: Vec<String> = ways.iter().map(|way| key_in(sql, table, by, fields, way)).collect();
    let version = table.version().map(|version| name(table, version));
    let returned = version.as_deref().unwrap_or("0::bigint");
    let first = match keys.is_empty() {
        true if is_placed => "NULL::tid".to_owned(),
        true => {
            format!(
                "NULL::{}",
                crate::statement::sql_words::sql_type(pg_type(&table.fields()[table.key()].kind))
            )
        }
        false => format!("coalesce({})", keys.join(",")),
    };
    let names: Vec<String> = fields.iter().map(|field| name(table, field)).collect();
    let values: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
    let (names, values) = (names.join(","), values.join(","));
    let inserted = match names.is_empty() {
        true => format!("INSERT INTO {into} DEFAULT VALUES"),
        false => format!("INSERT INTO {into} ({names}) VALUES ({values})"),
    };
    let gives = format!("RETURNING {key} AS k,{returned} AS v");
    let unless = "NOT EXISTS (SELECT 1 FROM i)";
    match on_conflict {
        OnConflict::Replace if !names.is_empty() => {
            let going: Vec<String> = keys.iter().map(|one| format!("{by}={one}")).collect();
            let going = if going.is_empty() { "false".to_owned() } else { going.join(" OR ") };
            // The insert reads the number of deleted rows, so it is executed after the delete.
            sql.push(&format!(
                "WITH d AS (DELETE FROM {into} WHERE {going} RETURNING 1),\
                 n AS (SELECT count(*) AS n FROM d),\
                 i AS (INSERT INTO {into} ({names}) SELECT {values} FROM n {gives}),\
                 w AS (SELECT CASE WHEN n.n>0 THEN 2 ELSE 0 END AS e,k,v FROM i,n)"
            ));
        }
        OnConflict::Update { .. } => {
            let mut set: Vec<String> = updated
                .iter()
                .map(|field| format!("{}=${}", name(table, field), parameter(fields, field)))
                .collect();
            set.extend(version.as_ref().map(|version| format!("{version}={version}+1")));
            let there = match set.is_empty() {
                true => format!(
                    "SELECT {key} AS k,{returned} AS v FROM {into} WHERE {unless} AND {by}={first}"
                ),
                false => format!(
                    "UPDATE {into} SET {} WHERE {unless} AND {by}={first} {gives}",
                    set.join(",")
                ),
            };
            sql.push(&format!(
                "WITH i AS ({inserted} ON CONFLICT DO NOTHING {gives}),u AS ({there}),\
                 w AS (SELECT 0 AS e,k,v FROM i UNION ALL SELECT 3,k,v FROM u)"
            ));
        }
        _ => {
            sql.push(&format!(
                "WITH i AS ({inserted} ON CONFLICT DO NOTHING {gives}),\
                 w AS (SELECT 0 AS e,k,v FROM i UNION ALL \
                 SELECT 1,x.k,NULL FROM (SELECT {first} AS k) x WHERE {unless} AND x.k IS NOT NULL)"
            ));
        }
    }
    sql.push(" SELECT (array_agg(e))[1],(array_agg(k))[1],(array_agg(v))[1],1/count(*) FROM w");
}

/// Returns the result of such an insert, and the version of the row afterwards.
pub(crate) fn placed(
    table: &Table,
    reply: &Reply,
    mark: &Mark,
) -> (UpsertResult<Value>, Option<i64>) {
    let effect = match reply.integer(mark, 0) {
        Some(1) => UpsertEffect::Ignored,
        Some(2) => UpsertEffect::Replaced,
        Some(3) => UpsertEffect::Updated,
        _ => UpsertEffect::Inserted,
    };
    let bytes = reply.columns(mark).nth(1).flatten();
    let pg_type = pg_type(&table.fields()[table.key()].kind);
    let key = bytes.and_then(|bytes| value::read(pg_type, bytes)).unwrap_or(ValueRef::Null);
    let version = table.version().and_then(|_| reply.integer(mark, 2));
    (
        UpsertResult { key: key.to_value(), effect },
        version.filter(|_| effect != UpsertEffect::Ignored),
    )
}

/// Returns the outcome of such an insert of one row.
pub(crate) fn outcome(table: &Table, reply: &Reply, mark: Option<&Mark>) -> Outcome {
    let Some(mark) = mark else { return Outcome::default() };
    let (placed, version) = placed(table, reply, mark);
    let rows = u64::from(placed.effect != UpsertEffect::Ignored);
    Outcome { keys: Keys::One(placed.key), version, effect: placed.effect, ..Outcome::rows(rows) }
}
