//! The tables and triggers of the change feed.

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::change::ChangeRecorder;

use super::with_lock;
use crate::connection::SqlConnection;
use crate::dialect::FeedRules;

/// Creates the tables and triggers that are missing, and drops those of earlier fields.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the database has no feed; those of the database.
pub(crate) fn install(
    recorder: &ChangeRecorder,
    connection: &mut dyn SqlConnection,
    place: &str,
) -> Result<&'static FeedRules> {
    let rules = rules(connection)?;
    with_lock(connection, place, |run| {
        for sql in rules.tables {
            run.execute(sql).map_err(refused)?;
        }
        let mut existing = Vec::new();
        run.query(rules.triggers, 2, |row| existing.push((row[0].clone(), row[1].clone())))?;
        for table in recorder.tables() {
            let name = table.table().name();
            let own = existing.iter().filter(|(_, of)| of.eq_ignore_ascii_case(name));
            let (own, wanted) = (own.collect::<Vec<_>>(), (rules.define)(table));
            for (trigger, _) in &own {
                if !wanted.iter().any(|(wanted, _)| wanted == trigger) {
                    run.execute(&drop_trigger(trigger)).map_err(refused)?;
                }
            }
            for (trigger, sql) in &wanted {
                if !own.iter().any(|(existing, _)| existing == trigger) {
                    run.execute(sql).map_err(refused)?;
                }
            }
        }
        Ok(rules)
    })
}

/// Drops the triggers of all tables.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the database has no feed; those of the database.
pub(crate) fn uninstall(connection: &mut dyn SqlConnection, place: &str) -> Result<()> {
    let rules = rules(connection)?;
    with_lock(connection, place, |run| {
        let mut existing = Vec::new();
        run.query(rules.triggers, 2, |row| existing.push(row[0].clone()))?;
        existing.iter().try_for_each(|trigger| run.execute(&drop_trigger(trigger)))
    })
}

fn rules(connection: &dyn SqlConnection) -> Result<&'static FeedRules> {
    let dialect = connection.dialect();
    dialect.feed.ok_or_else(|| {
        let message = format!("{} has no change feed", dialect.name);
        Error::new(ErrorKind::Unsupported, message)
    })
}

fn drop_trigger(name: &str) -> String {
    format!("DROP TRIGGER IF EXISTS {}", marmota_sql::quoted(name))
}

#[cold]
fn refused(error: Error) -> Error {
    let message = format!(
        "the triggers of the change feed cannot be created: {}; the user of the database needs the \
         rights CREATE, TRIGGER and CREATE TEMPORARY TABLES, and with a binary log the server needs \
         `log_bin_trust_function_creators=1`",
        error.message()
    );
    Error::new(error.kind(), message).with_source(error)
}
