//! The errors of drivers and of the driver manager, as failures of the store.

use marmota_blocking::{Dialect, FailureCause, SqlFailure};
use marmota_model::ErrorKind;
use odbc_api::Error;

/// Error numbers of databases that report a general SQLSTATE for them.
const NATIVE: &[(&str, i32, FailureCause, ErrorKind)] = &[
    ("MariaDB", 1062, FailureCause::Taken, ErrorKind::Conflict),
    ("MariaDB", 1586, FailureCause::Taken, ErrorKind::Conflict),
    ("MariaDB", 1451, FailureCause::Reference, ErrorKind::Conflict),
    ("MariaDB", 1452, FailureCause::Reference, ErrorKind::Invalid),
    ("MariaDB", 1213, FailureCause::Race, ErrorKind::Conflict),
    ("MariaDB", 1020, FailureCause::Race, ErrorKind::Conflict),
    ("MariaDB", 1205, FailureCause::Other, ErrorKind::Busy),
    ("MariaDB", 1305, FailureCause::NoSavepoint, ErrorKind::Invalid),
    ("MariaDB", 1264, FailureCause::OutOfRange, ErrorKind::Invalid),
    ("MariaDB", 1406, FailureCause::TooLong, ErrorKind::Invalid),
    ("MariaDB", 1792, FailureCause::ReadOnly, ErrorKind::Denied),
    ("MariaDB", 1317, FailureCause::Other, ErrorKind::Timeout),
    ("MariaDB", 1153, FailureCause::Other, ErrorKind::Invalid),
    ("MariaDB", 1049, FailureCause::Other, ErrorKind::Invalid),
    ("MariaDB", 1044, FailureCause::Other, ErrorKind::Denied),
    ("MariaDB", 1142, FailureCause::Other, ErrorKind::Denied),
    ("MariaDB", 1143, FailureCause::Other, ErrorKind::Denied),
    ("MariaDB", 1227, FailureCause::Other, ErrorKind::Denied),
    ("MariaDB", 1370, FailureCause::Other, ErrorKind::Denied),
    ("MariaDB", 1021, FailureCause::Other, ErrorKind::Io),
    ("MariaDB", 1114, FailureCause::Other, ErrorKind::Io),
    ("MariaDB", 1290, FailureCause::Other, ErrorKind::Io),
    ("MariaDB", 1644, FailureCause::Other, ErrorKind::Conflict),
    ("MariaDB", 1969, FailureCause::Other, ErrorKind::Timeout),
    ("MariaDB", 3024, FailureCause::Other, ErrorKind::Timeout),
    ("SQL Server", 2627, FailureCause::Taken, ErrorKind::Conflict),
    ("SQL Server", 2601, FailureCause::Taken, ErrorKind::Conflict),
    ("SQL Server", 547, FailureCause::Reference, ErrorKind::Invalid),
    ("SQL Server", 1205, FailureCause::Race, ErrorKind::Conflict),
    ("SQL Server", 3960, FailureCause::Race, ErrorKind::Conflict),
    ("SQL Server", 1222, FailureCause::Other, ErrorKind::Busy),
    ("Oracle", 1, FailureCause::Taken, ErrorKind::Conflict),
    ("Oracle", 2291, FailureCause::Reference, ErrorKind::Invalid),
    ("Oracle", 2292, FailureCause::Reference, ErrorKind::Conflict),
    ("Oracle", 8177, FailureCause::Race, ErrorKind::Conflict),
    ("Oracle", 60, FailureCause::Race, ErrorKind::Conflict),
];

/// Words in the messages of drivers that report no number of the error.
const WORDS: &[(&str, &str, FailureCause, ErrorKind)] = &[
    ("Firebird", "UNIQUE KEY constraint", FailureCause::Taken, ErrorKind::Conflict),
    ("Firebird", "FOREIGN KEY constraint", FailureCause::Reference, ErrorKind::Invalid),
];

/// Words in the messages of a connection that was lost, if the driver reports no state for it.
const LOST: &[&str] = &[
    "Write error",
    "Read error",
    "onnection reset",
    "roken pipe",
    "gone away",
    "Lost connection",
    "closed the connection",
];

/// Returns the cause and the kind of an SQLSTATE: the first entry whose text begins it.
const STATES: &[(&str, FailureCause, ErrorKind)] = &[
    ("23505", FailureCause::Taken, ErrorKind::Conflict),
    ("23503", FailureCause::Reference, ErrorKind::Invalid),
    ("23001", FailureCause::Reference, ErrorKind::Conflict),
    ("23", FailureCause::Other, ErrorKind::Invalid),
    ("40001", FailureCause::Race, ErrorKind::Conflict),
    ("40P01", FailureCause::Race, ErrorKind::Conflict),
    ("3B001", FailureCause::NoSavepoint, ErrorKind::Invalid),
    ("2200H", FailureCause::Other, ErrorKind::Conflict),
    ("22003", FailureCause::OutOfRange, ErrorKind::Invalid),
    ("22001", FailureCause::TooLong, ErrorKind::Invalid),
    ("22", FailureCause::Other, ErrorKind::Invalid),
    ("25006", FailureCause::ReadOnly, ErrorKind::Denied),
    ("28", FailureCause::Other, ErrorKind::Denied),
    ("42501", FailureCause::Other, ErrorKind::Denied),
    ("42", FailureCause::Statement, ErrorKind::Invalid),
    ("3D000", FailureCause::Other, ErrorKind::Invalid),
    ("53100", FailureCause::Other, ErrorKind::Io),
    ("53", FailureCause::Other, ErrorKind::Busy),
    ("54", FailureCause::Other, ErrorKind::Invalid),
    ("55P03", FailureCause::Other, ErrorKind::Busy),
    ("57014", FailureCause::Other, ErrorKind::Timeout),
    ("57P", FailureCause::Other, ErrorKind::Lost),
    ("HYT", FailureCause::Other, ErrorKind::Timeout),
    ("08", FailureCause::Other, ErrorKind::Lost),
];

/// Returns the failure of a statement.
#[cold]
pub(crate) fn of(error: &Error, dialect: &Dialect) -> SqlFailure {
    let Some((state, number, words)) = parts(error) else {
        let message = format!("the ODBC driver failed: {error}");
        return SqlFailure::new(
            FailureCause::Other,
            (ErrorKind::Engine, message),
            error.to_string(),
        );
    };
    let of_dialect =
        |name: &str| name == dialect.name || name == "MariaDB" && dialect.name == "MySQL";
    let native = NATIVE.iter().find(|one| of_dialect(one.0) && one.1 == number);
    let by_words = WORDS.iter().find(|one| of_dialect(one.0) && words.contains(one.1));
    let by_state = STATES.iter().find(|one| state.starts_with(one.0));
    let (cause, kind) = native
        .map(|one| (one.2, one.3))
        .or(by_words.map(|one| (one.2, one.3)))
        .or(by_state.map(|one| (one.1, one.2)))
        .unwrap_or((FailureCause::Other, ErrorKind::Engine));
    let is_lost = kind == ErrorKind::Lost
        || matches!(number, 2006 | 2013 | 1927)
        || kind == ErrorKind::Engine && LOST.iter().any(|part| words.contains(part));
    let kind = if is_lost { ErrorKind::Lost } else { kind };
    let message = match (cause, kind) {
        (_, ErrorKind::Lost) => format!(
            "the connection to {} was lost: {words}; a write may or may not have been committed: \
             read the row before you retry",
            dialect.name
        ),
        (_, ErrorKind::Busy) => format!(
            "a row is locked by another transaction, or {} is out of resources: {words}; try again \
             later",
            dialect.name
        ),
        (_, ErrorKind::Denied) if cause == FailureCause::Other => format!(
            "the database user lacks a right: {words}; an administrator of the database must GRANT \
             it"
        ),
        (FailureCause::Taken, _) => format!("another row has the same value: {words}"),
        (_, ErrorKind::Conflict) if state == "2200H" => "no automatic key is left, because the \
             highest key is used: give keys yourself, or delete that row"
            .to_owned(),
        (_, ErrorKind::Engine) => format!("{words} ({}, SQLSTATE {state})", dialect.name),
        _ => words.clone(),
    };
    let source = format!("SQLSTATE {state}, error {number}: {words}");
    let mut failure = SqlFailure::new(cause, (kind, message), source);
    // A statement may still be ended by a late request.
    failure.breaks_connection = is_lost || kind == ErrorKind::Timeout;
    failure
}

/// Returns the failure of a connection that was not made.
#[cold]
pub(crate) fn of_connect(error: &Error) -> SqlFailure {
    let (state, number, words) =
        parts(error).unwrap_or_else(|| (String::new(), 0, error.to_string()));
    let (kind, message) = match &*state {
        "IM002" | "IM003" | "01000" => (
            ErrorKind::Invalid,
            format!(
                "the driver manager has no such data source or driver: {words}; `odbcinst -q -d` \
                 lists the drivers and `odbcinst -q -s` the data sources; `Driver=` may also be the \
                 path of a library"
            ),
        ),
        _ if state.starts_with("28") || number == 1045 || is_of_password(&words) => (
            ErrorKind::Denied,
            format!("the database refused the user: {words}; correct `UID` and `PWD`"),
        ),
        "3D000" => {
            (ErrorKind::Invalid, format!("{words}: create the database, or correct the URL"))
        }
        _ if number == 1049 || words.contains("does not exist") => {
            (ErrorKind::Invalid, format!("{words}: create the database, or correct the URL"))
        }
        "53300" => busy(&words),
        _ if matches!(number, 1040 | 1203 | 1226) => busy(&words),
        "IM001" | "HYC00" => {
            (ErrorKind::Unsupported, format!("the driver lacks a function: {words}"))
        }
        _ => (
            ErrorKind::Refused,
            format!("cannot connect: {words}; check the server's address, and that it runs"),
        ),
    };
    let source = format!("SQLSTATE {state}, error {number}: {words}");
    SqlFailure::new(FailureCause::Other, (kind, message), source)
}

/// Returns true if rows are fetched from a statement that has none.
pub(crate) fn has_no_cursor(error: &Error) -> bool {
    parts(error).is_some_and(|(state, ..)| state == "24000")
}

fn busy(words: &str) -> (ErrorKind, String) {
    let message = format!("the database has no connection left: {words}; try again later");
    (ErrorKind::Busy, message)
}

fn is_of_password(words: &str) -> bool {
    words.contains("password authentication failed") || words.contains("no password supplied")
}

/// Returns the SQLSTATE, the number and the words of an error that a driver has described.
fn parts(error: &Error) -> Option<(String, i32, String)> {
    let record = match error {
        Error::Diagnostics { record, .. } | Error::UnableToRepresentNull(record) => record,
        _ => return None,
    };
    let state = String::from_utf8_lossy(&record.state.0).into_owned();
    let words = String::from_utf16_lossy(&record.message);
    Some((state, record.native_error, words.trim().replace('\n', " ")))
}
