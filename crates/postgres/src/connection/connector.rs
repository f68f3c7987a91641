//! Establishes connections: reaching the server, login, the choice among several servers. It blocks,
//! so it runs on its own thread (`slot.rs`).

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::ErrorKind;
use marmota_sql::TargetServer;
use marmota_store::Durability;
use marmota_store::engine::Source;

use super::login::Login;
use super::no_connection::NoConnection;
use super::socket::Socket;
use super::{CancelKey, Connection};
use crate::options::PostgresOptions;
use crate::options::own_connections as own;
use crate::statement::Text;
use crate::wire::backend;
use crate::wire::frontend;

/// The largest message of the server before authentication.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// The purpose of a connection, which determines its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The reads of a thread: the server refuses changes.
    Reads,
    /// The writes of a thread, in order. A write that waits for a lock fails after
    /// [`SHARED_LOCK_TIMEOUT`], since those after it wait as well.
    SharedWrites,
    /// One operation or transaction at a time.
    #[default]
    Exclusive,
}

/// The time that a write waits for a lock on a shared connection.
pub(crate) const SHARED_LOCK_TIMEOUT: Duration = Duration::from_millis(5);

/// The time for each of several servers at first: one that does not answer must not delay finding
/// the others.
pub(crate) const QUICK: Duration = Duration::from_secs(1);

/// The time for each of them afterwards, if one has answered that it is not the wanted one: it may
/// become that soon.
const PATIENT: Duration = Duration::from_secs(3);

/// Establishes a connection to the first server that is the wanted one.
pub(crate) fn connect(
    options: &PostgresOptions,
    purpose: Purpose,
) -> Result<Connection, NoConnection> {
    if options.other_servers.is_empty() {
        return connect_to(options, 0, purpose);
    }
    let begun = Instant::now();
    match connect_quickly(options, purpose) {
        Err(_) if begun.elapsed() >= QUICK => {
            let servers = u32::try_from(options.servers().count()).unwrap_or(u32::MAX);
            let has_answer = begun.elapsed() < QUICK * servers;
            connect_to_any(options, purpose, if has_answer { PATIENT } else { Duration::MAX })
        }
        done => done,
    }
}

/// Establishes a connection to the first of several servers that is the wanted one, without waiting
/// for one that does not answer.
pub(crate) fn connect_quickly(
    options: &PostgresOptions,
    purpose: Purpose,
) -> Result<Connection, NoConnection> {
    connect_to_any(options, purpose, QUICK)
}

/// Establishes a connection to the first of several servers that is the wanted one, each within this
/// time.
fn connect_to_any(
    options: &PostgresOptions,
    purpose: Purpose,
    timeout: Duration,
) -> Result<Connection, NoConnection> {
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    let mut refused: Option<NoConnection> = None;
    for server in options.servers() {
        let mut at = options.at(server).into_owned();
        at.connect_timeout_ms = at.connect_timeout_ms.min(timeout_ms);
        match connect_to(&at, server, purpose) {
            Ok(connection) => {
                options.has_connected(server);
                return Ok(connection);
            }
            Err(reason) => refused = Some(reason.after(refused)),
        }
    }
    Err(refused.unwrap_or_else(|| NoConnection::not_final("there is no server".to_owned())))
}

/// Checks that a server is a wanted one. `is_standby` is what it reported at login, if it did:
/// servers before PostgreSQL 14 do not, and poolers do not pass it on.
fn check_target(
    options: &PostgresOptions,
    is_standby: Option<bool>,
    connection: &mut Connection,
) -> Result<(), NoConnection> {
    if options.target == TargetServer::Any {
        return Ok(());
    }
    let is_standby = match is_standby {
        Some(is_standby) => Ok(is_standby),
        None => {
            let mut answer = false;
            let sql = "SELECT pg_is_in_recovery()::text";
            let asked = connection.query(sql, |row| answer = row.text(0) == "true");
            asked.map(|()| answer)
        }
    };
    let wants_standby = options.target == TargetServer::Standby;
    let why = match is_standby {
        Ok(is_standby) if is_standby == wants_standby => {
            connection.ends_with_recovery(wants_standby);
            return Ok(());
        }
        Ok(true) => "it is a standby, which accepts no writes".to_owned(),
        Ok(false) => "it is not a standby".to_owned(),
        Err(error) => error.into_error(options).to_string(),
    };
    let message = format!("no connection to PostgreSQL at {}: {why}", options.place());
    Err(NoConnection::not_final(message))
}

/// Establishes a connection to the server of these options, which has this number, if it is a
/// wanted one.
fn connect_to(
    options: &PostgresOptions,
    server: usize,
    purpose: Purpose,
) -> Result<Connection, NoConnection> {
    let until = Instant::now() + Duration::from_millis(options.connect_timeout_ms.into());
    let unreached = |error: io::Error| NoConnection {
        kind: ErrorKind::Refused,
        message: format!("no connection to PostgreSQL at {}: {error}", options.place()),
        is_final: matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::InvalidData
        ),
        is_of_a_pooler: false,
    };
    let mut socket = Socket::connect(options, until).map_err(unreached)?;
    options.current_server.watch(server, &(Arc::clone(socket.stream()) as Source));
    let (number, mut out) = (Connection::next_number(), Vec::new());
    let name = options.own.name(number);
    let settings = Settings::new(options, &name, purpose);
    let who = [
        ("user", &*options.user),
        ("database", &options.database),
        ("application_name", &options.application_name),
        ("client_encoding", "UTF8"),
    ];
    match options.is_pooled {
        true => frontend::startup(&mut out, who),
        false => frontend::startup(&mut out, who.into_iter().chain(settings.of_session())),
    }
    socket.write_all(&out).map_err(unreached)?;
    let mut login = Login::new(options, server);
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 8_192]);
    loop {
        let refused = |what: &str| unreached(io::Error::new(io::ErrorKind::InvalidData, what));
        while let Some((message, taken)) =
            backend::first(&bytes).map_err(|_| refused("the server violated the protocol"))?
        {
            out.clear();
            let ready = login.hear(message, &mut out)?;
            if !out.is_empty() {
                socket.write_all(&out).map_err(unreached)?;
            }
            bytes.drain(..taken);
            if ready {
                socket.never_blocks().map_err(unreached)?;
                let mut connection = Connection::new(number, socket, &options.own);
                connection.has_key(login.key, &options.own);
                if options.is_pooled {
                    connection.is_pooled(Text::plain(&settings.of_transaction()));
                }
                let checked = check_target(options, login.is_standby, &mut connection);
                return match checked {
                    Ok(()) => Ok(connection),
                    Err(reason) => {
                        connection.close();
                        Err(reason)
                    }
                };
            }
        }
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(refused("the server violated the protocol"));
        }
        if Instant::now() >= until {
            let message = "the connection attempt timed out";
            return Err(unreached(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        match socket.read(&mut chunk).map_err(unreached)? {
            0 => {
                let message = "the server closed the connection during the login";
                return Err(unreached(io::Error::new(io::ErrorKind::UnexpectedEof, message)));
            }
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

/// The settings of a connection.
struct Settings<'a> {
    statement_timeout: String,
    synchronous_commit: &'static str,
    read_only: &'static str,
    /// In milliseconds; the server's own if `None`.
    lock_timeout: Option<String>,
    name: &'a str,
    /// The schemas in which names are looked up; the server's own if `None`.
    search_path: Option<String>,
    /// How changes are recorded, if they are.
    feed: Option<&'static str>,
}

impl<'a> Settings<'a> {
    fn new(options: &PostgresOptions, name: &'a str, purpose: Purpose) -> Self {
        let on = |is_on| if is_on { "on" } else { "off" };
        Self {
            statement_timeout: options.statement_timeout_ms.to_string(),
            synchronous_commit: on(options.durability == Durability::Full),
            read_only: on(purpose == Purpose::Reads),
            lock_timeout: (purpose == Purpose::SharedWrites)
                .then(|| SHARED_LOCK_TIMEOUT.as_millis().to_string()),
            name,
            search_path: options.schema.as_ref().map(|schema| format!("\"{schema}\"")),
            feed: options.own.records().then_some(match purpose {
                Purpose::SharedWrites => own::DIRECT,
                _ => own::PENDING,
            }),
        }
    }

    /// Returns the settings for all transactions of a connection.
    fn of_session(&self) -> impl Iterator<Item = (&str, &str)> {
        let settings = [
            ("statement_timeout", &*self.statement_timeout),
            ("synchronous_commit", self.synchronous_commit),
            ("default_transaction_read_only", self.read_only),
            // A timestamp without a zone is one in UTC.
            ("TimeZone", "UTC"),
            (own::SETTING, self.name),
        ];
        let lock_timeout = self.lock_timeout.as_deref().map(|time| ("lock_timeout", time));
        let search_path = self.search_path.as_deref().map(|path| ("search_path", path));
        let feed = self.feed.map(|value| (own::FEED_SETTING, value));
        settings.into_iter().chain(lock_timeout).chain(search_path).chain(feed)
    }

    /// Returns SQL that applies them to the current transaction.
    fn of_transaction(&self) -> String {
        let mut sql = String::from("SELECT 1 WHERE ");
        for (setting, value) in self.of_session() {
            // Read-only cannot be revoked before the transaction ends.
            let setting = setting.trim_start_matches("default_");
            if (setting, value) != ("transaction_read_only", "off") {
                sql.push_str(&format!("set_config('{setting}','{value}',true)||"));
            }
        }
        sql + "'' IS NULL"
    }
}

/// Establishes the first connection, and detects a connection pooler: it refuses settings at
/// startup, or forgets them.
pub(crate) fn connect_first(options: &mut PostgresOptions) -> Result<Connection, NoConnection> {
    match connect(options, Purpose::Exclusive) {
        Ok(mut connection) => {
            let mut known = String::new();
            let sql = format!("SELECT current_setting('{}',true)", own::SETTING);
            let asked = connection.query(&sql, |row| known = row.text(0).to_owned());
            let is_direct = known == options.own.name(connection.number());
            if asked.is_err() || is_direct {
                return Ok(connection);
            }
            connection.close();
        }
        Err(refused) if refused.is_of_a_pooler => {}
        Err(refused) => return Err(refused),
    }
    options.is_pooled = true;
    log::info!(
        "PostgreSQL at {} is connected through a pooler: statements are not kept prepared, and \
         each transaction sets its settings",
        options.place()
    );
    connect(options, Purpose::Exclusive)
}

/// Sends a cancel request for another connection over a separate connection. It has been received
/// when this returns.
pub(crate) fn cancel(options: &PostgresOptions, key: &CancelKey) -> io::Result<()> {
    let until = Instant::now() + Duration::from_millis(options.connect_timeout_ms.into());
    let mut socket = Socket::connect(&options.at(key.server), until)?;
    let mut out = Vec::new();
    frontend::cancel_request(&mut out, key.process, &key.secret);
    socket.write_all(&out)?;
    // The server sends no answer and closes the connection.
    while socket.read(&mut [0; 64])? > 0 {}
    Ok(())
}
