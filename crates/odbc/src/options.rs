//! The options of an engine: the connection string of ODBC, and the limits of the pool.

use std::fmt;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};

/// The default of [`OdbcOptions::connections_max`].
const CONNECTIONS_MAX: usize = 16;
/// The default of [`OdbcOptions::lock_timeout`].
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// The attributes that [`OdbcOptions::place`] shows: others may contain a password.
const SHOWN: [&str; 8] =
    ["dsn", "driver", "server", "servername", "host", "port", "database", "dbq"];

/// The options of an engine over ODBC.
///
/// ```
/// use marmota_odbc::OdbcOptions;
/// let options = OdbcOptions::parse("odbc:DSN=sales;UID=ada;PWD={a;b};ConnectionsMax=4")?;
/// assert_eq!(options.connections_max, 4);
/// assert_eq!(options.place(), "DSN=sales");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct OdbcOptions {
    pub(crate) text: String,
    place: String,
    pub(crate) is_local: bool,
    /// The maximum number of connections of each purpose: reads, writes, and transactions. Default:
    /// 16.
    pub connections_max: usize,
    /// The longest time that a write waits for a row lock, if the database supports that. Default:
    /// 30 s.
    pub lock_timeout: Duration,
}

impl OdbcOptions {
    /// Parses `odbc:` and a connection string, such as
    /// `odbc:Driver={MariaDB Unicode};Server=localhost;Database=app;UID=ada;PWD=secret`. A value
    /// with a semicolon stands in braces, in which `}` is doubled.
    ///
    /// The attributes `ConnectionsMax` and `LockTimeout` (in seconds) set the fields of this struct.
    /// All others are passed to the driver manager.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a string of another form, or without `DSN` and `Driver`.
    pub fn parse(url: &str) -> Result<Self> {
        let text =
            url.strip_prefix("odbc:").ok_or_else(|| invalid("it must begin with `odbc:`"))?;
        let (mut connections_max, mut lock_timeout) = (CONNECTIONS_MAX, LOCK_TIMEOUT);
        let (mut kept, mut shown) = (Vec::new(), Vec::new());
        let (mut has_source, mut is_local) = (false, false);
        for (name, value) in attributes(text)? {
            let number = |most: u32| {
                let number = value.parse().ok().filter(|number| (1..=most).contains(number));
                number.ok_or_else(|| {
                    invalid(&format!("`{name}={value}`: must be a number from 1 to {most}"))
                })
            };
            match name.to_ascii_lowercase().as_str() {
                "connectionsmax" => {
                    connections_max = number(10_000)? as usize;
                    continue;
                }
                "locktimeout" => {
                    lock_timeout = Duration::from_secs(number(3_600)?.into());
                    continue;
                }
                "dsn" | "driver" | "filedsn" => has_source = true,
                "server" | "servername" | "host" => {
                    is_local = matches!(value, "localhost" | "127.0.0.1" | "::1");
                }
                _ => {}
            }
            if SHOWN.contains(&name.to_ascii_lowercase().as_str()) {
                shown.push(format!("{name}={value}"));
            }
            kept.push(format!("{name}={value}"));
        }
        if !has_source {
            return Err(invalid(
                "it has neither `DSN=…` nor `Driver=…`; `odbcinst -q -d` lists the drivers, and \
                 `odbcinst -q -s` the data sources",
            ));
        }
        let (text, place) = (kept.join(";") + ";", shown.join(";"));
        Ok(Self { text, place, is_local, connections_max, lock_timeout })
    }

    /// Adds an attribute, unless the connection string has it.
    pub(crate) fn add_default(&mut self, name: &str, value: &str) {
        let has = |text: &str| {
            let mut found = attributes(text).unwrap_or_default().into_iter();
            found.any(|(own, _)| own.eq_ignore_ascii_case(name))
        };
        if !has(&self.text) {
            self.text.push_str(&format!("{name}={value};"));
        }
    }

    /// Returns the data source or the driver, the server and the database, without other attributes.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Debug for OdbcOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OdbcOptions({})", self.place)
    }
}

/// Returns the attributes of a connection string; values keep their braces.
fn attributes(mut text: &str) -> Result<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    loop {
        text = text.trim_start_matches([';', ' ']);
        if text.is_empty() {
            return Ok(found);
        }
        // The text is not shown: it may contain a password.
        let (name, rest) = text
            .split_once('=')
            .ok_or_else(|| invalid("an attribute has no `=`: NAME=VALUE;NAME=VALUE"))?;
        let end = match rest.strip_prefix('{') {
            Some(braced) => 1 + closing_brace(braced)?,
            None => rest.find(';').unwrap_or(rest.len()),
        };
        found.push((name.trim(), rest[..end].trim()));
        text = &rest[end..];
        if !text.is_empty() && !text.starts_with(';') {
            return Err(invalid("text after `}`: a value ends there, and `;` follows"));
        }
    }
}

/// Returns the end of the text up to its `}`, of which two stand for one in the text.
fn closing_brace(text: &str) -> Result<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('}') {
        at += found + 1;
        if !text[at..].starts_with('}') {
            return Ok(at);
        }
        at += 1;
    }
    Err(invalid("`{` without `}`: a value in braces ends with `}`, and `}}` stands for one in it"))
}

/// The error for a URL that cannot be used. It does not contain the URL, which may have a password.
fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("the URL of ODBC is invalid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_attribute_and_no_password() {
        for (url, part) in [
            ("odbc:DSN=a;PWD=secret;ConnectionsMax=0", "ConnectionsMax=0"),
            ("odbc:Server=a;PWD=secret", "Driver="),
            ("odbc:DSN=a;PWD={secret", "`{` without `}`"),
            ("odbc:DSN=a;PWD={secret}more", "after `}`"),
            ("odbc:DSN=a;secret", "no `=`"),
            ("mysql://secret", "odbc:"),
        ] {
            let error = OdbcOptions::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.message().contains(part), "{error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }

    #[test]
    fn values_in_braces_are_passed_as_they_are() {
        let options = OdbcOptions::parse("odbc:Driver={A B};PWD={x;}}=y};Server=h").unwrap();
        assert_eq!(options.text, "Driver={A B};PWD={x;}}=y};Server=h;");
        assert_eq!(options.place(), "Driver={A B};Server=h");
    }
}
