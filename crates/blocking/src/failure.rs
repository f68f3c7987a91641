//! The failure of a statement: the cause that engines act on, and the error for the caller.

use marmota_model::{Error, ErrorKind};

/// The cause of a failure, as far as the engine acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// A unique value is taken.
    Taken,
    /// A reference without a row, or a row that is still referred to.
    Reference,
    /// A conflict with another transaction. The server has rolled back the transaction.
    Race,
    /// The savepoint does not exist.
    NoSavepoint,
    /// A number that does not fit its column.
    OutOfRange,
    /// A text that does not fit its column.
    TooLong,
    /// The statement itself is wrong.
    Statement,
    /// A statement that writes, in a transaction that only reads.
    ReadOnly,
    /// Any other.
    Other,
}

/// A refusal of the server, or a failure of the connection.
#[derive(Clone, Debug)]
pub struct SqlFailure {
    /// The cause.
    pub cause: FailureCause,
    /// The kind of the error for the caller.
    pub kind: ErrorKind,
    /// The message for the caller.
    pub message: String,
    /// The words of the driver, for the log.
    pub source: String,
    /// True if the connection cannot be used again.
    pub breaks_connection: bool,
}

impl SqlFailure {
    /// Returns a failure that leaves the connection usable. `source` has the driver's words.
    #[must_use]
    pub fn new(
        cause: FailureCause,
        (kind, message): (ErrorKind, String),
        source: impl Into<String>,
    ) -> Self {
        Self { cause, kind, message, source: source.into(), breaks_connection: false }
    }

    /// Returns true if a unique value is taken.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        matches!(self.cause, FailureCause::Taken)
    }

    /// Returns the error for the caller, if no row is known.
    #[cold]
    #[must_use]
    pub fn error(&self) -> Error {
        match self.cause {
            FailureCause::Race => lost_race().with_source(self.source.clone()),
            _ => Error::new(self.kind, self.message.clone()).with_source(self.source.clone()),
        }
    }
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

/// Returns the error for an insert after the highest key.
#[cold]
pub(crate) fn no_key_left() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "no automatic key is left, because the highest key is used: give keys yourself, or delete \
         that row",
    )
}

/// Returns the error for an engine that was closed.
#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the engine is closed")
}

/// Returns the error for an operation that the engine does not have.
#[cold]
pub(crate) fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "the engine does not support this operation")
}

/// Returns the error if too many operations wait.
#[cold]
pub(crate) fn overloaded() -> Error {
    Error::new(ErrorKind::Busy, "too many operations wait for the database; try again later")
}
