//! The triggers that record changes, and their installation.
//!
//! Each recorded table has four triggers of statements, for INSERT, UPDATE, DELETE and TRUNCATE,
//! and a function with the names of its columns. All names in the functions are qualified, since
//! they run with the rights of the owner for callers with any search path. Texts are recorded as
//! UTF-8 regardless of the encoding of the client that writes.
//!
//! The rows before and after an UPDATE are two tables with their rows in the same order: the server
//! appends to both for each row that it updates.

use marmota_model::{Error, ErrorKind, Field, Kind, Result};
use marmota_store::change::{ChangeRecorder, RecordedTable};

use super::rows::{DELETE, INSERT, UPDATE};
use super::{CHANNEL, COMMIT_CODE, DIRECT, SETTING};
use crate::connection::Connection;
use crate::connection::query::Texts;
use crate::options::PostgresOptions;
use crate::options::own_connections::{ACTOR_SETTING, SETTING as CONNECTION_SETTING};
use crate::prepare::LOCK;
use crate::statement::column::pg_type;
use crate::statement::key::text_sql;
use crate::statement::sql_words::{literal, quoted};
use crate::wire::value::PgType;

/// The version of the functions; their names end with it.
const VERSION: u32 = 1;
/// The triggers of a table. The colon prevents conflicts with other triggers.
const TRIGGER: &str = "marmota:changes";
/// The changes of transactions that are not committed, if they are large.
const PENDING: &str = "marmota_pending";
/// The settings of a transaction with its changes: those not in the table, and the places of those
/// that are.
const HELD: &str = "marmota.pending";
const PLACES: &str = "marmota.pending_rows";
/// The length of the changes that are held in a setting, in hexadecimal digits.
const HELD_MAX: u32 = 64 << 10;

/// A recorded table as the database has it.
struct TableState {
    /// Its qualified name.
    name: String,
    /// True if it is an ordinary table without partitions.
    is_plain: bool,
    /// True if its triggers call the current function.
    is_recorded: bool,
}

/// Creates the triggers and functions that are missing.
///
/// # Errors
/// [`ErrorKind::Denied`] if the user of the database does not own the tables.
pub(crate) fn install(
    connection: &mut Connection,
    recorder: &ChangeRecorder,
    options: &PostgresOptions,
) -> Result<()> {
    let mut run = Install { connection, options };
    run.execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})"))?;
    let done = run.install(recorder);
    let ended = run.execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
    // The first error explains more than an error of the rollback.
    done.and(ended)
}

/// Drops the triggers and functions of all tables, and what they have recorded of open
/// transactions.
///
/// # Errors
/// Those of the database.
pub(crate) fn uninstall(connection: &mut Connection, options: &PostgresOptions) -> Result<()> {
    let mut run = Install { connection, options };
    let mut functions = Vec::new();
    run.query(
        "SELECT format('%I.%I',n.nspname,p.proname)||'('||pg_get_function_identity_arguments(p.oid)\
         ||')' FROM pg_proc p JOIN pg_namespace n ON n.oid=p.pronamespace \
         WHERE p.proname ~ '^marmota_(record|pend|seal)_[0-9_]+$' AND n.nspname=current_schema()",
        |row| functions.push(row.text(0).to_owned()),
    )?;
    let drops: Vec<String> =
        functions.iter().map(|name| format!("DROP FUNCTION {name} CASCADE; ")).collect();
    run.execute(&format!("BEGIN; {}DROP TABLE IF EXISTS {PENDING}; COMMIT", drops.concat()))
}

/// A connection that installs triggers.
struct Install<'c> {
    connection: &'c mut Connection,
    options: &'c PostgresOptions,
}

impl Install<'_> {
    fn execute(&mut self, sql: &str) -> Result<()> {
        self.query(sql, |_| {})
    }

    fn query(&mut self, sql: &str, take: impl FnMut(&Texts)) -> Result<()> {
        self.connection.query(sql, take).map_err(|error| error.into_error(self.options))
    }

    /// Executes a statement that needs rights which writing does not need.
    fn define(&mut self, sql: &str) -> Result<()> {
        self.execute(sql).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::Denied => {
                    "the user of the database must own the tables and have the right CREATE on \
                     their schema; open the store once as the owner"
                }
                _ => error.message(),
            };
            let message = format!("the triggers of the change feed cannot be created: {why}");
            Error::new(error.kind(), message).with_source(error)
        })
    }

    fn install(&mut self, recorder: &ChangeRecorder) -> Result<()> {
        let commits = self.qualified(recorder.table().name())?;
        let schema = commits.rsplit_once('.').map_or("public", |(schema, _)| schema).to_owned();
        let mut is_shared_made = false;
        self.query(
            &format!(
                "SELECT to_regproc('{schema}.marmota_seal_{VERSION}') IS NOT NULL \
                 AND to_regclass('{schema}.{PENDING}') IS NOT NULL"
            ),
            |row| is_shared_made = row.is(0),
        )?;
        if !is_shared_made {
            self.define(&shared_sql(&schema, &commits))?;
        }
        for table in recorder.tables() {
            let state = self.state(&schema, table)?;
            if !state.is_plain {
                let message = format!(
                    "the table `{}` is a view or has partitions, whose changes cannot be recorded: \
                     open the store without a change feed",
                    table.table().name()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            if !state.is_recorded {
                self.define(&table_sql(&schema, &commits, &state.name, table))?;
            }
        }
        Ok(())
    }

    /// Returns the qualified name of a table.
    fn qualified(&mut self, table: &str) -> Result<String> {
        let mut name = String::new();
        self.query(
            &format!(
                "SELECT format('%I.%I',n.nspname,c.relname) FROM pg_class c \
                 JOIN pg_namespace n ON n.oid=c.relnamespace \
                 WHERE c.oid=to_regclass(quote_ident({}))",
                literal(table)
            ),
            |row| name = row.text(0).to_owned(),
        )?;
        if name.is_empty() {
            let message = format!("the database has no table `{table}`");
            return Err(Error::new(ErrorKind::Engine, message));
        }
        Ok(name)
    }

    fn state(&mut self, schema: &str, table: &RecordedTable) -> Result<TableState> {
        let name = self.qualified(table.table().name())?;
        let (mut is_plain, mut is_recorded) = (false, false);
        let sql = format!(
            "SELECT c.relkind='r' AND NOT c.relhassubclass \
             AND NOT EXISTS(SELECT FROM pg_inherits i WHERE i.inhrelid=c.oid), \
             (SELECT count(*)=4 FROM pg_trigger t WHERE t.tgrelid=c.oid AND t.tgenabled='A' \
             AND t.tgname LIKE '{TRIGGER}:_' \
             AND t.tgfoid=to_regproc('{schema}.marmota_record_{VERSION}_{number}')) \
             FROM pg_class c WHERE c.oid=to_regclass({name})",
            number = table.number(),
            name = literal(&name),
        );
        self.query(&sql, |row| (is_plain, is_recorded) = (row.is(0), row.is(1)))?;
        Ok(TableState { name, is_plain, is_recorded })
    }
}

/// Returns SQL that creates what all recorded tables share.
fn shared_sql(schema: &str, commits: &str) -> String {
    let number = "pg_catalog.int8";
    format!(
        "ALTER TABLE {commits} ALTER changes SET STORAGE EXTERNAL;
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.{PENDING} (changes bytea NOT NULL);
ALTER TABLE {schema}.{PENDING} ALTER changes SET STORAGE EXTERNAL;
CREATE OR REPLACE FUNCTION {schema}.marmota_pend_{VERSION}(changed pg_catalog.bytea)
RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER AS $marmota$
DECLARE
  places pg_catalog.text := pg_catalog.current_setting('{PLACES}', true);
  held pg_catalog.text;
  place pg_catalog.tid;
BEGIN
  IF places OPERATOR(pg_catalog.<>) '' THEN
    held := pg_catalog.concat(pg_catalog.current_setting('{HELD}', true),
      pg_catalog.encode(changed, 'hex'));
    IF pg_catalog.length(held) OPERATOR(pg_catalog.<=) {HELD_MAX} THEN
      PERFORM pg_catalog.set_config('{HELD}', held, true);
      RETURN;
    END IF;
    changed := pg_catalog.decode(held, 'hex');
    PERFORM pg_catalog.set_config('{HELD}', '', true);
  END IF;
  INSERT INTO {schema}.{PENDING} (changes) VALUES (changed) RETURNING ctid INTO place;
  PERFORM pg_catalog.set_config('{PLACES}',
    pg_catalog.concat_ws(' ', nullif(places, ''), place::pg_catalog.text), true);
END $marmota$;
CREATE OR REPLACE FUNCTION {schema}.marmota_seal_{VERSION}()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET enable_seqscan = off AS $marmota$
DECLARE
  places pg_catalog.text := pg_catalog.current_setting('{PLACES}', true);
  list pg_catalog.tid[];
  sealed pg_catalog.bytea;
  assigned {number};
BEGIN
  -- One row of the transaction writes the commit for all of them.
  IF places IS NULL OR places OPERATOR(pg_catalog.=) '' THEN RETURN NULL; END IF;
  list := pg_catalog.string_to_array(places, ' ')::pg_catalog.tid[];
  SELECT pg_catalog.string_agg(p.changes, '\\x'::pg_catalog.bytea
    ORDER BY pg_catalog.array_position(list, p.ctid))
    INTO sealed FROM {schema}.{PENDING} p WHERE p.ctid OPERATOR(pg_catalog.=) ANY (list);
  sealed := sealed OPERATOR(pg_catalog.||)
    pg_catalog.decode(coalesce(pg_catalog.current_setting('{HELD}', true), ''), 'hex');
  DELETE FROM {schema}.{PENDING} p WHERE p.ctid OPERATOR(pg_catalog.=) ANY (list);
  PERFORM pg_catalog.set_config('{PLACES}', '', true), pg_catalog.set_config('{HELD}', '', true);
  INSERT INTO {commits} (at, bytes, changes)
    VALUES (pg_catalog.clock_timestamp(), pg_catalog.length(sealed), sealed)
    RETURNING id INTO assigned;
  IF pg_catalog.current_setting('{CONNECTION_SETTING}', true) OPERATOR(pg_catalog.<>) '' THEN
    RAISE INFO USING MESSAGE = assigned, ERRCODE = '{COMMIT_CODE}';
  END IF;
  IF coalesce(pg_catalog.current_setting('{SETTING}', true), '') OPERATOR(pg_catalog.=) '' THEN
    PERFORM pg_catalog.pg_notify('{CHANNEL}', '');
  END IF;
  RETURN NULL;
END $marmota$;
DROP TRIGGER IF EXISTS {seal} ON {schema}.{PENDING};
CREATE CONSTRAINT TRIGGER {seal} AFTER INSERT ON {schema}.{PENDING}
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.marmota_seal_{VERSION}();
ALTER TABLE {schema}.{PENDING} ENABLE ALWAYS TRIGGER {seal}",
        seal = quoted(TRIGGER),
    )
}

/// Returns SQL that creates the function and the triggers of a table.
fn table_sql(schema: &str, commits: &str, name: &str, table: &RecordedTable) -> String {
    let number = table.number();
    let function = format!("{schema}.marmota_record_{VERSION}_{number}");
    let fields = table.table().fields();
    let row = |digests| {
        let column = |(position, field)| match table.table().is_made(position) {
            true => {
                format!(
                    "pg_catalog.convert_to({}, 'UTF8')",
                    text_sql(table.table(), position, "r.")
                )
            }
            false => column_sql(field, digests),
        };
        let columns: Vec<String> = fields.iter().enumerate().map(column).collect();
        format!("pg_catalog.record_send(ROW({}))", columns.join(","))
    };
    let rows = |of: &str, row: &str, into: &str| {
        let none = "'\\x'::pg_catalog.bytea";
        format!("SELECT pg_catalog.string_agg({row}, {none}) INTO {into} FROM {of} r;")
    };
    let (plain, digested) = (row(false), row(true));
    let trigger = |letter: &str, when: &str, tables: &str| {
        let trigger = quoted(&format!("{TRIGGER}:{letter}"));
        format!(
            "CREATE OR REPLACE TRIGGER {trigger} {when} ON {name} {tables} \
             FOR EACH STATEMENT EXECUTE FUNCTION {function}(); \
             ALTER TABLE {name} ENABLE ALWAYS TRIGGER {trigger};\n"
        )
    };
    format!(
        "CREATE OR REPLACE FUNCTION {function}()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $marmota$
DECLARE
  kind pg_catalog.int4;
  before pg_catalog.bytea;
  after pg_catalog.bytea;
  changed pg_catalog.bytea;
  assigned pg_catalog.int8;
BEGIN
  IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    {inserted}
    IF after IS NULL THEN RETURN NULL; END IF;
    kind := {INSERT};
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    {updated_from}
    {updated_to}
    IF after IS NULL OR before OPERATOR(pg_catalog.=) after THEN RETURN NULL; END IF;
    kind := {UPDATE};
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
    {deleted}
    IF before IS NULL THEN RETURN NULL; END IF;
    kind := {DELETE};
  ELSE
    {truncated}
    IF before IS NULL THEN RETURN NULL; END IF;
    kind := {DELETE};
  END IF;
  changed := pg_catalog.record_send(ROW(kind, {number}, pg_catalog.convert_to(
    nullif(pg_catalog.current_setting('{ACTOR_SETTING}', true), ''), 'UTF8'), before, after));
  IF pg_catalog.current_setting('{SETTING}', true) OPERATOR(pg_catalog.=) '{DIRECT}'
    AND pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.=) 1
    AND coalesce(pg_catalog.current_setting('{PLACES}', true), '') OPERATOR(pg_catalog.=) ''
  THEN
    INSERT INTO {commits} (at, bytes, changes)
      VALUES (pg_catalog.clock_timestamp(), pg_catalog.length(changed), changed)
      RETURNING id INTO assigned;
    RAISE INFO USING MESSAGE = assigned, ERRCODE = '{COMMIT_CODE}';
  ELSE
    PERFORM {schema}.marmota_pend_{VERSION}(changed);
  END IF;
  RETURN NULL;
END $marmota$;
{on_insert}{on_update}{on_delete}{on_truncate}",
        inserted = rows("new_rows", &plain, "after"),
        updated_from = rows("old_rows", &digested, "before"),
        updated_to = rows("new_rows", &digested, "after"),
        deleted = rows("old_rows", &plain, "before"),
        truncated = rows(&format!("ONLY {name}"), &plain, "before"),
        on_insert = trigger("i", "AFTER INSERT", "REFERENCING NEW TABLE AS new_rows"),
        on_update =
            trigger("u", "AFTER UPDATE", "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows"),
        on_delete = trigger("d", "AFTER DELETE", "REFERENCING OLD TABLE AS old_rows"),
        on_truncate = trigger("t", "BEFORE TRUNCATE", ""),
    )
}

/// Returns the SQL expression of a field's recorded value. The value of a blob is missing, or its
/// digest if it has to be compared.
fn column_sql(field: &Field, digests: bool) -> String {
    let name = format!("r.{}", quoted(&field.name));
    match pg_type(&field.kind) {
        _ if field.kind == Kind::Blob && digests => format!("pg_catalog.md5({name})"),
        _ if field.kind == Kind::Blob => "NULL::pg_catalog.bytea".to_owned(),
        PgType::Text | PgType::Json => {
            format!("pg_catalog.convert_to({name}::pg_catalog.text, 'UTF8')")
        }
        _ => name,
    }
}
