//! The request of a client that upgrades its connection from HTTP to another protocol.

use std::io;
use std::time::{Duration, Instant};

use marmota_http::websocket::client::ClientKey;
use marmota_model::{Error, ErrorKind, Result};

use crate::credential::Credential;
use crate::transport::blocking::BlockingStream;

/// The maximum size of a response head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The protocol to upgrade to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpgradeRequest<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) path: &'a str,
    /// The message if it is not served: `no store is served`.
    pub(crate) not_served: &'a str,
    pub(crate) credential: &'a Credential,
}

impl UpgradeRequest<'_> {
    /// Upgrades to the protocol, and sends `first` with the request; returns the bytes received
    /// after the response.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::Busy`], [`ErrorKind::Timeout`], or
    /// [`ErrorKind::Protocol`] if the protocol is not served.
    pub(crate) fn send(
        &self,
        stream: &mut dyn BlockingStream,
        host: &str,
        first: &[u8],
        until: Instant,
    ) -> Result<Vec<u8>> {
        let headers = [("Upgrade", self.protocol)];
        self.exchange(stream, host, &headers, first, until).map(|(_, received)| received)
    }

    /// Upgrades to a WebSocket with the protocol; returns the bytes received after the response.
    ///
    /// # Errors
    /// As [`UpgradeRequest::send`].
    pub(crate) fn send_for_web_socket(
        &self,
        stream: &mut dyn BlockingStream,
        host: &str,
        until: Instant,
    ) -> Result<Vec<u8>> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::from)?;
        let key = ClientKey::new(random);
        let headers = [
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key.as_str()),
            ("Sec-WebSocket-Protocol", self.protocol),
        ];
        let (head, received) = self.exchange(stream, host, &headers, b"", until)?;
        let is_ours = header(&head, "sec-websocket-accept") == Some(&key.accepted())
            && header(&head, "sec-websocket-protocol") == Some(self.protocol);
        match is_ours {
            true => Ok(received),
            false => Err(self.refused(host, "where the WebSocket has another protocol")),
        }
    }

    /// Sends the request; returns the head of the response and the bytes received after it.
    fn exchange(
        &self,
        stream: &mut dyn BlockingStream,
        host: &str,
        headers: &[(&str, &str)],
        first: &[u8],
        until: Instant,
    ) -> Result<(String, Vec<u8>)> {
        let request = self.bytes(host, headers, first);
        let mut head = exchanged(stream, &request, until).map_err(|error| failed(host, error))?;
        let received = head.split_off(end_of_head(&head).unwrap_or_default());
        let head = String::from_utf8_lossy(&head).into_owned();
        let kind = match head.split(' ').nth(1).unwrap_or_default() {
            "101" => return Ok((head, received)),
            "401" | "403" => ErrorKind::Denied,
            "503" => ErrorKind::Busy,
            _ => ErrorKind::Protocol,
        };
        let line = marmota_model::text::excerpt(head.lines().next().unwrap_or_default());
        let message = self.refused(host, &format!("it answered {line:?}")).message().to_owned();
        Err(Error::new(kind, message))
    }

    /// Returns the bytes of the request.
    fn bytes(&self, host: &str, headers: &[(&str, &str)], first: &[u8]) -> Vec<u8> {
        let mut request =
            format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n", self.path);
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        let mut request = request.into_bytes();
        if let Some(token) = self.credential.header() {
            request.extend_from_slice(b"Authorization: Bearer ");
            request.extend_from_slice(token);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(first);
        request
    }

    #[cold]
    fn refused(&self, host: &str, reason: &str) -> Error {
        let Self { not_served, path, .. } = self;
        let message = format!(
            "{not_served} at {host} under {path}, {reason}: give the server its router, and the \
             URL the same prefix"
        );
        Error::new(ErrorKind::Protocol, message)
    }
}

#[cold]
fn failed(host: &str, error: io::Error) -> Error {
    #[cfg(feature = "tls")]
    if let Some(fault) = crate::transport::trust::fault(host, &error) {
        return fault;
    }
    let kind = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ErrorKind::Timeout,
        _ => ErrorKind::Refused,
    };
    let message = format!("the server at {host} did not answer the greeting: {error}");
    Error::new(kind, message).with_source(error)
}

/// Returns the value of a header in a head.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Sends the request and reads the head of the response, possibly with more bytes.
fn exchanged(
    stream: &mut dyn BlockingStream,
    request: &[u8],
    until: Instant,
) -> io::Result<Vec<u8>> {
    let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_timeout(left())?;
    stream.write_all(request)?;
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    while end_of_head(&received).is_none() {
        if received.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the head of the answer is too long"));
        }
        stream.set_timeout(left())?;
        match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => received.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

fn end_of_head(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}
