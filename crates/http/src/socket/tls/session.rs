//! A connection's TLS, on bytes: what came from the socket in, what is to be said and what is
//! for the socket out. It owns no socket and keeps no buffer but the bytes of a record that is
//! not whole yet.

use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    AppDataRecord, ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{Error, ServerConfig};

/// What encryption adds to a record, at most, and how long records are.
const RECORD_EXTRA: usize = 64;
const RECORD_BYTES: usize = 16 * 1024;

/// One side of a TLS connection.
pub(crate) struct Session {
    connection: UnbufferedServerConnection,
    /// The start of a record (or of a handshake's message) whose rest has not come.
    incomplete: Vec<u8>,
    pub(crate) is_handshaking: bool,
    /// The client has said that it sends no more.
    pub(crate) ended: bool,
    /// We have said so, or may not any more.
    closed: bool,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incomplete: Vec::new(),
            is_handshaking: true,
            ended: false,
            closed: false,
        })
    }

    /// Takes bytes of the socket: gives what they say to `say`, and appends what is to be
    /// answered to `out`. The bytes are overwritten.
    ///
    /// # Errors
    /// The client does not keep to the protocol; the alert that tells it is in `out`.
    pub(crate) fn open(
        &mut self,
        sealed: &mut [u8],
        out: &mut Vec<u8>,
        mut say: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        if self.closed {
            // Nobody answers any more; rustls must not try to.
            return Ok(());
        }
        if self.incomplete.is_empty() {
            let used = self.open_all(sealed, out, &mut say)?;
            self.incomplete.extend_from_slice(&sealed[used..]);
        } else {
            let mut all = std::mem::take(&mut self.incomplete);
            all.extend_from_slice(sealed);
            let used = self.open_all(&mut all, out, &mut say)?;
            all.drain(..used);
            if !all.is_empty() {
                self.incomplete = all;
            }
        }
        Ok(())
    }

    fn open_all(
        &mut self,
        sealed: &mut [u8],
        out: &mut Vec<u8>,
        say: &mut impl FnMut(&[u8]),
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
                            say(payload);
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

    /// Appends what tells the client that it failed: one message, since all that was to be said
    /// before is out when bytes are looked at.
    fn alert(&mut self, rest: &mut [u8], out: &mut Vec<u8>) {
        let state = self.connection.process_tls_records(rest).state;
        if let Ok(ConnectionState::EncodeTlsData(mut message)) = state {
            encode(&mut message, out);
        }
    }

    /// Appends `plain`, encrypted, to `out`.
    ///
    /// # Errors
    /// No more can be encrypted on this connection.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let extra = (plain.len() / RECORD_BYTES + 1) * RECORD_EXTRA;
        self.write(out, plain.len() + extra, |traffic, out| traffic.encrypt(plain, out))
    }

    /// Appends our last word to `out`: nothing of what we sent is missing.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.closed, true) && !self.is_handshaking {
            let _ = self.write(out, RECORD_EXTRA, |traffic, out| traffic.queue_close_notify(out));
        }
    }

    /// Leaves our last word unsaid, because something of what we sent is missing.
    pub(crate) fn cut_off(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        mut room: usize,
        mut put: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Error> {
        // Nothing is in it that could be said now, or it would have been when it came.
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

    /// Which protocol client and server have agreed on.
    #[cfg(feature = "http2")]
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// The client's certificate, DER.
    pub(crate) fn client_certificate(&self) -> Option<Vec<u8>> {
        let chain = self.connection.peer_certificates()?;
        chain.first().map(|certificate| certificate.to_vec())
    }
}

type Traffic<'a> = rustls::unbuffered::WriteTraffic<'a, rustls::server::ServerConnectionData>;

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
