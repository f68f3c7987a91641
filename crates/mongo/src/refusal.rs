//! The messages with which this engine refuses a write, in addition to those that all engines share
//! (`store::refusal`).

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Table, ValueRef};

/// Returns the error for a row whose values in these fields exist in another row.
#[cold]
pub(crate) fn taken(table: &Table, fields: &[usize], row: &[ValueRef<'_>]) -> Error {
    let names: Vec<&str> = fields.iter().map(|&field| &*table.fields()[field].name).collect();
    let message = format!("another row of `{}` has the same {}", table.name(), names.join(", "));
    fields.iter().fold(Error::new(ErrorKind::Conflict, message), |error, &field| {
        let message = "must be unique, but another row has this value";
        error.with_violation(violation(&table.fields()[field], row[field], "unique", message))
    })
}

/// Returns the error for an operation that needs transactions.
#[cold]
pub(crate) fn no_transactions(what: &str) -> Error {
    let message = format!(
        "{what} needs transactions, which a standalone MongoDB server does not support: use a \
         replica set, send the writes one by one or as a batch of `each`, or keep these models in \
         an engine with transactions"
    );
    Error::new(ErrorKind::Unsupported, message)
}
