//! What may lie between a connection's socket and its buffers: a proxy's header at its start
//! ([`crate::proto::proxy_header`]), then TLS ([`crate::socket::tls`]). On bytes: it owns no socket. Most
//! connections of plain HTTP have none.

#[cfg(feature = "tls")]
use std::rc::Rc;
use std::sync::Arc;

use crate::proto::proxy_header::{self, ProxyHeader};
use crate::socket::address::Peer;
use crate::socket::proxies::Proxies;
#[cfg(feature = "tls")]
use crate::socket::tls::{Acceptor, session::Session};

/// How the connections of a listener begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerOptions {
    /// Peers that say in a header for whom they connect.
    pub(crate) proxy_protocol_peers: Option<Arc<Proxies>>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<Acceptor>>,
    /// Requests are sent on to this port of HTTPS.
    pub(crate) redirect: Option<u16>,
}

impl ListenerOptions {
    /// Whether what is not encrypted is understood.
    pub(crate) fn is_plaintext(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        true
    }
}

/// What TLS says about the client.
#[derive(Debug)]
pub(crate) struct TlsInfo {
    /// Its certificate, DER, when it has shown one that was asked for.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// What bytes that have come have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodecEvent {
    Nothing,
    /// Nothing lies between any more.
    Clear,
    /// The client speaks without TLS where it is to be spoken.
    #[cfg(feature = "tls")]
    Unencrypted,
    /// The client has said that it sends no more.
    #[cfg(feature = "tls")]
    Ended,
    /// The client does not keep to the protocol.
    Broken,
}

enum Stage {
    /// A proxy's header comes first; this much of it is there.
    Header(Vec<u8>),
    /// Whether the client speaks TLS is seen by its first byte.
    #[cfg(feature = "tls")]
    First,
    #[cfg(feature = "tls")]
    Tls(Box<Session>),
    Clear,
}

pub(crate) struct SocketCodec {
    stage: Stage,
    #[cfg(feature = "tls")]
    tls: Option<Arc<Acceptor>>,
    /// For whom the proxy connects, when it has said so.
    pub(crate) announced: Option<Peer>,
    /// Bytes for the socket, and how many of them are sent.
    pub(crate) outgoing: Vec<u8>,
    pub(crate) sent: usize,
    /// By when requests must be possible.
    pub(crate) deadline_ms: u64,
}

impl SocketCodec {
    /// What lies between a listener's new connection and its buffers, if anything does.
    pub(crate) fn new(entry: &ListenerOptions, peer: Peer, deadline_ms: u64) -> Option<Box<Self>> {
        let announced = entry
            .proxy_protocol_peers
            .as_ref()
            .is_some_and(|proxy_protocol_peers| proxy_protocol_peers.trusts_peer(peer));
        let mut link = Self {
            stage: Stage::Clear,
            #[cfg(feature = "tls")]
            tls: entry.tls.clone(),
            announced: None,
            outgoing: Vec::new(),
            sent: 0,
            deadline_ms,
        };
        link.stage = match announced {
            true => Stage::Header(Vec::new()),
            false => link.after_header(),
        };
        (!matches!(link.stage, Stage::Clear)).then(|| Box::new(link))
    }

    fn after_header(&self) -> Stage {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return Stage::First;
        }
        Stage::Clear
    }

    /// Whether requests cannot come yet.
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

    pub(crate) fn has_unsent(&self) -> bool {
        self.outgoing.len() > self.sent
    }

    /// Takes bytes of the socket, which are overwritten; gives what they say to `say`. What is to
    /// be answered for that is in `outgoing`.
    pub(crate) fn open(&mut self, bytes: &mut [u8], say: &mut impl FnMut(&[u8])) -> CodecEvent {
        match &mut self.stage {
            Stage::Header(come) => {
                come.extend_from_slice(bytes);
                match proxy_header::parse(come) {
                    Ok(None) => CodecEvent::Nothing,
                    Err(_) => CodecEvent::Broken,
                    Ok(Some(ProxyHeader { bytes, source })) => {
                        let mut rest = std::mem::take(come);
                        rest.drain(..bytes);
                        self.announced = source.map(Peer::Net);
                        self.stage = self.after_header();
                        self.open(&mut rest, say)
                    }
                }
            }
            #[cfg(feature = "tls")]
            Stage::First => match (bytes.first(), &self.tls) {
                (None, _) => CodecEvent::Nothing,
                (Some(first), _) if first.is_ascii_alphabetic() => {
                    say(bytes);
                    self.stage = Stage::Clear;
                    CodecEvent::Unencrypted
                }
                (_, Some(tls)) => match Session::new(tls.config()) {
                    Ok(session) => {
                        self.stage = Stage::Tls(Box::new(session));
                        self.open(bytes, say)
                    }
                    Err(_) => CodecEvent::Broken,
                },
                (_, None) => CodecEvent::Broken,
            },
            #[cfg(feature = "tls")]
            Stage::Tls(session) => {
                if let Err(error) = session.open(bytes, &mut self.outgoing, say) {
                    log::debug!("TLS: {error}");
                    return CodecEvent::Broken;
                }
                if session.ended { CodecEvent::Ended } else { CodecEvent::Nothing }
            }
            Stage::Clear => {
                say(bytes);
                CodecEvent::Clear
            }
        }
    }

    /// Appends `plain`, as it is to be sent, to what is for the socket. False if nothing can be
    /// sent any more.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> bool {
        match &mut self.stage {
            #[cfg(feature = "tls")]
            Stage::Tls(session) => session.seal(plain, &mut self.outgoing).is_ok(),
            _ => plain.is_empty(),
        }
    }

    /// Has our last word stand behind all else that is for the socket. True if it was not there.
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

    /// Leaves our last word unsaid, because something of what we sent is missing.
    pub(crate) fn cut_off(&mut self) {
        #[cfg(feature = "tls")]
        if let Stage::Tls(session) = &mut self.stage {
            session.cut_off();
        }
    }

    /// Whether client and server have agreed on HTTP/2.
    #[cfg(all(feature = "http2", feature = "tls"))]
    pub(crate) fn negotiated_http2(&self) -> bool {
        matches!(&self.stage, Stage::Tls(session) if session.protocol() == Some(b"h2"))
    }

    /// What TLS says about the client.
    #[cfg(feature = "tls")]
    pub(crate) fn secured(&self) -> Option<Rc<TlsInfo>> {
        let Stage::Tls(session) = &self.stage else { return None };
        Some(Rc::new(TlsInfo { certificate: session.client_certificate() }))
    }
}
