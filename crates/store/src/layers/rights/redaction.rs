//! Errors without what they reveal of fields that a caller may not read.

use marmota_model::{Error, ErrorKind, Result, Table, Violation};

use crate::contract::operation::{Operation, Write};
use crate::rights::Rights;

impl Rights {
    /// Redacts the errors of an operation, and those of the writes of a batch
    /// ([`Rights::redacted`]).
    pub(crate) fn redact(&self, operation: &mut Operation<'_>, done: Result<()>) -> Result<()> {
        if let Operation::Batch { writes, results, .. } = operation {
            for (write, result) in writes.iter().zip(results.iter_mut()) {
                if let Err(error) = result {
                    let unknown = Error::new(error.kind(), "");
                    let error = std::mem::replace(error, unknown);
                    *result = Err(self.redacted(write.table(), error));
                }
            }
            let tables = writes.iter().map(Write::table);
            return done
                .map_err(|error| tables.fold(error, |error, table| self.redacted(table, error)));
        }
        done.map_err(|error| match operation.table() {
            Some(table) => self.redacted(table, error),
            None => error,
        })
    }

    /// Returns the error without what it reveals of fields that the caller may neither read nor
    /// write: the violation of an index of several fields names all of them.
    pub(crate) fn redacted(&self, table: &Table, error: Error) -> Error {
        let Ok(rights) = self.of(table) else { return error };
        let hidden = |violation: &Violation| {
            // The violation of an unknown field has a name that the caller has sent.
            let field = rights.table.find(&violation.field).filter(|_| violation.rule != "unknown");
            field.is_some_and(|field| !rights.is_known(field))
        };
        if rights.view.is_none() || !error.violations().iter().any(hidden) {
            return error;
        }
        let message = match error.kind() {
            ErrorKind::Conflict => "a unique value of the row exists already",
            _ => {
                "a field that the caller may not write is not valid: the caller may not write \
                  this row"
            }
        };
        let kept = error.violations().iter().filter(|violation| !hidden(violation)).cloned();
        kept.fold(Error::new(error.kind(), message), Error::with_violation)
    }
}
