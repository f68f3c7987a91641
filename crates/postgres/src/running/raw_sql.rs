//! A raw SQL statement in progress: described by the server first, unless its description is known,
//! then run.

use std::sync::Arc;

use marmota_model::Result;
use marmota_store::operation::Operation;
use marmota_store::sql::SqlCall;

use super::stage::{Next, Stage};
use super::{Running, passing_by};
use crate::composer::Composer;
use crate::fault::{self, Failure, code};
use crate::script::Role;
use crate::sql::{SqlText, announce, refused};

impl Running {
    /// Starts a raw SQL statement: describes it, unless that was done before.
    pub(crate) fn begin_sql(&mut self, composer: &mut Composer, call: &SqlCall<'_>) -> Result<()> {
        self.is_held_to_reading = self.in_transaction && !call.writes;
        match composer.described().find(call) {
            Some(known) => self.take_sql(composer, known, call),
            None => {
                self.describes = Some(announce(call)?);
                self.stage = Stage::Describe;
                Ok(())
            }
        }
    }

    fn take_sql(
        &mut self,
        composer: &mut Composer,
        known: Arc<SqlText>,
        call: &SqlCall<'_>,
    ) -> Result<()> {
        self.script.clear();
        passing_by::around(composer, &mut self.script, call, |script| known.call(script, call))?;
        self.sql = Some(known);
        self.tell_columns(call);
        Ok(())
    }

    /// Each poll of a future has a new call without columns.
    pub(crate) fn tell_columns(&self, call: &SqlCall<'_>) {
        if let Some(known) = &self.sql {
            let _ = call.columns.set(Arc::clone(known.columns()));
        }
    }

    /// Processes the server's description of the statement.
    pub(crate) fn end_description(
        &mut self,
        composer: &mut Composer,
        operation: &Operation<'_>,
    ) -> Next {
        let (Operation::Sql { statement, .. }, Some(text)) = (operation, self.describes.take())
        else {
            return Next::Done(Ok(()));
        };
        let description = std::mem::take(&mut self.reply.description);
        let catalog = Arc::clone(&composer.catalog);
        let kind_of = |origin| composer.kind_at(origin);
        let known = catalog.described.keep(statement, &text, description, kind_of);
        match known.and_then(|known| self.take_sql(composer, known, statement)) {
            Ok(()) => Next::Send,
            Err(error) => Next::Done(Err(error)),
        }
    }

    /// Handles the failure of a raw SQL statement.
    pub(crate) fn fail_sql(
        &mut self,
        composer: &mut Composer,
        operation: &Operation<'_>,
        role: Role,
        failure: &Failure,
    ) -> Next {
        let Operation::Sql { statement, .. } = operation else {
            return self.give_up(fault::of(failure));
        };
        if role == Role::Look && failure.code() == code::NO_NUMBER {
            return self.give_up(passing_by::refused(composer, failure, statement));
        }
        // Its next description may differ.
        composer.described().forget(statement.text);
        self.give_up(refused(failure, statement))
    }
}
