//! Announcements of writes: a trigger on each table sends the table's name and the writer's name
//! with NOTIFY, in the writing transaction, once per table and transaction regardless of the
//! numbers of rows and statements. So the writes of all programs are reported.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};

use crate::connection::Connection;
use crate::options::PostgresOptions;
use crate::options::own_connections::{OwnConnections, SETTING};
use crate::prepare::LOCK;
use crate::statement::sql_words::{literal, quoted};

/// The channel of the announcements.
pub(crate) const CHANNEL: &str = "marmota";
/// The function that announces a write. Its name ends with its version.
const FUNCTION: &str = "marmota_wrote_1";
/// The trigger that calls the function. The colon prevents conflicts with other triggers.
const TRIGGER: &str = "marmota:wrote";

/// The state of a table.
struct Announced {
    name: String,
    /// True if every write to it can be announced.
    is_plain: bool,
    is_told: bool,
    /// True if a write may cause further writes.
    has_effects: bool,
}

/// Parses an announcement. Returns the writer and the table.
pub(crate) fn read(payload: &str) -> Option<(&str, &str)> {
    payload.split_once(' ')
}

/// Creates the triggers that announce writes to these tables, where they are missing.
pub(crate) fn prepare(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    own: &OwnConnections,
    options: &PostgresOptions,
) -> Result<()> {
    let found = look(connection, tables, options)?;
    if let Some(other) = found.iter().find(|table| !table.is_plain) {
        let message = format!(
            "table `{}` is a view or has partitions, for which PostgreSQL sends no notifications: \
             open the store without a cache",
            other.name
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    own.have_effects(found.iter().any(|table| table.has_effects));
    if found.iter().all(|table| table.is_told) {
        return Ok(());
    }
    let made = make(connection, tables, options);
    if made.is_err() {
        // The first error explains more than an error of the rollback.
        let _ = connection.query("ROLLBACK", |_| {});
    }
    made
}

/// Returns SQL that selects a table whose writes are no longer announced.
pub(crate) fn find_silent(tables: &[Arc<Table>]) -> String {
    let names: Vec<String> = tables.iter().map(|table| literal(table.name())).collect();
    format!(
        "SELECT n FROM unnest(ARRAY[{names}]::text[]) AS n \
         JOIN pg_class c ON c.oid=to_regclass(quote_ident(n)) \
         WHERE NOT EXISTS(SELECT FROM pg_trigger t WHERE t.tgrelid=c.oid AND t.tgname={own} \
         AND t.tgenabled='A') LIMIT 1",
        names = names.join(","),
        own = literal(TRIGGER)
    )
}

/// Returns the error for a table whose writes are no longer announced.
pub(crate) fn silent(table: &str) -> Error {
    let message = format!(
        "the trigger `{TRIGGER}` of table `{table}` was dropped or disabled, so that writes of \
         other programs are not notified: open the store again to create the trigger, or open it \
         without a cache"
    );
    Error::new(ErrorKind::Unsupported, message)
}

fn make(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    options: &PostgresOptions,
) -> Result<()> {
    let mut run = |sql: &str| {
        let done = connection.query(sql, |_| {});
        done.map_err(|error| {
            let error = error.into_error(options);
            let why = match error.kind() {
                ErrorKind::Denied => "the database user must own the tables",
                _ => error.message(),
            };
            let message = format!(
                "a cache needs notifications of writes by other programs, but the trigger for them \
                 could not be created: {why}"
            );
            Error::new(error.kind(), message).with_source(error)
        })
    };
    run(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})"))?;
    run(&format!(
        "DO $do$ BEGIN IF to_regproc('{FUNCTION}') IS NULL THEN \
         CREATE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM pg_notify('{CHANNEL}', coalesce(current_setting('{SETTING}', true), '') \
         || ' ' || TG_TABLE_NAME); RETURN NULL; END $$; END IF; END $do$"
    ))?;
    let (trigger, mut missing) = (quoted(TRIGGER), Vec::new());
    missing.extend(tables.iter().map(|table| quoted(table.name())));
    for table in missing {
        // ALWAYS: also for rows that are written by replication.
        run(&format!(
            "CREATE OR REPLACE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE \
             ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {FUNCTION}(); \
             ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}"
        ))?;
    }
    run("COMMIT")
}

fn look(
    connection: &mut Connection,
    tables: &[Arc<Table>],
    options: &PostgresOptions,
) -> Result<Vec<Announced>> {
    let names: Vec<String> = tables.iter().map(|table| literal(table.name())).collect();
    let sql = format!(
        "SELECT n, c.relkind='r' AND NOT c.relhassubclass \
         AND NOT EXISTS(SELECT FROM pg_inherits i WHERE i.inhrelid=c.oid), \
         EXISTS(SELECT FROM pg_trigger t WHERE t.tgrelid=c.oid AND t.tgname={own} \
         AND t.tgenabled='A'), \
         c.relhasrules OR EXISTS(SELECT FROM pg_trigger t WHERE t.tgrelid=c.oid \
         AND NOT t.tgisinternal AND t.tgname<>{own} AND t.tgname NOT LIKE 'marmota:changes:_') \
         OR EXISTS(SELECT FROM pg_constraint f WHERE f.confrelid=c.oid AND f.contype='f' \
         AND (f.confdeltype IN ('c','n','d') OR f.confupdtype IN ('c','n','d'))) \
         FROM unnest(ARRAY[{names}]::text[]) AS n \
         JOIN pg_class c ON c.oid=to_regclass(quote_ident(n))",
        own = literal(TRIGGER),
        names = names.join(",")
    );
    let mut found = Vec::new();
    connection
        .query(&sql, |row| {
            let (is_plain, is_told, has_effects) = (row.is(1), row.is(2), row.is(3));
            found.push(Announced { name: row.text(0).to_owned(), is_plain, is_told, has_effects });
        })
        .map_err(|error| error.into_error(options))?;
    Ok(found)
}
