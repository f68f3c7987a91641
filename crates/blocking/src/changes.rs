//! The change feed of a database whose triggers record changes
//! ([`FeedRules`](crate::dialect::FeedRules)).

mod rows;

use std::num::NonZeroU64;
use std::sync::Arc;

use marmota_model::{Result, ValueForm, ValueRef};
use marmota_store::change::ChangeRecorder;

use crate::connection::{ReadAs, SqlConnection, Transacting};
use crate::dialect::FeedRules;
use crate::failure::SqlFailure;
use crate::statement::column::text_literal;

pub(crate) use self::rows::TriggerText;

/// The feed of an engine.
pub(crate) struct BlockingFeed {
    pub(crate) recorder: Arc<ChangeRecorder>,
    rules: &'static FeedRules,
}

impl BlockingFeed {
    /// Creates the feed of a database whose tables and triggers exist.
    pub(crate) fn new(recorder: &Arc<ChangeRecorder>, rules: &'static FeedRules) -> Self {
        Self { recorder: Arc::clone(recorder), rules }
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
    /// Those of other programs must have been numbered before one that is serializable ends: its own
    /// reads of these rows would lock them.
    ///
    /// # Errors
    /// Those of the database; then the transaction is rolled back, or its result is unknown.
    pub(crate) fn commit(
        &self,
        connection: &mut dyn SqlConnection,
        how: Transacting,
    ) -> Result<Option<NonZeroU64>> {
        let sql = match how {
            Transacting::Serializable => self.rules.commit_own,
            _ => self.rules.commit_all,
        };
        let mut number = None;
        let mut take = |row: &[Option<ValueRef<'_>>]| {
            if let Some(Some(ValueRef::Int(last))) = row.first() {
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
