//! One answer that redirects or refuses a client, and the end of the connection: for plain HTTP on
//! a port with TLS, and for plain HTTP on a port that only redirects to HTTPS.
//!
//! It takes over a connection like any [`Protocol`], before the first request: routes and layers
//! are not involved.

use crate::message::forwarded::authority;
use crate::message::problem::{self, PROBLEM_JSON};
use crate::message::protocol::{Protocol, ProtocolStep, Turn};
use crate::message::thread_locals::ThreadLocals;
use crate::proto::head::{Head, HeadLimits};
use crate::proto::status::Status;

/// The kind of answer. Both end the connection, so that the client connects anew, to the right port
/// or with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectResponder {
    /// The request must be encrypted (400).
    #[cfg(feature = "tls")]
    Encrypt,
    /// The resource is at this HTTPS port (308).
    Redirect { port: u16 },
}

/// A responder that waits for a head, with its deadline.
pub(crate) struct PendingRedirect {
    responder: RedirectResponder,
    /// Set at the first turn.
    deadline_ms: Option<u64>,
}

impl RedirectResponder {
    /// Returns the protocol that sends this answer.
    pub(crate) fn wait(self) -> Box<PendingRedirect> {
        Box::new(PendingRedirect { responder: self, deadline_ms: None })
    }

    /// Writes the answer to a head. An invalid head is passed as an empty one; it is refused, since
    /// it has no host.
    fn answer(self, input: &[u8], head: &Head, out: &mut Vec<u8>, local: &ThreadLocals) {
        let refused = |detail| {
            let body = problem::document(Status::BAD_REQUEST, Some(detail));
            ("400 Bad Request", format!("Content-Type: {PROBLEM_JSON}\r\n"), body)
        };
        let (status, header, body) = match self {
            #[cfg(feature = "tls")]
            Self::Encrypt => refused("this port speaks TLS: use https://, not http://"),
            Self::Redirect { port } => match location(input, head, port) {
                Some(location) => {
                    ("308 Permanent Redirect", format!("Location: {location}\r\n"), Vec::new())
                }
                None => {
                    refused("this port only redirects to HTTPS, for requests that name their host")
                }
            },
        };
        out.extend_from_slice(format!("HTTP/1.1 {status}\r\n").as_bytes());
        out.extend_from_slice(local.head_common());
        let length = body.len();
        let rest = format!("{header}Connection: close\r\nContent-Length: {length}\r\n\r\n");
        out.extend_from_slice(rest.as_bytes());
        out.extend_from_slice(&body);
    }
}

/// Returns the HTTPS URL of a request: host and path of the target, or the `Host` header, with this
/// port. `None` if the request does not name its host. The port is omitted if it is 443.
fn location(input: &[u8], head: &Head, port: u16) -> Option<String> {
    let target = std::str::from_utf8(head.target.of(input)).ok()?;
    let by_header = || {
        let mut headers = head.headers.iter();
        let host = headers.find(|header| header.name.of(input).eq_ignore_ascii_case(b"host"))?;
        std::str::from_utf8(host.value.of(input)).ok()
    };
    let host = authority(target).or_else(by_header)?;
    // An IPv6 address in brackets contains colons.
    let name_end = host.rfind(']').map_or(0, |at| at + 1);
    let name = match host[name_end..].find(':') {
        Some(colon) => &host[..name_end + colon],
        None => host,
    };
    let path = std::str::from_utf8(head.path.of(input)).ok()?;
    let query = head.query.map_or(Some(""), |query| std::str::from_utf8(query.of(input)).ok())?;
    let mark = if head.query.is_some() { "?" } else { "" };
    let path = if path.starts_with('/') { path } else { "/" };
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    (!name.is_empty()).then(|| format!("https://{name}{port}{path}{mark}{query}"))
}

impl Protocol for PendingRedirect {
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        let local = &turn.local;
        let deadline_ms =
            *self.deadline_ms.get_or_insert(local.now_ms + local.limits.header_timeout_ms);
        let mut head = Head::default();
        let limits: &HeadLimits = &local.head_limits;
        match head.parse(turn.input, 0, limits) {
            Ok(false) if turn.ended || local.draining || local.now_ms >= deadline_ms => {
                ProtocolStep::Close { linger: false }
            }
            Ok(false) => ProtocolStep::Wait { hungry: true, deadline_ms },
            read => {
                if read.is_err() {
                    head = Head::default();
                }
                self.responder.answer(turn.input, &head, turn.output, turn.local);
                turn.used = turn.input.len();
                ProtocolStep::Close { linger: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_keeps_host_path_and_query() {
        let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
        for (target, host, port, expected) in [
            ("/a?b=1", "x.test:80", 443, "https://x.test/a?b=1"),
            ("/", "x.test", 8443, "https://x.test:8443/"),
            ("/a", "[::1]:8080", 443, "https://[::1]/a"),
            ("/a", "[::1]", 8443, "https://[::1]:8443/a"),
            ("http://y.test/q?", "x.test", 443, "https://y.test/q?"),
        ] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let mut head = Head::default();
            assert_eq!(head.parse(text.as_bytes(), 0, &limits), Ok(true), "{text}");
            assert_eq!(location(text.as_bytes(), &head, port).as_deref(), Some(expected));
        }
    }
}
