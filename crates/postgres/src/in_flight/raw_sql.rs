//! A raw SQL statement in progress: described by the server first, unless its description is known,
//! then run.

use std::sync::Arc;

use marmota_model::Result;
use marmota_store::operation::Operation;
use marmota_store::sql::SqlCall;

use crate::commands::command_batch::Role;
use crate::commands::raw_sql::{SqlText, announce, refused};
use crate::composer::Composer;
use crate::fault::{self, Failure, code};
use crate::in_flight::stage::{Next, Stage};
use crate::in_flight::{Access, InFlightOperation, audit_guard};

impl InFlightOperation {
    /// Starts a raw SQL statement: describes it, unless that was done before.
    pub(crate) fn begin_sql(&mut self, composer: &mut Composer, call: &SqlCall<'_>) -> Result<()> {
        if self.in_transaction && !call.writes {
            self.access = Access::GuardedRead;
        }
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
        self.commands.clear();
        audit_guard::around(composer, &mut self.commands, call, |commands| {
            known.call(commands, call)
        })?;
        self.sql = Some(known);
        self.set_columns(call);
        Ok(())
    }

    /// Each poll of a future has a new call without columns.
    pub(crate) fn set_columns(&self, call: &SqlCall<'_>) {
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
        if role == Role::Diagnostic && failure.code() == code::NO_NUMBER {
            return self.give_up(audit_guard::refused(composer, failure, statement));
        }
        // Its next description may differ.
        composer.described().forget(statement.text);
        self.give_up(refused(failure, statement))
    }
}
