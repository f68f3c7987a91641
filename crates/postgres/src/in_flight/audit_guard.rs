//! Detects raw SQL that would write to audited tables without history entries: by its locks and
//! written rows, in its own transaction, regardless of its text, triggers and cascades. Detected
//! statements are rolled back.
//!
//! A statement locks the tables that it writes to, even if it finds no row. In a transaction that
//! has written to them before, the server's row counters are compared.

use std::fmt::Write as _;
use std::sync::Arc;

use marmota_model::{Error, FieldSet, Result};
use marmota_store::sql::{SqlCall, SqlRefusal};

use crate::commands::command_batch::{CommandBatch, Role};
use crate::composer::Composer;
use crate::fault::Failure;
use crate::statement::sql_words::literal;
use crate::statement::{Text, Verb};

/// A setting that stores the state before the statement.
const BEFORE: &str = "marmota.before";

/// Adds the checks before and after a statement, whose call `add` adds.
pub(crate) fn around(
    composer: &mut Composer,
    commands: &mut CommandBatch,
    call: &SqlCall<'_>,
    add: impl FnOnce(&mut CommandBatch) -> Result<()>,
) -> Result<()> {
    let audited = composer.audited();
    if !call.writes || call.unaudited || audited.is_empty() {
        return add(commands);
    }
    let mut tables = String::new();
    for (oid, name) in &audited {
        let comma = if tables.is_empty() { "" } else { "," };
        let name = literal(name);
        let _ = write!(tables, "{comma}({oid}::oid,{name}::text)");
    }
    let seen = "SELECT (pg_stat_get_xact_tuples_inserted(o)+pg_stat_get_xact_tuples_updated(o)\
                +pg_stat_get_xact_tuples_deleted(o))::text||(SELECT \
                CASE WHEN current_setting('track_counts')::bool OR count(*)=0 THEN '' ELSE '+' END\
                ||(count(*)>0)::text FROM pg_locks l \
                WHERE l.pid=pg_backend_pid() AND l.relation=o AND l.mode='RowExclusiveLock')";
    let before = format!(
        "SELECT 1 WHERE set_config('{BEFORE}',(SELECT string_agg(n||' '||({seen}),'/' ORDER BY o) \
         FROM (VALUES {tables}) t(o,n)),true) IS NULL"
    );
    // Converting a table's name to a number fails: the server's error contains the name.
    let behind = format!(
        "SELECT 1 WHERE (SELECT n FROM (VALUES {tables}) t(o,n) WHERE n||' '||({seen}) \
         <>ALL(string_to_array(current_setting('{BEFORE}'),'/')) ORDER BY o LIMIT 1)::int IS NOT NULL"
    );
    commands.call(Role::Beside, composer.watching(&before), |_| Ok(0))?;
    add(commands)?;
    commands.call(Role::Diagnostic, composer.watching(&behind), |_| Ok(0))
}

/// Returns the error of a detected statement.
#[cold]
pub(crate) fn refused(composer: &mut Composer, failure: &Failure, call: &SqlCall<'_>) -> Error {
    let audited = composer.audited();
    let named = |(_, name): &&(u32, String)| failure.message.contains(&format!("\"{name}\""));
    let table = audited.iter().find(named).map_or("a table", |(_, name)| name);
    SqlRefusal::Audited { table: table.to_owned() }.at(call.text)
}

impl Composer {
    /// Returns the audited tables and the history's own table, with their OIDs.
    fn audited(&mut self) -> Vec<(u32, String)> {
        self.tables.learn();
        let names: Vec<String> = self.tables.audited().map(|t| t.name().to_owned()).collect();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let number = self.tables.named(&name).cloned();
            if let Some(Ok(number)) = number.map(|table| self.tables.number(&table)) {
                found.push((self.facts(number).oid, name));
            }
        }
        found
    }

    /// Returns a statement of these checks.
    fn watching(&mut self, sql: &str) -> Arc<Text> {
        self.texts
            .find(Verb::Control, u32::MAX, FieldSet::EMPTY, 0, sql.as_bytes(), || Text::plain(sql))
    }
}
