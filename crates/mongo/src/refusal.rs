//! The words in which this engine refuses a write, beside those that all have
//! in common (`store::refusal`).

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Table, ValueRef};

/// Another row has the values of these fields.
#[cold]
pub(crate) fn taken(table: &Table, fields: &[usize], row: &[ValueRef<'_>]) -> Error {
    let names: Vec<&str> = fields.iter().map(|&field| &*table.fields()[field].name).collect();
    let message = format!("another row of `{}` has the same {}", table.name(), names.join(", "));
    fields.iter().fold(Error::new(ErrorKind::Conflict, message), |error, &field| {
        let message = "must be unique, and another row has it";
        error.with_violation(violation(&table.fields()[field], row[field], "unique", message))
    })
}

/// The server has no transactions.
#[cold]
pub(crate) fn no_transactions(what: &str) -> Error {
    let message = format!(
        "{what} needs transactions, which a MongoDB server that stands alone does not have: use a \
         replica set, send the writes one by one or as a batch of `each`, or keep these models in \
         an engine that has them"
    );
    Error::new(ErrorKind::Unsupported, message)
}
