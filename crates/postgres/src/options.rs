//! Connection options: the server, the user and the timeouts.

pub(crate) mod current_server;
pub(crate) mod own_connections;
mod password_file;
mod servers;
mod url;

use std::fmt;
use std::path::PathBuf;

use marmota_model::{Error, ErrorKind, Result};
use marmota_sql::TargetServer;
use marmota_store::Durability;

use crate::options::current_server::CurrentServer;
use crate::options::own_connections::OwnConnections;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host name or IP address.
    Tcp(String),
    /// The folder of a Unix socket.
    Unix(PathBuf),
}

/// The encryption of a connection and the checks of the server's certificate; like libpq's
/// `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server supports it; nothing is checked.
    #[default]
    Prefer,
    /// Always encrypted; nothing is checked, unless a root certificate is given.
    Require,
    /// Always encrypted; the certificate must be signed by the root.
    VerifyCa,
    /// Always encrypted; the certificate must be signed by the root and contain the host's name.
    VerifyFull,
}

/// A password. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Creates a password.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Connection options: the server, the user and the timeouts.
///
/// ```
/// use marmota_postgres::{Host, PostgresOptions, TlsMode};
/// let options = PostgresOptions::parse("postgres://ada:secret@db.example.org/app?sslmode=verify-full")?;
/// assert_eq!(options.host, Host::Tcp("db.example.org".to_owned()));
/// assert_eq!((options.port, options.tls_mode), (5432, TlsMode::VerifyFull));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The address of the server.
    pub host: Host,
    /// Its port; part of the name of a Unix socket.
    pub port: u16,
    /// Further servers of the same cluster, by host and port. The server that was connected last is
    /// tried first, then the others in turn, each within [`Self::connect_timeout_ms`].
    pub other_servers: Vec<(Host, u16)>,
    /// Which of the servers are used. Default: any; the primary if there are several servers.
    pub target: TargetServer,
    /// The user.
    pub user: String,
    /// The password, if the server requests one.
    pub password: Option<Password>,
    /// The database.
    pub database: String,
    /// The encryption of connections over TCP.
    pub tls_mode: TlsMode,
    /// The root certificates, in PEM, that must have signed the server's. Default: libpq's
    /// `~/.postgresql/root.crt`, if it exists.
    pub tls_root: Option<PathBuf>,
    /// The name of these connections in the server's views and logs.
    pub application_name: String,
    /// The schema with the tables; `None` for the first one of the search path.
    pub schema: Option<String>,
    /// The durability of writes: full waits for the server's disk, otherwise for its memory.
    pub durability: Durability,
    /// The time limit of one attempt to connect, in milliseconds.
    pub connect_timeout_ms: u32,
    /// The time that an operation waits for a connection before it fails with [`ErrorKind::Busy`],
    /// or [`ErrorKind::Refused`] if the server is not there; also the time that a close waits for
    /// open transactions. In milliseconds.
    pub acquire_timeout_ms: u32,
    /// The time limit of one statement on the server, including waiting for locks, before it fails
    /// with [`ErrorKind::Timeout`], in milliseconds; 0 if unlimited.
    pub statement_timeout_ms: u32,
    /// The most connections. A quarter of them carry reads and a quarter writes, shared by all
    /// threads, in the order of submission; the rest are exclusive connections for transactions.
    pub connections_max: u16,
    /// True if reads by key that a thread sends together share one Sync message: PostgreSQL then
    /// sends their answers together, at a third of the processor time for each. Reads that fail
    /// because of another read's error are sent again. Default: true.
    pub group_reads: bool,
    /// The server itself, if these options name a connection pooler: a pooler does not forward
    /// announcements, which a cache needs ([`PostgresOptions::parse`]: `direct_url`). Default:
    /// none.
    pub direct: Option<Box<Self>>,
    /// The server that is used.
    pub(crate) current_server: CurrentServer,
    /// The connections made with these options.
    pub(crate) own: OwnConnections,
    /// True if server connections change between transactions.
    pub(crate) is_pooled: bool,
}

impl PostgresOptions {
    /// Parses a URL, with defaults from libpq's environment variables (`PGHOST`, `PGPORT`,
    /// `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGSSLMODE`, `PGSSLROOTCERT`, `PGCONNECT_TIMEOUT`,
    /// `PGTARGETSESSIONATTRS`, `PGAPPNAME`, `PGPASSFILE`) and its password file `~/.pgpass`. Default user: that of the
    /// process; default database: the user's name.
    ///
    /// `postgres://user:password@host:port/database?name=value&…`, or `postgresql:`; for a Unix
    /// socket, its folder as `?host=/run/postgresql`. The servers of a cluster are separated by
    /// commas: `host1:port1,host2:port2`. Further names: `port`, `user`, `password`, `dbname`,
    /// `sslmode`, `sslrootcert`, `application_name`, `connect_timeout` (seconds),
    /// `target_session_attrs` (any, read-write or primary), and Marmota's own `durability`,
    /// `acquire_timeout_ms`, `statement_timeout_ms`, `connections_max`, `group_reads` (true or
    /// false), `schema`, the schema with the tables, and `direct_url`, the URL of the server itself
    /// if this one names a connection pooler.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] naming the invalid part, never a password.
    pub fn parse(url: &str) -> Result<Self> {
        Self::parse_in(url, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn parse_in(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let given = url::Parts::parse(url)?;
        let part = |name: &str, variable: &str| given.get(name).or_else(|| environment(variable));
        let servers =
            servers::parse(part("host", "PGHOST").as_deref(), part("port", "PGPORT").as_deref())?;
        let target = part("target_session_attrs", "PGTARGETSESSIONATTRS");
        let target = TargetServer::parse(target.as_deref(), servers.len()).map_err(|why| {
            invalid("target_session_attrs", target.as_deref().unwrap_or_default(), why)
        })?;
        let mut servers = servers.into_iter();
        let (host, port) = servers.next().ok_or_else(|| invalid("host", "", "name a host"))?;
        let user = part("user", "PGUSER")
            .or_else(|| system_user().map(|user| user.name))
            .or_else(|| environment("USER"))
            .ok_or_else(|| {
                invalid("user", "", "add a user, as in postgres://user@host/database")
            })?;
        let database = part("dbname", "PGDATABASE").unwrap_or_else(|| user.clone());
        let mut options = Self {
            host,
            port,
            other_servers: servers.collect(),
            target,
            user,
            password: part("password", "PGPASSWORD").map(Password),
            database,
            tls_mode: tls_mode(part("sslmode", "PGSSLMODE").as_deref())?,
            tls_root: part("sslrootcert", "PGSSLROOTCERT").map(PathBuf::from),
            application_name: part("application_name", "PGAPPNAME")
                .unwrap_or_else(|| "marmota".to_owned()),
            schema: schema(given.get("schema"))?,
            durability: durability(given.get("durability").as_deref())?,
            connect_timeout_ms: number::<u32>(
                "connect_timeout",
                part("connect_timeout", "PGCONNECT_TIMEOUT"),
                10,
            )?
            .clamp(1, 3_600)
                * 1_000,
            acquire_timeout_ms: number(
                "acquire_timeout_ms",
                given.get("acquire_timeout_ms"),
                5_000,
            )?,
            statement_timeout_ms: number(
                "statement_timeout_ms",
                given.get("statement_timeout_ms"),
                30_000,
            )?,
            connections_max: number("connections_max", given.get("connections_max"), 40)?,
            group_reads: match given.get("group_reads").as_deref() {
                None | Some("true") => true,
                Some("false") => false,
                Some(other) => {
                    return Err(invalid("group_reads", other, "write true or false"));
                }
            },
            direct: match given.get("direct_url") {
                Some(url) if url::Parts::parse(&url)?.get("direct_url").is_some() => {
                    return Err(invalid(
                        "direct_url",
                        "…",
                        "the URL in `direct_url` cannot have a \
                                                           `direct_url` itself",
                    ));
                }
                Some(url) => Some(Box::new(Self::parse_in(&url, environment)?)),
                None => None,
            },
            current_server: CurrentServer::default(),
            own: OwnConnections::default(),
            is_pooled: false,
        };
        if options.connections_max < CONNECTIONS_LEAST {
            let value = options.connections_max.to_string();
            let why = format!("write {CONNECTIONS_LEAST} or more");
            return Err(invalid("connections_max", &value, &why));
        }
        if options.password.is_none() {
            options.password = password_file::look_up(&options, environment)?.map(Password);
        }
        Ok(options)
    }

    /// Returns the number of connections for reads, which equals that for writes.
    pub(crate) fn slots_max(&self) -> usize {
        usize::from(self.connections_max / 4)
    }
}

/// Returns the user of this process from the system's user database, like libpq; `None` for an id
/// without a name, as in some containers.
fn system_user() -> Option<nix::unistd::User> {
    nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok().flatten()
}

/// One each for reads and for writes, and two for transactions.
const CONNECTIONS_LEAST: u16 = 4;

#[cold]
fn invalid(part: &str, value: &str, why: &str) -> Error {
    let value = marmota_model::text::excerpt(value);
    let message = format!("`{part}` of the PostgreSQL URL is {value:?}: {why}");
    Error::new(ErrorKind::Invalid, message)
}

fn number<T: std::str::FromStr>(part: &str, text: Option<String>, otherwise: T) -> Result<T> {
    let Some(text) = text else { return Ok(otherwise) };
    text.parse().map_err(|_| invalid(part, &text, "write an integer within the allowed range"))
}

fn tls_mode(text: Option<&str>) -> Result<TlsMode> {
    Ok(match text {
        None | Some("prefer" | "allow") => TlsMode::Prefer,
        Some("disable") => TlsMode::Disable,
        Some("require") => TlsMode::Require,
        Some("verify-ca") => TlsMode::VerifyCa,
        Some("verify-full") => TlsMode::VerifyFull,
        Some(other) => {
            let why = "write disable, prefer, require, verify-ca or verify-full";
            return Err(invalid("sslmode", other, why));
        }
    })
}

/// Checks the name of a schema, which becomes a part of a setting.
fn schema(name: Option<String>) -> Result<Option<String>> {
    let is_plain = |name: &String| {
        name.len() <= 63 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match name {
        Some(name) if !is_plain(&name) => {
            Err(invalid("schema", &name, "write a name of ASCII letters, digits and `_`"))
        }
        name => Ok(name),
    }
}

fn durability(text: Option<&str>) -> Result<Durability> {
    Ok(match text {
        None | Some("full") => Durability::Full,
        Some("relaxed") => Durability::Relaxed,
        Some("none") => Durability::None,
        Some(other) => return Err(invalid("durability", other, "write full, relaxed or none")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<PostgresOptions> {
        PostgresOptions::parse_in(url, &|name| match name {
            "PGUSER" => Some("env".to_owned()),
            "PGSSLMODE" => Some("require".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn every_part_of_a_url_is_taken() {
        let options = parse(
            "postgresql://a%40b:p%3Aw@[::1]:7000/my%20db?sslmode=disable&connect_timeout=3\
             &statement_timeout_ms=0&connections_max=9&durability=relaxed",
        )
        .unwrap();
        assert_eq!((&*options.user, &*options.database), ("a@b", "my db"));
        assert_eq!(options.password, Some(Password::new("p:w")));
        assert_eq!((options.host.clone(), options.port), (Host::Tcp("::1".to_owned()), 7000));
        assert_eq!((options.tls_mode, options.connect_timeout_ms), (TlsMode::Disable, 3_000));
        assert_eq!((options.statement_timeout_ms, options.connections_max), (0, 9));
        assert_eq!(options.place(), "::1:7000/my db");
    }

    #[test]
    fn the_environment_stands_behind_the_url() {
        let options = parse("postgres:///?host=/run/pg").unwrap();
        assert_eq!((&*options.user, &*options.database), ("env", "env"));
        assert_eq!(options.host, Host::Unix("/run/pg".into()));
        assert_eq!(options.tls_mode, TlsMode::Require);
    }

    #[test]
    fn a_url_without_a_user_asks_the_system() {
        let options = PostgresOptions::parse_in("postgres://h/d", &|_| None).unwrap();
        let id = std::process::Command::new("id").arg("-un").output().unwrap();
        assert_eq!(options.user, String::from_utf8(id.stdout).unwrap().trim());
        // Like in libpq, the variable `USER` of a shell does not override it.
        let with_shell = |name: &str| (name == "USER").then(|| "shell".to_owned());
        let options = PostgresOptions::parse_in("postgres://h/d", &with_shell).unwrap();
        assert_ne!(options.user, "shell");
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for (url, part) in [
            ("postgres://u:hush@h:99999/d", "`port`"),
            ("postgres://u:hush@h/d?sslmode=maybe", "`sslmode`"),
            ("postgres://u:hush@h/d?colour=red", "`colour`"),
            ("postgres://u:hush@h/d?connections_max=2", "`connections_max`"),
            ("postgres://u:hu%zzsh@h/d", "`password`"),
            ("postgres://u:hush@h/d?durability", "`durability`"),
            ("postgres:u:hush@h", "postgres://"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hu"), "{error}");
        }
    }
}
