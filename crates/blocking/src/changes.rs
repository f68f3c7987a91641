//! The change feed of a database whose triggers record changes
//! ([`FeedRules`](crate::dialect::FeedRules)).

mod rows;

use std::num::NonZeroU64;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Value, ValueForm};
use marmota_store::change::ChangeRecorder;

use crate::connection::{ReadAs, SqlConnection, Transacting};
use crate::dialect::FeedRules;
use crate::failure::SqlFailure;
use crate::prepare::with_lock;
use crate::shared::BlockingShared;
use crate::statement::column::text_literal;

pub(crate) use self::rows::TriggerText;

/// The feed of an engine.
pub(crate) struct BlockingFeed {
    pub(crate) recorder: Arc<ChangeRecorder>,
    rules: &'static FeedRules,
}

impl BlockingFeed {
    /// Creates the tables and triggers that are missing.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the database has no feed; those of the database.
    pub(crate) fn install(
        recorder: &Arc<ChangeRecorder>,
        connection: &mut dyn SqlConnection,
        place: &str,
    ) -> Result<Self> {
        let dialect = connection.dialect();
        let Some(rules) = dialect.feed else {
            let message = format!("{} has no change feed", dialect.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
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
            Ok(())
        })?;
        Ok(Self { recorder: Arc::clone(recorder), rules })
    }

    /// Prepares a connection.
    pub(crate) fn prepare(&self, connection: &mut dyn SqlConnection) -> Result<(), SqlFailure> {
        self.rules.connection.iter().try_for_each(|sql| connection.execute(sql))
    }

    /// Sets the actor of the next changes of the transaction.
    pub(crate) fn set_actor(
        &self,
        connection: &mut dyn SqlConnection,
        actor: Option<&str>,
    ) -> Result<()> {
        let actor = actor.map_or_else(|| "NULL".to_owned(), text_literal);
        let sql = self.rules.actor.replacen("{}", &actor, 1);
        connection.execute(&sql).map_err(|failure| failure.error())
    }

    /// Numbers the changes of other programs, on a connection without a transaction.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn collect(&self, connection: &mut dyn SqlConnection) -> Result<()> {
        let done = connection.run(self.rules.collect, &[], ReadAs::Forms(&[]), &mut |_| true);
        done.map(drop).map_err(|failure| {
            // The first error explains more than one of the rollback.
            let _ = connection.end(false);
            failure.error()
        })
    }

    /// Numbers the changes of a transaction, and commits it. Returns the number, if it has changes.
    ///
    /// # Errors
    /// Those of the database; then the transaction is rolled back, or its result is unknown.
    fn commit(
        &self,
        connection: &mut dyn SqlConnection,
        how: Transacting,
        shared: &BlockingShared,
    ) -> Result<Option<NonZeroU64>> {
        let sql = match how {
            Transacting::Serializable => {
                // Its own reads of these rows would lock them.
                let collected = shared.with_connection(|connection| self.collect(connection));
                if let Err(error) = collected {
                    let _ = connection.end(false);
                    return Err(error);
                }
                self.rules.commit_own
            }
            _ => self.rules.commit_all,
        };
        let mut number = None;
        let mut take = |row: Vec<Option<Value>>| {
            if let Some(Some(Value::Int(last))) = row.first() {
                number = u64::try_from(*last).ok().and_then(NonZeroU64::new);
            }
            true
        };
        match connection.run(sql, &[], ReadAs::Forms(&[ValueForm::Int]), &mut take) {
            Ok(_) => {
                if let Some(number) = number {
                    self.recorder.acknowledged(number.get());
                }
                Ok(number)
            }
            Err(failure) => {
                let _ = connection.end(false);
                self.recorder.changed();
                Err(failure.error())
            }
        }
    }
}

/// Ends a transaction. Returns the number of its commit, if changes were recorded.
///
/// # Errors
/// Those of the database.
pub(crate) fn end(
    connection: &mut dyn SqlConnection,
    how: Transacting,
    commits: bool,
    shared: &BlockingShared,
) -> Result<Option<NonZeroU64>> {
    match shared.feed() {
        Some(feed) if commits && how != Transacting::ReadOnly => {
            feed.commit(connection, how, shared)
        }
        _ => connection.end(commits).map(|()| None).map_err(|failure| failure.error()),
    }
}

/// Drops the triggers and tables of the feed, except the table of commits.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the database has no feed; those of the database.
pub(crate) fn uninstall(connection: &mut dyn SqlConnection, place: &str) -> Result<()> {
    let dialect = connection.dialect();
    let Some(rules) = dialect.feed else {
        let message = format!("{} has no change feed", dialect.name);
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    with_lock(connection, place, |run| {
        let mut existing = Vec::new();
        run.query(rules.triggers, 2, |row| existing.push(row[0].clone()))?;
        existing.iter().try_for_each(|trigger| run.execute(&drop_trigger(trigger)))
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
