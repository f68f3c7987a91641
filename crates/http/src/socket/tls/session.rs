//! The TLS of one connection, on bytes: bytes from the socket in, plain bytes and bytes for the
//! socket out. It owns no socket.
//!
//! rustls' unbuffered interface is used, so that no buffers are kept per connection: records are
//! decrypted where they were received and encrypted into the connection's own output. The only
//! bytes kept are those of a record that is not complete yet.
//!
//! rustls drives the protocol by states: each call of `process_tls_records` returns one, with bytes
//! to discard, a message to encode, plain bytes to take, or the right to encrypt. `decrypt_all` and
//! `write` loop over these states until there is nothing to do or their own state is reached.
//!
//! The ends of both directions are kept apart: `ended` is the client's `close_notify`, `closed` is
//! this side's. A connection without the client's `close_notify` may have been cut off by an
//! attacker, which matters for bodies that end with the connection; the bodies of HTTP/1.1 requests
//! never do.

use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    AppDataRecord, ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{Error, ServerConfig};

/// The maximum number of bytes that encryption adds to a record.
const RECORD_EXTRA: usize = 64;
/// The maximum length of a record (RFC 8446, 5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// The server's side of a TLS connection.
pub(crate) struct Session {
    /// The state of the protocol.
    connection: UnbufferedServerConnection,
    /// The start of a record, or of a message of the handshake, of which the rest has not arrived.
    incomplete: Vec<u8>,
    /// The handshake is not complete.
    pub(crate) is_handshaking: bool,
    /// The client has declared that it sends no more.
    pub(crate) ended: bool,
    /// This side has declared that it sends no more, or must not any more.
    closed: bool,
}

impl Session {
    /// Begins a connection, with the certificates of the server.
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incomplete: Vec::new(),
            is_handshaking: true,
            ended: false,
            closed: false,
        })
    }

    /// Takes bytes from the socket: passes the plain bytes to `sink`, and appends answers of the
    /// protocol to `out`. `sealed` is overwritten.
    ///
    /// # Errors
    /// The client violates the protocol. The alert that reports it is in `out`.
    pub(crate) fn decrypt(
        &mut self,
        sealed: &mut [u8],
        out: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        if self.closed {
            // After the end rustls must not try to answer.
            return Ok(());
        }
        if self.incomplete.is_empty() {
            let used = self.decrypt_all(sealed, out, &mut sink)?;
            self.incomplete.extend_from_slice(&sealed[used..]);
        } else {
            let mut all = std::mem::take(&mut self.incomplete);
            all.extend_from_slice(sealed);
            let used = self.decrypt_all(&mut all, out, &mut sink)?;
            all.drain(..used);
            if !all.is_empty() {
                self.incomplete = all;
            }
        }
        Ok(())
    }

    /// Processes all complete records of `sealed`, and returns the number of bytes used.
    fn decrypt_all(
        &mut self,
        sealed: &mut [u8],
        out: &mut Vec<u8>,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<usize, Error> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut sealed[used..]);
            let mut blocked = false;
            let failed = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                    match traffic.next_record() {
                        Some(Ok(AppDataRecord { discard: more, payload, .. })) => {
                            discard += more;
                            sink(payload);
                        }
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                },
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, out);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(sent)) => {
                    sent.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.ended = true;
                    None
                }
                Ok(_) => {
                    blocked = true;
                    None
                }
                Err(error) => Some(error),
            };
            used += discard;
            if let Some(error) = failed {
                self.closed = true;
                self.alert(&mut sealed[used..], out);
                return Err(error);
            }
            if blocked {
                self.is_handshaking = self.connection.is_handshaking();
                return Ok(used);
            }
        }
    }

    /// Appends the alert that reports a failure to the client. It is one message, since all
    /// messages before it were taken when bytes were processed.
    fn alert(&mut self, rest: &mut [u8], out: &mut Vec<u8>) {
        let state = self.connection.process_tls_records(rest).state;
        if let Ok(ConnectionState::EncodeTlsData(mut message)) = state {
            encode(&mut message, out);
        }
    }

    /// Appends `plain`, encrypted, to `out`.
    ///
    /// # Errors
    /// Nothing more can be encrypted on this connection.
    pub(crate) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let extra = (plain.len() / RECORD_BYTES + 1) * RECORD_EXTRA;
        self.write(out, plain.len() + extra, |traffic, out| traffic.encrypt(plain, out))
    }

    /// Appends the end (`close_notify`) to `out`, which confirms that nothing is missing.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.closed, true) && !self.is_handshaking {
            let _ = self.write(out, RECORD_EXTRA, |traffic, out| traffic.queue_close_notify(out));
        }
    }

    /// Suppresses the end, because an answer is incomplete.
    pub(crate) fn cut_off(&mut self) {
        self.closed = true;
    }

    /// Returns true if this side has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Drives rustls until it can encrypt, and lets `put` write into `room` bytes at the end of
    /// `out`; the room is enlarged if rustls needs more.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        mut room: usize,
        mut put: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Error> {
        // It has no complete record, or that would have been processed when it arrived.
        let mut incomplete = std::mem::take(&mut self.incomplete);
        let written = loop {
            let status = self.connection.process_tls_records(&mut incomplete);
            let discard = status.discard;
            let written = match status.state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let start = out.len();
                    out.resize(start + room, 0);
                    let put = put(&mut traffic, &mut out[start..]);
                    out.truncate(start + put.as_ref().map_or(0, |&count| count));
                    match put {
                        Ok(_) => Some(Ok(())),
                        Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                            room = size.required_size;
                            None
                        }
                        Err(_) => Some(Err(Error::EncryptError)),
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, out);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(sent)) => {
                    sent.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => None,
                Ok(_) => Some(Err(Error::HandshakeNotComplete)),
                Err(error) => Some(Err(error)),
            };
            incomplete.drain(..discard);
            if let Some(written) = written {
                break written;
            }
        };
        self.incomplete = incomplete;
        written
    }

    /// Returns the protocol that was negotiated (ALPN, RFC 7301).
    #[cfg(feature = "http2")]
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Returns the client's certificate (DER), which rustls has verified.
    pub(crate) fn client_certificate(&self) -> Option<Vec<u8>> {
        let chain = self.connection.peer_certificates()?;
        chain.first().map(|certificate| certificate.to_vec())
    }
}

/// The state of a connection that can encrypt.
type Traffic<'a> = rustls::unbuffered::WriteTraffic<'a, rustls::server::ServerConnectionData>;

/// Appends a message of the protocol to `out`, whose length is not known in advance.
fn encode<Data>(message: &mut EncodeTlsData<'_, Data>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut room = RECORD_EXTRA;
    loop {
        out.resize(start + room, 0);
        match message.encode(&mut out[start..]) {
            Ok(count) => return out.truncate(start + count),
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(_) => return out.truncate(start),
        }
    }
}
