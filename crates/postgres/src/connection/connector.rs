//! Establishes connections: reaching the server, TLS, authentication. It blocks, so it runs on its
//! own thread (`slot.rs`).

use std::io;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_sql::TargetServer;
use marmota_store::Durability;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::socket::Socket;
use super::{CancelKey, Connection};
use crate::fault::Failure;
use crate::options::own_connections as own;
use crate::options::{Password, PostgresOptions};
use crate::statement::Text;
use crate::wire::backend::{self, BackendMessage};
use crate::wire::frontend;

/// The reason why no connection was established.
#[derive(Clone, Debug)]
pub(crate) struct NoConnection {
    kind: ErrorKind,
    message: String,
    /// True if another attempt is useless.
    pub(crate) is_final: bool,
    /// True if a pooler refused the settings of a connection.
    is_of_a_pooler: bool,
}

impl NoConnection {
    pub(crate) fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }

    const fn not_final(message: String) -> Self {
        Self { kind: ErrorKind::Refused, message, is_final: false, is_of_a_pooler: false }
    }

    /// Adds the reasons of the servers that were tried before.
    fn after(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        Self {
            kind: if before.is_final { self.kind } else { before.kind },
            message: format!("{}; {}", before.message, self.message),
            is_final: self.is_final && before.is_final,
            is_of_a_pooler: self.is_of_a_pooler || before.is_of_a_pooler,
        }
    }
}

/// The largest message of the server before authentication.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// The types of authentication messages.
mod auth_message {
    pub(super) const DONE: i32 = 0;
    pub(super) const PASSWORD: i32 = 3;
    pub(super) const MD5: i32 = 5;
    pub(super) const SASL: i32 = 10;
    pub(super) const SASL_GOES_ON: i32 = 11;
    pub(super) const SASL_ENDS: i32 = 12;
}

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

/// Establishes a connection to the first server that is the wanted one.
pub(crate) fn connect(
    options: &PostgresOptions,
    purpose: Purpose,
) -> Result<Connection, NoConnection> {
    let mut refused: Option<NoConnection> = None;
    for server in options.servers() {
        let at = options.at(server);
        match connect_to(&at, server, purpose).and_then(|connection| wanted(&at, connection)) {
            Ok(connection) => {
                options.has_connected(server);
                return Ok(connection);
            }
            Err(reason) => refused = Some(reason.after(refused)),
        }
    }
    Err(refused.unwrap_or_else(|| NoConnection::not_final("there is no server".to_owned())))
}

/// Returns the connection if its server is a wanted one.
fn wanted(
    options: &PostgresOptions,
    mut connection: Connection,
) -> Result<Connection, NoConnection> {
    if options.target == TargetServer::Any {
        return Ok(connection);
    }
    let mut is_standby = false;
    let asked = connection
        .query("SELECT pg_is_in_recovery()::text", |row| is_standby = row.text(0) == "true");
    let why = match asked {
        Ok(()) if !is_standby => return Ok(connection),
        Ok(()) => "it is a standby, which accepts no writes".to_owned(),
        Err(error) => error.into_error(options).to_string(),
    };
    connection.close();
    let message = format!("no connection to PostgreSQL at {}: {why}", options.place());
    Err(NoConnection::not_final(message))
}

/// Establishes a connection to the server of these options, which has this number.
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
    let mut greeting = Greeting { options, server, scram: None, key: None };
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 8_192]);
    loop {
        let refused = |what: &str| unreached(io::Error::new(io::ErrorKind::InvalidData, what));
        while let Some((message, taken)) =
            backend::first(&bytes).map_err(|_| refused("the server violated the protocol"))?
        {
            out.clear();
            let ready = greeting.hear(message, &mut out)?;
            if !out.is_empty() {
                socket.write_all(&out).map_err(unreached)?;
            }
            bytes.drain(..taken);
            if ready {
                socket.never_blocks().map_err(unreached)?;
                let mut connection = Connection::new(number, socket, &options.own);
                connection.has_key(greeting.key);
                if options.is_pooled {
                    connection.is_pooled(Text::plain(&settings.of_transaction()));
                }
                return Ok(connection);
            }
        }
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(refused("the server violated the protocol"));
        }
        if Instant::now() >= until {
            return Err(unreached(io::Error::new(
                io::ErrorKind::TimedOut,
                "the connection attempt \
                                                                          timed out",
            )));
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

/// The startup phase before the first query.
struct Greeting<'o> {
    options: &'o PostgresOptions,
    /// The number of the server.
    server: usize,
    scram: Option<ScramSha256>,
    key: Option<CancelKey>,
}

impl Greeting<'_> {
    /// Processes a message and writes the reply to it. Returns true when the startup is complete.
    fn hear(
        &mut self,
        message: BackendMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, NoConnection> {
        match message {
            BackendMessage::Authentication(ask, body) => self.prove(ask, body, out).map(|()| false),
            BackendMessage::ErrorResponse(notice) => Err(self.turned_away(&Failure::new(notice))),
            BackendMessage::BackendKeyData(process, secret) => {
                self.key = Some(CancelKey { server: self.server, process, secret: secret.into() });
                Ok(false)
            }
            BackendMessage::ReadyForQuery(_) => Ok(true),
            _ => Ok(false),
        }
    }

    fn prove(&mut self, ask: i32, body: &[u8], out: &mut Vec<u8>) -> Result<(), NoConnection> {
        match ask {
            auth_message::DONE => {}
            auth_message::PASSWORD => frontend::password(out, self.password()?.as_str().as_bytes()),
            auth_message::MD5 => {
                let salt = body.first_chunk().ok_or_else(|| {
                    self.refused(
                        "the server did not send \
                                                                          a salt",
                    )
                })?;
                let (user, password) = (self.options.user.as_bytes(), self.password()?);
                let hash = md5_hash(user, password.as_str().as_bytes(), *salt);
                frontend::password(out, hash.as_bytes());
            }
            auth_message::SASL => {
                if !body.split(|&byte| byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(self.refused(
                        "the server requires a SASL mechanism other than \
                                             SCRAM-SHA-256",
                    ));
                }
                let password = self.password()?.as_str().as_bytes();
                let scram = ScramSha256::new(password, ChannelBinding::unsupported());
                frontend::sasl_initial(out, SCRAM_SHA_256, scram.message());
                self.scram = Some(scram);
            }
            auth_message::SASL_GOES_ON | auth_message::SASL_ENDS => {
                let Some(scram) = &mut self.scram else {
                    return Err(self.refused(
                        "the server continued an authentication that was not \
                                             started",
                    ));
                };
                let heard = if ask == auth_message::SASL_ENDS {
                    scram.finish(body)
                } else {
                    scram.update(body)
                };
                if ask == auth_message::SASL_GOES_ON && heard.is_ok() {
                    frontend::sasl_response(out, scram.message());
                }
                if let Err(error) = heard {
                    return Err(self.refused(&error.to_string()));
                }
            }
            _ => {
                return Err(self.refused(
                    "the server requires an authentication method that Marmota does not support",
                ));
            }
        }
        Ok(())
    }

    fn password(&self) -> Result<&Password, NoConnection> {
        self.options.password.as_ref().ok_or_else(|| {
            self.refused(
                "the server requires a password: give one in the URL, in PGPASSWORD or in ~/.pgpass",
            )
        })
    }

    /// Returns an error for which another attempt is useless.
    fn refused(&self, why: &str) -> NoConnection {
        let message = format!("no connection to PostgreSQL at {}: {why}", self.options.place());
        NoConnection { kind: ErrorKind::Denied, message, is_final: true, is_of_a_pooler: false }
    }

    /// Returns an error with the server's message. 28… means the user, 3D000 the database, 57P03
    /// that the server is starting, 53300 that it has too many connections.
    fn turned_away(&self, failure: &Failure) -> NoConnection {
        let (user, words) = (&self.options.user, &failure.message);
        let (kind, is_final) = match failure.code() {
            code if code.starts_with("28") => (ErrorKind::Denied, true),
            "3D000" | "22023" => (ErrorKind::Invalid, true),
            _ => (ErrorKind::Refused, false),
        };
        let place = self.options.place();
        let message = format!("PostgreSQL at {place} refused the login of {user}: {words}");
        // PgBouncer's message: a server names an unknown setting differently.
        let is_of_a_pooler = words.contains("unsupported startup parameter");
        NoConnection { kind, message, is_final, is_of_a_pooler }
    }
}
