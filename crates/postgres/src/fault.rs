//! Maps PostgreSQL's error codes to Marmota's errors, with messages that name the field, the value
//! and the solution.

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Table, ValueRef, Violation};
use marmota_store::refusal::{taken_message, with_violations};

use crate::options::PostgresOptions;
use crate::wire::backend::Notice;

/// The error message of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    code: String,
    pub(crate) message: String,
    detail: Option<String>,
    /// The constraint or unique index.
    pub(crate) constraint: Option<String>,
    pub(crate) column: Option<String>,
    /// The position of the error in the statement, in characters from 1.
    pub(crate) position: Option<usize>,
}

/// The codes that are distinguished.
pub(crate) mod code {
    pub(crate) const UNIQUE: &str = "23505";
    pub(crate) const REFERENCE: &str = "23503";
    pub(crate) const REQUIRED: &str = "23502";
    /// A number that does not fit its column.
    pub(crate) const TOO_LARGE: &str = "22003";
    /// A text that is longer than its column.
    pub(crate) const TOO_LONG: &str = "22001";
    /// A missing privilege.
    pub(crate) const NO_RIGHT: &str = "42501";
    /// Raised by a write among several if it finds no row.
    pub(crate) const NO_ROW: &str = "22012";
    pub(crate) const SERIALIZATION: &str = "40001";
    pub(crate) const DEADLOCK: &str = "40P01";
    /// A lock was not available within `lock_timeout`, or at once for NOWAIT.
    pub(crate) const LOCKED: &str = "55P03";
    pub(crate) const CANCELLED: &str = "57014";
    pub(crate) const DISK_FULL: &str = "53100";
    /// A text that is not a number.
    pub(crate) const NO_NUMBER: &str = "22P02";
    /// A prepared statement that no longer exists.
    pub(crate) const NO_STATEMENT: &str = "26000";
    /// A prepared statement that already exists.
    pub(crate) const STATEMENT_EXISTS: &str = "42P05";
    /// Includes a prepared statement whose table has changed.
    pub(crate) const NOT_SUPPORTED: &str = "0A000";
}

impl Failure {
    pub(crate) fn new(notice: Notice<'_>) -> Self {
        Self {
            code: notice.field(b'C').unwrap_or_default(),
            message: notice.field(b'M').unwrap_or_default(),
            detail: notice.field(b'D'),
            constraint: notice.field(b'n'),
            column: notice.field(b'c'),
            position: notice.field(b'P').and_then(|text| text.parse().ok()),
        }
    }

    /// Returns a failure with this code, without a message.
    pub(crate) fn of_code(code: &str) -> Self {
        Self { code: code.to_owned(), ..Self::default() }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Returns true if it conflicted with another transaction, and may succeed when run again.
    pub(crate) fn lost_a_race(&self) -> bool {
        matches!(self.code(), code::SERIALIZATION | code::DEADLOCK)
    }

    /// Returns true if it was cancelled or exceeded its time limit.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.code == code::CANCELLED
    }

    /// Returns true if a statement must be prepared again.
    pub(crate) fn is_of_preparing(&self) -> bool {
        matches!(self.code(), code::NO_STATEMENT | code::STATEMENT_EXISTS)
            || self.code == code::NOT_SUPPORTED && self.message.contains("cached plan")
    }
}

/// Returns the error for a code if no row is known.
#[cold]
pub(crate) fn of(failure: &Failure) -> Error {
    let words = &failure.message;
    let (kind, message) = match failure.code() {
        code::SERIALIZATION | code::DEADLOCK => return lost_race().with_source(source(failure)),
        code::UNIQUE => (ErrorKind::Conflict, format!("another row has the same value: {words}")),
        code::REFERENCE => (
            ErrorKind::Conflict,
            format!("a reference would point to a row that does not exist: {words}"),
        ),
        code::CANCELLED => (
            ErrorKind::Timeout,
            "the statement took longer than `statement_timeout_ms` and was rolled back".to_owned(),
        ),
        code::LOCKED => (
            ErrorKind::Busy,
            "a row or table is locked by another transaction; try \
                                           again"
                .to_owned(),
        ),
        "2200H" => (
            ErrorKind::Engine,
            "no automatic key is left, because the highest key is used: give \
                                 keys yourself, or delete that row"
                .to_owned(),
        ),
        // The message of RAISE in a trigger is meant for the caller.
        "P0001" => (ErrorKind::Conflict, words.clone()),
        code::NO_RIGHT => (
            ErrorKind::Denied,
            "the database user of this store lacks a right: an administrator of the database must \
             GRANT this user SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on the \
             sequence of its key"
                .to_owned(),
        ),
        "428C9" => (
            ErrorKind::Invalid,
            "PostgreSQL computes the values of a column that was written to (GENERATED ALWAYS): \
             leave the field or key out"
                .to_owned(),
        ),
        // BEGIN has failed before, for example at a standby.
        "25P01" => (
            ErrorKind::Refused,
            format!("the server has begun no transaction, so nothing was done; try again: {words}"),
        ),
        "25006" => (ErrorKind::Io, format!("the server is read-only: {words}")),
        code if code.starts_with("23") || code.starts_with("22") => {
            (ErrorKind::Invalid, words.clone())
        }
        code::DISK_FULL => (
            ErrorKind::Io,
            format!(
                "the disk of the PostgreSQL server is full: \
                                                    {words}"
            ),
        ),
        code if code.starts_with("53") => (
            ErrorKind::Busy,
            format!(
                "PostgreSQL is out of resources: {words}; free some, or try \
                                       again later"
            ),
        ),
        code if code.starts_with("57P") || code.starts_with("08") => {
            (ErrorKind::Lost, format!("PostgreSQL ended the connection: {words}"))
        }
        code if code.starts_with("58") => (
            ErrorKind::Io,
            format!(
                "the disk of the PostgreSQL \
                                                                   server failed: {words}"
            ),
        ),
        code => (ErrorKind::Engine, format!("{words} (PostgreSQL code {code})")),
    };
    Error::new(kind, message).with_source(source(failure))
}

/// Returns the error for a conflict with another transaction.
#[cold]
pub(crate) fn lost_race() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the transaction conflicted with another one and was rolled back: run it again",
    )
    .retryable()
}

/// Returns the error for a connection that was lost, for this reason, during an operation.
#[cold]
pub(crate) fn lost(reason: &str, options: &PostgresOptions, writes: bool) -> Error {
    let unknown = if writes {
        "; the write may or may not have been committed: read the row before \
                               you retry"
    } else {
        ""
    };
    let message =
        format!("the connection to PostgreSQL at {} was lost: {reason}{unknown}", options.place());
    Error::new(ErrorKind::Lost, message)
}

/// Returns the error for an engine that was closed.
#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the engine is closed")
}

/// Returns the error for a row that violates a unique index over these fields.
#[cold]
pub(crate) fn taken(
    failure: &Failure,
    table: &Table,
    row: &[ValueRef<'_>],
    fields: &[usize],
) -> Error {
    let message = taken_message(table, fields);
    let violations = fields.iter().map(|&field| blame(table, row, field, "unique", &message));
    with_violations(ErrorKind::Conflict, violations.collect()).with_source(source(failure))
}

/// Returns a violation of a field by its value in the row.
pub(crate) fn blame(
    table: &Table,
    row: &[ValueRef<'_>],
    field: usize,
    rule: &'static str,
    message: &str,
) -> Violation {
    let value = match row.get(field) {
        None | Some(ValueRef::Absent) => ValueRef::Null,
        Some(value) => *value,
    };
    violation(&table.fields()[field], value, rule, message)
}

fn source(failure: &Failure) -> String {
    let detail = failure.detail.as_deref().unwrap_or_default();
    format!("PostgreSQL code {}: {} {detail}", failure.code, failure.message)
}
