//! The errors with which all engines refuse a write: they have the field, the value and an
//! alternative.
//!
//! Each function makes one error, so that all engines have the same kind, the same violations and
//! nearly the same text. The conformance suite compares kinds and violations.
//!
//! ```
//! use marmota_model::{ErrorKind, Field, Kind, Role, Schema, Table, ValueRef};
//! use marmota_store::refusal;
//!
//! let person = Schema::new("person", vec![Field::new("id", Kind::I64).role(Role::Key)]);
//! let table = Table::new(person)?;
//! let missing = refusal::not_found(&table, ValueRef::Int(7));
//! assert_eq!(missing.kind(), ErrorKind::NotFound);
//! assert_eq!(missing.message(), "no person with id 7");
//! assert_eq!(refusal::stale(&table, ValueRef::Int(7), 3, 2).kind(), ErrorKind::Stale);
//! # Ok::<(), marmota_model::Error>(())
//! ```

use std::ops::Deref;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Table, ValueRef, Violation};

/// Creates an error of `kind` with these violations; a single violation is also its message.
///
/// Several violations are those of one composite unique index.
#[must_use]
pub fn with_violations(kind: ErrorKind, violations: Vec<Violation>) -> Error {
    let message = match violations.as_slice() {
        [one] => one.to_string(),
        many => {
            let names: Vec<&str> = many.iter().map(|one| &*one.field).collect();
            format!("fields `{}` together", names.join("`, `"))
        }
    };
    violations.into_iter().fold(Error::new(kind, message), Error::with_violation)
}

/// Returns the message for each field of a unique index whose values another row has. If only
/// partial indexes have these fields, it contains their filter.
///
/// ```
/// use marmota_model::{Field, Index, Kind, Role, Schema, Table};
/// use marmota_store::refusal::taken_message;
/// let fields = vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("email", Kind::TEXT),
///     Field::new("deleted", Kind::Timestamp).nullable(true),
/// ];
/// let index = Index::unique(vec![1]).filter("deleted = null");
/// let table = Table::new(Schema::new("person", fields).indexes(vec![index]))?;
/// let message = taken_message(&table, &[1]);
/// assert_eq!(message, "must be unique where deleted = null, but another row has this value");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn taken_message(table: &Table, fields: &[usize]) -> String {
    let indexes = table.indexes();
    let same = indexes.iter().filter(|index| index.unique && *index.fields == *fields);
    let filters: Option<Vec<&str>> = same.map(|index| index.filter.as_deref()).collect();
    let place = match filters {
        Some(filters) if !filters.is_empty() => format!(" where {}", filters.join(", or where ")),
        _ => String::new(),
    };
    format!("must be unique{place}, but another row has this value")
}

/// Copies an error for a second receiver, without its source.
///
/// Kind, message, violations and [`Error::is_retryable`] are kept.
///
/// ```
/// use marmota_model::{Error, ErrorKind};
/// use marmota_store::refusal::copy_of;
/// let error = Error::new(ErrorKind::Busy, "try again").retryable();
/// assert!(copy_of(&error).is_retryable());
/// ```
#[cold]
#[must_use]
pub fn copy_of(error: &Error) -> Error {
    let copy = Error::new(error.kind(), error.message());
    let copy = if error.is_retryable() { copy.retryable() } else { copy };
    error.violations().iter().cloned().fold(copy, Error::with_violation)
}

/// The error for a key without a row.
///
/// Kind: [`ErrorKind::NotFound`].
#[cold]
#[must_use]
pub fn not_found(table: &Table, key: ValueRef<'_>) -> Error {
    let name = &table.fields()[table.key()].name;
    let key = marmota_model::text::excerpt_of(key);
    Error::new(ErrorKind::NotFound, format!("no {} with {name} {key}", table.name()))
}

/// The error of a verb on a row that does not exist.
///
/// The same for a missing row and for one that the caller may not read.
#[cold]
pub(crate) fn no_row(table: &Table, key: ValueRef<'_>) -> Error {
    let key = marmota_model::text::excerpt_of(key);
    let name = &table.fields()[table.key()].name;
    Error::new(ErrorKind::NotFound, format!("there is no `{}` with {name} {key}", table.name()))
}

/// The error for a row whose version differs from the expected one.
///
/// `version` is the stored one, `expected` that of the caller. Kind: [`ErrorKind::Stale`].
#[cold]
#[must_use]
pub fn stale(table: &Table, key: ValueRef<'_>, version: i64, expected: i64) -> Error {
    Error::new(
        ErrorKind::Stale,
        format!(
            "the {} with {} {} has version {version}, not {expected}: read it again",
            table.name(),
            table.fields()[table.key()].name,
            marmota_model::text::excerpt_of(key)
        ),
    )
}

/// The error for rows inserted together of which some have a key and others do not; `row` differs
/// from those before it.
///
/// Kind: [`ErrorKind::Invalid`].
#[cold]
#[must_use]
pub fn mixed_keys(row: usize) -> Error {
    let message =
        format!("row {row}: rows that are inserted together must all have a key, or none");
    Error::new(ErrorKind::Invalid, message)
}

/// The error for a delete of a row (or of one of several) to which these fields of other tables
/// still refer.
///
/// `key` is that of the row, or `None` for a delete by filter; `by` has the tables and the indexes
/// of their fields. Kind: [`ErrorKind::Conflict`].
#[cold]
#[must_use]
pub fn still_referred_to(
    table: &Table,
    key: Option<ValueRef<'_>>,
    by: &[(impl Deref<Target = Table>, usize)],
) -> Error {
    let what = match key {
        Some(key) => format!("the {} {}", table.name(), marmota_model::text::excerpt_of(key)),
        None => format!("a row of `{}` to be deleted", table.name()),
    };
    let by: Vec<String> = by
        .iter()
        .map(|(other, position)| {
            format!("`{}` of `{}`", other.fields()[*position].name, other.name())
        })
        .collect();
    let by = if by.is_empty() { "another table".to_owned() } else { by.join(", ") };
    let message = format!(
        "{what} is still referred to by {by}: first delete or change the rows \
                           that refer to it"
    );
    Error::new(ErrorKind::Conflict, message)
}

/// The error for a table that a transaction or a long statement did not release in time.
///
/// `waited` is the engine's limit, shown in seconds. Kind: [`ErrorKind::Busy`].
#[cold]
#[must_use]
pub fn table_kept(waited: Duration) -> Error {
    let message = format!(
        "a transaction of another session, or a long SQL statement over the table, did not end \
         within {} s; try again later, and keep both short",
        waited.as_secs()
    );
    Error::new(ErrorKind::Busy, message)
}

/// The error for a transaction that begins in another one.
///
/// Kind: [`ErrorKind::Invalid`].
#[cold]
#[must_use]
pub fn transaction_is_open() -> Error {
    Error::new(ErrorKind::Invalid, "a transaction is open already; set a savepoint in it")
}

/// The error for a step of a transaction where none is open.
///
/// Kind: [`ErrorKind::Invalid`].
#[cold]
#[must_use]
pub fn no_transaction() -> Error {
    Error::new(ErrorKind::Invalid, "no transaction is open; begin one first")
}

/// The error for a savepoint that was released or undone, or never set.
///
/// Kind: [`ErrorKind::Invalid`].
#[cold]
#[must_use]
pub fn no_savepoint() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the transaction does not have this savepoint: it was released \
                                    or rolled back, or never set",
    )
}

/// The error for a poll of an operation that does not wait in the session.
///
/// Kind: [`ErrorKind::Bug`], since the store polls a ticket only while it waits.
#[cold]
#[must_use]
pub fn not_waiting() -> Error {
    Error::new(ErrorKind::Bug, "an operation was polled after it had ended or was canceled")
}

/// The error of a transaction that waited too long because `connections_max` others are open.
#[cold]
#[must_use]
pub fn no_connection_for_transaction(connections_max: usize) -> Error {
    let message = format!(
        "all {connections_max} connections for transactions are in use, and none became free in \
         time; try again, or raise `connections_max`"
    );
    Error::new(ErrorKind::Busy, message)
}

/// Returns the same error with the index of the row.
#[cold]
pub(crate) fn at_row(place: usize, error: &Error) -> Error {
    let named = Error::new(error.kind(), format!("row {place}: {}", error.message()));
    error.violations().iter().cloned().fold(named, Error::with_violation)
}
