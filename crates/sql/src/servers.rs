//! The servers of a cluster that a URL names: which of them is used, and in which order they are
//! tried.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which servers of a cluster are used; like libpq's `target_session_attrs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetServer {
    /// Any server that accepts the connection.
    #[default]
    Any,
    /// Only the primary: a server that accepts writes.
    Primary,
    /// Only a standby: a server that accepts reads only.
    Standby,
}

impl TargetServer {
    /// Parses `target_session_attrs`. Without it, several servers are searched for the primary.
    ///
    /// # Errors
    /// The values that are permitted.
    pub fn parse(text: Option<&str>, servers: usize) -> Result<Self, &'static str> {
        match text {
            None if servers > 1 => Ok(Self::Primary),
            None | Some("any") => Ok(Self::Any),
            Some("read-write" | "primary") => Ok(Self::Primary),
            Some(_) => Err("write any, read-write or primary"),
        }
    }
}

/// Splits the servers of a URL, which are separated by commas: the host of each, without the brackets
/// of an IPv6 address, and its port, which may be empty.
///
/// # Errors
/// The server with a bracket that is not closed.
pub fn split_servers(text: &str) -> Result<Vec<(&str, &str)>, &str> {
    let split = |server| match str::strip_prefix(server, "[") {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(server)?;
            Ok((host, port.strip_prefix(':').unwrap_or("")))
        }
        None => Ok(server.rsplit_once(':').unwrap_or((server, ""))),
    };
    text.split(',').map(split).collect()
}

/// The server to which the last connection was made. Clones share it.
#[derive(Clone, Default)]
pub struct LastServer(Arc<AtomicUsize>);

impl LastServer {
    /// Returns the numbers of this many servers in the order in which they are tried: first the one
    /// that was connected last.
    pub fn order(&self, servers: usize) -> impl Iterator<Item = usize> + use<> {
        let last = self.0.load(Ordering::Relaxed);
        (last..last + servers).map(move |server| server % servers)
    }

    /// Makes a server the first one that is tried.
    pub fn set(&self, server: usize) {
        self.0.store(server, Ordering::Relaxed);
    }
}

/// Not an option of the user, so all are equal.
impl PartialEq for LastServer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LastServer {}

impl fmt::Debug for LastServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastServer")
    }
}

/// Decodes a part of a URL. Returns `None` if a `%` is not followed by two hexadecimal digits, or the
/// result is not UTF-8.
///
/// ```
/// assert_eq!(marmota_sql::percent_decoded("a%20b").as_deref(), Some("a b"));
/// assert_eq!(marmota_sql::percent_decoded("50%"), None);
/// ```
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}
