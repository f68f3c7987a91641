//! Maps the errors of the driver and the server to Marmota's errors.

use std::time::Duration;

use marmota_model::{Error, ErrorKind};
use mongodb::error::{ErrorKind as Fault, TRANSIENT_TRANSACTION_ERROR, WriteFailure};

/// The code for a value that exists in a unique index.
pub(crate) const TAKEN: i32 = 11_000;
/// A write conflicts with another transaction.
const WRITE_CONFLICT: i32 = 112;
/// The transaction is unknown: it has ended.
const NO_SUCH_TRANSACTION: i32 = 251;
/// The transaction exceeded the server's time limit.
const LASTED_TOO_LONG: i32 = 290;
/// The server's default time limit for transactions.
const LIFETIME: Duration = Duration::from_secs(60);

/// Returns the error of a failed call. `changes` is true if the call may have changed something.
#[cold]
pub(crate) fn of(fault: &mongodb::error::Error, changes: bool) -> Error {
    let (kind, message) = match &*fault.kind {
        Fault::Command(command) => of_code(command.code, &command.message),
        Fault::Authentication { message, .. } => {
            (ErrorKind::Denied, format!("the MongoDB server refused the login: {message}"))
        }
        // Nothing was sent.
        Fault::ServerSelection { .. } | Fault::DnsResolve { .. } => {
            (ErrorKind::Io, format!("no MongoDB server can be reached: {fault}"))
        }
        Fault::ConnectionPoolCleared { .. } => {
            (ErrorKind::Io, "the MongoDB server closed the connection; try again".to_owned())
        }
        Fault::Write(WriteFailure::WriteConcernError(late)) => (
            ErrorKind::Lost,
            format!(
                "the write was executed, but not with the requested durability: {}",
                late.message
            ),
        ),
        Fault::Io(_) if changes => (
            ErrorKind::Lost,
            "the connection to MongoDB was lost: the write may or may not have been committed; \
             read the row before you retry"
                .to_owned(),
        ),
        Fault::Io(_) => (ErrorKind::Io, "the connection to MongoDB was lost; try again".to_owned()),
        Fault::InvalidArgument { message, .. } | Fault::InvalidTlsConfig { message, .. } => {
            (ErrorKind::Invalid, format!("the MongoDB driver refused the operation: {message}"))
        }
        Fault::Shutdown => (ErrorKind::Closed, "the store is closed".to_owned()),
        Fault::InvalidResponse { message, .. } => {
            (ErrorKind::Protocol, format!("unexpected error of the MongoDB server: {message}"))
        }
        _ => (ErrorKind::Engine, fault.to_string()),
    };
    Error::new(kind, message).with_source(fault.clone())
}

/// Returns the error of a command in a transaction that was `open` for this time. After any such
/// error the transaction is aborted. The error is retryable if another run may succeed.
#[cold]
pub(crate) fn inside(fault: &mongodb::error::Error, open: Duration) -> Error {
    let code = match &*fault.kind {
        Fault::Command(command) => command.code,
        _ => 0,
    };
    if code == LASTED_TOO_LONG || code == NO_SUCH_TRANSACTION && open >= LIFETIME {
        let message = "the transaction took longer than MongoDB allows \
                       (`transactionLifetimeLimitSeconds`) and was rolled back: do less in one \
                       transaction";
        return Error::new(ErrorKind::Timeout, message).with_source(fault.clone());
    }
    if code == WRITE_CONFLICT || code == NO_SUCH_TRANSACTION || is_taken(fault) {
        return lost_race().with_source(fault.clone());
    }
    let error = of(fault, false);
    // If no server was found, another run would fail as well, so the caller gets the error at once.
    let is_unreached = matches!(&*fault.kind, Fault::ServerSelection { .. });
    match fault.contains_label(TRANSIENT_TRANSACTION_ERROR) && !is_unreached {
        true => error.retryable(),
        false => error,
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

/// Returns the kind and the message for an error code of the server.
pub(crate) fn of_code(code: i32, words: &str) -> (ErrorKind, String) {
    let kind = match code {
        TAKEN => ErrorKind::Conflict,
        WRITE_CONFLICT => ErrorKind::Conflict,
        13 | 18 => ErrorKind::Denied,
        // The time limit of the command or of the server.
        50 | 262 => ErrorKind::Timeout,
        // No primary, or one that steps down.
        91 | 189 | 10107 | 11600 | 11602 | 13435 | 13436 => ErrorKind::Io,
        // The disk.
        14031 => ErrorKind::Io,
        238 | 263 | 303 => ErrorKind::Unsupported,
        10334 => {
            let message = format!("a row is larger than MongoDB allows for a document: {words}");
            return (ErrorKind::Invalid, message);
        }
        _ => ErrorKind::Engine,
    };
    (kind, format!("{words} (MongoDB code {code})"))
}

/// Returns true if a unique value was taken. FerretDB does not use that code for updates.
pub(crate) fn is_taken(fault: &mongodb::error::Error) -> bool {
    matches!(&*fault.kind, Fault::Command(command)
        if command.code == TAKEN || command.message.contains("UNIQUE constraint failed"))
}

/// Returns true if a read may be tried once more.
pub(crate) fn is_passing(fault: &mongodb::error::Error) -> bool {
    matches!(&*fault.kind, Fault::Io(_) | Fault::ConnectionPoolCleared { .. })
}

/// Returns the error for a closed store.
#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}

/// Returns the error for a document with a key that is invalid for its table.
#[cold]
pub(crate) fn strange_key(collection: &str) -> Error {
    let message = format!(
        "`{collection}` has a document whose _id is not a key of the model: another program wrote \
         this document"
    );
    Error::new(ErrorKind::Engine, message)
}

/// Returns the error for an operation that the engine does not know.
#[cold]
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Bug, "the MongoDB engine does not support this operation here")
}
