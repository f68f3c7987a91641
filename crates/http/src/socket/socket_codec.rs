//! The codec between the socket of a connection and its buffers: the header of a proxy at its start
//! ([`crate::proto::proxy_header`]), then TLS ([`crate::socket::tls`]). Functions on bytes; it owns
//! no socket.
//!
//! Bytes from the socket pass [`SocketCodec::decode`], bytes for the socket
//! [`SocketCodec::encode`], which collects them in `outgoing`. The connection reads and writes.
//! Most connections of plain HTTP have no codec: [`SocketCodec::new`] returns `None`, and the codec
//! of a connection with only a proxy's header is dropped after it.

#[cfg(feature = "tls")]
use std::rc::Rc;
use std::sync::Arc;

use crate::proto::proxy_header::{self, ProxyHeader};
use crate::socket::address::Peer;
use crate::socket::proxies::Proxies;
#[cfg(feature = "tls")]
use crate::socket::tls::{Acceptor, session::Session};

/// The start of the connections of a listener: what comes before HTTP.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerOptions {
    /// The peers that name their client by the PROXY protocol.
    pub(crate) proxy_protocol_peers: Option<Arc<Proxies>>,
    /// The server's certificates, if connections are encrypted.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<Acceptor>>,
    /// Requests are redirected to this port of HTTPS.
    pub(crate) redirect: Option<u16>,
}

impl ListenerOptions {
    /// Returns true if the listener understands HTTP without encryption, also of clients that
    /// expect an answer such as 503 before anything else.
    pub(crate) fn is_plaintext(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        true
    }
}

/// The facts that TLS has established about the client.
#[derive(Debug)]
pub(crate) struct TlsInfo {
    /// The certificate of the client (DER), if one was requested and sent. It was verified.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// The result of decoding bytes, apart from the bytes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodecEvent {
    /// The codec continues.
    Nothing,
    /// The codec has nothing more to do, and can be dropped.
    Clear,
    /// The client does not use TLS on a port that requires it.
    #[cfg(feature = "tls")]
    Unencrypted,
    /// The client has declared that it sends no more (`close_notify`).
    #[cfg(feature = "tls")]
    Ended,
    /// The client violates the protocol.
    Broken,
}

/// The state of a codec. It only moves downwards in this list.
enum Stage {
    /// The header of a proxy comes first; these bytes of it have arrived.
    Header(Vec<u8>),
    /// The first byte shows whether the client uses TLS: a record of a handshake begins with 22, a
    /// request with a letter.
    #[cfg(feature = "tls")]
    First,
    /// TLS, from the handshake on.
    #[cfg(feature = "tls")]
    Tls(Box<Session>),
    /// Bytes pass unchanged.
    Clear,
}

/// The codec of one connection.
pub(crate) struct SocketCodec {
    /// The state.
    stage: Stage,
    /// The certificates, until TLS begins.
    #[cfg(feature = "tls")]
    tls: Option<Arc<Acceptor>>,
    /// The client that the proxy has named; the connection takes it from here.
    pub(crate) proxied_peer: Option<Peer>,
    /// The bytes for the socket, encrypted.
    pub(crate) outgoing: Vec<u8>,
    /// The number of bytes of `outgoing` that are sent.
    pub(crate) sent: usize,
    /// The time by which requests must be possible ([`crate::Limits::handshake_timeout_ms`]), on
    /// the thread's clock.
    pub(crate) deadline_ms: u64,
}

impl SocketCodec {
    /// Returns the codec of a listener's new connection, or `None` if it needs none.
    pub(crate) fn new(
        options: &ListenerOptions,
        peer: Peer,
        deadline_ms: u64,
    ) -> Option<Box<Self>> {
        let has_header =
            options.proxy_protocol_peers.as_ref().is_some_and(|peers| peers.trusts_peer(peer));
        let mut codec = Self {
            stage: Stage::Clear,
            #[cfg(feature = "tls")]
            tls: options.tls.clone(),
            proxied_peer: None,
            outgoing: Vec::new(),
            sent: 0,
            deadline_ms,
        };
        codec.stage = match has_header {
            true => Stage::Header(Vec::new()),
            false => codec.after_header(),
        };
        (!matches!(codec.stage, Stage::Clear)).then(|| Box::new(codec))
    }

    /// Returns the state after the header of a proxy.
    fn after_header(&self) -> Stage {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return Stage::First;
        }
        Stage::Clear
    }

    /// Returns true until requests are possible: the header or the handshake is not complete.
    pub(crate) fn is_opening(&self) -> bool {
        match &self.stage {
            Stage::Header(_) => true,
            #[cfg(feature = "tls")]
            Stage::First => true,
            #[cfg(feature = "tls")]
            Stage::Tls(session) => session.is_handshaking,
            Stage::Clear => false,
        }
    }

    /// Returns true if bytes wait for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        self.outgoing.len() > self.sent
    }

    /// Decodes bytes from the socket, and passes the plain bytes to `sink`, perhaps in several
    /// pieces. `bytes` is overwritten. Answers that the protocol requires, such as those of a
    /// handshake, are appended to `outgoing`.
    pub(crate) fn decode(&mut self, bytes: &mut [u8], sink: &mut impl FnMut(&[u8])) -> CodecEvent {
        match &mut self.stage {
            Stage::Header(come) => {
                come.extend_from_slice(bytes);
                match proxy_header::parse(come) {
                    Ok(None) => CodecEvent::Nothing,
                    Err(_) => CodecEvent::Broken,
                    Ok(Some(ProxyHeader { bytes, source })) => {
                        let mut rest = std::mem::take(come);
                        rest.drain(..bytes);
                        self.proxied_peer = source.map(Peer::Net);
                        self.stage = self.after_header();
                        self.decode(&mut rest, sink)
                    }
                }
            }
            #[cfg(feature = "tls")]
            Stage::First => match (bytes.first(), &self.tls) {
                (None, _) => CodecEvent::Nothing,
                (Some(first), _) if first.is_ascii_alphabetic() => {
                    sink(bytes);
                    self.stage = Stage::Clear;
                    CodecEvent::Unencrypted
                }
                (_, Some(tls)) => match Session::new(tls.config()) {
                    Ok(session) => {
                        self.stage = Stage::Tls(Box::new(session));
                        self.decode(bytes, sink)
                    }
                    Err(_) => CodecEvent::Broken,
                },
                (_, None) => CodecEvent::Broken,
            },
            #[cfg(feature = "tls")]
            Stage::Tls(session) => {
                if let Err(error) = session.decrypt(bytes, &mut self.outgoing, sink) {
                    log::debug!("TLS: {error}");
                    return CodecEvent::Broken;
                }
                if session.ended { CodecEvent::Ended } else { CodecEvent::Nothing }
            }
            Stage::Clear => {
                sink(bytes);
                CodecEvent::Clear
            }
        }
    }

    /// Appends `plain`, encrypted, to `outgoing`. Returns false if nothing more can be sent.
    pub(crate) fn encode(&mut self, plain: &[u8]) -> bool {
        match &mut self.stage {
            #[cfg(feature = "tls")]
            Stage::Tls(session) => session.encrypt(plain, &mut self.outgoing).is_ok(),
            _ => plain.is_empty(),
        }
    }

    /// Appends the end of TLS (`close_notify`) to `outgoing`, by which the client knows that
    /// nothing is missing. Returns true if it was appended now.
    pub(crate) fn close(&mut self) -> bool {
        match &mut self.stage {
            #[cfg(feature = "tls")]
            Stage::Tls(session) if !session.is_closed() => {
                session.close(&mut self.outgoing);
                self.has_unsent()
            }
            _ => false,
        }
    }

    /// Suppresses the end of TLS, because the answer is incomplete: the client detects that.
    pub(crate) fn cut_off(&mut self) {
        #[cfg(feature = "tls")]
        if let Stage::Tls(session) = &mut self.stage {
            session.cut_off();
        }
    }

    /// Returns true if client and server have negotiated HTTP/2 (ALPN, RFC 7301).
    #[cfg(all(feature = "http2", feature = "tls"))]
    pub(crate) fn negotiated_http2(&self) -> bool {
        matches!(&self.stage, Stage::Tls(session) if session.protocol() == Some(b"h2"))
    }

    /// Returns the facts about the client; `None` without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn secured(&self) -> Option<Rc<TlsInfo>> {
        let Stage::Tls(session) = &self.stage else { return None };
        Some(Rc::new(TlsInfo { certificate: session.client_certificate() }))
    }
}
