//! Errors without what they reveal of fields that a caller may not read.

use marmota_model::{Error, ErrorKind, Result, Table, Violation};

use crate::contract::operation::{Operation, Write};
use crate::refusal::taken_message;
use crate::rights::{Rights, TableRights};

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
        let reveals = |violation: &Violation| {
            violation.rule == "unique" && has_hidden_filter(rights, &violation.field)
        };
        let mut violations = error.violations().iter();
        if rights.view.is_none() || !violations.any(|one| hidden(one) || reveals(one)) {
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
        let kept = kept.map(|violation| match reveals(&violation) {
            true => Violation { message: taken_message(&rights.table, &[]), ..violation },
            false => violation,
        });
        kept.fold(Error::new(error.kind(), message), Error::with_violation)
    }
}

/// Returns true if a partial unique index with this field has a filter on a field that the caller
/// may neither read nor write.
fn has_hidden_filter(rights: &TableRights, field: &str) -> bool {
    let table = &rights.table;
    table.indexes().iter().filter(|index| index.unique).any(|index| {
        let has_field = || index.fields.iter().any(|&at| *table.fields()[at].name == *field);
        let filter = table.index_filter(index).filter(|_| has_field());
        filter.is_some_and(|filter| filter.fields(table).iter().any(|at| !rights.is_known(at)))
    })
}
