//! The parts of a URL, decoded, by libpq's names.

use marmota_model::{Error, ErrorKind, Result};
use marmota_sql::{percent_decoded, split_servers};

use super::invalid;

/// The names that a URL may contain after its `?`.
const NAMES: [&str; 17] = [
    "host",
    "port",
    "user",
    "password",
    "dbname",
    "sslmode",
    "sslrootcert",
    "application_name",
    "connect_timeout",
    "durability",
    "acquire_timeout_ms",
    "statement_timeout_ms",
    "connections_max",
    "group_reads",
    "direct_url",
    "schema",
    "target_session_attrs",
];

/// The parts of a URL.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<(String, String)>);

impl Parts {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Invalid,
                    "the URL of a PostgreSQL server must begin with postgres:// or postgresql://, \
                     as in postgres://user:password@host:5432/database",
                )
            })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut parts = Self::default();
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, password),
            None => (user, ""),
        };
        parts.add("user", user)?;
        parts.add("password", password)?;
        parts.add_servers(host)?;
        parts.add("dbname", database)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !NAMES.contains(&name) {
                let message = format!(
                    "`{}` is not an option of a PostgreSQL URL; the options are: {}",
                    marmota_model::text::excerpt(name),
                    NAMES.join(", ")
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            if value.is_empty() {
                return Err(invalid(name, "", "add a value, or leave the option out"));
            }
            parts.add(name, value)?;
        }
        Ok(parts)
    }

    /// Adds the servers, which are separated by commas, as a list of hosts and one of ports.
    fn add_servers(&mut self, servers: &str) -> Result<()> {
        let servers = split_servers(servers)
            .map_err(|server| invalid("host", server, "a `[` without its `]`"))?;
        let (hosts, ports): (Vec<&str>, Vec<&str>) = servers.into_iter().unzip();
        self.add("host", &hosts.join(","))?;
        match ports.iter().all(|port| port.is_empty()) {
            true => Ok(()),
            false => self.add("port", &ports.join(",")),
        }
    }

    /// Adds a part, unless it is empty.
    fn add(&mut self, name: &str, value: &str) -> Result<()> {
        if !value.is_empty() {
            let is_secret = matches!(name, "password" | "direct_url");
            let shown = if is_secret { "…" } else { value };
            let decoded = percent_decoded(value).ok_or_else(|| {
                invalid(
                    name,
                    shown,
                    "a `%` must be followed by two hexadecimal \
                                                     digits, and the result must be UTF-8",
                )
            })?;
            self.0.push((name.to_owned(), decoded));
        }
        Ok(())
    }

    /// Returns the part with this name; the last one if it is repeated.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    }
}
