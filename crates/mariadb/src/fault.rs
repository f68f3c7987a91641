//! The errors of the server and of the driver, as errors of the store.

use marmota_blocking::{FailureCause, SqlFailure};
use marmota_model::{Error, ErrorKind};

/// Error numbers of MariaDB and MySQL.
pub(crate) mod code {
    pub(crate) const UNIQUE: u16 = 1062;
    pub(crate) const UNIQUE_NAMED: u16 = 1586;
    /// A deleted row is still referred to.
    pub(crate) const REFERRED: u16 = 1451;
    /// A reference without a row.
    pub(crate) const NO_TARGET: u16 = 1452;
    pub(crate) const DEADLOCK: u16 = 1213;
    pub(crate) const LOCK_TIMEOUT: u16 = 1205;
    /// A row was changed since the snapshot.
    pub(crate) const CHANGED: u16 = 1020;
    pub(crate) const KILLED: u16 = 1317;
    pub(crate) const NO_KEY_LEFT: u16 = 1467;
    pub(crate) const OUT_OF_RANGE: u16 = 1264;
    pub(crate) const NO_SAVEPOINT: u16 = 1305;
    pub(crate) const TOO_LONG: u16 = 1406;
    pub(crate) const PACKET: u16 = 1301;
    /// A statement with another number of parameters.
    pub(crate) const PARAMETERS: u16 = 1210;
    /// The server is read-only, perhaps since a failover: other servers are tried.
    pub(crate) const READ_ONLY: u16 = 1290;
    /// A node of Galera that is not part of the primary component.
    pub(crate) const NOT_IN_CLUSTER: u16 = 1047;
}

/// The first words of TLS about a certificate. The driver passes them on in an error of the socket.
const CERTIFICATE: &str = "invalid peer certificate";

/// Returns the words of an error of the driver: only those about a certificate, if there are any.
fn words_of(error: &str) -> String {
    let words = error.find(CERTIFICATE).map(|at| error[at..].trim_end_matches(['\'', ' ', '}']));
    words.unwrap_or(error).to_owned()
}

/// A refusal of the server, or a failure of the connection.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The server's error number; 0 for a failure of the connection.
    pub(crate) code: u16,
    pub(crate) message: String,
    /// The kind of a failure of the connection.
    kind: ErrorKind,
    has_begun: bool,
}

impl Failure {
    pub(crate) fn of(error: &mysql::Error) -> Self {
        use mysql::{DriverError, Error as Of};
        let (code, message) = match error {
            Of::MySqlError(error) => (error.code, error.message.clone()),
            Of::DriverError(DriverError::MismatchedStmtParams(..)) => {
                (code::PARAMETERS, error.to_string())
            }
            Of::DriverError(DriverError::TlsNotSupported) => {
                (0, "the server has no TLS: enable it there, or remove `require_ssl`".to_owned())
            }
            Of::DriverError(error) => (0, error.to_string()),
            error => (0, words_of(&error.to_string())),
        };
        let (kind, has_begun) = match error {
            Of::DriverError(DriverError::CouldNotConnect(_) | DriverError::ConnectTimeout) => {
                (ErrorKind::Refused, false)
            }
            Of::DriverError(DriverError::PacketTooLarge) => (ErrorKind::Invalid, false),
            Of::CodecError(error) if error.to_string().contains("max_allowed_packet") => {
                (ErrorKind::Invalid, true)
            }
            Of::DriverError(DriverError::TlsNotSupported) | Of::TlsError(_) => {
                (ErrorKind::Denied, false)
            }
            Of::DriverError(
                DriverError::UnknownAuthPlugin(_)
                | DriverError::OldMysqlPasswordDisabled
                | DriverError::CleartextPluginDisabled,
            ) => (ErrorKind::Denied, false),
            _ if message.starts_with(CERTIFICATE) => (ErrorKind::Denied, false),
            _ => (ErrorKind::Lost, true),
        };
        Self { code, message, kind, has_begun }
    }

    /// Returns a refusal of the server.
    pub(crate) const fn of_server(code: u16, message: String) -> Self {
        Self { code, message, kind: ErrorKind::Lost, has_begun: true }
    }

    /// Returns the failure of a connection to a server that is not the primary.
    pub(crate) fn read_only() -> Self {
        let message = "it is read-only, and a server that accepts writes is wanted".to_owned();
        Self { code: 0, message, kind: ErrorKind::Refused, has_begun: false }
    }

    /// Returns the failure of a statement that the server would not accept.
    pub(crate) fn too_large(bytes: usize, most: usize) -> Self {
        let message = format!(
            "the statement has {bytes} bytes, and the server's `max_allowed_packet` is {most}"
        );
        Self { code: code::PACKET, message, kind: ErrorKind::Invalid, has_begun: false }
    }

    /// Returns true if the connection cannot be used any more.
    pub(crate) const fn is_of_connection(&self) -> bool {
        match self.code {
            0 => !matches!(self.kind, ErrorKind::Invalid) || self.has_begun,
            // A statement may still be ended by a late request.
            code::KILLED | code::READ_ONLY | code::NOT_IN_CLUSTER => true,
            1053 | 1077 | 1079 | 1152..=1161 | 1184 | 1927 | 4031 => true,
            _ => false,
        }
    }
}

/// Returns the cause on which the engine acts.
const fn cause(code: u16) -> FailureCause {
    match code {
        code::UNIQUE | code::UNIQUE_NAMED => FailureCause::Taken,
        code::REFERRED | code::NO_TARGET => FailureCause::Reference,
        code::DEADLOCK | code::CHANGED => FailureCause::Race,
        code::NO_SAVEPOINT => FailureCause::NoSavepoint,
        code::OUT_OF_RANGE => FailureCause::OutOfRange,
        code::TOO_LONG => FailureCause::TooLong,
        1054 | 1064 | 1146 | 1149 | 1222 | code::PARAMETERS => FailureCause::Statement,
        1792 => FailureCause::ReadOnly,
        _ => FailureCause::Other,
    }
}

/// Returns the failure for the store: the table of all kinds.
#[cold]
pub(crate) fn of(failure: &Failure) -> SqlFailure {
    let words = &failure.message;
    let (kind, message) = match failure.code {
        0 if failure.kind == ErrorKind::Lost => (
            ErrorKind::Lost,
            format!(
                "the connection to MariaDB was lost: {words}; a write may or may not have been \
                 committed: read the row before you retry"
            ),
        ),
        0 if failure.kind == ErrorKind::Invalid => (
            ErrorKind::Invalid,
            format!("the statement was not sent: {words}; the limit is `max_allowed_packet`"),
        ),
        0 if words.starts_with(CERTIFICATE) => (
            failure.kind,
            format!(
                "cannot connect to MariaDB: {words}; name the file of its certificate authority \
                 with `ssl_ca`, or permit others with `verify_ca=false` or `verify_identity=false`"
            ),
        ),
        0 => (failure.kind, format!("cannot connect to MariaDB: {words}")),
        code::DEADLOCK | code::CHANGED => (ErrorKind::Conflict, words.clone()),
        code::LOCK_TIMEOUT => (
            ErrorKind::Busy,
            "a row is locked by another transaction, which did not end within `lock_timeout_s`; \
             try again later"
                .to_owned(),
        ),
        code::UNIQUE | code::UNIQUE_NAMED => {
            (ErrorKind::Conflict, format!("another row has the same value: {words}"))
        }
        code::REFERRED => (ErrorKind::Conflict, format!("rows still refer to this row: {words}")),
        code::NO_TARGET => (ErrorKind::Invalid, format!("a reference has no target: {words}")),
        code::NO_KEY_LEFT => (
            ErrorKind::Conflict,
            "no automatic key is left, because the highest key is used: give keys yourself, or \
             delete that row"
                .to_owned(),
        ),
        code::KILLED | 1969 | 3024 => {
            (ErrorKind::Timeout, format!("the statement was ended: {words}"))
        }
        1045 | 1698 => (ErrorKind::Denied, format!("MariaDB refused the user: {words}")),
        1044 | 1142 | 1143 | 1227 | 1370 => (
            ErrorKind::Denied,
            format!(
                "the database user of this store lacks a right: {words}; an administrator of the \
                 database must GRANT it"
            ),
        ),
        1049 => (
            ErrorKind::Invalid,
            format!("{words}: create it (CREATE DATABASE), or correct the URL"),
        ),
        1153 | code::PACKET => (
            ErrorKind::Invalid,
            format!("{words}: raise the server's `max_allowed_packet`, or write less at once"),
        ),
        1040 | 1203 | 1041 | 1037 | 1226 => {
            (ErrorKind::Busy, format!("MariaDB is out of resources: {words}; try again later"))
        }
        1021 | 1114 | 3 | 28 | 1026 | 1030 => {
            (ErrorKind::Io, format!("the disk of the MariaDB server is full or failing: {words}"))
        }
        code::NOT_IN_CLUSTER => (
            ErrorKind::Refused,
            format!("the node is not ready: {words}; try again later, or name other nodes"),
        ),
        code::READ_ONLY | 1792 | 1836 => {
            (ErrorKind::Io, format!("the server is read-only: {words}"))
        }
        1053 | 1077 | 1079 | 1152..=1161 | 1184 | 1927 | 4031 => {
            (ErrorKind::Lost, format!("MariaDB ended the connection: {words}"))
        }
        code::PARAMETERS | 1048 | 1264 | 1265 | 1292 | 1364 | 1366 | 1406 | 1690 | 3140 | 4025 => {
            (ErrorKind::Invalid, words.clone())
        }
        // The message of SIGNAL in a trigger is meant for the caller.
        1644 => (ErrorKind::Conflict, words.clone()),
        code => (ErrorKind::Engine, format!("{words} (MariaDB error {code})")),
    };
    let source = format!("MariaDB error {}: {words}", failure.code);
    let mut done = SqlFailure::new(cause(failure.code), (kind, message), source);
    done.breaks_connection = failure.is_of_connection();
    done
}

/// Returns the failure of a connection to each of the servers.
#[cold]
pub(crate) fn of_servers(mut refused: Vec<(String, SqlFailure)>) -> SqlFailure {
    if refused.len() == 1
        && let Some((_, failure)) = refused.pop()
    {
        return failure;
    }
    let each = refused.iter().map(|(server, failure)| format!("{server}: {}", failure.message));
    let message = each.collect::<Vec<_>>().join("; ");
    let source = message.clone();
    SqlFailure::new(FailureCause::Other, (ErrorKind::Refused, message), source)
}

/// The error for a URL that cannot be used. It does not contain the URL, which may have a password.
pub(crate) fn invalid(why: &str) -> Error {
    let message = format!("the URL of MariaDB is invalid: {why}");
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_server_have_kinds() {
        let kind = |code| {
            let kind = ErrorKind::Lost;
            of(&Failure { code, message: String::new(), kind, has_begun: true }).kind
        };
        for (code, expected) in [
            (1045, ErrorKind::Denied),
            (1142, ErrorKind::Denied),
            (1049, ErrorKind::Invalid),
            (1062, ErrorKind::Conflict),
            (1451, ErrorKind::Conflict),
            (1452, ErrorKind::Invalid),
            (1205, ErrorKind::Busy),
            (1153, ErrorKind::Invalid),
            (1317, ErrorKind::Timeout),
            (0, ErrorKind::Lost),
            (1064, ErrorKind::Engine),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
